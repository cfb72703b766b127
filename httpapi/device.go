package httpapi

import (
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"berth/app"
	"berth/web"
)

// Devices are programs that ask for a token by a code that people type in the panel. It
// MUST be safe for concurrent use.
type Devices interface {
	// Begin returns the secret and the code of a device. Of d it takes Client, Machine,
	// From and Lasts, which may be 0. It returns Invalid and Limited.
	Begin(d app.Device) (secret string, begun app.Device, err error)
	// Token answers a device that asks for its token.
	Token(ctx context.Context, client, secret string) (app.DeviceGrant, error)
}

// devices is the device flow of OAuth (RFC 8628).
type devices struct {
	Devices           // nil where there is no panel
	requests *limiter // by address
	trusted  web.Networks
	baseURL  string
	byOwner  bool
}

const (
	devicePath  = "/device" // of the panel
	deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
	// tokenType says that the token goes into the header of that name, and is no Bearer.
	tokenType = tokenHeader
	// deviceInterval is what RFC 8628 (3.2) has a client wait that is told nothing.
	deviceInterval = 5 * time.Second
)

// The words of errors that programs compare (RFC 6749, 5.2; RFC 8628, 3.5).
const (
	invalidRequest   = "invalid_request"
	invalidGrant     = "invalid_grant"
	invalidScope     = "invalid_scope"
	unsupportedGrant = "unsupported_grant_type"
	slowDown         = "slow_down"
	pending          = "authorization_pending"
	accessDenied     = "access_denied"
	expiredToken     = "expired_token"
)

// authorize gives a program a code, which people type in the panel.
func (d devices) authorize(c *call) (response, error) {
	from, f, refused := d.enter(c)
	if refused != nil {
		return *refused, nil
	}
	if f.Get("scope") != "" {
		return c.oauth(invalidScope, app.Errorf(app.Invalid, "Send no scope: a token that is asked for by a code is for the whole account.")), nil
	}
	asked := app.Device{Client: f.Get("client_id"), Machine: f.Get("machine"), From: from}
	if text := f.Get("lifetime"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil || seconds <= 0 {
			return c.oauth(invalidRequest, app.Errorf(app.Invalid, "The field %s must be a whole number of seconds.", "lifetime")), nil
		}
		asked.Lasts = time.Duration(seconds) * time.Second
	}
	base, err := c.base(d.baseURL)
	if err != nil {
		return c.oauth(invalidRequest, err), nil
	}
	secret, begun, err := d.Begin(asked)
	switch kind := app.KindOf(err); {
	case kind == app.Invalid:
		return c.oauth(invalidRequest, err), nil
	case kind == app.Limited:
		return c.oauth(slowDown, err), nil
	case err != nil:
		return response{}, err
	}
	return response{status: http.StatusOK, body: object{
		{"device_code", secret},
		{"user_code", begun.Code},
		{"verification_uri", base + devicePath},
		{"expires_in", int(begun.Expires.Sub(begun.Asked).Seconds())},
		{"interval", int(deviceInterval.Seconds())},
	}}, nil
}

// token answers a program that asks whether its code was allowed.
func (d devices) token(c *call) (response, error) {
	_, f, refused := d.enter(c)
	switch {
	case refused != nil:
		return *refused, nil
	case f.Get("grant_type") != deviceGrant:
		return c.oauth(unsupportedGrant, app.Errorf(app.Invalid, "The field %s must be %s.", "grant_type", deviceGrant)), nil
	case f.Get("device_code") == "" || f.Get("client_id") == "":
		return c.oauth(invalidRequest, app.Errorf(app.Invalid, "Send the fields %s and %s.", "client_id", "device_code")), nil
	}
	grant, err := d.Token(c.Request.Context(), f.Get("client_id"), f.Get("device_code"))
	if app.KindOf(err) == app.Exhausted {
		return c.oauth(accessDenied, err), nil
	}
	if err != nil {
		return response{}, err
	}
	switch grant.State {
	case app.DevicePending:
		return c.oauth(pending, app.Errorf(app.Invalid, "Nobody has allowed or denied the code yet.")), nil
	case app.DeviceHasty:
		return c.oauth(slowDown, app.Errorf(app.Invalid, "You ask too often: wait %d seconds each time.", int(grant.Interval.Seconds()))), nil
	case app.DeviceDenied:
		return c.oauth(accessDenied, app.Errorf(app.Invalid, "The code was denied.")), nil
	case app.DeviceOther:
		return c.oauth(invalidGrant, app.Errorf(app.Invalid, "The code was given to another client.")), nil
	case app.DeviceEnded:
		return c.oauth(expiredToken, app.Errorf(app.Invalid, "The code has expired, or was used already. Ask for another.")), nil
	case app.DeviceAllowed:
	}
	c.account = grant.Account // for the audit log
	c.audit.Note("token=%d label=%q", grant.Known.ID, grant.Known.Label)
	answer := object{
		{"access_token", grant.Token},
		{"token_type", tokenType},
		{"token_id", grant.Known.ID},
		{"account", grant.Account.Name},
	}
	if !grant.Known.Expires.IsZero() {
		answer = append(answer, member{"expires_in", int(grant.Known.Expires.Sub(c.now()).Round(time.Second).Seconds())})
	}
	return response{status: http.StatusOK, body: answer}, nil
}

// enter returns where a request comes from and the form that it has, or why it is refused.
func (d devices) enter(c *call) (app.Visitor, url.Values, *response) {
	refuse := func(word string, err error) (app.Visitor, url.Values, *response) {
		resp := c.oauth(word, err)
		return app.Visitor{}, nil, &resp
	}
	from, safe := d.trusted.Visitor(c.Request)
	if d.byOwner {
		from, safe = app.Visitor{Agent: from.Agent}, true
	} else {
		q := d.requests.quota(from.Key, true)
		q.setHeaders(c.Header())
		if q.denied {
			return refuse(slowDown, app.Errorf(app.Limited, "Too many requests: %d a minute are allowed. Try again in %d seconds.", q.limit, max(1, q.reset)))
		}
	}
	if d.Devices == nil {
		return refuse(unsupportedGrant, app.Errorf(app.NotFound, "This server has no panel in which a code could be typed. On the host, berth token create makes a token."))
	}
	if !safe {
		return refuse(invalidRequest, app.Errorf(app.Forbidden, "On this connection others could read the token. Use HTTPS, or ask on the host itself at localhost."))
	}
	f, err := c.form()
	if err != nil {
		return refuse(invalidRequest, err)
	}
	return from, f, nil
}

// form reads a form in which no field stands twice (RFC 6749, 3.1).
func (c *call) form() (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, app.Errorf(app.Invalid, "Send a form, with the header Content-Type: application/x-www-form-urlencoded.")
	}
	b := c.Body(maxFields)
	defer b.Done()
	text, err := io.ReadAll(b)
	if err != nil {
		return nil, blame(b, err, app.Textf("The body of the request ended early."))
	}
	f, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, &app.Error{Kind: app.Invalid, Err: err, Message: app.Textf("The body is not a valid form.")}
	}
	for name, values := range f {
		if len(values) > 1 {
			return nil, app.Errorf(app.Invalid, "The field %s appears twice.", quotedName(name))
		}
	}
	return f, nil
}

// oauth is the answer of an error that clients of OAuth tell by a word.
func (c *call) oauth(word string, err error) response {
	resp := c.failure(err)
	if body, is := resp.body.(*errorBody); is {
		body.Word, body.Description = word, resp.refusal
	}
	return resp
}
