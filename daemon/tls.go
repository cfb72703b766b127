package daemon

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/app"
	"berth/app/exit"
	"berth/daemon/settings"
	"berth/db"
	"berth/web/certs"
	"berth/web/proxy"
)

// readTLS reads what the settings name for mode edge; nil when no certificates
// come from files.
func readTLS(s settings.Settings, log *slog.Logger) (files *proxy.Certificates, ca certs.CA, err error) {
	if s.Proxy.Mode == settings.ProxyEdge {
		if files, err = loadCertificates(s, log); err != nil {
			return nil, ca, err
		}
	}
	if s.UsesACME() {
		if ca, err = s.Authority(); err != nil {
			return nil, ca, exit.NewProblem(exit.Config, err, "Hint: proxy.acme_roots and proxy.acme_binding name files.")
		}
	}
	return files, ca, nil
}

// loadCertificates reads those of files; nil when the settings name none.
func loadCertificates(s settings.Settings, log *slog.Logger) (*proxy.Certificates, error) {
	if s.Proxy.Cert == "" {
		return nil, nil
	}
	files, err := proxy.LoadCertificates(s.Proxy.Cert, s.Proxy.Key, log)
	if err != nil {
		return nil, exit.NewProblem(exit.Config, err, "Hint: proxy.cert and proxy.key name the files.")
	}
	return files, nil
}

// suites are those of TLS 1.2 with forward secrecy and authenticated encryption, as Mozilla's
// "intermediate": Go's own list also has modes (CBC) that attacks on TLS were about. TLS 1.3
// has no others.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// openTLS prepares what visitors at the edge are shown: certificates from files,
// and by ACME what no file has.
func (e *sites) openTLS(ctx context.Context) (*tls.Config, error) {
	s := e.settings
	files, ca, err := readTLS(s, e.log)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: suites}
	if !s.UsesACME() {
		c.GetCertificate = files.Find
		return c, nil
	}
	covered := func(string) bool { return false }
	if files != nil {
		covered = files.Covers
	}
	e.manager, err = certs.New(ctx, certs.Config{
		CA: ca, Store: e.data.db.Certificates, PerHour: s.Proxy.ACME.PerHour, Most: s.Proxy.ACME.Names, Covered: covered, Log: e.log,
	})
	if err != nil {
		return nil, err
	}
	c.GetConfigForClient = e.manager.ConfigFor
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if files == nil {
			return e.manager.Find(hello)
		}
		if hello.ServerName == "" { // any file would match, and say nothing of the address
			if found, err := e.manager.Find(hello); found != nil || err != nil {
				return found, err
			}
			return files.Match(hello), nil
		}
		if found := files.Match(hello); found != nil {
			return found, nil
		}
		return e.manager.Find(hello)
	}
	return c, nil
}

// answering puts what a certificate authority asks before h.
func (e *sites) answering(h http.Handler) http.Handler {
	if e.manager == nil {
		return h
	}
	return e.manager.Answer(h)
}

// want tells for which names there are to be certificates.
func (e *sites) want(ctx context.Context, domains map[string]string) error {
	if e.manager == nil {
		return nil
	}
	owners, err := e.data.db.Names.Sites(ctx)
	if err != nil {
		return err
	}
	below := "." + e.settings.SitesDomain()
	e.manager.Want(namesOfSites(e.settings, owners, domains), func(name string) app.AccountID {
		if id, there := domains[name]; there {
			return owners[app.ID(id)]
		}
		return owners[app.ID(strings.TrimSuffix(name, below))]
	})
	return nil
}

// namesOfSites are the names under which visitors come: where clients find berth itself,
// if that is over HTTPS, then, sorted, those of sites, and verified domains, which
// lead to one.
func namesOfSites(s settings.Settings, sites map[app.ID]app.AccountID, domains map[string]string) []string {
	names := slices.Collect(maps.Keys(domains))
	if below := s.SitesDomain(); below != "" {
		for id := range sites {
			names = append(names, string(id)+"."+below)
		}
	}
	slices.Sort(names)
	name := s.HomeName()
	if name == "" || !strings.HasPrefix(s.BaseURL, "https:") {
		return names
	}
	others := slices.DeleteFunc(names, func(other string) bool { return other == name })
	return append([]string{name}, others...)
}

// certificate is how the certificate of a name is; false where berth gets none
// for it.
func (e *sites) certificate(name string) (app.Certificate, bool) {
	if e == nil || e.manager == nil {
		return app.Certificate{}, false
	}
	return e.manager.Status(name)
}

// proved lets a name be tried again that its owner has just proved.
func (e *sites) proved(claim app.Domain) {
	if claim.Status == app.DomainVerified && e != nil && e.manager != nil {
		e.manager.Retry(claim.Name)
	}
}

// keep gets and renews certificates until e ends.
func (e *sites) keep(g *errgroup.Group) {
	if e.manager == nil {
		return
	}
	p := e.settings.Proxy.ACME
	e.log.Info("certificates are asked for by ACME", "directory", p.Directory, "names an hour", p.PerHour)
	g.Go(func() error { e.manager.Run(e.life); return nil })
}

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
	files, err := loadCertificates(s, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	if files != nil {
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
	sites, err := d.Names.Sites(ctx)
	if err != nil {
		return nil, err
	}
	domains, err := d.Names.VerifiedDomains(ctx)
	if err != nil {
		return nil, err
	}
	known, err := d.Certificates.Certificates(ctx, s.Proxy.ACME.Directory)
	if err != nil {
		return nil, err
	}
	byName := map[string]app.Certificate{}
	for _, c := range known {
		byName[c.Name] = c
	}
	for _, name := range namesOfSites(s, sites, domains) {
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
