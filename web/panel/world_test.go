package panel

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"

	"berth/app"
	"berth/db"
	"berth/host/account"
	"berth/host/sizing"
	"berth/host/watch"
	"berth/host/watch/metrics"
	"berth/test/database"
)

// world is a panel over a real database, with applications that only look so.
type world struct {
	t       testing.TB
	db      *db.DB
	file    string // of db
	signIns *account.SignIns
	devices *account.Devices
	handler http.Handler
	config  Config
	host    *apps
	acts    *acts
	hub     *watch.Hub
	notices *fakeNotices
	backups *fakeBackups
	knobs   *fakeSettings
	past    *metrics.Store
	logs    *fakeLogs
	ana     app.Account
	bob     app.Account
	plan    app.RAMPlan
	work    sync.WaitGroup // of jobs
	ending  bool           // no job begins any more
}

const password = "correct horse"

func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	file := database.Path(t)
	store, err := db.Open(t.Context(), file, time.Now)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	past, err := metrics.Open(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, past.Close()) })
	w := &world{t: t, db: store, file: file, past: past, host: newApps(), acts: &acts{}, notices: &fakeNotices{}}
	w.backups = &fakeBackups{host: w.host}
	w.knobs = &fakeSettings{all: []app.HostSetting{
		{Key: "rate_limit", Value: "60", Default: "60", Help: "requests"},
		{Key: "apps.disk", Section: "apps", Value: "2048", Default: "2048", Help: "disk of <b>", Waits: true},
		{Key: "apps.oom_group", Section: "apps", Value: "true", Default: "true", Help: "all of them", Toggle: true},
		{Key: "apps.pids_max", Section: "apps", Value: "64", Default: "256", Help: "processes", Fixed: "/etc/berth/berth.toml line 3"},
	}}
	w.logs = newFakeLogs(t, w.host)
	teams := account.NewTeams(store.Teams)
	w.hub = watch.NewHub(watch.Access{Find: w.host.Find, Authorize: teams.Authorize, Memberships: teams.Memberships}, w.logs)
	t.Cleanup(w.work.Wait)
	w.signIns = account.NewSignIns(store.SignIns, time.Hour, []byte("key"))
	w.ana, w.bob = w.person("ana"), w.person("bob")
	w.devices = account.NewDevices(account.New(store.Accounts), store.Accounts.Account)
	w.config = Config{
		Services: app.Services{
			Applications: records{w.host, w}, Settings: w.host, FileEdits: w.host, Deployments: records{w.host, w}, Contents: w.host, Logs: w.logs, Feed: w.hub,
			Accounts: account.New(store.Accounts), Tokens: account.New(store.Accounts), Links: w.host, Teams: teams, Names: w.host, Notices: w.notices, Snapshots: w.host, HostBackups: w.backups, HostSettings: w.knobs, Icons: fakeIcons{store.Icons}, Metrics: past.Range, Record: w.acts.Record,
			Type: func(_ context.Context, _ app.AccountID, id app.ID, line string) error {
				return w.host.act("line "+line+" to", id)
			},
			Address: addressOf, RightSize: func(ctx context.Context, a app.Snapshot) (app.RightSize, error) { return w.rightSize(ctx, a) },
			Shortage: func() app.Shortage { return app.Shortage{} },
			RAMPlan:  func(context.Context) (app.RAMPlan, error) { return w.plan, nil },
			DiskUse: func(context.Context, app.AccountID) (app.DiskUse, error) {
				return app.DiskUse{Files: map[app.ID]int64{"bot": 40 << 20}, Backups: 1, BackupBytes: 2 << 20}, nil
			},
		},
		SignIns: w.signIns, Factors: w.signIns, Passkeys: w.signIns, Identities: w.signIns, NewSignIns: store.SignIns, Devices: w.devices, Invitations: account.NewInvitations(store.Invitations, w.signIns, func() app.MB { return 8192 }),
		Admin:   account.NewAdmin(store.Accounts, stillPrograms{}),
		Account: store.Accounts.Account, AuditRecords: store.Audit.Records,
		Runtimes: func() []app.Runtime {
			return []app.Runtime{{Title: "Node.js", Version: "22.11.0", At: time.Now().Add(-time.Hour)}, {Title: "Deno", Version: "2.1.4"}}
		},
		Examine: func(context.Context) []app.Finding {
			return []app.Finding{
				{Name: "limit", Verdict: "ok", Text: "enforced"},
				{Name: "php", Verdict: "none", Text: "not found", Fix: "apt install php-cli"},
				{Name: "disk", Verdict: "FAIL", Text: "full <b>", Fix: "rm"},
			}
		},
		Go: w.beside, Sites: "apps.example.org", MaxUpload: 1<<20 + 4096, MaxFile: 1 << 20,
		TTL: time.Hour, FirstRAM: 512, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}
	for _, c := range change {
		c(&w.config)
	}
	w.handler = New(w.config)
	return w
}

