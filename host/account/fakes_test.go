package account

import (
	"context"
	"sync"
	"time"

	"berth/app"
)

// desk is a SignInStore of one account.
type desk struct {
	mu            sync.Mutex
	account       app.Account
	password      string
	sessions      map[[32]byte]app.Session
	invitations   map[[32]byte]app.Invitation
	kept          int64
	meanwhile     func() // is called between the comparison and the session
	factors       app.Factors
	seed          []byte // of the app
	step          int64  // whose code was used last
	FactorStore          // the rest is tested with a real database, in web/panel
	PasskeyStore         // the same
	IdentityStore        // the same
	identities    []app.Identity
}

func (d *desk) Factors(context.Context, app.AccountID) (app.Factors, error) { return d.factors, nil }

func (d *desk) UseTOTP(_ context.Context, _ app.AccountID, match func([]byte) int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	step := match(d.seed)
	if step <= d.step {
		return app.Errorf(app.Unauthorized, "the code is wrong")
	}
	d.step = step
	return nil
}

func (d *desk) ProveSession(context.Context, app.AccountID, int64, [32]byte, string) error {
	return nil
}

func newDesk() *desk {
	return &desk{account: app.Account{ID: 42, Name: "ana"}, sessions: map[[32]byte]app.Session{}, invitations: map[[32]byte]app.Invitation{}}
}

func (d *desk) InsertSession(_ context.Context, s app.Session, hash [32]byte, _ time.Time, _ int) (app.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.meanwhile != nil {
		d.meanwhile()
	}
	if d.account.Disabled {
		return s, d.account.Closed()
	}
	s.ID, s.CreatedAt, s.LastSeen = int64(len(d.sessions)+1), time.Now(), time.Now()
	d.sessions[hash] = s
	return s, nil
}

func (d *desk) AccountBySession(_ context.Context, hash [32]byte, _ string, old time.Time) (app.Account, app.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.sessions[hash]
	if !ok || s.LastSeen.Before(old) {
		return app.Account{}, app.Session{}, app.Errorf(app.NotFound, "no such session")
	}
	return d.account, s, nil
}

func (d *desk) DeleteOtherSessions(context.Context, app.AccountID, int64) error { return nil }

func (d *desk) Sessions(context.Context, app.AccountID, time.Time) ([]app.Session, error) {
	return nil, nil
}

func (d *desk) DeleteSession(_ context.Context, account app.AccountID, id int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for hash, s := range d.sessions {
		if s.ID == id && s.Account == account {
			delete(d.sessions, hash)
			return nil
		}
	}
	return app.Errorf(app.NotFound, "no such session")
}

func (d *desk) PasswordByName(_ context.Context, name string) (app.Account, string, error) {
	if name != d.account.Name {
		return app.Account{}, "", app.Errorf(app.NotFound, "no account")
	}
	return d.account, d.password, nil
}

func (d *desk) SetPassword(_ context.Context, _ app.AccountID, hash string, keep int64) error {
	d.password, d.kept = hash, keep
	return nil
}

func (d *desk) InsertInvitation(_ context.Context, hash [32]byte, id app.AccountID, expires time.Time) error {
	i := app.Invitation{Expires: expires}
	if id != 0 {
		i.Account = d.account
	}
	d.invitations[hash] = i
	return nil
}

func (d *desk) Invitation(_ context.Context, hash [32]byte) (app.Invitation, error) {
	i, ok := d.invitations[hash]
	if !ok || !time.Now().Before(i.Expires) {
		return i, app.Errorf(app.NotFound, "no such link")
	}
	return i, nil
}

func (d *desk) Redeem(ctx context.Context, hash [32]byte, first app.Account, password string) (app.Account, error) {
	i, err := d.Invitation(ctx, hash)
	if err != nil {
		return app.Account{}, err
	}
	delete(d.invitations, hash)
	if i.Account.ID == 0 {
		first.ID = 42
		d.account = first
	}
	d.password = password
	return d.account, nil
}

func (d *desk) Identities(context.Context, app.AccountID) ([]app.Identity, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.identities, nil
}

func (d *desk) UseIdentity(context.Context, app.Identity) (app.Account, string, int64, error) {
	return d.account, "", 1, nil
}
