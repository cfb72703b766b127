package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"

	"berth/app"
)

// SignInStore is what sessions and passwords need to have remembered.
type SignInStore interface {
	// InsertSession remembers a session and forgets those not seen since old, and
	// all but the newest keep of the account. It fails with app.NotFound.
	InsertSession(ctx context.Context, s app.Session, hash [32]byte, old time.Time, keep int) (app.Session, error)
	// AccountBySession returns app.NotFound for one that was not seen since old.
	AccountBySession(ctx context.Context, hash [32]byte, address string, old time.Time) (app.Account, app.Session, error)
	Sessions(ctx context.Context, account app.AccountID, old time.Time) ([]app.Session, error)
	DeleteSession(ctx context.Context, account app.AccountID, id int64) error
	// PasswordByName returns "" for an account without one, app.NotFound for none.
	PasswordByName(ctx context.Context, name string) (app.Account, string, error)
	// SetPassword ends all sessions of the account but the one with the id keep.
	SetPassword(ctx context.Context, account app.AccountID, hash string, keep int64) error
	// InsertInvitation takes 0 for the first account: app.Conflict when there is one.
	InsertInvitation(ctx context.Context, hash [32]byte, account app.AccountID, expires time.Time) error
	Invitation(ctx context.Context, hash [32]byte) (app.Invitation, error)
	// Redeem uses an invitation up; first is made when it is to the first account.
	Redeem(ctx context.Context, hash [32]byte, first app.Account, password string) (app.Account, error)
}

const (
	// InvitationTime is how long a one-time link works.
	InvitationTime = 15 * time.Minute
	maxSessions    = 50 // of an account
	maxAgent       = 200
	// How long guesses are slowed down at most. Anybody can make the name of
	// somebody else wait, so that wait is short; one address hurts itself.
	nameWait    = 30 * time.Second
	addressWait = 15 * time.Minute
)

// SignIns lets people sign in to the panel. It is safe for concurrent use. In
// memory it keeps who guessed lately, in bounded tables, and nothing of any
// password. Strangers keep nobody out: a browser in which the account has signed in
// before, and a session, are slowed down by their own guesses alone.
type SignIns struct {
	store     SignInStore
	ttl       time.Duration
	hasher    *hasher
	names     *throttle
	addresses *throttle
	key       []byte    // of known browsers; nil knows none
	browsers  *throttle // that are known
	changes   *throttle // of passwords, by session
}

// NewSignIns returns the sign-ins of a store; a session ends when it was not
// seen for ttl. key is that of links, from which another is made for known
// browsers; without one there are none.
func NewSignIns(store SignInStore, ttl time.Duration, key []byte) *SignIns {
	return &SignIns{
		store, ttl, newHasher(), newThrottle(nameWait), newThrottle(addressWait),
		knownKey(key), newThrottle(addressWait), newThrottle(addressWait),
	}
}

// SignIn begins a session and returns the text of its cookie, which nobody can
// read again. It fails with app.Unauthorized, whether the name or the password is
// wrong, and takes as long for both; with the account, when there is one of that
// name. It fails with app.Forbidden for a right password of a disabled account,
// app.Limited after many tries for the name or from the address, or, of a known
// browser, after many of its own, and app.Unavailable when many sign in at once.
func (s *SignIns) SignIn(ctx context.Context, name, password string, from app.Visitor) (string, app.Account, error) {
	browser, err := s.browser(ctx, name, from.Known)
	if err == nil {
		err = s.countTry(name, browser, from)
	}
	if err != nil {
		return "", app.Account{}, err
	}
	a, hash, err := s.store.PasswordByName(ctx, name)
	if err != nil && app.KindOf(err) != app.NotFound {
		return "", app.Account{}, err
	}
	if len(password) > maxPassword {
		password = password[:maxPassword+1] // longer than any
	}
	right, err := s.hasher.matches(ctx, password, hash, browser != "")
	switch {
	case err != nil:
		return "", a, err
	case !right:
		return "", a, app.Errorf(app.Unauthorized, "the name or the password is wrong")
	}
	s.forgive(name, browser, from)
	if a.Disabled {
		return "", a, errDisabled()
	}
	key, made, err := s.begin(ctx, a, from)
	if err != nil {
		return "", a, err
	}
	// A password that was changed since it was compared has ended the sessions of
	// that moment, and not this one.
	_, now, err := s.store.PasswordByName(ctx, name)
	if err == nil && now != hash {
		err = app.Errorf(app.Unauthorized, "the name or the password is wrong")
	}
	if err != nil {
		return "", a, errors.Join(err, s.EndSession(context.WithoutCancel(ctx), a.ID, made.ID))
	}
	return key, a, nil
}

