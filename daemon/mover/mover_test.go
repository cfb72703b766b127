package mover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/files"
	"berth/test/hosted"
)

// hosts are an old host with the application "shop", and a new one that is empty.
type hosts struct {
	t     *testing.T
	old   *hosted.Directory
	path  string // of the new one's data directory
	keys  []string
	told  []string
	began int // how often the new daemon began anew
	tries int // how often the old one was told to hold
}

func newHosts(t *testing.T) *hosts {
	t.Helper()
	h := &hosts{t: t, old: hosted.New(t)}
	h.path = filepath.Join(filepath.Dir(h.old.Path), "new")
	hosted.Must(t, os.MkdirAll(h.path, 0o711))
	h.with(func(d *db.DB) error { return nil })
	return h
}

// with opens the database of the new host.
func (h *hosts) with(f func(d *db.DB) error) {
	h.t.Helper()
	d, err := h.open(context.Background())
	if err == nil {
		err = errors.Join(f(d), d.Close())
	}
	hosted.Must(h.t, err)
}

func (h *hosts) open(ctx context.Context) (*db.DB, error) {
	return db.Open(ctx, filepath.Join(h.path, Database), time.Now)
}

func (h *hosts) receiver() *Receiver {
	return &Receiver{
		DataDir: h.path, Host: "new", Version: "1.0.0", Arch: runtime.GOARCH, Open: h.open,
		AddKey: func(_ context.Context, _ *db.DB, text string) error {
			h.keys = append(h.keys, text)
			return nil
		},
		Serves: func(context.Context) error { return nil },
		Restart: func(context.Context) error {
			h.began++
			return Settle(h.path, slog.New(slog.DiscardHandler))
		},
		HoldChanged: func(context.Context) error { return nil },
	}
}

func (h *hosts) sender() *Sender {
	return &Sender{
		DB: h.old.DB, Store: h.old.Store, DataDir: h.old.Path, Host: "old", To: "root@new", Version: "1.0.0",
		Settings: filepath.Join(filepath.Dir(h.old.Path), "berth.toml"), Managed: filepath.Join(filepath.Dir(h.old.Path), "none"), Keys: []string{"k1", "k2"},
		Agree: func(Plan) error { return nil },
		Hold: func(ctx context.Context, hold app.Hold) error {
			h.tries++
			return h.old.DB.Holds.SetHold(ctx, hold)
		},
		Tell: func(format string, args ...any) { h.told = append(h.told, fmt.Sprintf(format, args...)) },
		Now:  time.Now,
	}
}

// move moves over a connection that ends after so many bytes to the new host and from it,
// never when they are negative.
func (h *hosts) move(s *Sender, r *Receiver, to, from int) (Report, error) {
	h.t.Helper()
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := r.Serve(context.Background(), far, far)
		_ = far.Close()
		ended <- err
	}()
	report, err := s.Move(h.t.Context(), &fragile{near, to, from})
	_ = near.Close()
	<-ended
	return report, err
}

// fragile is a connection that ends.
type fragile struct {
	net.Conn
	to, from int
}

func (f *fragile) Write(p []byte) (int, error) { return f.limit(&f.to, p, f.Conn.Write) }
func (f *fragile) Read(p []byte) (int, error)  { return f.limit(&f.from, p, f.Conn.Read) }

func (f *fragile) limit(left *int, p []byte, do func([]byte) (int, error)) (int, error) {
	if *left < 0 {
		return do(p)
	}
	if *left == 0 {
		_ = f.Close()
		return 0, io.ErrClosedPipe
	}
	n, err := do(p[:min(len(p), *left)])
	*left -= n
	return n, err
}

// runs says on which hosts programs run.
func (h *hosts) runs() (here, there bool) {
	h.t.Helper()
	_, held, err := h.old.DB.Holds.HoldOf(h.t.Context())
	hosted.Must(h.t, err)
	h.with(func(d *db.DB) error {
		apps, err := d.Apps.Apps(h.t.Context())
		_, heldThere, failed := d.Holds.HoldOf(h.t.Context())
		there = len(apps) > 0 && !heldThere
		return errors.Join(err, failed)
	})
	return !held, there
}

