package httpapi

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/julienschmidt/httprouter"

	"berth/app"
	"berth/web"
)

// call is one request and what became known of it on its way.
type call struct {
	web.Call
	params   httprouter.Params
	account  app.Account    // set when the route needs a token
	with     app.Token      // that it was asked with
	locale   string         // of the account that asks, also of a disabled one; "" while it is not known
	id       app.ID         // set when the route names one application
	actsFor  app.AccountID  // set when account asks as a member of a team: the application's owner
	mayStill func() error   // set with actsFor: asks again, when the request took long
	shared   []app.Snapshot // set when it asks so of "all": those it may; else nil

	audit trail // what the audit log will have
}

func newCall(w http.ResponseWriter, r *http.Request, now time.Time) *call {
	id := r.Header.Get("X-Request-Id")
	if !validRequestID(id) {
		id = rand.Text()
	}
	return &call{Call: web.NewCall(w, r, id, now)}
}

// owner is the account whose applications are meant: the one that asks, unless
// it asks as a member of a team.
func (c *call) owner() app.AccountID {
	if c.actsFor != 0 {
		return c.actsFor
	}
	return c.account.ID
}

// asMember reports whether the account asks as a member of a team.
func (c *call) asMember() bool { return c.actsFor != 0 || c.shared != nil }

// head reports whether only the headers are asked for.
func (c *call) head() bool { return c.Request.Method == http.MethodHead }

// base returns the address that links of this server begin with.
func (s *server) base(c *call) (string, error) {
	if s.BaseURL != "" {
		return s.BaseURL, nil
	}
	if !validHost(c.Request.Host) {
		return "", app.Errorf(app.Invalid, "The Host header of the request is not a host name, so no link can be made.")
	}
	if c.Request.TLS != nil {
		return "https://" + c.Request.Host, nil
	}
	return "http://" + c.Request.Host, nil
}

// validRequestID keeps strangers from writing anything but a word into the log.
func validRequestID(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if !isWordByte(s[i]) {
			return false
		}
	}
	return true
}

func isWordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '_' || b == '-'
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
	if host == "" || len(host) > 253 {
		return false
	}
	for i := range len(host) {
		if !isWordByte(host[i]) {
			return false
		}
	}
	return true
}

func isIPv6(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is6() && addr.Zone() == ""
}
