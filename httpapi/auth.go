package httpapi

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strconv"
	"strings"

	"berth/app"
	"berth/web"
	"berth/web/local"
)

const (
	tokenHeader    = "api-token"
	maxTokenLength = 4096 // bytes; longer ones are not worth a look-up
	bearer         = "Bearer "
)

// tokens decides who may use the API, and how often.
type tokens struct {
	app.Accounts
	auditor auditor
	valid   *limiter // requests of valid tokens
	failed  *limiter // failed authentications, by address
}

// authenticate sets the account of a call and counts the call.
//
// A request with a valid token counts for the token; a failed one counts for
// the address it came from, and is refused as too frequent beyond the limit.
// A valid token always gets through: behind a proxy many people share one
// address, and nobody guesses 256 random bits.
func (t tokens) authenticate(c *call) error {
	token := c.Request.Header.Get(tokenHeader)
	account, known, err := t.account(c, token)
	c.token, c.locale = known, account.Locale
	var q quota
	switch kind := app.KindOf(err); {
	case err == nil || kind == app.Forbidden:
		q = t.valid.quota(tokenKey(token), true)
	case kind == app.Unauthorized:
		q = t.failed.quota(addressKey(c.Request.RemoteAddr), true)
	default:
		return err // nobody's fault that counts
	}
	q.setHeaders(c.Header())
	if q.denied {
		err = tooMany(q)
	}
	if err != nil {
		t.auditor.recordFailure(c, account, err)
		return err
	}
	c.account = account
	c.reauthenticate = func(ctx context.Context) (app.Token, error) {
		_, now, err := t.Authenticate(ctx, token)
		return now, err
	}
	return nil
}

// authenticateHost is authenticate for a token of the host, which is of no account.
func (t tokens) authenticateHost(c *call, accounts HostAccounts) error {
	token := c.Request.Header.Get(tokenHeader)
	known, err := accounts.Authorize(c.Request.Context(), token)
	var q quota
	switch app.KindOf(err) {
	case app.Unauthorized:
		q = t.failed.quota(addressKey(c.Request.RemoteAddr), true)
	default:
		if err != nil {
			return err
		}
		q = t.valid.quota(tokenKey(token), true)
	}
	q.setHeaders(c.Header())
	if q.denied {
		err = tooMany(q)
	}
	c.hostToken = known
	if err != nil {
		t.auditor.recordFailure(c, app.Account{}, err)
	}
	return err
}

func tooMany(q quota) error {
	return app.Errorf(app.Limited, "Too many requests: %d a minute are allowed. Try again in %d seconds.", q.limit, max(1, q.reset))
}

func (t tokens) account(c *call, token string) (app.Account, app.Token, error) {
	switch {
	case token == "":
		return app.Account{}, app.Token{}, app.Errorf(app.Unauthorized, "Send your API token in the api-token header.")
	case len(token) > maxTokenLength:
		return app.Account{}, app.Token{}, app.Errorf(app.Unauthorized, "The API token is not valid.")
	case len(token) > len(bearer) && strings.EqualFold(token[:len(bearer)], bearer):
		return app.Account{}, app.Token{}, app.Errorf(app.Unauthorized, "The api-token header takes the token alone: leave out \"Bearer\" before it.")
	}
	return t.Authenticate(c.Request.Context(), token)
}

// actFor lets the owner of the host act for the account that a call names, in the language
// that the client accepts.
func (s *server) actFor(c *call) error {
	name := c.Request.Header.Get(local.AccountHeader)
	if name == "" {
		return app.Errorf(app.Invalid, "Name the account in the %s header.", local.AccountHeader)
	}
	account, err := s.Account(c.Request.Context(), name)
	if app.KindOf(err) == app.NotFound {
		return app.Errorf(app.NotFound, "There is no account %q.", name)
	}
	if err != nil {
		return err
	}
	c.account, c.byOwner = account, true
	c.reauthenticate = func(ctx context.Context) (app.Token, error) { // the account may be deleted meanwhile
		_, err := s.Account(ctx, name)
		return app.Token{}, err
	}
	return nil
}

// describeHost says which daemon this is.
func (s *server) describeHost(*call) (response, error) {
	return response{status: http.StatusOK, body: s.Host()}, nil
}

// hostAccount is the account that the owner of the host names in a path of its own. What
// comes of it is recorded by the command that asks.
func hostAccount(c *call) (app.AccountID, error) {
	id, err := strconv.ParseInt(c.params.ByName("account"), 10, 64)
	if err != nil {
		return 0, app.Errorf(app.NotFound, "There is no such account.")
	}
	return app.AccountID(id), nil
}

// accountChanged lets the daemon follow a change that a command has stored.
func (s *server) accountChanged(c *call) (response, error) {
	id, err := hostAccount(c)
	if err == nil {
		err = s.AccountChanged(context.WithoutCancel(c.Request.Context()), id)
	}
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The change is in effect."))
}

// holdChanged lets the daemon follow a hold that a command has set or dropped.
func (s *server) holdChanged(c *call) (response, error) {
	if err := s.HoldChanged(context.WithoutCancel(c.Request.Context())); err != nil {
		return response{}, err
	}
	return ok(c.say("The change is in effect."))
}

func (s *server) deleteAccount(c *call) (response, error) {
	id, err := hostAccount(c)
	if err == nil {
		err = s.DeleteAccount(c.Request.Context(), id)
	}
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The account was deleted, with everything that it had."))
}

// accountDisk says what an account has on the disk.
func (s *server) accountDisk(c *call) (response, error) {
	id, err := hostAccount(c)
	if err != nil {
		return response{}, err
	}
	use, err := s.DiskUse(c.Request.Context(), id)
	if err != nil {
		return response{}, err
	}
	return response{status: http.StatusOK, body: local.DiskUse{Files: use.Files, Backups: use.Backups, BackupBytes: use.BackupBytes}}, nil
}

// ramPlan says how much of the host's RAM is sold, and how much of that is used.
func (s *server) ramPlan(c *call) (response, error) {
	p, err := s.RAMPlan(c.Request.Context())
	return response{status: http.StatusOK, body: local.PlanOf(p)}, err
}

// quota returns what is left to the client of a call, without counting it.
func (t tokens) quota(c *call) quota {
	if token := c.Request.Header.Get(tokenHeader); token != "" {
		return t.valid.quota(tokenKey(token), false)
	}
	return t.failed.quota(addressKey(c.Request.RemoteAddr), false)
}

// tokenKey stands for a token in memory, so that its text is not kept.
func tokenKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(sum[:])
}

// addressOf is the address of a client; without one, such as over a Unix socket, what
// there is in its place.
func addressOf(remote string) string {
	if addr := web.AddressOf(remote); addr.IsValid() {
		return addr.String()
	}
	return remote
}

// addressKey names where a request came from.
func addressKey(remote string) string {
	if addr := web.AddressOf(remote); addr.IsValid() {
		return web.KeyOf(addr)
	}
	return remote
}
