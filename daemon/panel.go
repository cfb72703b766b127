package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/daemon/settings"
	"berth/files"
	"berth/host"
	"berth/host/account"
	"berth/host/domain"
	"berth/host/watch"
	"berth/httpapi"
	"berth/proc/logs"
	"berth/web/panel"
)

// front returns the handler of the daemon's listener: the API, and the panel for
// everything that is not the API's.
func (d *daemon) front(api http.Handler, teams *account.Teams, names *domain.Service, links *account.Links, key []byte, room app.MB) http.Handler {
	s := d.settings
	if !s.Panel.Enabled {
		return api
	}
	signIns := account.NewSignIns(d.db, d.db, s.Panel.SessionTTL, key)
	pages := panel.New(panel.Config{
		SignIns:     signIns,
		Passwords:   signIns,
		Tokens:      account.NewTokens(d.db),
		Accounts:    account.New(d.db),
		Catalog:     d.host,
		Control:     d.host,
		Memberships: teams,
		Audit:       d.audit,
		Memory:      d.host,
		History:     d.host,
		Chronicle:   d.host,
		Metrics:     figures{d.host, d.history},
		Logs:        printed{d.logs},
		Feed:        viewing{d.hub},
		People:      d.db,
		Trail:       d.db,
		Settings:    d.host,
		Teams:       teams,
		Environment: d.host,
		Deployer:    d.host,
		BuildLog:    d.logs,
		Domains:     names,
		Backups:     backups{d.host, d.trees, links, s.Backups.TTL},
		Files:       contents{d.host, d.trees},
		Keeper:      account.NewKeeper(d.db, signIns),
		Changes:     d.changes,
		Examine:     d.examined,
		Go:          d.beside,
		Status:      httpapi.StatusOf,
		TTL:         s.Panel.SessionTTL,
		FirstRAM:    room,
		Insecure:    s.Panel.Insecure,
		Sites:       s.SitesDomain(),
		MaxUpload:   s.Upload.Max.Bytes() + multipartRoom,
		MaxFile:     s.Upload.Max.Bytes(),
		BaseURL:     s.BaseURL,
		Trusted:     s.TrustedProxies(),
		Version:     settings.Version(),
		Log:         d.log,
		Now:         time.Now,
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
type printed struct{ *logs.Book }

// Open implements panel.Logs.
func (p printed) Open(id app.ID, build bool) (io.ReadCloser, error) { return p.Whole(id, build) }

// FollowBuild implements httpapi.Builds.
func (p printed) FollowBuild(id app.ID) (httpapi.Follower, error) {
	f, err := p.Book.FollowBuild(id)
	if err != nil { // not a nil pointer in an interface
		return nil, err
	}
	return unstamped{f}, nil
}

// unstamped shows a log as its program printed it.
type unstamped struct{ *logs.Follower }

// Take implements httpapi.Follower.
func (u unstamped) Take() string { return logs.Unstamped(u.Follower.Take()) }

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

// backups implements panel.Backups.
type backups struct {
	*host.Host
	trees *files.Store
	*account.Links
	ttl time.Duration
}

// Backups returns those of an application that can be downloaded.
func (b backups) Backups(owner app.AccountID, id app.ID) ([]app.Backup, error) {
	if _, err := b.App(owner, id); err != nil {
		return nil, err
	}
	all, err := b.trees.Backups(id, b.ttl)
	now := time.Now()
	return slices.DeleteFunc(all, func(b app.Backup) bool { return !b.Expires.After(now) }), err
}

// OpenBackup opens one by its file.
func (b backups) OpenBackup(file string) (io.ReadCloser, error) {
	f, err := b.trees.OpenBackup(file)
	if err != nil { // not a nil pointer in an interface
		return nil, err
	}
	return f, nil
}

// contents implements panel.Files. The uid is never another application's soon, so
// that what was deleted meanwhile shows nothing of what has its name now.
type contents struct {
	*host.Host
	trees *files.Store
}

// List returns what is in a directory.
func (f contents) List(owner app.AccountID, id app.ID, path string) ([]app.Entry, bool, error) {
	a, err := f.App(owner, id)
	if err != nil {
		return nil, false, err
	}
	return f.trees.List(id, a.UID, path)
}

// OpenFile opens a file.
func (f contents) OpenFile(owner app.AccountID, id app.ID, path string) (io.ReadCloser, int64, error) {
	a, err := f.App(owner, id)
	if err != nil {
		return nil, 0, err
	}
	file, size, err := f.trees.OpenFile(id, a.UID, path)
	if err != nil { // not a nil pointer in an interface
		return nil, 0, err
	}
	return file, size, nil
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
