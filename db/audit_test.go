package db

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

// act is a record with something in every field.
func act(at time.Time, actor app.AccountID, operation string) app.AuditRecord {
	return app.AuditRecord{
		At: at, Actor: actor, Name: "ana", Token: 3, Label: "laptop", Account: 8, From: "192.0.2.1",
		Operation: operation, App: "shop", AppName: "Shop", Detail: "ramMB=256", Status: 200, Refusal: "no",
		Request: "request-1", Times: 1,
	}
}

func operations(acts []app.AuditRecord) string {
	var names []string
	for _, a := range acts {
		names = append(names, a.Operation)
	}
	return strings.Join(names, " ")
}

func TestActsAreKeptAsTheyWere(t *testing.T) {
	db, clock := openTemp(t)
	want := act(clock.now(), 7, "app.ram")
	must(t, db.Audit.Record(t.Context(), want))
	got, err := db.Audit.Records(t.Context(), app.AuditQuery{Limit: 10})
	must(t, err)
	want.Seq, want.At = 1, clock.now().Truncate(time.Millisecond)
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// No statement changes a record, but for how often it was counted, and one removes records: the
// oldest, for Prune.
func TestNothingChangesActs(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	must(t, err)
	var found []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		must(t, err)
		for _, s := range regexp.MustCompile(`(?i)(?:update|delete from|replace into|insert or \w+ into|drop table)\s+"?audit\b|on conflict \(at, actor[^\x60]*`).FindAllString(string(text), -1) {
			found = append(found, path+": "+strings.Join(strings.Fields(s), " "))
		}
	}
	if want := []string{
		"audit.go: ON CONFLICT (at, actor, token, address, operation, app, status) WHERE counted = 1 DO UPDATE SET times = times + excluded.times",
		"audit.go: DELETE FROM audit",
	}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

func TestActsAreChosen(t *testing.T) {
	db, clock := openTemp(t)
	for i := range 6 {
		a := act(clock.now(), app.AccountID(7+i%2), fmt.Sprint("op", i))
		a.Account = app.AccountID(7 + i%3)
		if i == 4 {
			a.App = "blog"
		}
		must(t, db.Audit.Record(t.Context(), a))
		clock.advance(time.Hour)
	}
	first := clock.now().Add(-6 * time.Hour)
	for name, tt := range map[string]struct {
		q    app.AuditQuery
		want string
	}{
		"all":                  {app.AuditQuery{Limit: 10}, "op0 op1 op2 op3 op4 op5"},
		"the newest":           {app.AuditQuery{Limit: 2}, "op4 op5"},
		"the page before":      {app.AuditQuery{Limit: 2, Before: 5}, "op2 op3"},
		"the last page":        {app.AuditQuery{Limit: 9, Before: 2}, "op0"},
		"an actor or a target": {app.AuditQuery{Limit: 9, Account: 8}, "op1 op3 op4 op5"},
		"a target alone":       {app.AuditQuery{Limit: 9, Account: 9}, "op2 op5"},
		"an application":       {app.AuditQuery{Limit: 9, App: "blog"}, "op4"},
		"a time":               {app.AuditQuery{Limit: 9, Since: first.Add(4 * time.Hour)}, "op4 op5"},
		"nothing":              {app.AuditQuery{Limit: 9, App: "bl%"}, ""},
	} {
		got, err := db.Audit.Records(t.Context(), tt.q)
		if err != nil || operations(got) != tt.want {
			t.Errorf("%s: %q, %v; want %q", name, operations(got), err, tt.want)
		}
	}
}

func TestCountedActsAreOneRowAMinute(t *testing.T) {
	db, clock := openTemp(t)
	failure := act(clock.now(), app.Stranger, "auth.failed")
	failure.Counted = true
	must(t, db.Audit.Record(t.Context(), failure, failure))
	clock.advance(30 * time.Second)
	failure.At = clock.now()
	must(t, db.Audit.Record(t.Context(), failure))
	other := failure
	other.From = "192.0.2.2"
	clock.advance(30 * time.Second)
	failure.At = clock.now()
	must(t, db.Audit.Record(t.Context(), other, failure))
	got, err := db.Audit.Records(t.Context(), app.AuditQuery{Limit: 10})
	must(t, err)
	var seen []string
	for _, a := range got {
		seen = append(seen, fmt.Sprint(a.From, a.At.Format(" 04:05 "), a.Times))
	}
	want := []string{"192.0.2.1 00:00 3", "192.0.2.2 00:00 1", "192.0.2.1 01:00 1"}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

func TestActsAreBounded(t *testing.T) {
	db, clock := openTemp(t)
	long := act(clock.now(), 7, "app.ram")
	long.AppName, long.Detail, long.Refusal, long.Times = strings.Repeat("ä", 1000), strings.Repeat("x", 1000), "\xff\xfe", 0
	must(t, db.Audit.Record(t.Context(), long))
	got, err := db.Audit.Records(t.Context(), app.AuditQuery{Limit: 1})
	must(t, err)
	a := got[0]
	if a.AppName != strings.Repeat("ä", app.MaxRecordName/2) || len(a.Detail) != app.MaxRecordDetail || a.Refusal != "\ufffd" || a.Times != 1 {
		t.Errorf("got %+v", a)
	}
}

// Whoever floods the log pushes out their own past alone.
func TestPruneActsTakesFromWhoHasMost(t *testing.T) {
	db, clock := openTemp(t)
	for i := range 30 {
		must(t, db.Audit.Record(t.Context(), act(clock.now(), 7, fmt.Sprint("quiet", i))))
	}
	flood := make([]app.AuditRecord, 1500)
	for i := range flood {
		flood[i] = act(clock.now(), 8, fmt.Sprint("flood", i))
	}
	must(t, db.Audit.Record(t.Context(), flood...))
	rounds, removed := 0, 0
	for {
		n, err := db.Audit.Prune(t.Context(), 100, clock.now().Add(-time.Hour))
		must(t, err)
		if n == 0 {
			break
		}
		if n > pruneBatch {
			t.Fatalf("%d in one transaction", n)
		}
		rounds, removed = rounds+1, removed+n
	}
	got, err := db.Audit.Records(t.Context(), app.AuditQuery{Limit: 10_000})
	must(t, err)
	if removed != 1430 || rounds != 3 || len(got) != 100 || got[0].Operation != "quiet0" || got[30].Operation != "flood1430" {
		t.Errorf("removed %d in %d rounds, left %d: %s...", removed, rounds, len(got), operations(got)[:60])
	}
}

func TestPruneActsTakesWhatIsOld(t *testing.T) {
	db, clock := openTemp(t)
	must(t, db.Audit.Record(t.Context(), act(clock.now(), 7, "old")))
	clock.advance(time.Hour)
	must(t, db.Audit.Record(t.Context(), act(clock.now(), 7, "new")))
	n, err := db.Audit.Prune(t.Context(), 100, clock.now())
	must(t, err)
	got, err := db.Audit.Records(t.Context(), app.AuditQuery{Limit: 9})
	if n != 1 || err != nil || operations(got) != "new" {
		t.Errorf("removed %d, left %q, %v", n, operations(got), err)
	}
}

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
		if r.From == elsewhere {
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
