package httpapi

import (
	"context"
	"crypto/sha256"
	"net/http"

	"berth/app"
	"berth/web"
	"berth/web/local"
)

const (
	tokenHeader    = "api-token"
	maxTokenLength = 4096 // bytes; longer ones are not worth a look-up
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
		err = app.Errorf(app.Limited, "Too many requests: %d a minute are allowed. Try again in %d seconds.", q.limit, max(1, q.reset))
	}
	if err != nil {
		t.auditor.recordFailure(c, account, err)
		return err
	}
	c.account = account
	c.reauthenticate = func(ctx context.Context) error {
		_, _, err := t.Authenticate(ctx, token)
		return err
	}
	return nil
}

func (t tokens) account(c *call, token string) (app.Account, app.Token, error) {
	switch {
	case token == "":
		return app.Account{}, app.Token{}, app.Errorf(app.Unauthorized, "Send your API token in the api-token header.")
	case len(token) > maxTokenLength:
		return app.Account{}, app.Token{}, app.Errorf(app.Unauthorized, "The API token is not valid.")
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
	c.reauthenticate = func(ctx context.Context) error { // the account may be deleted meanwhile
		_, err := s.Account(ctx, name)
		return err
	}
	return nil
}

// describeHost says which daemon this is.
func (s *server) describeHost(*call) (response, error) {
	return response{status: http.StatusOK, body: s.Host()}, nil
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
