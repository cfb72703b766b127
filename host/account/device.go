package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unicode"

	"berth/app"
)

const (
	// DeviceTime is how long a code works.
	DeviceTime = 10 * time.Minute
	// DeviceInterval is how long a device waits between two questions, at first.
	DeviceInterval = 5 * time.Second
	// DeviceLasts is how long a token works whose device asks for no other life.
	DeviceLasts = 90 * 24 * time.Hour

	leastDeviceLasts = time.Hour
	maxDeviceLasts   = 365 * 24 * time.Hour
	longestInterval  = time.Minute
	// early is how much before its time a question may come: networks are no clocks.
	early = time.Second

	maxDevices    = 4096 // that wait
	ownDevices    = 10   // of one address
	maxDeviceText = 64   // of a device's names, in bytes

	// The letters of codes (RFC 8628, 6.1): no vowels, so that no code is a word, and
	// nothing that looks like something else.
	codeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	codeLength  = 8
	// codePause is how long an account types no code after five that nobody had.
	codePause = 15 * time.Minute
)

// Devices lets programs ask for a token by a code that the owner of an account types
// (RFC 8628). It is safe for concurrent use, and blocks only where a token is made.
//
// What waits is in memory: a restart ends it. A stranger cannot fill the table for others:
// an address has ten places, and when all are taken, the newest of the network that has
// the most makes room. Nobody ends the code of somebody else: a wrong code counts against
// the account that types it, from wherever it does.
type Devices struct {
	tokens  *Service
	account func(context.Context, app.AccountID) (app.Account, error)
	typed   *throttle // wrong codes, by account

	mu       sync.Mutex
	bySecret map[[32]byte]*device
	byCode   map[string]*device // those that nobody has decided on
}

type device struct {
	app.Device
	secret   [32]byte // its hash
	network  string   // that From is in
	state    app.DeviceState
	owner    app.AccountID // who has allowed it
	asked    time.Time     // when it asked last for its token
	interval time.Duration
}

// NewDevices returns the devices that get their tokens from tokens. account finds an
// account, which may be disabled meanwhile.
func NewDevices(tokens *Service, account func(context.Context, app.AccountID) (app.Account, error)) *Devices {
	return &Devices{
		tokens: tokens, account: account, typed: newLockout(codePause),
		bySecret: map[[32]byte]*device{}, byCode: map[string]*device{},
	}
}

// Begin gives a device its code, and the secret with which it asks for its token. Of d
// it takes Client, Machine, From and Lasts, which is DeviceLasts if it is 0. It fails with
// app.Invalid for names or a life that cannot be, and app.Limited when the address, or
// everybody together, has too many.
func (s *Devices) Begin(d app.Device) (secret string, _ app.Device, _ error) {
	d.Lasts = cmp.Or(d.Lasts, DeviceLasts)
	if err := checkDevice(d); err != nil {
		return "", d, err
	}
	secret = random()
	made := &device{Device: d, secret: sha256.Sum256([]byte(secret)), network: network(d.From.Key), interval: DeviceInterval}
	made.Asked = time.Now()
	made.Expires = made.Asked.Add(DeviceTime)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeRoom(made); err != nil {
		return "", d, err
	}
	for made.Code = newCode(); s.byCode[made.Code] != nil; {
		made.Code = newCode()
	}
	s.bySecret[made.secret], s.byCode[made.Code] = made, made
	return secret, made.Device, nil
}

func checkDevice(d app.Device) error {
	if d.Client == "" || !printable(d.Client) {
		return app.Errorf(app.Invalid, "client_id must be the name of the program: 1 to %d printable characters", maxDeviceText)
	}
	if !printable(d.Machine) {
		return app.Errorf(app.Invalid, "machine must be the name of the machine: at most %d printable characters", maxDeviceText)
	}
	if d.Lasts < leastDeviceLasts || d.Lasts > maxDeviceLasts {
		return app.Errorf(app.Invalid, "the token of a code works for an hour at least, and for %d days at most", int(maxDeviceLasts.Hours()/24))
	}
	return nil
}

// printable reports whether a name is short and shows as what it is: no control
// character, nothing that turns the direction of a line.
func printable(s string) bool {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	return len(s) <= maxDeviceText && !strings.ContainsFunc(s, hidden)
}

func newCode() string {
	letters := make([]byte, 0, codeLength+1)
	for b := [1]byte{}; len(letters) < cap(letters); {
		_, _ = rand.Read(b[:]) // never fails, see crypto/rand
		if int(b[0]) >= 256/len(codeLetters)*len(codeLetters) {
			continue // so that each letter is as likely
		}
		letters = append(letters, codeLetters[int(b[0])%len(codeLetters)])
		if len(letters) == codeLength/2 {
			letters = append(letters, '-')
		}
	}
	return string(letters)
}

