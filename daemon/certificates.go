package daemon

import (
	"context"
	"log/slog"
	"time"

	"berth/app"
	"berth/daemon/settings"
	"berth/db"
	"berth/web/proxy"
)

// CertificateView is one certificate as it is shown.
type CertificateView struct {
	Name    string                `json:"name"`
	From    string                `json:"from"` // a file, or acme
	Status  app.CertificateStatus `json:"status"`
	Expires *time.Time            `json:"expires,omitempty"`
	Next    *time.Time            `json:"next,omitempty"` // when it is tried again, or renewed
	Problem string                `json:"problem,omitempty"`
}

// Certificates are those of the files, and those by ACME of names that lead to
// a site.
func Certificates(ctx context.Context, d *db.DB, s settings.Settings, now time.Time) ([]CertificateView, error) {
	all := []CertificateView{}
	covers := func(string) bool { return false }
	if s.Proxy.Cert != "" {
		files, err := proxy.LoadCertificates(s.Proxy.Cert, s.Proxy.Key, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, settings.NewProblem(settings.ExitConfig, err, "Hint: proxy.cert and proxy.key name the files.")
		}
		covers = files.Covers
		for _, f := range files.List() {
			v := CertificateView{Name: f.Name, From: f.Path, Status: app.CertificateIssued, Expires: &f.Expires}
			if !now.Before(f.Expires) {
				v.Status = app.CertificateExpired
			}
			all = append(all, v)
		}
	}
	if s.Proxy.TLS != settings.TLSACME {
		return all, nil
	}
	wanted, err := wantedNames(ctx, d, s)
	if err != nil {
		return nil, err
	}
	known, err := d.Certificates(ctx, s.Proxy.ACME.Directory)
	if err != nil {
		return nil, err
	}
	byName := map[string]app.Certificate{}
	for _, c := range known {
		byName[c.Name] = c
	}
	for _, name := range wanted {
		if covers(name) {
			continue
		}
		c := byName[name] // pending, when nobody has looked yet
		v := CertificateView{Name: name, From: settings.TLSACME, Status: c.Status(now), Problem: c.Problem}
		if len(c.Chain) > 0 {
			v.Expires = &c.Expires
		}
		if !c.Next.IsZero() {
			v.Next = &c.Next
		}
		all = append(all, v)
	}
	return all, nil
}

// wantedNames are those for which the daemon wants certificates.
func wantedNames(ctx context.Context, d *db.DB, s settings.Settings) ([]string, error) {
	sites, err := d.Sites(ctx)
	if err != nil {
		return nil, err
	}
	domains, err := d.VerifiedDomains(ctx)
	if err != nil {
		return nil, err
	}
	return namesOfSites(s, sites, domains), nil
}
