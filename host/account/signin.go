package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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
	DeleteOtherSessions(ctx context.Context, account app.AccountID, keep int64) error
	// ProveSession notes a proof, and gives the session another cookie.
	ProveSession(ctx context.Context, account app.AccountID, id int64, hash [32]byte, key string) error
}

const (
	// InvitationTime is how long a one-time link works.
	InvitationTime = 15 * time.Minute
	maxSessions    = 50 // of an account
	// SessionLife is how long a session lasts at most, however often it is used (NIST SP
	// 800-63B, 2.2.3).
	SessionLife = 30 * 24 * time.Hour
	maxAgent    = 200
	// How long guesses are slowed down at most. Anybody can make the name of
	// somebody else wait, so that wait is short; one address hurts itself.
	nameWait    = 30 * time.Second
	addressWait = 15 * time.Minute
)

// SignIns lets people sign in to the panel. It is safe for concurrent use. In
// memory it keeps who guessed lately and sign-ins that wait for their second step, in
// bounded tables, and nothing of any password. Strangers keep nobody out: a browser in which the account has signed in
// before, and a session, are slowed down by their own guesses alone.
type SignIns struct {
	// KnownPassword reports whether a password is one that nobody may choose; nil permits all
	// that CheckPassword does. It is set before the first use.
	KnownPassword func(password string) (bool, error)
	// SignUp bounds the accounts that SignInByIdentity makes; the zero value: it makes none. It is
	// set before the first use.
	SignUp SignUp

	store      SignInStore
	factors    FactorStore
	passkeys   PasskeyStore
	identities IdentityStore
	ttl        time.Duration
	hasher     *hasher
	names      *throttle
	addresses  *throttle
	key        []byte    // of known browsers; nil knows none
	browsers   *throttle // that are known
	confirms   *throttle // passwords of who is signed in, by session
	codes      *throttle // wrong second steps, by known browser, by address and by account
	pendings   *pendings
	answered   *used  // challenges for passkeys
	start      []byte // random; the challenges of another daemon are none here
}

// NewSignIns returns the sign-ins of a store; a session ends when it was not
// seen for ttl. key is that of links, from which another is made for known
// browsers; without one there are none.
func NewSignIns(store interface {
	SignInStore
	FactorStore
	PasskeyStore
	IdentityStore
}, ttl time.Duration, key []byte,
) *SignIns {
	return &SignIns{
		store: store, factors: store, passkeys: store, identities: store, answered: &used{all: map[string]answered{}}, start: []byte(random()),
		ttl: ttl, hasher: newHasher(), names: newThrottle(nameWait), addresses: newThrottle(addressWait),
		key: knownKey(key), browsers: newThrottle(addressWait), confirms: newThrottle(addressWait), codes: newThrottle(addressWait),
		pendings: &pendings{all: map[[32]byte]*pending{}},
	}
}

// SignIn takes the first step of a sign-in. It begins a session, or a pending sign-in when the
// account has a second factor (see SecondStep). Nobody can read the text of either cookie
// again. It fails with app.Unauthorized, whether the name or the password is
// wrong, and takes as long for both; with the account, when there is one of that
// name. It fails with app.Forbidden for a right password of a disabled account,
// app.Limited after many tries for the name or from the address, or, of a known
// browser, after many of its own, and app.Unavailable when many sign in at once.
func (s *SignIns) SignIn(ctx context.Context, name, password string, from app.Visitor) (app.SignedIn, error) {
	browser, err := s.browser(ctx, name, from.Known)
	if err == nil {
		err = s.countTry(name, browser, from)
	}
	if err != nil {
		return app.SignedIn{}, err
	}
	a, hash, err := s.store.PasswordByName(ctx, name)
	if err != nil && app.KindOf(err) != app.NotFound {
		return app.SignedIn{}, err
	}
	if len(password) > maxPassword {
		password = password[:maxPassword+1] // longer than any
	}
	right, err := s.hasher.matches(ctx, password, hash, browser != "")
	switch {
	case err != nil:
		return app.SignedIn{Account: a}, err
	case !right:
		return app.SignedIn{Account: a}, app.Errorf(app.Unauthorized, "the name or the password is wrong")
	}
	s.forgive(name, browser, from)
	return s.proceed(ctx, a, proof{password: hash}, browser, from)
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
	if wait > 2*time.Minute {
		return app.Errorf(app.Limited, "too many tries; try again in %d minutes", int(math.Ceil(wait.Minutes())))
	}
	return app.Errorf(app.Limited, "too many tries; try again in %d seconds", int(math.Ceil(wait.Seconds())))
}

