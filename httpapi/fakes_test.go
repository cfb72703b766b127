package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

const (
	goodToken = "good-token"
	offToken  = "token-of-a-disabled-account"
)

var testNow = time.Date(2026, time.November, 20, 9, 31, 2, 123e6, time.UTC)

// world implements every service in memory. A test sets its fields before the
// first request; fail makes a method return an error, by its name alone or by
// its name and an ID ("Start bot-one").
type world struct {
	app.Applications // with app.Settings and app.Contents: what the API never asks for
	app.Settings
	app.Contents

	tb        testing.TB
	account   app.Account
	apps      []app.Snapshot
	usage     map[app.ID]app.Status
	terminals map[app.ID]app.Terminal
	deployed  app.Deployed
	fileName  string // of the last upload
	variables []app.Variable
	changed   map[string]*string
	wishes    app.Wishes
	shell     app.Shell
	exec      app.ExecService
	typed     []string          // lines for programs
	backups   map[string]string // file name to path on disk
	logText   io.Reader
	names     app.NameList // beside the subdomains of sites
	fail      map[string]error
	ends      map[app.ID]*app.Exit // of what is started
	team      team
	bounds    *app.Bounds  // of the good token
	created   bool         // what Create says
	link      string       // what Link returns
	noBackup  bool         // the host has none
	off       *app.Account // of the token that is refused; nil is a disabled one
	tokens    []app.Token
	channels  []app.Channel
	sent      []app.Channel // to AddChannel and SetChannel

	deliveries []app.Delivery
	feed       chan []app.Event                       // of streams; they end when it is closed
	watched    app.Watch                              // the last
	before     func(ctx context.Context, call string) // called first by the slow methods
	config     Config
	owner      http.Handler // of the last handler

	mu       sync.Mutex
	now      time.Time
	calls    []string
	spooled  map[string]string // file to content
	handed   []string
	sessions int // that have ended
	dropped  []string
}

func newWorld(tb testing.TB) *world {
	return &world{
		tb:        tb,
		apps:      []app.Snapshot{bot("bot-one")},
		account:   app.Account{ID: 7, Name: "ada", TotalRAM: 1024, Plan: "Diamond", Locale: "en-US"},
		usage:     map[app.ID]app.Status{},
		terminals: map[app.ID]app.Terminal{},
		backups:   map[string]string{},
		fail:      map[string]error{},
		spooled:   map[string]string{},
		now:       testNow,
	}
}