// countTry counts a try: of a known browser as its own, else as one for the name and
// from the address.
func (s *SignIns) countTry(name, browser string, from app.Visitor) error {
	var wait time.Duration
	if browser != "" {
		wait = s.browsers.try(browser)
	} else if wait = s.addresses.try(from.Key); wait == 0 {
		wait = s.names.try(cutText(name, maxAgent))
	}
	return tooMany(wait)
}

// forgive takes back what countTry counted: the password was right.
func (s *SignIns) forgive(name, browser string, from app.Visitor) {
	if browser != "" {
		s.browsers.forget(browser) // those of strangers stay counted
		return
	}
	s.names.forget(cutText(name, maxAgent))
	s.addresses.undo(from.Key)
}

// tooMany is the error of a wait, nil of none.
func tooMany(wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	return app.Errorf(app.Limited, "too many tries; try again in %d seconds", int(math.Ceil(wait.Seconds())))
}

// begin makes a session of an account whose password is right.
func (s *SignIns) begin(ctx context.Context, a app.Account, from app.Visitor) (string, app.Session, error) {
	key := random()
	made := app.Session{Account: a.ID, Agent: cutText(from.Agent, maxAgent), Address: from.Address}
	made, err := s.store.InsertSession(ctx, made, sha256.Sum256([]byte(key)), s.old(), maxSessions)
	return key, made, err
}

func (s *SignIns) old() time.Time { return time.Now().Add(-s.ttl) }

// Session returns the account and session of a cookie's text, and notes from where it was
// seen: app.Unauthorized when it is none or has ended, app.Forbidden when the
// account is disabled.
func (s *SignIns) Session(ctx context.Context, key string, from app.Visitor) (app.Account, app.Session, error) {
	gone := app.Errorf(app.Unauthorized, "you are not signed in")
	if key == "" || len(key) > maxToken {
		return app.Account{}, app.Session{}, gone
	}
	a, session, err := s.store.AccountBySession(ctx, sha256.Sum256([]byte(key)), from.Address, s.old())
	switch {
	case app.KindOf(err) == app.NotFound:
		return app.Account{}, app.Session{}, gone
	case err != nil:
		return app.Account{}, app.Session{}, err
	case a.Disabled:
		return app.Account{}, app.Session{}, errDisabled()
	}
	return a, session, nil
}

// Sessions returns those of an account, the one that was seen last first.
func (s *SignIns) Sessions(ctx context.Context, id app.AccountID) ([]app.Session, error) {
	return s.store.Sessions(ctx, id, s.old())
}

// EndSession ends a session of an account, or fails with app.NotFound.
func (s *SignIns) EndSession(ctx context.Context, account app.AccountID, id int64) error {
	return s.store.DeleteSession(ctx, account, id)
}

// ChangePassword replaces the password of an account whose owner knows the old
// one, and ends its sessions but for the one with the id keep. It fails with
// app.Forbidden when old is wrong, app.Invalid when the new one is none, and app.Limited
// and app.Unavailable as SignIn does.
func (s *SignIns) ChangePassword(ctx context.Context, a app.Account, old, password string, keep int64) error {
	if err := CheckPassword(a.Name, password); err != nil {
		return err
	}
	// By session: guesses of strangers for the name keep nobody from changing it.
	session := strconv.FormatInt(keep, 10)
	if err := tooMany(s.changes.try(session)); err != nil {
		return err
	}
	_, hash, err := s.store.PasswordByName(ctx, a.Name)
	if err != nil {
		return err
	}
	right, err := s.hasher.matches(ctx, old, hash, true)
	if err != nil {
		return err
	}
	if !right {
		return app.Errorf(app.Forbidden, "the old password is wrong")
	}
	s.changes.forget(session)
	return s.SetPassword(ctx, a, password, keep)
}

// SetPassword gives an account a password and ends its sessions but for the one with
// the id keep. It fails with app.Invalid and app.NotFound.
func (s *SignIns) SetPassword(ctx context.Context, a app.Account, password string, keep int64) error {
	if err := CheckPassword(a.Name, password); err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.store.SetPassword(ctx, a.ID, hash, keep)
}