// rightSize is app.Services.RightSize, of the history and the database.
func (w *world) rightSize(ctx context.Context, a app.Snapshot) (app.RightSize, error) {
	now := time.Now()
	points, err := w.past.Range(a.ID, now, now.Add(-sizing.Span), now, sizing.Step)
	must(w.t, err)
	events, err := w.db.History.EventLog(ctx, a.ID)
	return sizing.Right(now, a.App, 32, points, events), err
}

// addressOf is app.Services.Address: a site named lost has none.
func addressOf(id app.ID) app.SiteAddress {
	if id == "lost" {
		return app.SiteAddress{Why: app.Textf("this host serves no sites: its administrator sets proxy.mode and proxy.domain, or leads another web server to the program, at 127.0.0.1 and its PORT")}
	}
	return app.SiteAddress{URLs: []string{"https://" + string(id) + ".apps.example.org", "https://www.example.org"}}
}

// beside is Config.Go.
func (w *world) beside(f func()) bool {
	if !w.ending {
		w.work.Go(f)
	}
	return !w.ending
}

func (w *world) person(name string) app.Account {
	w.t.Helper()
	a, err := account.NewAccount(name, 2048)
	must(w.t, err)
	a, err = w.db.Accounts.CreateAccount(w.t.Context(), a)
	must(w.t, err)
	must(w.t, w.db.SignIns.SetPassword(w.t.Context(), a.ID, remembered, 0))
	return a
}

// remembered is a hash of password that costs next to nothing.
var remembered = func() string {
	salt, text := make([]byte, 16), base64.RawStdEncoding
	return "$argon2id$v=19$m=8,t=1,p=1$" + text.EncodeToString(salt) + "$" + text.EncodeToString(argon2.IDKey([]byte(password), salt, 1, 8, 1, 32))
}()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// acts is an Audit that keeps everything.
type acts struct {
	mu  sync.Mutex
	all []app.AuditRecord
}

func (a *acts) Record(act app.AuditRecord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, act)
}

func (a *acts) last() app.AuditRecord {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return app.AuditRecord{}
	}
	return a.all[len(a.all)-1]
}

func (h *apps) add(owner app.AccountID, id app.ID, change ...func(*app.Snapshot)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := app.Snapshot{App: app.App{ID: id, Account: owner, Name: "The " + string(id), RAM: 100}, State: app.Online, Running: true}
	for _, c := range change {
		c(&s)
	}
	h.all[id] = s
}

func (h *apps) Apps(owner app.AccountID) []app.Snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	var own []app.Snapshot
	for _, s := range h.all {
		if s.Account == owner {
			own = append(own, s)
		}
	}
	return own
}

func (h *apps) App(owner app.AccountID, id app.ID) (app.Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.all[id]; ok && s.Account == owner {
		return s, nil
	}
	return app.Snapshot{}, app.Errorf(app.NotFound, "You have no application with this ID.")
}

func (h *apps) Status(_ context.Context, owner app.AccountID, id app.ID) (app.Status, error) {
	s, err := h.App(owner, id)
	return app.Status{Snapshot: s, Usage: app.Usage{MemoryBytes: 50 << 20, LimitBytes: 100 << 20, CPUPercent: 1.5}}, err
}

func (h *apps) act(what string, id app.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail == nil {
		h.done = append(h.done, what+" "+string(id))
	}
	return h.fail
}

func (h *apps) Start(_ context.Context, _ app.AccountID, id app.ID) (app.Snapshot, error) {
	return app.Snapshot{}, h.act("start", id)
}

func (h *apps) Restart(_ context.Context, _ app.AccountID, id app.ID) error {
	return h.act("restart", id)
}

func (h *apps) Outcome(_ context.Context, owner app.AccountID, id app.ID) (app.Snapshot, error) {
	return h.App(owner, id)
}

func (h *apps) Stop(_ context.Context, _ app.AccountID, id app.ID) error { return h.act("stop", id) }