// begin makes a session of an account whose owner has proved who they are: the one place
// where sessions are made. It fails with app.Forbidden when the account is disabled.
func (s *SignIns) begin(ctx context.Context, a app.Account, from app.Visitor) (app.SignedIn, app.Session, error) {
	key := random()
	_, password, err := s.store.PasswordByName(ctx, a.Name)
	if err != nil {
		return app.SignedIn{Account: a}, app.Session{}, err
	}
	made := app.Session{
		Account: a.ID, Agent: cutText(from.Agent, maxAgent), Address: from.Address, ProvedFrom: from.Key,
		New: s.knownTo(a.ID, password, from.Known) == "",
	}
	made, err = s.store.InsertSession(ctx, made, sha256.Sum256([]byte(key)), s.old(), maxSessions)
	if err != nil {
		return app.SignedIn{Account: a}, made, err
	}
	return app.SignedIn{Account: a, Session: key, New: made.New}, made, nil
}

func (s *SignIns) old() time.Time { return time.Now().Add(-s.ttl) }

// Session returns the account and session of a cookie's text, and notes from where it was
// seen: app.Unauthorized when it is none or has ended, app.Forbidden when the
// account is disabled. A cookie that turns up in another browser, or on another system, than it
// was given to was taken: that ends the session, which is returned with the app.Unauthorized.
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
	case time.Since(session.CreatedAt) >= SessionLife:
		_ = s.EndSession(context.WithoutCancel(ctx), a.ID, session.ID) // it is refused all the same
		return app.Account{}, app.Session{}, gone
	case !sameBrowser(session.Agent, from.Agent):
		err := s.EndSession(context.WithoutCancel(ctx), a.ID, session.ID)
		if err != nil && app.KindOf(err) != app.NotFound {
			return app.Account{}, app.Session{}, err
		}
		return a, session, gone
	case a.Closed() != nil:
		return app.Account{}, app.Session{}, a.Closed()
	}
	return a, session, nil
}

// sameBrowser reports whether two texts can be of one browser, also before and after its update.
func sameBrowser(one, other string) bool {
	browser, system := app.BrowserOf(one)
	browser2, system2 := app.BrowserOf(cutText(other, maxAgent))
	return browser == browser2 && system == system2
}

// Sessions returns those of an account, the one that was seen last first.
func (s *SignIns) Sessions(ctx context.Context, id app.AccountID) ([]app.Session, error) {
	return s.store.Sessions(ctx, id, s.old())
}

// EndSession ends a session of an account, or fails with app.NotFound.
func (s *SignIns) EndSession(ctx context.Context, account app.AccountID, id int64) error {
	return s.store.DeleteSession(ctx, account, id)
}

// EndOtherSessions ends the sessions of an account but for the one with the id keep.
func (s *SignIns) EndOtherSessions(ctx context.Context, account app.AccountID, keep int64) error {
	return s.store.DeleteOtherSessions(ctx, account, keep)
}

// ChangePassword replaces the password of an account whose owner knows the old
// one, and ends its sessions but for the one with the id keep. It fails with
// app.Forbidden when old is wrong, app.Invalid when the new one is none, and app.Limited
// and app.Unavailable as SignIn does.
func (s *SignIns) ChangePassword(ctx context.Context, a app.Account, old, password string, keep int64) error {
	if err := CheckPassword(a.Name, password); err != nil {
		return err
	}
	switch err := s.Confirm(ctx, a, old, keep); {
	case app.KindOf(err) == app.Forbidden:
		return app.Errorf(app.Forbidden, "the old password is wrong")
	case err != nil:
		return err
	}
	return s.SetPassword(ctx, a, password, keep)
}

