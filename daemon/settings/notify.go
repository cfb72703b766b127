package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"berth/web/channel"
)

// notifySettings are those of what berth says to the owners of applications.
type notifySettings struct {
	SMTP, SMTPUser string // the server is HOST:PORT
	SMTPPassword   string // a path
	SMTPFrom       string
	SMTPTLS        string // as channel.Mail has it
	Allow          string // see NotifyAllowed
}

// MailServer returns the mail server that the settings name, with what the file holds that
// notify.smtp_password names, and the zero value without notify.smtp. It fails when something
// is missing that berth needs to write: where it writes from, and base_url, to which the links
// in mail lead.
func (s Settings) MailServer() (m channel.Mail, err error) {
	n := s.Notify
	if n.SMTP == "" {
		return channel.Mail{}, nil
	}
	switch {
	case n.SMTPFrom == "":
		return channel.Mail{}, errors.New("cannot use notify.smtp: notify.smtp_from, the address that berth writes from, is not set")
	case s.BaseURL == "":
		return channel.Mail{}, errors.New("cannot use notify.smtp: base_url is not set, to which the links in mail lead")
	case n.SMTPTLS == channel.MailPlain && !loopback(n.SMTP):
		return channel.Mail{}, fmt.Errorf("cannot use notify.smtp_tls %q with %s: others can read mail on the way; use %q or %q, or a mail server at 127.0.0.1",
			channel.MailPlain, n.SMTP, channel.MailStartTLS, channel.MailTLS)
	case n.SMTPUser == "" && n.SMTPPassword != "":
		return channel.Mail{}, errors.New("cannot use notify.smtp_password: notify.smtp_user is not set")
	}
	m = channel.Mail{Server: n.SMTP, User: n.SMTPUser, From: n.SMTPFrom, TLS: n.SMTPTLS}
	if n.SMTPUser != "" {
		m.Password, err = readSecret("notify.smtp_password", n.SMTPPassword)
	}
	if err != nil {
		return channel.Mail{}, err
	}
	return m, nil
}

// loopback reports whether HOST:PORT is on this host, whatever a name server says.
func loopback(server string) bool {
	host, _, _ := net.SplitHostPort(server) // checked when it was set
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// NotifyAllowed are the private addresses that channels of the host's administrator may use.
func (s Settings) NotifyAllowed() []netip.AddrPort {
	all, _ := parseEndpoints(s.Notify.Allow) // checked when it was set
	return all
}
