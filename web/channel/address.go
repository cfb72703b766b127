package channel

import (
	"net"
	"net/netip"
	"net/url"

	"berth/app"
	"berth/web/egress"
)

const (
	maxURL = 2048 // bytes of a channel's address
	hidden = "…"  // what is not shown
)

// address checks the URL of a channel. own reports that notify.allow names it and the channel may use
// that: it is then a service of the host's owner, which need not look like the public one, nor have TLS.
func (s *Sender) address(c app.Channel) (u *url.URL, own bool, err error) {
	u, err = url.Parse(c.Target)
	switch {
	case err != nil || len(c.Target) > maxURL || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, false, app.Errorf(app.Invalid, "this is not the address of a web server: it begins with https://")
	case u.User != nil || u.Fragment != "":
		return nil, false, app.Errorf(app.Invalid, "the address cannot have a user name or a # in it")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	if c.Owner && s.o.Client.Allows(net.JoinHostPort(u.Hostname(), port)) {
		return u, true, nil
	}
	at, err := netip.ParseAddr(u.Hostname())
	switch {
	case err == nil && !egress.Public(at) || port != "443" && port != "80" && !c.Owner:
		return nil, false, &app.Error{Kind: app.Invalid, Message: egress.Explain(&egress.Denied{})}
	case u.Scheme != "https":
		return nil, false, app.Errorf(app.Invalid, "the address must begin with https://, for others can read http on the way")
	}
	return u, false, nil
}

// maskURL shows whose server it is.
func maskURL(c app.Channel) string {
	u, err := url.Parse(c.Target)
	if err != nil || u.Host == "" {
		return hidden
	}
	return u.Scheme + "://" + u.Host + "/" + hidden
}