// Invite makes a one-time link to a new password of an account, 0 for the first of
// all, and returns its text, which nobody can read again. It fails with
// app.NotFound, and app.Conflict for the first when there is one.
func (s *SignIns) Invite(ctx context.Context, id app.AccountID) (string, error) {
	key := random()
	err := s.store.InsertInvitation(ctx, sha256.Sum256([]byte(key)), id, time.Now().Add(InvitationTime))
	return key, err
}

// Invitation returns what a one-time link is for, or app.NotFound.
func (s *SignIns) Invitation(ctx context.Context, key string) (app.Invitation, error) {
	return s.store.Invitation(ctx, sha256.Sum256([]byte(cutText(key, maxToken))))
}

// Redeem gives the account of a one-time link its password and begins a session.
// A link to the first account makes it, as administrator with name and ram. It
// fails with app.NotFound for a link that is none any more, app.Invalid for a bad
// name or password, and app.Unavailable.
func (s *SignIns) Redeem(ctx context.Context, key, name, password string, ram app.MB, from app.Visitor) (string, app.Account, error) {
	i, err := s.Invitation(ctx, key)
	if err != nil {
		return "", app.Account{}, err
	}
	var first app.Account
	if i.Account.ID == 0 {
		if first, err = NewAccount(name, ram); err != nil {
			return "", app.Account{}, err
		}
	} else {
		name = i.Account.Name
	}
	if err := CheckPassword(name, password); err != nil {
		return "", app.Account{}, err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return "", app.Account{}, err
	}
	a, err := s.store.Redeem(ctx, sha256.Sum256([]byte(key)), first, hash)
	if err != nil {
		return "", app.Account{}, err
	}
	session, _, err := s.begin(ctx, a, from)
	return session, a, err
}

// cutText is the first n bytes of s.
func cutText(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// KnownTime is how long a browser is known after a sign-in.
const KnownTime = 30 * 24 * time.Hour

// The text of a known browser is base64url of
//
//	nonce (16 bytes) | expires (8, unix seconds) | HMAC-SHA256 of all that, the account and what is remembered of its password (32)
//
// So it is of use for one account, as long as that has this password, and nothing
// has to be remembered of it.
const (
	knownNonce = 16
	knownHead  = knownNonce + 8
)

// knownMark keeps its key apart from those of other uses.
const knownMark = "berth: a known browser"

// knownKey is the key of known browsers that comes of the one of links, nil of
// none.
func knownKey(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	return mac(key, []byte(knownMark))
}

func (s *SignIns) knownMAC(head []byte, a app.AccountID, password string) []byte {
	return mac(s.key, head, binary.BigEndian.AppendUint64(nil, uint64(a)), []byte(password))
}

// Remember returns the text by which a browser, in which somebody has just signed
// in, is known for KnownTime: app.Visitor.Known. Whoever guesses the account's
// password elsewhere makes it wait for nothing. It is "" where there is no key.
func (s *SignIns) Remember(ctx context.Context, a app.Account) (string, error) {
	_, password, err := s.store.PasswordByName(ctx, a.Name)
	if err != nil || s.key == nil {
		return "", err
	}
	head := make([]byte, knownNonce, knownHead)
	_, _ = rand.Read(head) // never fails, see crypto/rand
	head = binary.BigEndian.AppendUint64(head, uint64(time.Now().Add(KnownTime).Unix()))
	return linkText.EncodeToString(append(head, s.knownMAC(head, a.ID, password)...)), nil
}

// browser returns what a known browser is slowed down under, "" for one that is
// not known to the account of that name.
func (s *SignIns) browser(ctx context.Context, name, text string) (string, error) {
	if s.key == nil || len(text) != linkText.EncodedLen(knownHead+sha256.Size) {
		return "", nil
	}
	b, err := linkText.DecodeString(text)
	if err != nil || len(b) != knownHead+sha256.Size {
		return "", nil
	}
	head, sum := b[:knownHead], b[knownHead:]
	if time.Now().Unix() >= int64(binary.BigEndian.Uint64(head[knownNonce:])) {
		return "", nil
	}
	a, password, err := s.store.PasswordByName(ctx, name)
	if app.KindOf(err) == app.NotFound || err == nil && password == "" {
		return "", nil
	}
	if err != nil || !hmac.Equal(sum, s.knownMAC(head, a.ID, password)) {
		return "", err
	}
	return string(head[:knownNonce]), nil
}
