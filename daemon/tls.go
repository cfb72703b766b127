package daemon

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"berth/app"
	"berth/daemon/settings"
	"berth/web/certs"
	"berth/web/proxy"
)

// readTLS reads what the settings name for mode edge; nil when no certificates
// come from files.
func readTLS(s settings.Settings, log *slog.Logger) (files *proxy.Certificates, ca certs.CA, err error) {
	if s.Proxy.Mode == settings.ProxyEdge && s.Proxy.Cert != "" {
		if files, err = proxy.LoadCertificates(s.Proxy.Cert, s.Proxy.Key, log); err != nil {
			return nil, ca, settings.NewProblem(settings.ExitConfig, err, "Hint: proxy.cert and proxy.key name the files.")
		}
	}
	if s.UsesACME() {
		if ca, err = s.Authority(); err != nil {
			return nil, ca, settings.NewProblem(settings.ExitConfig, err, "Hint: proxy.acme_roots and proxy.acme_binding name files.")
		}
	}
	return files, ca, nil
}

// openTLS prepares what visitors at the edge are shown: certificates from files,
// and by ACME what no file has.
func (e *sites) openTLS(ctx context.Context) (*tls.Config, error) {
	s := e.d.settings
	files, ca, err := readTLS(s, e.d.log)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if !s.UsesACME() {
		c.GetCertificate = files.Find
		return c, nil
	}
	covered := func(string) bool { return false }
	if files != nil {
		covered = files.Covers
	}
	e.manager, err = certs.New(ctx, certs.Config{
		CA: ca, Store: e.d.db, PerHour: s.Proxy.ACME.PerHour, Most: s.Proxy.ACME.Names, Covered: covered, Log: e.d.log,
	})
	if err != nil {
		return nil, err
	}
	c.GetConfigForClient = e.manager.ConfigFor
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if files != nil {
			if found := files.Match(hello); found != nil {
				return found, nil
			}
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
	owners, err := e.d.db.Sites(ctx)
	if err != nil {
		return err
	}
	below := "." + e.d.settings.SitesDomain()
	e.manager.Want(namesOfSites(e.d.settings, owners, domains), func(name string) app.AccountID {
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
	name := s.HomeDomain()
	if name == "" || !strings.HasPrefix(s.BaseURL, "https:") {
		return names
	}
	others := slices.DeleteFunc(names, func(other string) bool { return other == name })
	return append([]string{name}, others...)
}

// certificate is how the certificate of a name is; false where berth gets none
// for it.
func (d *daemon) certificate(name string) (app.Certificate, bool) {
	if d.sites == nil || d.sites.manager == nil {
		return app.Certificate{}, false
	}
	return d.sites.manager.Status(name)
}

// proved lets a name be tried again that its owner has just proved.
func (d *daemon) proved(claim app.Domain) {
	if claim.Status == app.DomainVerified && d.sites != nil && d.sites.manager != nil {
		d.sites.manager.Retry(claim.Name)
	}
}

// keep gets and renews certificates until e ends.
func (e *sites) keep(g *errgroup.Group) {
	if e.manager == nil {
		return
	}
	p := e.d.settings.Proxy.ACME
	e.d.log.Info("certificates are asked for by ACME", "directory", p.Directory, "names an hour", p.PerHour)
	g.Go(func() error { e.manager.Run(e.life); return nil })
}
