package daemon

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth/app"
	"berth/app/build"
	"berth/app/exit"
	"berth/cgroup"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/host/account"
	"berth/httpapi"
	"berth/web"
	"berth/web/panel"
	"berth/web/provider"
)

// readProviders reads what the settings name for sign-ins by providers.
func readProviders(s settings.Settings) ([]provider.Config, error) {
	all, err := s.Providers()
	if err != nil {
		return nil, exit.NewProblem(exit.Config, err, "")
	}
	return all, nil
}

// newHandler returns the handler of the daemon's listener: the API, and the panel for
// everything that is not the API's. It also makes that of the local socket.
func (d *daemon) newHandler(services app.Services, key []byte) http.Handler {
	s, config := d.settings, d.apiConfig(services)
	devices := account.NewDevices(account.New(d.data.db.Accounts), d.data.db.Accounts.Account)
	admin := account.NewAdmin(d.data.db.Accounts, d.host)
	signIns := account.NewSignIns(d.data.db.SignIns, s.Panel.SessionTTL, key)
	signIns.KnownPassword = s.KnownPassword
	signIns.SignUp = account.SignUp{RAM: s.SignIn.SignUpRAM, Capacity: d.capacity}
	config.DeleteAccount = admin.Delete
	var links *account.SignIns
	if s.Panel.Enabled { // where codes are typed, and links are opened
		config.Devices, links = devices, signIns
	}
	config.HostAccounts = account.NewBilling(struct {
		db.HostTokens
		db.Accounts
	}{d.data.db.HostTokens, d.data.db.Accounts}, admin, links)
	api, owner := httpapi.New(config)
	d.owner = owner
	if !s.Panel.Enabled {
		return strict(s, api)
	}
	pages := panel.New(panel.Config{
		Services:     services,
		SignIns:      signIns,
		Factors:      signIns,
		Passkeys:     signIns,
		Identities:   signIns,
		NewSignIns:   d.data.db.SignIns,
		Devices:      devices,
		Invitations:  account.NewInvitations(d.data.db.Invitations, signIns, d.capacity),
		Providers:    provider.New(s.BaseURL, d.providers),
		Admin:        admin,
		Account:      d.data.db.Accounts.Account,
		AuditRecords: d.data.db.Audit.Records,
		Examine:      d.examined,
		Held:         d.host.Held,
		Runtimes:     func() []app.Runtime { return installedRuntimes(s.DataDir) },
		Go:           func(f func()) bool { return d.serving.Load().beside(f) },
		TTL:          s.Panel.SessionTTL,
		BackupTTL:    s.Backups.TTL,
		FirstRAM:     d.capacity(),
		Insecure:     s.Panel.Insecure,
		Exposed:      s.Exposure(),
		Sites:        s.SitesDomain(),
		MaxUpload:    s.Upload.Max.Bytes() + multipartRoom,
		MaxFile:      s.Upload.Max.Bytes(),
		BaseURL:      s.BaseURL,
		Trusted:      s.TrustedProxies(),
		Version:      build.Version(),
		Log:          d.log,
	})
	return strict(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ofAPI(r.URL.Path) {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	}))
}

// strict makes browsers keep to HTTPS for the name of base_url (RFC 6797), and for no name below
// it: those are anybody's. With another port than HTTPS's own the name may have an HTTP server
// beside berth, which its browsers would no longer find.
func strict(s settings.Settings, next http.Handler) http.Handler {
	u, err := url.Parse(s.BaseURL)
	if err != nil || u.Scheme != "https" || u.Port() != "" || s.HomeDomain() == "" || s.Panel.Insecure {
		return next
	}
	trusted := web.Networks(s.TrustedProxies())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if trusted.Encrypted(r) {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// apiConfig gives the API its services and what the settings say.
func (d *daemon) apiConfig(services app.Services) httpapi.Config {
	s := d.settings
	return httpapi.Config{
		Services: services,
		BackupOf: files.BackupOf,
		Account:  d.data.db.Accounts.Find,
		Host:     d.describe,

		AccountChanged: d.host.AccountChanged,
		HoldChanged:    d.host.HoldChanged,
		Trusted:        s.TrustedProxies(),
		RateLimit:      s.RateLimit,
		BaseURL:        s.BaseURL,
		BackupTTL:      s.Backups.TTL,
		MaxUpload:      s.Upload.Max.Bytes() + multipartRoom,
		MaxFile:        s.Upload.Max.Bytes(),
		MaxSocket:      s.Upload.MaxSocket.Bytes(),
		Version:        build.Version(),
		Log:            d.log,
		Now:            time.Now,
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
		if rest, ok := strings.CutPrefix("/"+strings.TrimLeft(path, "/"), root); ok && (rest == "" || rest[0] == '/') {
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

// redirectToBaseURL leads browsers that come over HTTP to base_url. The query stays, and so does
// the method; what they have sent was readable already. Clients of the API are refused.
func redirectToBaseURL(s settings.Settings) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ofAPI(r.URL.Path) {
			httpapi.RefuseHTTP(w, r)
			return
		}
		w.Header().Set("Location", s.BaseURL+r.URL.RequestURI())
		w.Header().Set("Connection", "close") // the next one goes elsewhere
		w.WriteHeader(http.StatusPermanentRedirect)
	})
}