// moved fails unless everything is on the new host and runs there.
func (h *hosts) moved(when string) {
	h.t.Helper()
	here, there := h.runs()
	if here || !there {
		h.t.Fatalf("%s: programs run here %t, there %t", when, here, there)
	}
	for _, name := range []string{"apps", "rollback"} {
		got, want := hosted.Listing(h.t, filepath.Join(h.path, name)), hosted.Listing(h.t, filepath.Join(h.old.Path, name))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			h.t.Errorf("%s, %s:\n got %v\nwant %v", when, name, got, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(h.path, "berth.toml"))
	if err != nil || string(text) != "rate_limit = 77\n" {
		h.t.Errorf("%s: the settings are %q, %v", when, text, err)
	}
	for _, name := range []string{Unfinished, Ready} {
		if _, err := os.Lstat(filepath.Join(h.path, name)); !errors.Is(err, os.ErrNotExist) {
			h.t.Errorf("%s: %s is there: %v", when, name, err)
		}
	}
	staged, err := filepath.Glob(filepath.Join(h.old.Path, "staging", "move-*"))
	if err != nil || len(staged) > 0 {
		h.t.Errorf("%s: left are %v, %v", when, staged, err)
	}
	h.with(func(d *db.DB) error {
		vars, err := d.Apps.Variables(h.t.Context(), "shop")
		if err == nil && (len(vars) != 1 || vars[0].Value != "secret-value") {
			h.t.Errorf("%s: the variables are %v", when, vars)
		}
		return err
	})
}

func TestMove(t *testing.T) {
	h := newHosts(t)
	hosted.Must(t, h.old.Deploy(h.old.Stage(map[string]string{"main": "2", "new": "2"}), "b"))
	h.with(func(d *db.DB) error {
		_, err := d.Accounts.CreateAccount(t.Context(), app.Account{Name: "first", TotalRAM: 100, Plan: "Diamond", Locale: "en-US"})
		return err
	})
	s, held := h.sender(), false
	var plan Plan
	s.Agree = func(p Plan) (err error) {
		plan = p
		_, held, err = h.old.DB.Holds.HoldOf(t.Context())
		return err
	}
	report, err := h.move(s, h.receiver(), -1, -1)
	if err != nil || report.Apps != 1 || report.Copied != 1 || len(report.Missing) > 0 || report.Already || held {
		t.Fatalf("%+v, %v, held at the question: %t", report, err, held)
	}
	if len(plan.Apps) != 1 || plan.Bytes() == 0 || plan.Again || fmt.Sprint(plan.There.Accounts) != "[first]" || plan.There.Free == 0 || plan.There.ArchNote() != "" {
		t.Errorf("the plan is %+v", plan)
	}
	h.moved("afterwards")
	if fmt.Sprint(h.keys) != "[k1 k2]" {
		t.Errorf("the keys are %v", h.keys)
	}
	hold, _, err := h.old.DB.Holds.HoldOf(t.Context())
	if err != nil || hold.Why != app.HoldMoved || hold.Peer != "root@new" {
		t.Errorf("the hold is %+v, %v", hold, err)
	}
	if _, err := os.Lstat(filepath.Join(h.path, Database+Before)); err != nil {
		t.Errorf("the database from before: %v", err)
	}
	// Again it does nothing.
	report, err = h.move(h.sender(), h.receiver(), -1, -1)
	if err != nil || !report.Already || h.began != 1 {
		t.Errorf("again: %+v, %v; it began anew %d times", report, err, h.began)
	}
	h.moved("again")
	// A host that has moved on itself is not told to start anything.
	h.with(func(d *db.DB) error { return d.Holds.SetHold(t.Context(), app.Hold{Why: app.HoldMoved, Peer: "third"}) })
	if report, err = h.move(h.sender(), h.receiver(), -1, -1); err != nil || !report.Already {
		t.Errorf("after it has moved on: %+v, %v", report, err)
	}
	if here, there := h.runs(); here || there {
		t.Errorf("after it has moved on programs run here %t, there %t", here, there)
	}
}

// counted counts what goes over a connection.
type counted struct {
	io.ReadWriter
	to, from int
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ReadWriter.Write(p)
	c.to += n
	return n, err
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadWriter.Read(p)
	c.from += n
	return n, err
}

// A connection that is lost at any byte leaves the programs here, or nowhere until the
// command is run again, which finishes; or they are taken back.
func TestMoveCutAnywhere(t *testing.T) {
	probe := newHosts(t)
	near, far := net.Pipe()
	go func() { _ = probe.receiver().Serve(context.Background(), far, far) }()
	all := &counted{ReadWriter: near}
	_, err := probe.sender().Move(t.Context(), all)
	hosted.Must(t, errors.Join(err, near.Close()))
	type cut struct{ to, from int }
	var cuts []cut
	const each = 6
	for i := range each {
		cuts = append(cuts, cut{all.to * i / each, -1})
		if i%2 == 0 {
			cuts = append(cuts, cut{-1, all.from * i / each})
		}
	}
	cuts = append(cuts, cut{all.to - 9, -1}, cut{-1, all.from - 4}) // a size may have a digit less
	var before, after int
	for _, c := range cuts {
		h := newHosts(t)
		_, err := h.move(h.sender(), h.receiver(), c.to, c.from)
		if err == nil || !Lost(err) {
			t.Fatalf("%+v: %v", c, err)
		}
		var held *HeldError
		here, there := h.runs()
		switch {
		case here && there:
			t.Fatalf("%+v: both hosts run the programs", c)
		case errors.As(err, &held) == here:
			t.Fatalf("%+v: held here is %t, and the error says %v", c, !here, err)
		case here:
			before++
		default:
			after++
		}
		if !here && !there { // taken back, and a daemon that begins anew there at any time starts nothing
			hosted.Must(t, Settle(h.path, slog.New(slog.DiscardHandler)))
			if _, there := h.runs(); there {
				t.Fatalf("%+v: after its next start the new host runs the programs", c)
			}
		}
		if _, err := h.move(h.sender(), h.receiver(), -1, -1); err != nil {
			t.Fatalf("%+v: again: %v", c, err)
		}
		h.moved(fmt.Sprint(c))
	}
	if before < 4 || after < 4 {
		t.Errorf("%d connections ended before the hold, and %d after it", before, after)
	}
}

// A start of the new daemon that is cut short at any step is finished by the next one.
func TestSettleCutShort(t *testing.T) {
	for n := 0; ; n++ {
		h := newHosts(t)
		// What came to be there meanwhile must not be lost.
		hosted.Must(t, os.MkdirAll(filepath.Join(h.path, "apps", "shop", "mine"), 0o755))
		hosted.Must(t, os.WriteFile(filepath.Join(h.path, Database+"-wal"), []byte("old"), 0o600))
		errCut := errors.New("cut")
		r := h.receiver()
		r.Restart = func(context.Context) error {
			entries, err := os.ReadDir(filepath.Join(h.path, Ready))
			hosted.Must(t, err)
			left := n
			return settling{h.path, filepath.Join(h.path, Ready), func() error {
				if left--; left < 0 {
					return errCut
				}
				return nil
			}}.settle(entries)
		}
		_, err := h.move(h.sender(), r, -1, -1)
		var held *HeldError
		if err == nil {
			if n < 8 {
				t.Errorf("there are %d steps", n)
			}
			return
		}
		if !errors.As(err, &held) || Lost(err) {
			t.Fatalf("at step %d: %v", n, err)
		}
		report, err := h.move(h.sender(), h.receiver(), -1, -1)
		if err != nil || report.Already {
			t.Fatalf("at step %d, again: %+v, %v", n, report, err)
		}
		if _, there := h.runs(); !there {
			t.Fatalf("at step %d: nothing runs there", n)
		}
		if _, err := os.Lstat(filepath.Join(h.path, "apps.shop"+Before, "mine")); err != nil {
			t.Errorf("at step %d: what was there before is lost: %v", n, err)
		}
		if got := hosted.Listing(t, filepath.Join(h.path, "apps", "shop")); !strings.HasSuffix(got["main"], " 1") {
			t.Errorf("at step %d: %v", n, got)
		}
	}
}

// What is deployed, made and deleted between the two copies is there as it was in the end.
func TestMoveOfWhatChanges(t *testing.T) {
	h := newHosts(t)
	s := h.sender()
	sums := 0
	s.Fingerprint = func(context.Context, app.ID, int) (string, bool, error) { sums++; return "same", true, nil }
	hold := s.Hold
	s.Hold = func(ctx context.Context, x app.Hold) error { // the last moment
		return errors.Join(h.old.Deploy(h.old.Stage(map[string]string{"main": "3"}), "c"), hold(ctx, x))
	}
	report, err := h.move(s, h.receiver(), -1, -1)
	if err != nil || report.Copied != 1 || sums != 3 {
		t.Fatalf("%+v, %v; asked %d times for a sum", report, err, sums)
	}
	h.moved("a deploy meanwhile")

	h = newHosts(t)
	s = h.sender()
	s.Fingerprint = func(context.Context, app.ID, int) (string, bool, error) { return "same", true, nil }
	if report, err = h.move(s, h.receiver(), -1, -1); err != nil || report.Copied != 0 {
		t.Fatalf("what did not change: %+v, %v", report, err)
	}
	h.moved("nothing changed")

	for what, f := range map[string]func(context.Context, app.ID, int) (string, bool, error){
		"unsettled": func(context.Context, app.ID, int) (string, bool, error) { return "same", false, nil },
		"unknown":   func(context.Context, app.ID, int) (string, bool, error) { return "", false, files.ErrBusy },
	} {
		h = newHosts(t)
		s = h.sender()
		s.Fingerprint = f
		if report, err = h.move(s, h.receiver(), -1, -1); err != nil || report.Copied != 1 {
			t.Fatalf("%s: %+v, %v", what, report, err)
		}
		h.moved(what)
	}

	h = newHosts(t)
	s = h.sender()
	hold = s.Hold
	s.Hold = func(ctx context.Context, x app.Hold) error {
		return errors.Join(h.old.DB.Apps.DeleteApp(ctx, "shop"), h.old.Store.Remove(ctx, "shop"), hold(ctx, x))
	}
	if report, err = h.move(s, h.receiver(), -1, -1); err != nil || report.Apps != 0 {
		t.Fatalf("what is deleted: %+v, %v", report, err)
	}
	if left := hosted.Listing(t, filepath.Join(h.path, "apps")); len(left) > 1 {
		t.Errorf("of what was deleted there is %v", left)
	}
}

// Files that cannot be read keep the rest from nothing, if that is wanted.
func TestMoveWithoutFiles(t *testing.T) {
	h := newHosts(t)
	hosted.Must(t, h.old.Store.Remove(t.Context(), "shop"))
	_, err := h.move(h.sender(), h.receiver(), -1, -1)
	var refusal *Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "the files of 1 of the applications cannot be read") {
		t.Fatal(err)
	}
	if here, there := h.runs(); !here || there {
		t.Errorf("programs run here %t, there %t", here, there)
	}
	s := h.sender()
	s.Partial = true
	report, err := h.move(s, h.receiver(), -1, -1)
	if err != nil || fmt.Sprint(report.Missing) != "[shop]" || !strings.Contains(strings.Join(h.told, "\n"), "the files of the application shop are not there") {
		t.Errorf("%+v, %v, %q", report, err, h.told)
	}
	if here, there := h.runs(); here || !there {
		t.Errorf("programs run here %t, there %t", here, there)
	}
}

