package notify

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/db"
	"berth/test/database"
)

// world is a notifier in virtual time: with a real database, and services that answer as they are told.
type world struct {
	t     *testing.T
	db    *db.DB
	n     *Notifier
	owner app.Account
	stop  func()

	mu       sync.Mutex
	apps     map[app.ID]app.Snapshot
	log      string
	secrets  []app.Variable
	got      []app.Message
	at       []time.Time
	channels []int64 // of got
	answer   func(c app.Channel, m app.Message) app.Receipt
	noMail   bool
	runs     int
}

// inWorld runs f beside a notifier that runs.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	file := database.Path(t)
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, apps: map[app.ID]app.Snapshot{}, answer: func(app.Channel, app.Message) app.Receipt { return app.Receipt{Status: 204} }}
		store, err := db.Open(t.Context(), file, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		w.db = store
		defer func() { _ = store.Close() }()
		w.owner, err = store.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 10000, Locale: "en-US", Admin: true})
		if err != nil {
			t.Fatal(err)
		}
		w.run()
		defer func() { w.stop() }()
		f(t, w)
	})
}

// run starts a notifier, as a daemon does.
func (w *world) run() {
	w.n = New(Config{
		Store: w.db.Notices, Sender: w, App: w.app, Tail: func(app.ID, bool, int) string { return w.log },
		Variables: func(context.Context, app.ID) ([]app.Variable, error) { return w.secrets, nil },
		RightSize: func(_ context.Context, a app.Snapshot) (app.RightSize, error) {
			return app.RightSize{RAM: a.RAM, Fit: a.RAM + 32, Why: app.Textf("It needs more.")}, nil
		},
		BaseURL: "https://berth.example.org", Log: slog.New(slog.DiscardHandler),
	})
	w.db.Notices.Noticed(w.n.Wake)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.n.Run(ctx) }()
	w.stop = func() { cancel(); <-ended }
}

func (w *world) app(_ app.AccountID, id app.ID) (app.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.apps[id]
	if !ok {
		return s, app.Errorf(app.NotFound, "no such application")
	}
	return s, nil
}

func (w *world) Send(_ context.Context, c app.Channel, m app.Message) app.Receipt {
	w.mu.Lock()
	answer := w.answer
	w.mu.Unlock()
	r := answer(c, m)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got, w.at, w.channels = append(w.got, m), append(w.at, time.Now()), append(w.channels, c.ID)
	return r
}

func (w *world) Check(c app.Channel) error {
	if c.Service == app.Email && w.noMail {
		return app.Errorf(app.Unusable, "this host sends no mail")
	}
	if !strings.HasPrefix(c.Target, "https://") && c.Service != app.Email {
		return app.Errorf(app.Invalid, "no address")
	}
	return nil
}

func (w *world) Mask(c app.Channel) string { return c.Target[:min(len(c.Target), 9)] + "…" }

// set changes what is known of an application.
func (w *world) set(id app.ID, change func(*app.Snapshot)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.apps[id]
	change(&s)
	w.apps[id] = s
}

// bot makes an application that runs.
func (w *world) bot(id app.ID) app.ID {
	w.t.Helper()
	a := app.App{ID: id, Account: w.owner.ID, Name: string(id), RAM: 64, Wanted: app.WantOnline, AutoRestart: true, CreatedAt: time.Now()}
	a, err := w.db.Allocations(db.IDRange{UIDBase: 70000, UIDCount: 1000, PortFirst: 20000, PortLast: 20999}).Reserve(w.t.Context(), a, func(app.Account, app.Use) error { return nil })
	if err != nil {
		w.t.Fatal(err)
	}
	if a, err = w.db.Apps.CreateApp(w.t.Context(), a, app.Deploy{Kind: app.DeployUpload}); err != nil {
		w.t.Fatal(err)
	}
	a.StartedAt = time.Now()
	w.set(id, func(s *app.Snapshot) { s.App, s.State, s.Running = a, app.Online, true })
	return id
}

func (w *world) channel(change func(*app.Channel)) app.Channel {
	w.t.Helper()
	c := app.Channel{Account: w.owner.ID, Name: "ops", Service: app.Webhook, Target: "https://hooks.example.org/x", Lang: app.Locales[0]}
	if change != nil {
		change(&c)
	}
	c, err := w.n.AddChannel(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// crash stores that a program has ended with code 1, and that it runs again.
func (w *world) crash(id app.ID, change ...func(*app.Exit)) {
	w.t.Helper()
	now := time.Now()
	w.runs++
	e := app.Exit{Run: w.runs, At: now, Ran: 3 * time.Second, Code: 1, LimitMB: 64, PeakBytes: 20 << 20}
	for _, f := range change {
		f(&e)
	}
	if err := w.db.Apps.RunEnded(w.t.Context(), id, e); err != nil {
		w.t.Fatal(err)
	}
	w.set(id, func(s *app.Snapshot) { s.StartedAt = now })
}

// after lets so much time go by and returns what was sent in it.
func (w *world) after(d time.Duration) []app.Message {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.got
	w.got, w.at, w.channels = nil, nil, nil
	return got
}

func (w *world) deliveries(c app.Channel) []app.Delivery {
	w.t.Helper()
	all, err := w.n.Deliveries(w.t.Context(), w.owner.ID, c.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func titles(all []app.Message) string {
	var list []string
	for _, m := range all {
		list = append(list, m.Title)
	}
	return strings.Join(list, " | ")
}

func words(m app.Message) string {
	return strings.Join(slices.Concat([]string{m.Title}, m.Lines, []string{m.Excerpt, m.Link}), "\n")
}

func wantKind(t *testing.T, what string, err error, want app.Kind) {
	t.Helper()
	if app.KindOf(err) != want || err == nil {
		t.Errorf("%s: %v", what, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
