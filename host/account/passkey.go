package account

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/go-webauthn/webauthn/webauthn"

	"berth/app"
)

// PasskeyStore is what passkeys need to have remembered.
type PasskeyStore interface {
	PasskeyUser(ctx context.Context, account app.AccountID) ([]byte, error)
	// Passkeys returns those of all for account 0.
	Passkeys(ctx context.Context, account app.AccountID) ([]app.Passkey, error)
	// AccountByPasskeyUser returns app.NotFound for a handle that is nobody's.
	AccountByPasskeyUser(ctx context.Context, handle []byte) (app.Account, []app.Passkey, error)
	// AddPasskey sets the recovery codes, and says so, with the first second factor.
	AddPasskey(ctx context.Context, p app.Passkey, codes [][32]byte) (first bool, err error)
	// UsePasskey returns app.Unauthorized for a passkey whose count does not grow, and for
	// one that is gone.
	UsePasskey(ctx context.Context, p app.Passkey) error
	RenamePasskey(ctx context.Context, account app.AccountID, id int64, name string) error
	RemovePasskey(ctx context.Context, account app.AccountID, id int64) error
}

const (
	// PasskeyTime is how long a challenge can be answered. A page that is open for longer
	// has to be fetched again.
	PasskeyTime     = 15 * time.Minute
	challengeRandom = 16 // bytes
	challengeHead   = 8 + challengeRandom
	maxPasskeyName  = 60 // characters
	maxResponse     = 16 << 10
	maxUsed         = 64 // answered challenges that are remembered of an account
)

// used are the challenges that were answered well: none counts twice. Only who has a passkey, or
// makes one, puts one in, and one who puts in too many keeps nobody else out. It is safe for
// concurrent use.
type used struct {
	mu  sync.Mutex
	all map[string]answered
}

// answered is by whom a challenge was answered, and until when it could be again.
type answered struct {
	by    string // the handle of an account
	until time.Time
}

// take reports whether nobody has answered a challenge before, and the account may.
func (u *used) take(challenge string, by answered) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now, own := time.Now(), 0
	for c, a := range u.all {
		if !now.Before(a.until) {
			delete(u.all, c)
		} else if a.by == by.by {
			own++
		}
	}
	if _, ok := u.all[challenge]; ok || own >= maxUsed {
		return false
	}
	u.all[challenge] = by
	return true
}

// What a challenge is for; it answers nothing else.
const forSignIn = "sign in"

func forProof(session int64) string { return "prove " + strconv.FormatInt(session, 10) }

func forNew(session int64) string { return "register " + strconv.FormatInt(session, 10) }

func forInvited(key string) string { return "accept " + key }

// invitedHandle is by what authenticators know the account that a link makes: 64 bytes that are
// nobody else's, the same whenever the page behind the link is opened while the daemon lives.
func (s *SignIns) invitedHandle(key string) []byte {
	sum := sha512.Sum512(mac(s.key, []byte("berth: a passkey of somebody invited\x00"), s.start, []byte(key)))
	return sum[:]
}

// challenge makes one for a purpose at an origin. It carries its time and a MAC, so that
// strangers who ask for many of them fill no memory. It ends with the daemon, which alone
// remembers what was answered.
func (s *SignIns) challenge(purpose string, at app.Origin) string {
	head := make([]byte, challengeHead)
	binary.BigEndian.PutUint64(head, uint64(time.Now().Unix())) //nolint:gosec // after 1970
	rand.Read(head[8:])                                         // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(append(head, s.challengeMAC(head, purpose, at)...))
}

func (s *SignIns) challengeMAC(head []byte, purpose string, at app.Origin) []byte {
	return mac(s.key, []byte("berth: a challenge for passkeys\x00"), s.start, head, []byte(purpose+"\x00"+at.URL))
}

