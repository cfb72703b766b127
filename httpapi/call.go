package httpapi

import (
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"berth/app"
	"berth/app/text"
	"berth/web"
)

// call is one request and what became known of it on its way.
type call struct {
	web.Call
	encrypted bool // the client uses HTTPS
	now       func() time.Time
	log       *slog.Logger
	maxLinger int64 // bytes that are still read of a refused body

	params         httprouter.Params
	account        app.Account                              // that the call is for; set when the route needs a token
	token          app.Token                                // that it was sent with
	hostToken      app.HostToken                            // that it was sent with, in the place of a token of an account
	byOwner        bool                                     // the owner of the host acts for the account
	reauthenticate func(context.Context) (app.Token, error) // set with account: the token as it is now, if it may still ask
	locale         string                                   // of the account that asks, also of a disabled one; "" while it is not known
	id             app.ID                                   // set when the route names one application
	all            []app.Snapshot                           // set when the route names "all": the applications that this means
	asMember       bool                                     // the account acts as a member of a team
	actsFor        app.AccountID                            // set with asMember and id: the application's owner
	mayStill       func() error                             // set with actsFor: checks the permission again, when the request took long

	audit trail // what the audit log will have
}

// owner is the account whose applications are meant: the one that asks, unless
// it acts as a member of a team.
func (c *call) owner() app.AccountID {
	if c.actsFor != 0 {
		return c.actsFor
	}
	return c.account.ID
}

// head reports whether only the headers are asked for.
func (c *call) head() bool { return c.Request.Method == http.MethodHead }

// language is that of the account that asks; before it is known, and where no
// token is needed, what the client accepts.
func (c *call) language() text.Language {
	if c.locale != "" {
		return text.In(c.locale)
	}
	return text.Accept(c.Request.Header.Get("Accept-Language"))
}

// say writes a message for the client.
func (c *call) say(format string, args ...any) string { return c.language().Say(format, args...) }

// translate is say for a sentence that was made before.
func (c *call) translate(t app.Text) string { return c.language().SayPhrase(t) }

// outcome says what something that should leave the application running has done, and how
// it stands.
func (c *call) outcome(done app.Text, d app.Deployed) string {
	text := c.translate(outcome(done, d.Snapshot, c.now()))
	if !d.Hint.IsZero() {
		text += " " + c.translate(d.Hint)
	}
	return text
}

// boundBody gives a client that announced a body one patience to send it, also
// when no handler reads it: net/http itself reads a little of what is left.
func (c *call) boundBody() {
	if c.Request.ContentLength != 0 {
		// Not every connection has deadlines; then the server's own must do.
		_ = http.NewResponseController(c.ResponseWriter).SetReadDeadline(time.Now().Add(web.Patience))
	}
}

// base returns the address that links of this server begin with: configured, or
// derived from the request.
func (c *call) base(configured string) (string, error) {
	switch {
	case configured != "":
		return configured, nil
	case !validHost(c.Request.Host):
		return "", app.Errorf(app.Invalid, "The Host header of the request is not a host name, so no link can be made.")
	case c.encrypted:
		return "https://" + c.Request.Host, nil
	}
	return "http://" + c.Request.Host, nil
}

// number is a number of the path; math.MaxInt64, which nothing has, for what is none.
func (c *call) number(name string) int64 {
	n, err := strconv.ParseInt(c.params.ByName(name), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// isWord reports whether s holds nothing but letters, digits, '.', '_' and '-', and is not empty.
func isWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// validHost accepts a name or an IP address, with or without a port: the text
// goes into links that other programs open.
func validHost(s string) bool {
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return false
		}
		host = h
		if s[0] == '[' {
			return isIPv6(host)
		}
	} else if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return isIPv6(s[1 : len(s)-1])
	}
	return len(host) <= 253 && isWord(host)
}

func isIPv6(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is6() && addr.Zone() == ""
}
