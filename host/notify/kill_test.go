package notify

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/web/channel"
	"berth/web/egress"
)

// victim is what the process is told that is killed: the database, and the receiver's address.
const victim = "BERTH_TEST_NOTIFY_VICTIM"

func TestMain(m *testing.M) {
	if told := os.Getenv(victim); told != "" {
		file, address, _ := strings.Cut(told, " ")
		if err := beKilled(file, address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beKilled is a daemon in which deployments fail: it stores an event for each line that comes,
// says then how many it has stored, and tells them.
func beKilled(file, address string) error {
	ctx := context.Background()
	store, err := db.Open(ctx, file, time.Now)
	if err != nil {
		return err
	}
	n := New(Config{
		Store:  store.Notices,
		Sender: channel.New(channel.Options{Client: egress.New(egress.Options{Allow: []netip.AddrPort{netip.MustParseAddrPort(address)}})}),
		App: func(app.AccountID, app.ID) (app.Snapshot, error) {
			return app.Snapshot{App: app.App{ID: "bot", Name: "bot"}}, nil
		},
		Tail:      func(app.ID, bool, int) string { return "" },
		Variables: func(context.Context, app.ID) ([]app.Variable, error) { return nil, nil },
		Log:       slog.New(slog.DiscardHandler),
	})
	store.Notices.Noticed(n.Wake)
	go n.Run(ctx)
	for stored, lines := 1, bufio.NewScanner(os.Stdin); lines.Scan(); stored++ {
		if err := store.History.AddHistoryEvent(ctx, "bot", app.HistoryEvent{Kind: app.HistoryFailure, Deploy: app.DeployCommit}); err != nil {
			return err
		}
		fmt.Println(stored)
	}
	return nil
}

// eventsEach is how many events there are for each kill.
const eventsEach = 10

// flaky is a receiver that fails each message once or twice, in one way or another.
type flaky struct {
	mu    sync.Mutex
	tries map[string]int
	got   map[string]int // how many notices are in a message that was taken
	again int            // messages that came once more after they were taken
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var event struct{ Data struct{ Count int } }
	if err != nil || json.Unmarshal(body, &event) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	id := r.Header.Get("webhook-id")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries[id]++
	if f.tries[id] == 1 {
		switch len(f.tries) % 4 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case 1:
			panic(http.ErrAbortHandler) // it hangs up
		case 2:
			f.take(id, event.Data.Count) // its answer gets lost
			panic(http.ErrAbortHandler)
		}
	}
	f.take(id, event.Data.Count)
}

func (f *flaky) take(id string, count int) {
	if _, ok := f.got[id]; ok {
		f.again++
	}
	f.got[id] = count
}

// sum is how many notices arrived.
func (f *flaky) sum() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, count := range f.got {
		n += count
	}
	return n
}

// TestSIGKILLs kills what tells, again and again, while it stores and sends: each event arrives,
// in exactly one message, which may come twice.
func TestSIGKILLs(t *testing.T) {
	kills := 20
	if all := os.Getenv("BERTH_NOTIFY_KILLS"); all != "" {
		var err error
		kills, err = strconv.Atoi(all)
		must(t, err)
	}
	f := &flaky{tries: map[string]int{}, got: map[string]int{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "berth.db")
	channel := prepare(t, file, server.URL+"/hook")
	for range kills {
		child := startVictim(t, file, server.Listener.Addr().String())
		for n := range eventsEach {
			child.store(t)
			if n < eventsEach-1 { // it is killed while it stores the last one, or while it sends
				child.stored(t)
			}
		}
		time.Sleep(rand.N(600 * time.Millisecond)) // a moment of chance
		child.kill(t)
	}
	child := startVictim(t, file, server.Listener.Addr().String())
	store, err := db.Open(t.Context(), file, time.Now)
	must(t, err)
	defer func() { _ = store.Close() }()
	count := func() int {
		list, err := store.History.EventLog(t.Context(), "bot")
		must(t, err)
		return int(list[0].Number) - 1 // the first is its upload
	}
	waiting := func() (n int) {
		all, err := store.Notices.Deliveries(t.Context(), 1, channel)
		must(t, err)
		for _, d := range all {
			if d.State == app.DeliveryWaiting {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(2 * time.Minute); f.sum() < count() || waiting() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d events arrived, %d messages wait", f.sum(), count(), waiting())
		}
	}
	child.kill(t)
	if f.sum() != count() || count() < kills*(eventsEach-1) {
		t.Errorf("%d events, %d arrived", count(), f.sum())
	}
	t.Logf("%d kills, %d events, %d messages, %d came twice with the same id", kills, count(), len(f.got), f.again)
}

// prepare makes a database with an application and a channel, and returns the channel.
func prepare(t *testing.T, file, target string) int64 {
	t.Helper()
	store, err := db.Open(t.Context(), file, time.Now)
	must(t, err)
	defer func() { _ = store.Close() }()
	owner, err := store.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 100, Locale: "en-US", Admin: true})
	must(t, err)
	a := app.App{ID: "bot", Account: owner.ID, Name: "bot", RAM: 64, Wanted: app.WantStopped}
	a, err = store.Allocations(db.IDRange{UIDBase: 70000, UIDCount: 1000, PortFirst: 20000, PortLast: 20999}).Reserve(
		t.Context(), a, func(app.Account, app.Use) error { return nil })
	must(t, err)
	_, err = store.Apps.CreateApp(t.Context(), a, app.Deploy{Kind: app.DeployUpload})
	must(t, err)
	c, err := store.Notices.AddChannel(t.Context(), app.Channel{
		Account: owner.ID, Name: "hook", Service: app.Webhook, Target: target, Secrets: []string{newSecret()}, Lang: "en-US", On: true, Confirmed: true,
		Kinds: []app.NoticeKind{app.NoticeDeployFailed},
	}, 1)
	must(t, err)
	return c.ID
}

// process is a victim.
type process struct {
	*exec.Cmd
	in    io.Writer
	lines *bufio.Reader
}

func startVictim(t *testing.T, file, address string) process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victim+"="+file+" "+address)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return process{cmd, in, bufio.NewReader(out)}
}

// store asks for an event.
func (p process) store(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(p.in, "\n")
	must(t, err)
}

// stored waits until one is stored.
func (p process) stored(t *testing.T) {
	t.Helper()
	_, err := p.lines.ReadString('\n')
	must(t, err)
}

func (p process) kill(t *testing.T) {
	t.Helper()
	must(t, p.Process.Kill())
	_, _ = io.Copy(io.Discard, p.lines)
	_ = p.Wait()
}
