package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth/account"
	"berth/app"
	"berth/httpapi"
	"berth/panel"
	"berth/watch"
)

// front returns the handler of the daemon's listener: the API, and the panel for
// everything that is not the API's.
func (d *daemon) front(api http.Handler, teams *account.Teams, first app.MB) http.Handler {
	s := d.settings
	if !s.Panel.Enabled {
		return api
	}
	signIns := account.NewSignIns(d.db, d.db, s.Panel.SessionTTL)
	pages := panel.New(panel.Config{
		SignIns: signIns, Passwords: signIns, Tokens: account.NewTokens(d.db), Accounts: account.New(d.db),
		Catalog: d.host, Control: d.host, Memberships: teams, Audit: d.audit,
		Memory: d.host, History: d.host, Chronicle: d.host, Metrics: figures{d.host, d.history}, Logs: printed{d.logs},
		Feed: viewing{d.hub}, People: d.db, Trail: d.db,
		Status: httpapi.StatusOf, TTL: s.Panel.SessionTTL, FirstRAM: first, Insecure: s.Panel.Insecure,
		BaseURL: s.BaseURL, Trusted: s.trusted(), Version: buildVersion(), Log: d.log, Now: time.Now,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ofAPI(r.URL.Path) {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// viewing is the hub as the panel sees it.
type viewing struct{ *watch.Hub }

// Watch implements panel.Feed.
func (v viewing) Watch(ctx context.Context, w app.Watch) (panel.Stream, error) {
	s, err := v.Hub.Watch(ctx, w)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// printed is the logs of applications as the panel sees them.
type printed struct{ *logbook }

// Open implements panel.Logs.
func (p printed) Open(id app.ID, build bool) (io.ReadCloser, error) { return p.whole(id, build) }

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
func (s Settings) atHome(own, sites http.Handler) http.Handler {
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
func (s Settings) homeward() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", s.BaseURL+r.URL.RequestURI())
		w.Header().Set("Connection", "close") // the next one goes elsewhere
		w.WriteHeader(http.StatusPermanentRedirect)
	})
}
