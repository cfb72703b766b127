package app

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRunName(t *testing.T) {
	at := time.Date(2026, 11, 26, 4, 15, 7, 9, time.FixedZone("", 3600))
	if name := RunName(at); name != "20261126T031507Z" {
		t.Errorf("%s", name)
	}
	if back, ok := ParseRun(RunName(at)); !ok || !back.Equal(at.Truncate(time.Second)) {
		t.Errorf("%v, %v", back, ok)
	}
	for _, bad := range []string{"", "20261126T031507", "2026-11-26", "20261326T031507Z", "../x"} {
		if _, ok := ParseRun(bad); ok {
			t.Errorf("%q is a name", bad)
		}
	}
}

// What is kept of 400 nights.
func TestKeep(t *testing.T) {
	newest := time.Date(2026, 11, 26, 3, 15, 0, 0, time.UTC) // a Thursday
	var runs []string
	for n := range 400 {
		runs = append(runs, RunName(newest.AddDate(0, 0, -n)))
	}
	runs = append(runs, RunName(newest.Add(time.Hour)), "other") // a second one today
	for name, tt := range map[string]struct {
		p    BackupPolicy
		want string // the days
	}{
		"days":   {BackupPolicy{Daily: 3}, "26 25 24"},
		"weeks":  {BackupPolicy{Daily: 1, Weekly: 3}, "26 22 15"},
		"months": {BackupPolicy{Daily: 2, Weekly: 2, Monthly: 3}, "26 25 22 31 30"},
		"none":   {BackupPolicy{}, "26"},
	} {
		kept := tt.p.Keep(runs, time.UTC)
		var days []string
		for _, run := range kept {
			if at, ok := ParseRun(run); ok {
				days = append(days, at.Format("2"))
			}
		}
		if got := strings.Join(days, " "); got != tt.want || !slices.Contains(kept, "other") || !slices.Contains(kept, RunName(newest.Add(time.Hour))) {
			t.Errorf("%s: %s of %v", name, got, kept)
		}
	}
	// The days are those of the zone: 23:30 and 00:30 in UTC are one day two hours west.
	two := []string{"20261125T233000Z", "20261126T003000Z"}
	if kept := (BackupPolicy{Daily: 2}).Keep(two, time.FixedZone("", -2*3600)); len(kept) != 1 || kept[0] != two[1] {
		t.Errorf("%v", kept)
	}
	if kept := (BackupPolicy{Daily: 2}).Keep(two, time.UTC); len(kept) != 2 {
		t.Errorf("%v", kept)
	}
	if kept := (BackupPolicy{Daily: 2}).Keep(nil, time.UTC); len(kept) != 0 {
		t.Errorf("%v", kept)
	}
}

func TestBackupWarnings(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *BackupRun { return &BackupRun{Began: now.Add(-d), Ended: now.Add(-d)} }
	failed := ago(0)
	failed.Error = "x"
	p := BackupPolicy{Rehearse: 24 * time.Hour}
	for name, tt := range map[string]struct {
		st                   BackupStatus
		missing, unrehearsed bool
	}{
		"nothing set up":     {BackupStatus{}, false, false},
		"new":                {BackupStatus{Repository: "x", Since: now}, false, false},
		"none for days":      {BackupStatus{Repository: "x", Since: now.Add(-37 * time.Hour)}, true, false},
		"good":               {BackupStatus{Repository: "x", Good: ago(time.Hour), Rehearsed: ago(time.Hour)}, false, false},
		"an old one":         {BackupStatus{Repository: "x", Good: ago(37 * time.Hour), Rehearsed: ago(time.Hour)}, true, false},
		"an old rehearsal":   {BackupStatus{Repository: "x", Good: ago(time.Hour), Rehearsed: ago(49 * time.Hour)}, false, true},
		"a rehearsal failed": {BackupStatus{Repository: "x", Since: now.Add(-49 * time.Hour), Good: ago(time.Hour), Rehearsed: failed}, false, true},
	} {
		tt.st.Policy = p
		if m, u := tt.st.Missing(now), tt.st.Unrehearsed(now); m != tt.missing || u != tt.unrehearsed {
			t.Errorf("%s: %t, %t", name, m, u)
		}
	}
}
