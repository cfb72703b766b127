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
	"berth/host/account"
	"berth/httpapi"
	"berth/web/panel"
)

// front returns the handler of the daemon's listener: the API, and the panel for
// everything that is not the API's.
func (d *daemon) front(services app.Services, key []byte, room app.MB) http.Handler {
	api := httpapi.New(d.apiConfig(services))
	s := d.settings
	if !s.Panel.Enabled {
		return api
	}
	signIns := account.NewSignIns(d.db, s.Panel.SessionTTL, key)
	pages := panel.New(panel.Config{
		Services:     services,
		SignIns:      signIns,
		Tokens:       account.NewTokens(d.db),
		Admin:        account.NewAdmin(d.db, signIns),
		Account:      d.db.Account,
		AuditRecords: d.db.AuditRecords,
		Examine:      d.examined,
		Go:           d.beside,
		Status:       httpapi.StatusOf,
		TTL:          s.Panel.SessionTTL,
		BackupTTL:    s.Backups.TTL,
		FirstRAM:     room,
		Insecure:     s.Panel.Insecure,
		Sites:        s.SitesDomain(),
		MaxUpload:    s.Upload.Max.Bytes() + multipartRoom,
		MaxFile:      s.Upload.Max.Bytes(),
		BaseURL:      s.BaseURL,
		Trusted:      s.TrustedProxies(),
		Version:      settings.Version(),
		Log:          d.log,
		Now:          time.Now,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ofAPI(r.URL.Path) {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// beside runs f beside the request that asks for it, as if it were one itself: an
// upgrade waits for it, and so does the end.
func (d *daemon) beside(f func()) bool {
	v := d.serving.Load()
	if v == nil {
		return false
	}
	leave, ok := v.handlers.Join()
	if !ok {
		return false
	}
	go func() {
		defer leave()
		f()
	}()
	return true
}

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

// atHome serves what comes for the host of base_url with own, and everything else
// as a site: at the edge, 443 is the sites' listener too.
func atHome(s settings.Settings, own, sites http.Handler) http.Handler {
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

// homeward leads those who come over HTTP to base_url. The query stays, and so does
// the method; what they have sent was readable already.
func homeward(s settings.Settings) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", s.BaseURL+r.URL.RequestURI())
		w.Header().Set("Connection", "close") // the next one goes elsewhere
		w.WriteHeader(http.StatusPermanentRedirect)
	})
}