// fresh returns until when a challenge for a purpose can be answered, and false for one that
// is not berth's, is for something else, or has expired.
func (s *SignIns) fresh(challenge, purpose string, at app.Origin) (until time.Time, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(challenge)
	if err != nil || len(raw) <= challengeHead || s.key == nil {
		return until, false
	}
	head := raw[:challengeHead]
	until = time.Unix(int64(binary.BigEndian.Uint64(head)), 0).Add(PasskeyTime) //nolint:gosec // the MAC says that it is ours
	return until, hmac.Equal(raw[challengeHead:], s.challengeMAC(head, purpose, at)) && time.Now().Before(until)
}

// owner is an account as the library of passkeys knows it.
type owner struct {
	app.Account
	handle []byte
	known  []webauthn.Credential
}

// WebAuthnID implements webauthn.User.
func (o owner) WebAuthnID() []byte { return o.handle }

// WebAuthnName implements webauthn.User.
func (o owner) WebAuthnName() string { return o.Name }

// WebAuthnDisplayName implements webauthn.User.
func (o owner) WebAuthnDisplayName() string { return o.Name }

// WebAuthnCredentials implements webauthn.User.
func (o owner) WebAuthnCredentials() []webauthn.Credential { return o.known }

// party is the library for an origin.
func party(at app.Origin) (*webauthn.WebAuthn, error) {
	if at.Domain == "" {
		return nil, app.Errorf(app.Forbidden, "browsers make passkeys only at a domain with HTTPS; codes of an app work everywhere")
	}
	return webauthn.New(&webauthn.Config{RPID: at.Domain, RPDisplayName: "berth", RPOrigins: []string{at.URL}})
}

// algorithms are those of keys that authenticators have: ES256, EdDSA and RS256.
var algorithms = []webauthncose.COSEAlgorithmIdentifier{webauthncose.AlgES256, webauthncose.AlgEdDSA, webauthncose.AlgRS256}

func errPasskey() error {
	return app.Errorf(app.Unauthorized, "this passkey does not sign in here; try again, or sign in with the password")
}

// PasskeyOptions are what a page hands to the browser (navigator.credentials), as JSON with
// bytes in base64url: to sign in, or with a session to prove who its owner is. They are "" where
// browsers have no passkeys.
func (s *SignIns) PasskeyOptions(at app.Origin, session int64) string {
	if at.Domain == "" || s.key == nil {
		return ""
	}
	purpose := forSignIn
	if session != 0 {
		purpose = forProof(session)
	}
	return asJSON(map[string]any{
		"challenge": s.challenge(purpose, at), "rpId": at.Domain, "userVerification": "required", "timeout": PasskeyTime.Milliseconds(),
	})
}

// NewPasskeyOptions are those for a new passkey of an account.
func (s *SignIns) NewPasskeyOptions(ctx context.Context, a app.Account, at app.Origin, session int64) (string, error) {
	if at.Domain == "" || s.key == nil {
		return "", nil
	}
	handle, err := s.passkeys.PasskeyUser(ctx, a.ID)
	if err != nil {
		return "", err
	}
	has, err := s.passkeys.Passkeys(ctx, a.ID)
	if err != nil {
		return "", err
	}
	return s.passkeyOptions(a.Name, handle, has, at, forNew(session)), nil
}

// passkeyOptions are those for a new passkey of an account with a name and a handle, which has some
// already.
func (s *SignIns) passkeyOptions(name string, handle []byte, has []app.Passkey, at app.Origin, purpose string) string {
	if at.Domain == "" || s.key == nil {
		return ""
	}
	kinds, exclude := []map[string]any{}, []map[string]any{} // a browser takes no null
	for _, algorithm := range algorithms {
		kinds = append(kinds, map[string]any{"type": "public-key", "alg": algorithm})
	}
	for _, p := range has {
		exclude = append(exclude, map[string]any{"type": "public-key", "id": base64.RawURLEncoding.EncodeToString(p.Credential)})
	}
	return asJSON(map[string]any{
		"challenge": s.challenge(purpose, at), "timeout": PasskeyTime.Milliseconds(), "attestation": "none",
		"rp":                     map[string]any{"id": at.Domain, "name": "berth"},
		"user":                   map[string]any{"id": base64.RawURLEncoding.EncodeToString(handle), "name": name, "displayName": name},
		"pubKeyCredParams":       kinds,
		"excludeCredentials":     exclude,
		"authenticatorSelection": map[string]any{"residentKey": "required", "requireResidentKey": true, "userVerification": "required"},
	})
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // maps of texts and numbers, so this cannot be
	}
	return string(text)
}