// browser keeps cookies, and follows nothing.
type browser struct {
	w       *world
	cookies map[string]string
	header  map[string]string
	base    string
	peer    string
}

func (w *world) browser() *browser {
	return &browser{w: w, cookies: map[string]string{}, header: map[string]string{}, base: "http://127.0.0.1:8400", peer: "127.0.0.1:50000"}
}

// page is an answer that was read.
type page struct {
	*http.Response
	body string
}

func (b *browser) ask(method, path string, form url.Values) page {
	r := httptest.NewRequest(method, b.base+path, strings.NewReader(form.Encode()))
	r.RemoteAddr, r.TLS = b.peer, nil
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	return b.do(r)
}

// do sends a request with what the browser adds, and reads the answer.
func (b *browser) do(r *http.Request) page {
	for name, value := range b.header {
		r.Header.Set(name, value)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	rec := httptest.NewRecorder()
	b.w.handler.ServeHTTP(rec, r)
	resp := rec.Result()
	for _, c := range resp.Cookies() {
		if c.Path != "/" || c.Domain != "" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure != strings.HasPrefix(c.Name, "__Host-") {
			b.w.t.Errorf("%s sets the cookie %v", r.URL.Path, c)
		}
		if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := resp.Header.Get(name); !strings.HasPrefix(got, want) {
			b.w.t.Errorf("%s answers with %s %q", r.URL.Path, name, got)
		}
	}
	for name := range resp.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			b.w.t.Errorf("%s answers other origins by %s", r.URL.Path, name)
		}
	}
	body, err := io.ReadAll(resp.Body)
	must(b.w.t, err)
	for name, value := range b.cookies {
		if len(value) > 16 && strings.Contains(string(body), value) { // the colours are words
			b.w.t.Errorf("%s says the cookie %s", r.URL.Path, name)
		}
	}
	return page{resp, string(body)}
}

func (b *browser) get(path string) page { return b.ask(http.MethodGet, path, nil) }

func (b *browser) post(path string, pairs ...string) page {
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return b.ask(http.MethodPost, path, form)
}

// as is a browser in which somebody is signed in.
func (w *world) as(name string) *browser {
	w.t.Helper()
	b := w.browser()
	p := b.post("/login", "name", name, "password", password)
	if p.StatusCode != http.StatusSeeOther {
		w.t.Fatalf("cannot sign in: %d", p.StatusCode)
	}
	return b
}

func (p page) want(t *testing.T, what string, status int, texts ...string) {
	t.Helper()
	if p.StatusCode != status {
		t.Errorf("%s: status %d, want %d", what, p.StatusCode, status)
	}
	for _, text := range texts {
		if !strings.Contains(p.body, text) {
			t.Errorf("%s: the page does not say %q", what, text)
		}
	}
}

// leads fails unless the answer leads to an address, and returns what a browser asks for
// then: the address with the key of what is shown there once.
func (p page) leads(t *testing.T, what, to string) string {
	t.Helper()
	next := p.Header.Get("Location")
	got := onceIn.ReplaceAllString(next, "")
	if p.StatusCode != http.StatusSeeOther || got != to {
		t.Errorf("%s: %d to %q, want %q", what, p.StatusCode, got, to)
	}
	return next
}

// onceIn is the key in an address, which has other parameters before it or none.
var onceIn = regexp.MustCompile(`[?&]once=[A-Z2-7]+$`)

// forgetProof makes it long ago that somebody has proved who they are.
func (w *world) forgetProof(name string) {
	w.t.Helper()
	w.exec("UPDATE session SET proved_at = proved_at - 600000 WHERE account = (SELECT id FROM account WHERE name = ?)", name)
}

// exec changes the database behind the back of everybody.
func (w *world) exec(statement string, args ...any) {
	w.t.Helper()
	file, err := sql.Open("sqlite3", w.file)
	must(w.t, err)
	_, err = file.ExecContext(w.t.Context(), statement, args...)
	must(w.t, errors.Join(err, file.Close()))
}

// stillPrograms are those of an administration: these tests run none.
type stillPrograms struct{}

func (stillPrograms) AccountChanged(context.Context, app.AccountID) error { return nil }
func (stillPrograms) Apps(app.AccountID) []app.Snapshot                   { return nil }
func (stillPrograms) Delete(context.Context, app.AccountID, app.ID) error { return nil }