// handler returns the API around the world.
func (w *world) handler() http.Handler {
	c := w.config
	c.Accounts, c.Links, c.Applications, c.Settings = w, w, w, w
	c.Deployments, c.Contents, c.Teams, c.Feed, c.Names = w, w, w, w, w
	c.Tokens = worldTokens{w}
	c.Notices = worldNotices{w}
	if !w.noBackup {
		c.Snapshots = worldSnapshots{w}
	}
	c.HostAccounts = worldHosted{w}
	c.Metrics, c.BackupOf, c.Exec, c.Type = w.metrics, w.BackupOf, w.exec, w.sendLine
	c.RightSize, c.RAMPlan = w.rightSize, w.ramPlan
	c.Address = func(id app.ID) app.SiteAddress {
		if id == "lost" {
			return app.SiteAddress{Why: app.Textf("this host serves no sites: its administrator sets proxy.mode and proxy.domain, or leads another web server to the program, at 127.0.0.1 and its PORT")}
		}
		return app.SiteAddress{URLs: []string{"https://" + string(id) + ".apps.example.org", "https://www.example.org"}}
	}
	if c.Logs == nil {
		c.Logs = noLogs{}
	}
	c.Now = w.clock
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	public, owner := New(c)
	w.owner = owner
	return public
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// call records one call and returns the error it should have.
func (w *world) call(method string, args ...any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSuffix(fmt.Sprintln(append([]any{method}, args...)...), "\n")
	w.calls = append(w.calls, text)
	if err := w.fail[text]; err != nil {
		return err
	}
	return w.fail[method]
}

func (w *world) called(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, c := range w.calls {
		if c == method || strings.HasPrefix(c, method+" ") {
			n++
		}
	}
	return n
}

func (w *world) pause(ctx context.Context, call string) {
	if w.before != nil {
		w.before(ctx, call)
	}
}

func (w *world) Authenticate(_ context.Context, token string) (app.Account, app.Token, error) {
	if err := w.call("Authenticate"); err != nil {
		return app.Account{}, app.Token{}, err
	}
	switch token {
	case goodToken:
		return w.account, app.Token{ID: 3, Account: w.account.ID, Label: "laptop", Bounds: w.bounds}, nil
	case offToken:
		if w.off != nil {
			return *w.off, app.Token{ID: 4, Account: w.off.ID}, w.off.Closed()
		}
		return app.Account{ID: 9, Name: "off", Disabled: true}, app.Token{ID: 4, Account: 9}, app.Errorf(app.Forbidden, "This account is disabled.")
	}
	return app.Account{}, app.Token{}, app.Errorf(app.Unauthorized, "The API token is not valid.")
}

func (w *world) SetLocale(_ context.Context, _ app.AccountID, locale string) error {
	if !slices.Contains(app.Locales, locale) {
		return app.Errorf(app.NotFound, "There is no locale %q.", locale)
	}
	return w.call("SetLocale", locale)
}

func (w *world) Sign(l app.Link) string {
	return fmt.Sprintf("%c_%s_%d_%d", l.Kind, l.Object, l.Version, l.Expires.Unix())
}

func (w *world) Verify(token string) (app.Link, error) {
	gone := app.Errorf(app.NotFound, "This link is not valid or has expired.")
	parts := strings.Split(token, "_")
	if len(parts) != 4 || len(parts[0]) != 1 {
		return app.Link{}, gone
	}
	version, err1 := strconv.ParseInt(parts[2], 10, 64)
	expires, err2 := strconv.ParseInt(parts[3], 10, 64)
	if err := errors.Join(err1, err2); err != nil || expires <= w.clock().Unix() {
		return app.Link{}, gone
	}
	return app.Link{Kind: app.LinkKind(parts[0][0]), Object: parts[1], Version: version, Expires: time.Unix(expires, 0)}, nil
}

func (w *world) Apps(owner app.AccountID) []app.Snapshot {
	return slices.DeleteFunc(slices.Clone(w.apps), func(s app.Snapshot) bool { return s.Account != owner })
}

func (w *world) App(owner app.AccountID, id app.ID) (app.Snapshot, error) {
	if err := w.call("App", id); err != nil {
		return app.Snapshot{}, err
	}
	for _, s := range w.apps {
		if s.ID == id && s.Account == owner {
			return s, nil
		}
	}
	return app.Snapshot{}, app.Errorf(app.NotFound, "You have no application with this ID.")
}

func (w *world) Status(_ context.Context, owner app.AccountID, id app.ID) (app.Status, error) {
	if err := w.call("Status", id); err != nil {
		return app.Status{}, err
	}
	s, err := w.App(owner, id)
	st := w.usage[id]
	st.Snapshot = s
	return st, err
}

func (w *world) Terminal(owner app.AccountID, id app.ID) (app.Terminal, error) {
	if err := w.call("Terminal", id); err != nil {
		return app.Terminal{}, err
	}
	_, err := w.App(owner, id)
	return w.terminals[id], err
}

func (w *world) Start(ctx context.Context, owner app.AccountID, id app.ID) (app.Snapshot, error) {
	w.pause(ctx, "Start "+string(id))
	if err := w.call("Start", id); err != nil {
		return app.Snapshot{}, err
	}
	s, err := w.App(owner, id)
	if err == nil && s.Running {
		return s, app.Errorf(app.Already, "Your application is online already.")
	}
	if s.State == app.Stopped {
		s.State, s.Running, s.LastExit = app.Online, true, nil
	}
	return s, err
}

func (w *world) Outcome(ctx context.Context, owner app.AccountID, id app.ID) (app.Snapshot, error) {
	w.pause(ctx, "Outcome "+string(id))
	if err := w.call("Outcome", id); err != nil {
		return app.Snapshot{}, err
	}
	s, err := w.App(owner, id)
	if e := w.ends[id]; e != nil {
		s.State, s.Running, s.LastExit = app.Stopped, false, e
	} else if s.State == app.Stopped {
		s.State, s.Running, s.LastExit = app.Online, true, nil
	}
	return s, err
}

func (w *world) Restart(ctx context.Context, owner app.AccountID, id app.ID) error {
	return w.whenOnline(ctx, "Restart", owner, id)
}

func (w *world) Stop(ctx context.Context, owner app.AccountID, id app.ID) error {
	return w.whenOnline(ctx, "Stop", owner, id)
}

func (w *world) whenOnline(ctx context.Context, method string, owner app.AccountID, id app.ID) error {
	w.pause(ctx, method+" "+string(id))
	if err := w.call(method, id); err != nil {
		return err
	}
	s, err := w.App(owner, id)
	if err == nil && !s.Running {
		return app.Errorf(app.Already, "Your application is offline.")
	}
	return err
}

func (w *world) SetRAM(_ context.Context, owner app.AccountID, id app.ID, ram app.MB) error {
	return w.change(w.call("SetRAM", id, ram), owner, id)
}

func (w *world) SetProfile(_ context.Context, owner app.AccountID, id app.ID, p app.Profile) error {
	show := func(s *string) string {
		if s == nil {
			return "-"
		}
		return strconv.Quote(*s)
	}
	return w.change(w.call("SetProfile", id, show(p.Name), show(p.AvatarURL)), owner, id)
}

func (w *world) Delete(_ context.Context, owner app.AccountID, id app.ID) error {
	return w.change(w.call("Delete", id), owner, id)
}

func (w *world) change(err error, owner app.AccountID, id app.ID) error {
	if err != nil {
		return err
	}
	_, err = w.App(owner, id)
	return err
}

func (w *world) Spool(_ context.Context, r io.Reader) (string, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return "", fmt.Errorf("cannot spool: %w", err)
	}
	if err := w.call("Spool"); err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	file := fmt.Sprintf("spool-%d", len(w.spooled)+1)
	w.spooled[file] = string(text)
	return file, nil
}

