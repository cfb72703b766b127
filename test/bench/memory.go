package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

var memory = measure{
	name: "memory", title: "Resident memory of the daemon",
	method: `Of the daemon alone (VmRSS), with 0, 20 and 200 programs that have printed one line and
	wait, taken when it has kept within 1 % for six seconds. The file
	of berth was just written, and Linux maps what is cached of such a file whole; so the cache is given
	up first, and the file is read from disk as after a boot, like the interpreters of the others. berth gets its programs as uploads over
	HTTP, so its figures hold what uploading has left in it; "booted" is the same daemon after a restart
	in which it started 200 programs by itself. The figure for each further program is the difference
	between 20 and 200 of what is of no file (RssAnon). berth is measured three times, the peers once. PSS, private dirty pages and
	threads are of the daemon with 200 programs.`,
	run: measureMemory,
}

// weights are the memory of one daemon, in MB.
type weights struct {
	by     map[int]float64 // by the number of programs
	anon   map[int]float64 // of it, what is of no file
	asked  float64
	booted float64
	figures
}

func measureMemory(ctx context.Context, b *bench) ([]row, error) {
	var own []weights
	for range 3 {
		w, err := b.weighBerth(ctx)
		if err != nil {
			return nil, err
		}
		own = append(own, w)
	}
	peers := map[string]weights{}
	for _, name := range []string{"PM2", "supervisord"} {
		w, err := b.weighPeer(ctx, name)
		if err != nil {
			return nil, err
		}
		peers[name] = w
	}
	of := func(f func(weights) float64) sample {
		var s sample
		for _, w := range own {
			s = append(s, f(w))
		}
		return s
	}
	var rows []row
	figure := func(what, unit, aim string, bound float64, f func(weights) float64) {
		r := row{what: what, berth: of(f).in(unit)}
		if aim != "" {
			r.aim = below(of(f).median(), bound, unit)
		}
		for name, w := range peers {
			r.set(name, sample{f(w)}.in(unit))
		}
		rows = append(rows, r)
	}
	with := func(n int) func(weights) float64 { return func(w weights) float64 { return w.by[n] } }
	each := func(w weights) float64 { return (w.anon[200] - w.anon[20]) / 180 * 1024 }
	figure("memory with 0 programs", "MB", "aim", 15, with(0))
	figure("memory with 20 programs", "MB", "aim", 20, with(20))
	figure("memory with 200 programs", "MB", "", 0, with(200))
	figure("memory of each further program", "KB", "aim", 50, each)
	figure("PSS with 200 programs", "MB", "", 0, func(w weights) float64 { return w.pss })
	figure("private dirty with 200 programs", "MB", "", 0, func(w weights) float64 { return w.dirty })
	figure("threads with 200 programs", "", "", 0, func(w weights) float64 { return w.threads })
	rows = append(rows,
		row{what: "memory with 200 programs, while asked", berth: of(func(w weights) float64 { return w.asked }).in("MB")},
		row{what: "memory with 200 programs, booted", berth: of(func(w weights) float64 { return w.booted }).in("MB")})
	return rows, nil
}

// weighBerth weighs one daemon while its programs become more.
func (b *bench) weighBerth(ctx context.Context) (w weights, err error) {
	if err := uncache(b.berth); err != nil {
		return w, err
	}
	err = b.with(ctx, "berth", plan{program: "idle", count: 0}, func(m manager) error {
		d := m.(*berth)
		if d.zip, err = b.bundle("idle", true); err != nil {
			return err
		}
		w.by, w.anon = map[int]float64{}, map[int]float64{}
		for _, count := range []int{0, 20, 200} {
			err := d.grow(ctx, count)
			if err != nil {
				return err
			}
			if w.by[count], err = settledMemory(ctx, d.pid); err != nil {
				return err
			}
			if w.anon[count], err = private(d.pid); err != nil {
				return err
			}
		}
		if w.figures, err = examineProcess(d.pid); err != nil {
			return err
		}
		for range 100 {
			if err := d.ask(ctx, http.MethodGet, "/v2/app/all/status", nil); err != nil {
				return err
			}
		}
		if w.asked, err = resident(d.pid); err != nil {
			return err
		}
		began := time.Now()
		if err := errors.Join(d.down(ctx), d.boot(ctx)); err != nil {
			return err
		}
		if _, err := d.started(ctx, began); err != nil {
			return err
		}
		w.booted, err = settledMemory(ctx, d.pid)
		return err
	})
	return w, err
}

// weighPeer weighs a daemon for each number of programs.
func (b *bench) weighPeer(ctx context.Context, name string) (weights, error) {
	w := weights{by: map[int]float64{}, anon: map[int]float64{}}
	for _, count := range []int{0, 20, 200} {
		err := b.with(ctx, name, plan{program: "idle", count: count, restart: true}, func(m manager) (err error) {
			pid := m.programs().pid
			if w.by[count], err = settledMemory(ctx, pid); err != nil {
				return err
			}
			if w.anon[count], err = private(pid); err != nil {
				return err
			}
			w.figures, err = examineProcess(pid)
			return err
		})
		if err != nil {
			return w, fmt.Errorf("with %d programs: %w", count, err)
		}
	}
	return w, nil
}

func settledMemory(ctx context.Context, pid int) (float64, error) {
	return settle(ctx, func() (float64, error) { return resident(pid) })
}
