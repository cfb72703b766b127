package db

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

func silent(t *testing.T) func(error) { return func(err error) { t.Error(err) } }

// eventually waits until the log has n records.
func eventually(t *testing.T, db *DB, n int) []app.AuditRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		got, err := db.Audit.Records(ctx, app.AuditQuery{Limit: 100_000})
		must(t, err)
		if len(got) >= n {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d records, want %d", len(got), n)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAuditorStoresWithoutClose(t *testing.T) {
	db, clock := openTemp(t)
	a := NewAuditor(db, 1000, time.Hour, silent(t))
	defer a.Close()
	a.Record(act(clock.now(), 7, "one"))
	if got := eventually(t, db, 1); operations(got) != "one" {
		t.Errorf("got %q", operations(got))
	}
}

// A clean stop loses nothing that was recorded, whoever did so at once.
func TestAuditorClosesWithEverythingStored(t *testing.T) {
	db, clock := openTemp(t)
	a := NewAuditor(db, 100_000, time.Hour, silent(t))
	const writers, each = 8, 500
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				a.Record(act(clock.now(), app.AccountID(w+1), fmt.Sprint("op", i)))
			}
		})
	}
	wg.Wait()
	must(t, a.Close())
	must(t, a.Close())
	got, err := db.Audit.Records(t.Context(), app.AuditQuery{Limit: 100_000})
	must(t, err)
	last := map[app.AccountID]int{}
	for _, r := range got {
		if r.Operation != fmt.Sprint("op", last[r.Actor]) {
			t.Fatalf("account %d: %s after %d", r.Actor, r.Operation, last[r.Actor])
		}
		last[r.Actor]++
	}
	if len(got) != writers*each {
		t.Errorf("%d records, want %d", len(got), writers*each)
	}
}

// A flood from many addresses makes few rows, and counts them all.
func TestAuditorCountsAFlood(t *testing.T) {
	db, clock := openTemp(t)
	a := NewAuditor(db, 100_000, time.Hour, silent(t))
	const flood = 20_000
	for i := range flood {
		f := app.AuditRecord{At: clock.now(), Actor: app.Stranger, Operation: "auth.failed", From: fmt.Sprint("192.0.2.", i), Status: 401, Counted: true, Times: 1}
		a.Record(f)
	}
	must(t, a.Close())
	got, err := db.Audit.Records(t.Context(), app.AuditQuery{Limit: 100_000})
	must(t, err)
	times, others := 0, 0
	for _, r := range got {
		times += r.Times
		if r.From == Elsewhere {
			others++
		}
	}
	if times != flood || others != 1 || len(got) > flood/20 {
		t.Errorf("%d rows for %d failures, %d of them of others", len(got), times, others)
	}
}

func TestAuditorPrunes(t *testing.T) {
	db, clock := openTemp(t)
	old := act(clock.now().Add(-2*time.Hour), 7, "old")
	must(t, db.Audit.Record(t.Context(), old))
	a := NewAuditor(db, 100_000, time.Hour, silent(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		got, err := db.Audit.Records(ctx, app.AuditQuery{Limit: 9})
		must(t, err)
		if len(got) == 0 {
			break
		}
	}
	must(t, a.Close())
}

// While the disk takes nothing, records wait within a bound; what is lost is
// counted, and told once.
func TestAuditorOutlivesADiskThatTakesNothing(t *testing.T) {
	db, clock := openTemp(t)
	_, err := db.writer.ExecContext(t.Context(), "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END")
	must(t, err)
	told := make(chan error, 100)
	a := NewAuditor(db, 100_000, time.Hour, func(err error) { told <- err })
	a.Record(act(clock.now(), 7, "first"))
	if err := <-told; err == nil || !strings.Contains(err.Error(), "cannot store the audit log") {
		t.Errorf("told %v", err)
	}
	for range maxPending + 9 {
		a.Record(act(clock.now(), 7, "more"))
	}
	_, err = db.writer.ExecContext(t.Context(), "DROP TRIGGER full")
	must(t, err)
	must(t, a.Close())
	got, err := db.Audit.Records(t.Context(), app.AuditQuery{Limit: 100_000})
	must(t, err)
	lost := slices.IndexFunc(got, func(r app.AuditRecord) bool { return r.Operation == "audit.lost" })
	if got[0].Operation != "first" || lost < 0 || got[lost].Times != 10 || len(got) != maxPending+1 {
		t.Errorf("%d records, the first is %+v, lost at %d", len(got), got[0], lost)
	}
	if len(told) > 0 {
		t.Errorf("told again: %v", <-told)
	}
}

func TestAuditorSaysWhatItCouldNotStore(t *testing.T) {
	db, clock := openTemp(t)
	a := NewAuditor(db, 1000, time.Hour, func(error) {})
	must(t, db.writer.Close())
	a.Record(act(clock.now(), 7, "one"))
	want := "cannot store the audit log: 1 records are lost"
	if err := a.Close(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func BenchmarkAuditor(b *testing.B) {
	db, clock := openTemp(b)
	a := NewAuditor(db, 100_000, time.Hour, func(err error) { b.Error(err) })
	record := act(clock.now(), 7, "app.ram")
	for b.Loop() {
		a.Record(record)
	}
	b.StopTimer()
	if err := a.Close(); err != nil && !strings.Contains(err.Error(), "are lost") {
		b.Error(err)
	}
}

// BenchmarkRecord is what a record costs that is not put off, with the log full.
func BenchmarkRecord(b *testing.B) {
	for _, n := range []int{1, auditBatch} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, clock := openTemp(b)
			acts := make([]app.AuditRecord, n)
			for i := range acts {
				acts[i] = act(clock.now(), 7, "app.ram")
			}
			for b.Loop() {
				if err := db.Audit.Record(b.Context(), acts...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPrune adds a batch to, and removes one from, a log of 100,000.
func BenchmarkPrune(b *testing.B) {
	db, clock := openTemp(b)
	acts := make([]app.AuditRecord, 1000)
	for i := range acts {
		acts[i] = act(clock.now(), app.AccountID(i%5), "app.ram")
	}
	for range 100 {
		if err := db.Audit.Record(b.Context(), acts...); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := db.Audit.Record(b.Context(), acts[:pruneBatch]...); err != nil {
			b.Fatal(err)
		}
		if n, err := db.Audit.Prune(b.Context(), 100_000, time.Time{}); err != nil || n != pruneBatch {
			b.Fatal(n, err)
		}
	}
}
