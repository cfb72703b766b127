package daemon

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/daemon/settings"
	"berth/files"
	"berth/host/account"
	"berth/httpapi"
	"berth/web/panel"
)

// newHandler returns the handler of the daemon's listener: the API, and the panel for
// everything that is not the API's. It also makes that of the local socket.
func (d *daemon) newHandler(services app.Services, key []byte, capacity app.MB) http.Handler {
	api, owner := httpapi.New(d.apiConfig(services))
	s := d.settings
	d.owner = owner
	if !s.Panel.Enabled {
		return api
	}
	signIns := account.NewSignIns(d.data.db.SignIns, s.Panel.SessionTTL, key)
	pages := panel.New(panel.Config{
		Services:     services,
		SignIns:      signIns,
		Tokens:       account.New(d.data.db.Accounts),
		Admin:        account.NewAdmin(d.data.db.Accounts),
		Account:      d.data.db.Accounts.Account,
		AuditRecords: d.data.db.Audit.Records,
		Examine:      d.examined,
		Runtimes:     func() []app.Runtime { return installedRuntimes(s.DataDir) },
		Go:           func(f func()) bool { return d.serving.Load().beside(f) },
		TTL:          s.Panel.SessionTTL,
		BackupTTL:    s.Backups.TTL,
		FirstRAM:     capacity,
		Insecure:     s.Panel.Insecure,
		Exposed:      s.Exposure(),
		Sites:        s.SitesDomain(),
		MaxUpload:    s.Upload.Max.Bytes() + multipartRoom,
		MaxFile:      s.Upload.Max.Bytes(),
		BaseURL:      s.BaseURL,
		Trusted:      s.TrustedProxies(),
		Version:      settings.Version(),
		Log:          d.log,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ofAPI(r.URL.Path) {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// apiConfig gives the API its services and what the settings say.
func (d *daemon) apiConfig(services app.Services) httpapi.Config {
	s := d.settings
	return httpapi.Config{
		Services:     services,
		BackupOf:     files.BackupOf,
		Certificates: d.sites.certificate,
		Account:      d.data.db.Accounts.Find,
		Host:         d.describe,
		RateLimit:    s.RateLimit,
		BaseURL:      s.BaseURL,
		MaxUpload:    s.Upload.Max.Bytes() + multipartRoom,
		MaxFile:      s.Upload.Max.Bytes(),
		MaxSocket:    s.Upload.MaxSocket.Bytes(),
		Version:      settings.Version(),
		Log:          d.log,
		Now:          time.Now,
	}
}

// multipartRoom is what the body of an upload may have around the ZIP.
const multipartRoom = 64 << 10

// examined is what berth doctor says, for the panel. The doctor removes the groups
// that it has used once they are empty, and within a unit of systemd some of them are
// the daemon's: a group of the daemon's own keeps them.
func (d *daemon) examined(ctx context.Context) []app.Finding {
	if group, err := d.groups.Create("apps/examined/1", cgroup.Limits{Memory: 32 << 20, Weight: 32}); err == nil {
		defer func() { _ = group.Remove() }() // it is empty
	}
	return d.examine(ctx, d.settings)
}

// ofAPI reports whether a path is the API's, which answers in JSON even where
// there is nothing. "*" is what OPTIONS asks of a whole server.
func ofAPI(path string) bool {
	for _, root := range []string{"/v2", "/d"} {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return !strings.HasPrefix(path, "/")
}

// serveBaseURL serves what comes for the host of base_url with own, and everything else
// as a site: at the edge, 443 is the sites' listener too.
func serveBaseURL(s settings.Settings, own, sites http.Handler) http.Handler {
	u, err := url.Parse(s.BaseURL)
	if err != nil || u.Hostname() == "" {
		return sites
	}
	home := strings.ToLower(u.Hostname())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		if strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), ".")) == home {
			own.ServeHTTP(w, r)
			return
		}
		sites.ServeHTTP(w, r)
	})
}

// redirectToBaseURL leads those who come over HTTP to base_url. The query stays, and so does
// the method; what they have sent was readable already.
func redirectToBaseURL(s settings.Settings) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", s.BaseURL+r.URL.RequestURI())
		w.Header().Set("Connection", "close") // the next one goes elsewhere
		w.WriteHeader(http.StatusPermanentRedirect)
	})
}
