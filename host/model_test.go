package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// TestModel runs random operations, several at once, against programs that
// crash at random, and checks what must always hold. That no two instances of
// an application ever run at once, and that no tree changes under a running
// program or console command, the world itself checks. TestSoakModels has more seeds.
func TestModel(t *testing.T) { modelled(t, 0, seeds, func(*world, uint64) {}) }

// TestModelOfSites is the same with sites that are visited, whose commits run
// two programs at once.
func TestModelOfSites(t *testing.T) { modelled(t, 0, seeds, ofSites) }

// TestModelOfUpgrades is the same with daemons that leave at any moment, and others that
// go on with what runs.
func TestModelOfUpgrades(t *testing.T) { modelled(t, 0, seeds, ofUpgrades) }

// TestModelOfHolds is the same with a hold that comes and goes at any moment.
func TestModelOfHolds(t *testing.T) { modelled(t, 0, seeds, ofHolds) }

// seeds is how many of each model are run.
const seeds = 25

func ofSites(w *world, _ uint64)       { w.visited = true }
func ofUpgrades(w *world, seed uint64) { w.visited, w.upgraded = seed%2 == 0, true }
func ofHolds(w *world, seed uint64) {
	w.visited, w.upgraded, w.heldOften = seed%2 == 0, seed%3 == 0, true
}

