package panel

import (
	"net/url"
	"time"

	"berth/app"
	"berth/app/text"
)

// visit is one address at which a site is visited.
type visit struct {
	URL         string
	Certificate *standing // nil when berth gets none for it
}

// visitsOf are the addresses of a site with the states of their certificates.
func visitsOf(l text.Language, at app.SiteAddress, certificates func(name string) (app.Certificate, bool)) []visit {
	var all []visit
	for _, address := range at.URLs {
		v := visit{URL: address}
		u, err := url.Parse(address)
		if err == nil && u.Scheme == "https" && certificates != nil {
			if c, known := certificates(u.Hostname()); known {
				s := certificateStanding(l, c, time.Now())
				v.Certificate = &s
			}
		}
		all = append(all, v)
	}
	return all
}

// certificateStanding is how a certificate is, in words.
func certificateStanding(l text.Language, c app.Certificate, now time.Time) standing {
	switch c.Status(now) {
	case app.CertificateIssued:
		return standing{"good", "check", l.Say("Its certificate is valid for another %s.", span(l, c.Expires.Sub(now))), ""}
	case app.CertificateExpired:
		return standing{"bad", "warning", l.Say("Its certificate has expired, so browsers warn of it."), c.Problem}
	case app.CertificateFailed:
		return standing{"bad", "warning", l.Say("It has no certificate yet, so browsers cannot open it."), c.Problem}
	case app.CertificatePending:
	}
	return standing{"busy", "clock", l.Say("Its certificate is on the way; that takes a minute or two."), ""}
}