func (w *world) DropSpool(file string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropped = append(w.dropped, file)
}

func (w *world) hand(file string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handed = append(w.handed, file)
}

func (w *world) Draft(context.Context, app.Account, string, app.ConfigField) (app.Draft, error) {
	panic("the API asks for no draft")
}

func (w *world) Upload(ctx context.Context, _ app.Account, file string) (app.Deployed, error) {
	w.hand(file)
	w.pause(ctx, "Upload")
	w.mu.Lock()
	w.fileName = app.FileNameOf(ctx)
	w.mu.Unlock()
	if app.WantedOf(ctx) == app.WantStopped {
		_ = w.call("Stopped")
	}
	return w.deployed, w.call("Upload")
}

func (w *world) Backup(_ context.Context, owner app.AccountID, id app.ID, withVariables bool) (app.Backup, error) {
	if withVariables {
		_ = w.call("BackupOfVariables", id)
	}
	if err := w.call("Backup", id); err != nil {
		return app.Backup{}, err
	}
	_, err := w.App(owner, id)
	return app.Backup{App: id, File: "f8-" + string(id), Expires: w.clock().Add(time.Hour)}, err
}

// Backups are those that addBackup has made, of bot-one.
func (w *world) Backups(id app.ID, ttl time.Duration) (list []app.Backup, err error) {
	for file, path := range w.backups {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		list = append(list, app.Backup{App: id, File: file, Bytes: info.Size(), Expires: testNow.Add(ttl)})
	}
	return list, w.call("Backups", id)
}

func (w *world) OpenBackup(file string) (io.ReadSeekCloser, time.Time, error) {
	if err := w.call("OpenBackup", file); err != nil {
		return nil, time.Time{}, err
	}
	path, there := w.backups[file]
	if !there {
		return nil, time.Time{}, app.Errorf(app.NotFound, "This backup has expired.")
	}
	f, err := os.Open(path)
	return f, testNow, err
}

// noLogs are logs of nothing.
type noLogs struct{ app.Logs }

func (noLogs) FollowBuild(app.ID) (app.Follower, error) { return nil, errors.New("there is no log") }

func (w *world) OpenLog(id app.ID, version int64) (io.ReadCloser, error) {
	if err := w.call("OpenLog", id); err != nil {
		return nil, err
	}
	for _, s := range w.apps {
		if s.ID == id && int64(s.UID) == version {
			return io.NopCloser(w.logText), nil
		}
	}
	return nil, app.Errorf(app.NotFound, "This log is gone.")
}

// addBackup puts a backup of bot-one on disk and returns the path of its download.
func (w *world) addBackup(content string) string {
	const id = "bot-one"
	w.tb.Helper()
	file := "f8-" + id
	path := filepath.Join(w.tb.TempDir(), file)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.tb.Fatal(err)
	}
	if err := os.Chtimes(path, testNow, testNow); err != nil {
		w.tb.Fatal(err)
	}
	w.backups[file] = path
	link := app.Link{Kind: app.LinkBackup, Object: file, Expires: w.clock().Add(time.Hour)}
	return "/d/" + w.Sign(link) + "/" + id + ".zip"
}