// modelled runs the model of each seed, in a world that is changed first.
func modelled(t *testing.T, first, end uint64, change func(w *world, seed uint64)) {
	for seed := first; seed < end; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			change(w, seed)
			w.host = w.open()
			model(t, seed, w)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// randomHold sets a hold, or ends it. Under one nothing runs, and nothing is started.
func (w *world) randomHold() {
	w.mu.Lock()
	is, started := w.onHold.Why != "", len(w.runs)
	w.mu.Unlock()
	if is {
		if started != w.heldSince {
			w.t.Errorf("%d programs were started under a hold", started-w.heldSince)
		}
		w.holds(app.Hold{})
		return
	}
	w.holds(moved)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heldSince = len(w.runs)
	for _, r := range w.runs {
		if !r.ended() {
			w.t.Errorf("%s runs under a hold", r.p.App)
		}
	}
}

func model(t *testing.T, seed uint64, w *world) {
	w.total = 5000
	r := rand.New(rand.NewPCG(seed, 7))
	lives := rand.New(rand.NewPCG(seed, 8)) // used under the world's lock alone
	w.set(func(p app.Program) behaviour { return randomBehaviour(lives, p) })
	for range 60 {
		for range 1 + r.IntN(3) {
			op, pick, ram := r.IntN(12), r.IntN(100), app.MB(40+r.IntN(400))
			go w.randomOp(w.host, op, pick, ram)
		}
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
		if w.upgraded && r.IntN(6) == 0 {
			w.succeed(true)
		}
		if w.heldOften && r.IntN(4) == 0 {
			w.randomHold()
		}
	}
	if w.onHold.Why != "" {
		w.randomHold()
	}
	w.set(func(p app.Program) behaviour { // from here on everything is well
		if p.Build {
			return behaviour{exit: &app.Exit{}, life: time.Second}
		}
		return behaviour{}
	})
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	w.checkRest()
	w.close()
}

func randomBehaviour(r *rand.Rand, p app.Program) behaviour {
	b := behaviour{onStop: time.Duration(r.IntN(12_000)) * time.Millisecond, uses: app.MB(r.IntN(60))}
	switch n := r.IntN(10); {
	case n == 0:
		b.err = errTest
	case n < 5 || p.Build:
		b.life = time.Duration(r.IntN(30_000)) * time.Millisecond
		b.exit = &app.Exit{Code: []int{0, 1, 137}[r.IntN(3)]}
		b.exit.OOM = b.exit.Code == 137
		b.late = time.Duration(r.IntN(2)*r.IntN(3_000)) * time.Millisecond
	}
	if r.IntN(4) == 0 {
		b.busy, b.listen = time.Duration(r.IntN(20_000))*time.Millisecond, nowhere
	}
	return b
}

func (w *world) randomOp(h *Host, op, pick int, ram app.MB) {
	if w.visited {
		for port := 20_000; port < 20_060; port++ {
			w.visit(loopback(port), pick%3, pick%2)
			w.visit(loopback(port+10_000), pick%2, pick%3)
		}
	}
	ctx := context.Background()
	by := app.AccountID(1 + pick%2)
	list := h.Apps(by)
	if op == 0 || len(list) == 0 {
		file := []string{"MAIN=a,AUTORESTART=true", "MAIN=a,BUILD=make", "MAIN=a,BUILD=make", "bad"}[pick/2%4]
		if w.visited && file != "bad" {
			file += fmt.Sprintf(",TYPE=site,ID=s%d-%d", pick, ram)
		}
		_, _ = h.Upload(ctx, app.Account{ID: by, TotalRAM: w.total}, file)
		return
	}
	id := list[pick/2%len(list)].ID
	switch op { // their answers depend on the moment; what must hold is checked at rest
	case 1, 2:
		_, _ = h.Start(ctx, by, id)
		ctx, cancel := context.WithTimeout(ctx, time.Duration(ram)*10*time.Millisecond)
		defer cancel()
		if s, err := h.Outcome(ctx, by, id); err == nil && s.ID != id {
			w.t.Errorf("the outcome of %s is that of %q", id, s.ID)
		}
	case 3:
		_ = h.Stop(ctx, by, id)
	case 4:
		_ = h.Restart(ctx, by, id)
	case 5, 6:
		_, _ = h.Commit(ctx, by, id, []string{"MAIN=b", "MAIN=c,BUILD=make", "MAIN=missing", "MAIN=d,HEALTH=/up", "MAIN=e,HEALTH=off"}[pick/2%5], pick%3 == 0)
	case 7:
		_ = h.SetRAM(ctx, by, id, ram)
	case 8:
		if pick/2%4 == 0 {
			_ = h.Delete(ctx, by, id)
		}
	case 9: // most of them are deployed for the first time
		if s, err := h.App(by, id); err == nil && s.State == app.Preparing {
			_ = h.Stop(ctx, by, id)
		}
	case 10, 11:
		ctx, cancel := context.WithTimeout(ctx, time.Duration(ram)*100*time.Millisecond)
		defer cancel()
		if ram%2 == 0 {
			e := app.Exec{Command: []string{"exit 0 after 3s", "exit 1 after 20s", "slow wait", "wait"}[pick/2%4]}
			_, _ = h.Exec(ctx, by, id, e, func(ctx context.Context, s app.Streams) {
				select {
				case <-ctx.Done():
				case <-s.Ended:
				}
			})
			return
		}
		_, _ = h.Console(ctx, by, id, []string{"exit 0 after 3s", "exit 1 after 20s", "slow wait", "wait"}[pick/2%4])
	}
}

// checkRest checks an undisturbed world: what is wanted is, what is shown is
// what is recorded, and nothing is counted that does not run.
func (w *world) checkRest() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	running := map[app.ID]app.MB{}
	for _, r := range w.runs {
		if !r.ended() {
			running[r.p.App] = app.MB(r.ram.Load())
		}
	}
	for _, u := range w.host.all() {
		s, rec := u.view.Load().Snapshot, w.apps[u.id]
		_, runs := running[u.id]
		switch {
		case rec == nil:
			w.t.Errorf("%s has no record", u.id)
		case runs != s.Running, runs != (s.State == app.Online), runs != (s.Wanted == app.WantOnline):
			w.t.Errorf("%s: runs %t, but is shown as %s, running %t, wanted %s", u.id, runs, s.State, s.Running, s.Wanted)
		case s.Wanted != rec.Wanted, s.RAM != rec.RAM, s.Code != rec.Code, s.AutoRestart != rec.AutoRestart, !s.CreatedAt.Equal(rec.CreatedAt):
			w.t.Errorf("%s: shown %+v, recorded %+v", u.id, s.App, rec)
		case !sameExit(s.LastExit, rec.LastExit):
			w.t.Errorf("%s: the last exit is %+v, recorded %+v", u.id, s.LastExit, rec.LastExit)
		case w.trees[u.id] != rec.Code.Main:
			w.t.Errorf("%s: the tree is %q, the record says %q", u.id, w.trees[u.id], rec.Code.Main)
		case w.host.capacity.running[secondOf(u.id)] != 0:
			w.t.Errorf("%s: a second run is counted that is none", u.id)
		case w.host.capacity.running[consoleOf(u.id)] != 0:
			w.t.Errorf("%s: a console command is counted that does not run", u.id)
		case runs && running[u.id] != s.RAM, w.host.capacity.running[u.id] != running[u.id]:
			w.t.Errorf("%s: has %d MB, runs with %d, counted as %d", u.id, s.RAM, running[u.id], w.host.capacity.running[u.id])
		}
	}
	if len(w.apps) != len(w.host.units) {
		w.t.Errorf("%d records, %d applications", len(w.apps), len(w.host.units))
	}
}
