package db

import (
	"fmt"
	"slices"
	"strings"
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