func TestMoveRefusals(t *testing.T) {
	errNo := errors.New("no")
	for name, tt := range map[string]struct {
		set  func(h *hosts, s *Sender, r *Receiver)
		says string
	}{
		"not empty": {func(h *hosts, _ *Sender, _ *Receiver) {
			h.with(func(d *db.DB) error {
				for _, name := range []string{"a", "b"} {
					if _, err := d.Accounts.CreateAccount(t.Context(), app.Account{Name: name, TotalRAM: 1, Plan: "Diamond", Locale: "en-US"}); err != nil {
						return err
					}
				}
				return nil
			})
		}, "new is not empty: it has 0 applications and 2 accounts"},
		"itself":       {func(h *hosts, _ *Sender, r *Receiver) { r.DataDir, h.path = h.old.Path, h.old.Path }, "new is not empty: it has 1 applications"},
		"no directory": {func(_ *hosts, _ *Sender, r *Receiver) { r.DataDir += "/none" }, "berth is not installed on new"},
		"no daemon":    {func(_ *hosts, _ *Sender, r *Receiver) { r.Serves = func(context.Context) error { return errNo } }, "no"},
		"half of another": {func(h *hosts, _ *Sender, _ *Receiver) {
			hosted.Must(t, os.MkdirAll(filepath.Join(h.path, Ready), 0o700))
		}, "another move to new was not finished"},
		"declined": {func(_ *hosts, s *Sender, _ *Receiver) { s.Agree = func(Plan) error { return errNo } }, "no"},
		"restored": {func(h *hosts, _ *Sender, _ *Receiver) {
			hosted.Must(t, h.old.DB.Holds.SetHold(t.Context(), app.Hold{Why: app.HoldRestored, Peer: "x"}))
		}, "this host was restored from a backup of x"},
		"elsewhere": {func(h *hosts, _ *Sender, _ *Receiver) {
			hosted.Must(t, h.old.DB.Holds.SetHold(t.Context(), app.Hold{Why: app.HoldMoved, Peer: "x"}))
		}, "the programs of this host moved to x"},
	} {
		h := newHosts(t)
		s, r := h.sender(), h.receiver()
		tt.set(h, s, r)
		was, _, err := h.old.DB.Holds.HoldOf(t.Context())
		hosted.Must(t, err)
		_, err = h.move(s, r, -1, -1)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
		if is, _, err := h.old.DB.Holds.HoldOf(t.Context()); err != nil || is != was || h.tries > 0 {
			t.Errorf("%s: the hold was %+v and is %+v, %v", name, was, is, err)
		}
		if _, err := os.Lstat(filepath.Join(h.path, Unfinished)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was begun there", name)
		}
	}
}

// A new host that is older, has no room, or answers nonsense is refused.
func TestMoveRefusesAnswers(t *testing.T) {
	for answer, says := range map[string]string{
		fmt.Sprintf(`{"there":{"host":"new","version":"0.1.0","schema":%d,"free":1000000000000}}`, db.Schema()-1): "berth 0.1.0 on new is older than the 1.0.0 here",
		fmt.Sprintf(`{"there":{"host":"new","version":"1.0.0","schema":%d,"free":0}}`, db.Schema()):               "new has 0 MB of disk free",
		`{"error":"broken there"}`: "broken there",
		`{}`:                       "it does not answer as berth does",
		`Welcome to new!`:          "the connection was lost",
		strings.Repeat("x", 2<<20): "it does not answer as berth does",
	} {
		h := newHosts(t)
		near, far := net.Pipe()
		go func() {
			_, _, _ = readFrame(far)
			_, _ = far.Write([]byte(answer + "\n"))
			_ = far.Close()
		}()
		_, err := h.sender().Move(t.Context(), near)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v", answer, err)
		}
		if here, _ := h.runs(); !here {
			t.Errorf("%.60s: the programs are held", answer)
		}
	}
}