// makeRoom forgets what has ended, and makes room for a device, or says why there is none.
func (s *Devices) makeRoom(d *device) error {
	now, own := time.Now(), 0
	for _, old := range s.bySecret {
		switch {
		case !now.Before(old.Expires):
			s.forget(old)
		case old.From.Key == d.From.Key:
			own++
		}
	}
	if own >= ownDevices {
		return app.Errorf(app.Limited, "your address has %d codes that wait; use one of them, or try again in a few minutes", own)
	}
	if len(s.bySecret) < maxDevices {
		return nil
	}
	networks := map[string]int{}
	for _, old := range s.byCode {
		networks[old.network]++
	}
	most := d.network
	for name, count := range networks {
		if count > networks[most] {
			most = name
		}
	}
	if most == d.network {
		return app.Errorf(app.Limited, "too many codes wait; try again in a few minutes")
	}
	var newest *device
	for _, old := range s.byCode {
		if old.network == most && (newest == nil || old.Asked.After(newest.Asked)) {
			newest = old
		}
	}
	s.forget(newest)
	return nil
}

func (s *Devices) forget(d *device) {
	delete(s.bySecret, d.secret)
	if s.byCode[d.Code] == d {
		delete(s.byCode, d.Code)
	}
}

// network names the network of app.Visitor.Key that one owner may hold: a /16 of IPv4, a
// /32 of IPv6.
func network(key string) string {
	at, err := netip.ParsePrefix(key)
	if err != nil {
		if one, err := netip.ParseAddr(key); err == nil {
			at = netip.PrefixFrom(one, one.BitLen())
		}
	}
	if !at.IsValid() {
		return key // not known: the local socket's
	}
	bits := 16
	if at.Addr().Is6() {
		bits = 32
	}
	wide, _ := at.Addr().Prefix(bits) // never fails: bits fit the family
	return wide.String()
}

// Find returns the device whose code an account has typed. It fails with app.NotFound for
// a code that nobody has, and app.Limited for a while after five of those.
func (s *Devices) Find(id app.AccountID, typed string) (app.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.find(id, typed)
	if err != nil {
		return app.Device{}, err
	}
	return d.Device, nil
}

func (s *Devices) find(id app.AccountID, typed string) (*device, error) {
	if err := tooMany(s.typed.try(id.String())); err != nil {
		return nil, err
	}
	d := s.byCode[codeOf(typed)]
	if d == nil || !time.Now().Before(d.Expires) {
		return nil, app.Errorf(app.NotFound, "no program waits with this code; it may have been used, or have expired")
	}
	s.typed.undo(id.String()) // and no other: a code of one's own would buy five guesses
	return d, nil
}

// codeOf is the code that somebody has typed, in any case, with or without the dash; ""
// for what can be none.
func codeOf(typed string) string {
	if len(typed) > maxDeviceText {
		return ""
	}
	letters := strings.Map(func(r rune) rune {
		if r == '-' || unicode.IsSpace(r) || unicode.Is(unicode.Pd, r) {
			return -1
		}
		return unicode.ToUpper(r)
	}, typed)
	if len(letters) != codeLength {
		return ""
	}
	return letters[:codeLength/2] + "-" + letters[codeLength/2:]
}

// Decide ends a code that an account has typed: the device gets a token of the account, or
// none. It has the errors of Find. The caller MUST have checked the password if it allows.
func (s *Devices) Decide(id app.AccountID, typed string, allow bool) (app.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.find(id, typed)
	if err != nil {
		return app.Device{}, err
	}
	delete(s.byCode, d.Code)
	d.owner, d.state = id, app.DeviceDenied
	if allow {
		d.state = app.DeviceAllowed
	}
	return d.Device, nil
}

// Token answers a device that asks for its token. An app.DeviceAllowed is the last of its
// answers. It has the errors of Service.Issue, after which the device can ask again.
func (s *Devices) Token(ctx context.Context, client, secret string) (app.DeviceGrant, error) {
	d, grant := s.poll(client, sha256.Sum256([]byte(secret)))
	if grant.State != app.DeviceAllowed {
		return grant, nil
	}
	var err error
	grant.Account, err = s.account(ctx, d.owner)
	switch {
	case app.KindOf(err) == app.NotFound, err == nil && grant.Account.Closed() != nil:
		return app.DeviceGrant{State: app.DeviceDenied}, nil
	case err == nil:
		grant.Token, grant.Known, err = s.tokens.Issue(ctx, app.Token{Account: d.owner, Label: d.Label()}, d.Lasts)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bySecret[d.secret] = d
		return app.DeviceGrant{}, err
	}
	return grant, nil
}

// poll notes that a device asks. One that is decided on is taken out of the table, so that
// it gets one answer.
func (s *Devices) poll(client string, secret [32]byte) (*device, app.DeviceGrant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, now := s.bySecret[secret], time.Now()
	switch {
	case d == nil, !now.Before(d.Expires):
		return nil, app.DeviceGrant{State: app.DeviceEnded}
	case d.Client != client:
		return nil, app.DeviceGrant{State: app.DeviceOther}
	}
	grant := app.DeviceGrant{State: d.state}
	switch {
	case d.state != app.DevicePending:
		s.forget(d)
	case now.Sub(d.asked) < d.interval-early:
		grant.State = app.DeviceHasty
		d.interval = min(d.interval+DeviceInterval, longestInterval) // as the device does (RFC 8628, 3.5)
	}
	d.asked, grant.Interval = now, d.interval
	return d, grant
}