// Passkeys returns those of an account, oldest first.
func (s *SignIns) Passkeys(ctx context.Context, id app.AccountID) ([]app.Passkey, error) {
	return s.passkeys.Passkeys(ctx, id)
}

// AddPasskey remembers the passkey that a browser has made by NewPasskeyOptions, and returns
// recovery codes with the first second factor of the account, else none. It fails with
// app.Invalid for a name or an answer that is none, and for an answer to something else.
func (s *SignIns) AddPasskey(
	ctx context.Context, a app.Account, at app.Origin, session int64, name string, response []byte,
) ([]string, error) {
	name, err := passkeyName(name)
	if err != nil {
		return nil, err
	}
	handle, err := s.passkeys.PasskeyUser(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	made, err := s.register(owner{Account: a, handle: handle}, at, forNew(session), response)
	if err != nil {
		return nil, err
	}
	made.Account, made.Name, made.RP = a.ID, name, at.Domain
	codes, hashes := newRecovery(a.ID)
	if first, err := s.passkeys.AddPasskey(ctx, made, hashes); err != nil || !first {
		return nil, err
	}
	return codes, nil
}

// register reads and checks what a browser answers to passkeyOptions.
func (s *SignIns) register(o owner, at app.Origin, purpose string, response []byte) (p app.Passkey, err error) {
	library, err := party(at)
	if err != nil {
		return p, err
	}
	bad := app.Errorf(app.Invalid, "the browser's answer is not a new passkey for this page; try again")
	if len(response) > maxResponse {
		return p, bad
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(response)
	if err != nil {
		return p, bad
	}
	challenge := parsed.Response.CollectedClientData.Challenge
	until, ok := s.fresh(challenge, purpose, at)
	if !ok {
		return p, bad
	}
	params := make([]protocol.CredentialParameter, len(algorithms))
	for i, algorithm := range algorithms {
		params[i] = protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: algorithm}
	}
	credential, err := library.CreateCredential(o, webauthn.SessionData{
		Challenge: challenge, UserID: o.handle, UserVerification: protocol.VerificationRequired, CredParams: params,
	}, parsed)
	if err != nil || !s.answered.take(challenge, answered{string(o.handle), until}) {
		return p, bad
	}
	record, err := json.Marshal(credential)
	return app.Passkey{Credential: credential.ID, Record: record, Count: credential.Authenticator.SignCount}, err
}

// RenamePasskey gives a passkey of an account another name: app.Invalid for none, app.NotFound.
func (s *SignIns) RenamePasskey(ctx context.Context, account app.AccountID, id int64, name string) error {
	name, err := passkeyName(name)
	if err != nil {
		return err
	}
	return s.passkeys.RenamePasskey(ctx, account, id, name)
}

// RemovePasskey removes a passkey of an account, and with the last second factor its recovery
// codes: app.NotFound.
func (s *SignIns) RemovePasskey(ctx context.Context, account app.AccountID, id int64) error {
	return s.passkeys.RemovePasskey(ctx, account, id)
}

func passkeyName(name string) (string, error) {
	name = strings.TrimSpace(strings.ToValidUTF8(name, ""))
	if name == "" || len([]rune(name)) > maxPasskeyName {
		return "", app.Errorf(app.Invalid, "name the passkey with 1 to %d characters, such as by its device", maxPasskeyName)
	}
	return name, nil
}

// SignInByPasskey begins a session for who answers PasskeyOptions with a passkey: the
// authenticator has seen the person, so that no second step follows. It fails with
// app.Unauthorized for every answer that is none, with the account when the passkey is
// somebody's, app.Forbidden for a disabled account, and app.Limited after many tries from
// the address.
func (s *SignIns) SignInByPasskey(ctx context.Context, at app.Origin, response []byte, from app.Visitor) (app.SignedIn, error) {
	if err := tooMany(s.addresses.try(from.Key)); err != nil {
		return app.SignedIn{}, err
	}
	a, passkey, err := s.assert(ctx, at, forSignIn, response)
	if err != nil {
		return app.SignedIn{Account: a}, err
	}
	s.addresses.undo(from.Key)
	if err := a.Closed(); err != nil {
		return app.SignedIn{Account: a}, err
	}
	in, made, err := s.begin(ctx, a, from)
	if err != nil {
		return app.SignedIn{Account: a}, err
	}
	// Who removed the passkey, or reset the account, since it was looked at has ended the
	// sessions of that moment, and not this one.
	left, err := s.passkeys.Passkeys(ctx, a.ID)
	if err != nil || !slices.ContainsFunc(left, func(p app.Passkey) bool { return p.ID == passkey }) {
		return app.SignedIn{Account: a}, errors.Join(errPasskey(), err, s.EndSession(context.WithoutCancel(ctx), a.ID, made.ID))
	}
	return in, nil
}

// ProveByPasskey is Prove for the owner of a session who answers PasskeyOptions with a passkey
// of the account. A wrong answer is app.Forbidden.
func (s *SignIns) ProveByPasskey(
	ctx context.Context, a app.Account, at app.Origin, response []byte, session int64, from app.Visitor,
) (string, error) {
	if err := tooMany(s.confirms.try(strconv.FormatInt(session, 10))); err != nil {
		return "", err
	}
	who, _, err := s.assert(ctx, at, forProof(session), response)
	if app.KindOf(err) == app.Unauthorized || err == nil && who.ID != a.ID {
		return "", app.Errorf(app.Forbidden, "this is not a passkey of your account at this address; try again, or type the password")
	}
	if err != nil {
		return "", err
	}
	s.confirms.forget(strconv.FormatInt(session, 10))
	return s.proved(ctx, a.ID, session, from)
}

// assert checks the answer of a browser to a challenge and returns the account whose passkey
// it is of, and which.
func (s *SignIns) assert(ctx context.Context, at app.Origin, purpose string, response []byte) (a app.Account, passkey int64, err error) {
	library, err := party(at)
	if err != nil {
		return a, 0, err
	}
	if len(response) > maxResponse {
		return a, 0, errPasskey()
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(response)
	if err != nil {
		return a, 0, errPasskey()
	}
	challenge := parsed.Response.CollectedClientData.Challenge
	until, ok := s.fresh(challenge, purpose, at)
	if !ok {
		return a, 0, app.Errorf(app.Unauthorized, "this page was open for too long, or the answer is for another one; try again")
	}
	who, of, err := s.passkeys.AccountByPasskeyUser(ctx, parsed.Response.UserHandle)
	if app.KindOf(err) == app.NotFound {
		return a, 0, errPasskey()
	}
	if err != nil {
		return a, 0, err
	}
	o, p := owner{Account: who, handle: parsed.Response.UserHandle}, app.Passkey{}
	for _, k := range of {
		if k.RP != at.Domain || !bytes.Equal(k.Credential, parsed.RawID) {
			continue
		}
		var c webauthn.Credential
		if err := json.Unmarshal(k.Record, &c); err != nil {
			return a, 0, err
		}
		o.known, p = append(o.known, c), k
	}
	credential, err := library.ValidateLogin(o, webauthn.SessionData{
		Challenge: challenge, UserID: o.handle, UserVerification: protocol.VerificationRequired,
	}, parsed)
	if err != nil || !s.answered.take(challenge, answered{string(o.handle), until}) {
		return who, 0, errPasskey()
	}
	if credential.Authenticator.CloneWarning {
		return who, 0, app.Errorf(app.Unauthorized, "this passkey was copied, or is gone")
	}
	p.Count = credential.Authenticator.SignCount
	if p.Record, err = json.Marshal(credential); err != nil {
		return who, 0, err
	}
	return who, p.ID, s.passkeys.UsePasskey(ctx, p)
}