// Confirm checks that who is signed in by a session knows the password of the account. It
// fails with app.Forbidden when it is wrong, and app.Limited and app.Unavailable as SignIn
// does.
func (s *SignIns) Confirm(ctx context.Context, a app.Account, password string, session int64) error {
	// By session: guesses of strangers for the name keep nobody out.
	key := strconv.FormatInt(session, 10)
	if err := tooMany(s.confirms.try(key)); err != nil {
		return err
	}
	_, hash, err := s.store.PasswordByName(ctx, a.Name)
	if err != nil {
		return err
	}
	right, err := s.hasher.matches(ctx, password, hash, true)
	switch {
	case err != nil:
		return err
	case !right:
		return app.Errorf(app.Forbidden, "the password is wrong")
	}
	s.confirms.forget(key)
	return nil
}

// Prove is Confirm that counts for the ten minutes after it, from where it was made (see
// app.Session.Proved). It returns the new text of the session's cookie: the one before is of
// no use any more.
func (s *SignIns) Prove(ctx context.Context, a app.Account, password string, session int64, from app.Visitor) (string, error) {
	if err := s.Confirm(ctx, a, password, session); err != nil {
		return "", err
	}
	return s.proved(ctx, a.ID, session, from)
}

// proved renews a session whose owner has proved who they are.
func (s *SignIns) proved(ctx context.Context, account app.AccountID, session int64, from app.Visitor) (string, error) {
	key := random()
	return key, s.store.ProveSession(ctx, account, session, sha256.Sum256([]byte(key)), from.Key)
}

// check is CheckPassword that also looks into the list of the host's owner.
func (s *SignIns) check(name, password string) error {
	err := CheckPassword(name, password)
	if err != nil || s.KnownPassword == nil {
		return err
	}
	switch known, err := s.KnownPassword(password); {
	case err != nil:
		return fmt.Errorf("cannot look for the password in panel.passwords: %w", err)
	case known:
		return app.Errorf(app.Invalid, "this password is on a list of passwords that were stolen elsewhere; take another one")
	}
	return nil
}

// SetPassword gives an account a password and ends its sessions but for the one with
// the id keep. It fails with app.Invalid and app.NotFound.
func (s *SignIns) SetPassword(ctx context.Context, a app.Account, password string, keep int64) error {
	if err := s.check(a.Name, password); err != nil {
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

// Redeem gives the account of a one-time link its password, and goes on as SignIn does: a link
// does not replace a second factor. A link to the first account makes it, as administrator with
// name and ram. It fails with app.NotFound for a link that is none any more, app.Invalid for a
// bad name or password, and app.Unavailable.
func (s *SignIns) Redeem(ctx context.Context, key, name, password string, ram app.MB, from app.Visitor) (app.SignedIn, error) {
	i, err := s.Invitation(ctx, key)
	if err != nil {
		return app.SignedIn{}, err
	}
	var first app.Account
	if i.Account.ID == 0 {
		if first, err = NewAccount(name, ram); err != nil {
			return app.SignedIn{}, err
		}
	} else {
		name = i.Account.Name
	}
	if err := s.check(name, password); err != nil {
		return app.SignedIn{}, err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return app.SignedIn{}, err
	}
	a, err := s.store.Redeem(ctx, sha256.Sum256([]byte(key)), first, hash)
	if err != nil {
		return app.SignedIn{}, err
	}
	return s.proceed(ctx, a, proof{password: hash}, "", from)
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
	if s.key == nil || text == "" {
		return "", nil
	}
	a, password, err := s.store.PasswordByName(ctx, name)
	if app.KindOf(err) == app.NotFound || err == nil && password == "" {
		return "", nil
	}
	return s.knownTo(a.ID, password, text), err
}

// knownTo returns the nonce of a known browser, "" for one that is not known to the account
// with that password.
func (s *SignIns) knownTo(id app.AccountID, password, text string) string {
	if s.key == nil || len(text) != linkText.EncodedLen(knownHead+sha256.Size) {
		return ""
	}
	b, err := linkText.DecodeString(text)
	if err != nil || len(b) != knownHead+sha256.Size {
		return ""
	}
	head, sum := b[:knownHead], b[knownHead:]
	if time.Now().Unix() >= int64(binary.BigEndian.Uint64(head[knownNonce:])) || !hmac.Equal(sum, s.knownMAC(head, id, password)) {
		return ""
	}
	return string(head[:knownNonce])
}
