package db

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/app"
)

func TestReserveKeepsWhatIsTaken(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	mustApp(t, db, owner, "one", 100)
	_, err := db.Allocations(pool).Reserve(ctx, app.App{ID: "two", Account: owner, RAM: 50}, anything)
	must(t, err)

	for _, id := range []app.ID{"one", "two"} {
		_, err := db.Allocations(pool).Reserve(ctx, app.App{ID: id, Account: owner, RAM: 1}, anything)
		wantKind(t, "an id that is taken", err, app.Conflict)
	}
	_, err = db.Allocations(pool).Reserve(ctx, app.App{ID: "three", Account: 99, RAM: 1}, anything)
	wantKind(t, "an account that is not there", err, app.NotFound)

	refused := errors.New("refused")
	_, err = db.Allocations(pool).Reserve(ctx, app.App{ID: "three", Account: owner, RAM: 1}, func(a app.Account, used app.Use) error {
		if a.ID != owner || a.TotalRAM != 512 || used != (app.Use{RAM: 150, Apps: 2}) {
			t.Errorf("asked with %+v and %+v, want 512 MB of which 2 applications have 150", a, used)
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func TestCreateAppNeedsItsReservation(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	good, err := db.Allocations(pool).Reserve(ctx, full(owner), anything)
	must(t, err)
	for name, spoil := range map[string]func(*app.App){
		"id":      func(a *app.App) { a.ID = "other" },
		"account": func(a *app.App) { a.Account++ },
		"uid":     func(a *app.App) { a.UID++ },
		"port":    func(a *app.App) { a.Port++ },
		"ram":     func(a *app.App) { a.RAM++ },
	} {
		bad := good
		spoil(&bad)
		_, err := db.Apps.CreateApp(ctx, bad, first(bad))
		wantKind(t, "another "+name, err, app.Conflict)
	}
	_, err = db.Apps.CreateApp(ctx, good, first(good))
	must(t, err)
	_, err = db.Apps.CreateApp(ctx, good, first(good))
	wantKind(t, "twice", err, app.Conflict)
}

func TestReservationsAreGivenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	mustApp(t, db, owner, "one", 100)
	for _, id := range []app.ID{"two", "three", "four"} {
		_, err := db.Allocations(pool).Reserve(ctx, app.App{ID: id, Account: owner, RAM: 50}, anything)
		must(t, err)
	}
	must(t, db.Allocations(pool).Release(ctx, "two"))
	must(t, db.Allocations(pool).Release(ctx, "two"))
	must(t, db.Allocations(pool).Release(ctx, "one")) // exists, so it is no reservation
	if sum, _ := db.Accounts.SumRAM(ctx, owner); sum != 200 {
		t.Errorf("the sum is %d after a release, want 200", sum)
	}
	wantKind(t, "deleting a reservation as an application", db.Apps.DeleteApp(ctx, "three"), app.NotFound)

	must(t, db.Close()) // a crash: two deployments end here
	db = openAt(t, path, time.Now)
	if n, err := db.Allocations(pool).DropReservations(ctx); err != nil || n != 2 {
		t.Errorf("dropped %d, %v; want 2", n, err)
	}
	if sum, _ := db.Accounts.SumRAM(ctx, owner); sum != 100 {
		t.Errorf("the sum is %d after a boot, want 100", sum)
	}
	oneApp(t, db, "one")
}

func TestUIDsTakeTurns(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	small := IDRange{UIDBase: 100, UIDCount: 4, PortFirst: 20000, PortLast: 20009}
	take := func(id app.ID) int {
		t.Helper()
		a, err := db.Allocations(small).Reserve(ctx, app.App{ID: id, Account: owner, RAM: 1}, anything)
		must(t, err)
		return a.UID
	}
	check := func(id app.ID, want int) {
		t.Helper()
		if got := take(id); got != want {
			t.Errorf("%s got uid %d, want %d", id, got, want)
		}
	}
	check("a", 100)
	must(t, db.Allocations(pool).Release(ctx, "a"))
	check("b", 101) // not 100 again, although it is free
	check("c", 102)
	check("d", 103)
	check("e", 100) // wrapped
	must(t, db.Allocations(pool).Release(ctx, "c"))
	check("f", 102) // skipped 101, which b has
	_, err := db.Allocations(small).Reserve(ctx, app.App{ID: "g", Account: owner, RAM: 1}, anything)
	wantKind(t, "no uid left", err, app.Exhausted)

	small.UIDBase, small.UIDCount = 500, 2 // the owner changed the setting
	check("h", 500)
	check("i", 501)
}

func TestPortsAreTheLowestFree(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	small := IDRange{UIDBase: 100, UIDCount: 100, PortFirst: 20000, PortLast: 20002}
	take := func(id app.ID) (int, error) {
		a, err := db.Allocations(small).Reserve(ctx, app.App{ID: id, Account: owner, RAM: 1}, anything)
		return a.Port, err
	}
	for i, id := range []app.ID{"a", "b", "c"} {
		if port, err := take(id); err != nil || port != 20000+i {
			t.Errorf("%s got port %d, %v; want %d", id, port, err, 20000+i)
		}
	}
	_, err := take("d")
	wantKind(t, "no port left", err, app.Exhausted)
	must(t, db.Allocations(pool).Release(ctx, "b"))
	if port, err := take("d"); err != nil || port != 20001 {
		t.Errorf("got port %d, %v; want 20001", port, err)
	}
}

func TestManyUploadsNeverExceedTheAccount(t *testing.T) {
	t.Run("RAM", func(t *testing.T) {
		manyUploads(t, func(a app.Account, used app.Use) bool { return used.RAM+100 <= a.TotalRAM })
	})
	t.Run("applications", func(t *testing.T) {
		manyUploads(t, func(a app.Account, used app.Use) bool { return used.Apps < a.Limits.Apps })
	})
}

// manyUploads lets twenty uploads of 100 MB meet in an account of 512 MB and 5 applications.
func manyUploads(t *testing.T, fits func(app.Account, app.Use) bool) {
	const uploads, total, each = 20, 512, 100
	db, _ := openTemp(t)
	ctx := t.Context()
	ana, err := db.Accounts.CreateAccount(ctx, app.Account{Name: "ana", TotalRAM: total, Limits: app.Limits{Apps: 5}})
	must(t, err)
	owner := ana.ID
	var admitted atomic.Int32
	var wg sync.WaitGroup
	for i := range uploads {
		wg.Go(func() {
			a := app.App{ID: app.ID(fmt.Sprintf("app-%d", i)), Account: owner, RAM: each, Wanted: app.WantOnline}
			a, err := db.Allocations(pool).Reserve(ctx, a, func(a app.Account, used app.Use) error {
				if !fits(a, used) {
					return app.Errorf(app.Exhausted, "it does not fit")
				}
				return nil
			})
			if err != nil {
				wantKind(t, "a refused upload", err, app.Exhausted)
				return
			}
			admitted.Add(1)
			if _, err := db.Apps.CreateApp(ctx, a, first(a)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	sum, err := db.Accounts.SumRAM(ctx, owner)
	must(t, err)
	if sum != 500 || admitted.Load() != 5 {
		t.Errorf("%d uploads with %d MB, want 5 with 500", admitted.Load(), sum)
	}
	all, err := db.Apps.Apps(ctx)
	must(t, err)
	uids, ports := map[int]bool{}, map[int]bool{}
	for _, a := range all {
		uids[a.UID], ports[a.Port] = true, true
	}
	if len(all) != 5 || len(uids) != 5 || len(ports) != 5 {
		t.Errorf("%d applications with %d uids and %d ports, want 5 of each", len(all), len(uids), len(ports))
	}
}

// Two servers of one machine begin at places of their own in the ranges.
func TestReserveBeginsWhereItIsTold(t *testing.T) {
	db, _ := openTemp(t)
	owner := mustAccount(t, db, "ana", 512).ID
	ids := IDRange{UIDBase: 100, UIDCount: 3, PortFirst: 20, PortLast: 22, Start: 5}
	for n, want := range [][2]int{{102, 22}, {100, 20}, {101, 21}} {
		a, err := db.Allocations(ids).Reserve(t.Context(), app.App{ID: app.ID(fmt.Sprintf("app-%d", n)), Account: owner, RAM: 1}, anything)
		if err != nil || a.UID != want[0] || a.Port != want[1] {
			t.Errorf("reservation %d: uid %d, port %d, %v; want %v", n, a.UID, a.Port, err, want)
		}
	}
	_, err := db.Allocations(ids).Reserve(t.Context(), app.App{ID: "four", Account: owner, RAM: 1}, anything)
	wantKind(t, "when all are taken", err, app.Exhausted)
}

// A second port is the application's own as the first is, for as long as it has
// its place.
func TestSpare(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	few := pool
	few.PortFirst, few.PortLast, few.Start = 30000, 30003, 0
	reserve := func(id app.ID) (app.App, error) {
		a := full(owner)
		a.ID, a.RAM, a.Type = id, 1, app.Bot
		return db.Allocations(few).Reserve(ctx, a, anything)
	}
	one, err := reserve("one")
	must(t, err)
	two, err := reserve("two")
	must(t, err)
	spare, err := db.Allocations(few).Spare(ctx, "one")
	must(t, err)
	if spare == one.Port || spare == two.Port || spare < 30000 || spare > 30003 {
		t.Errorf("the second port of one is %d, beside %d and %d", spare, one.Port, two.Port)
	}
	if again, err := db.Allocations(few).Spare(ctx, "one"); again != spare || err != nil {
		t.Errorf("then it is %d, %v", again, err)
	}
	three, err := reserve("three")
	must(t, err)
	if three.Port == spare {
		t.Errorf("another application has got %d", spare)
	}
	_, err = db.Allocations(few).Spare(ctx, "two")
	wantKind(t, "a fifth port of four", err, app.Exhausted)
	_, err = db.Allocations(few).Spare(ctx, "nobody")
	wantKind(t, "a place that is not there", err, app.NotFound)
	must(t, db.Allocations(pool).Release(ctx, "one"))
	if got, err := db.Allocations(few).Spare(ctx, "two"); err != nil || got != one.Port && got != spare {
		t.Errorf("after a release it is %d, %v", got, err)
	}
}
