package backup

import (
	"testing"
	"time"

	"berth/app"
)

// at is a moment in a zone with summer time.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Lisbon")
	if err != nil {
		t.Fatal(err)
	}
	moment, err := time.ParseInLocation("2006-01-02 15:04", text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func TestDue(t *testing.T) {
	ran := func(text, why string) *app.BackupRun {
		began := at(t, text)
		return &app.BackupRun{Began: began, Ended: began.Add(10 * time.Minute), Error: why}
	}
	rehearsed := ran("2026-11-20 04:00", "")
	for name, tt := range map[string]struct {
		st     app.BackupStatus
		failed int
		now    string
		kind   app.BackupKind
		at     string
	}{
		"the first":            {app.BackupStatus{}, 0, "2026-11-26 12:00", app.BackupMade, "2026-11-26 12:00"},
		"the next night":       {app.BackupStatus{Good: ran("2026-11-26 03:15", ""), Rehearsed: rehearsed}, 0, "2026-11-26 12:00", app.BackupMade, "2026-11-27 03:15"},
		"tonight":              {app.BackupStatus{Good: ran("2026-11-25 12:00", ""), Rehearsed: rehearsed}, 0, "2026-11-26 02:00", app.BackupMade, "2026-11-26 03:15"},
		"missed":               {app.BackupStatus{Good: ran("2026-11-24 03:15", "")}, 0, "2026-11-26 09:00", app.BackupMade, "2026-11-26 09:00"},
		"missed by a minute":   {app.BackupStatus{Good: ran("2026-11-26 03:14", "")}, 0, "2026-11-26 03:15", app.BackupMade, "2026-11-26 03:15"},
		"failed once":          {app.BackupStatus{Last: ran("2026-11-26 03:15", "x")}, 1, "2026-11-26 03:30", app.BackupMade, "2026-11-26 03:40"},
		"failed twice":         {app.BackupStatus{Last: ran("2026-11-26 03:15", "x")}, 2, "2026-11-26 03:30", app.BackupMade, "2026-11-26 04:25"},
		"failed often":         {app.BackupStatus{Last: ran("2026-11-26 03:15", "x")}, 9, "2026-11-26 03:30", app.BackupMade, "2026-11-26 07:25"},
		"failed long ago":      {app.BackupStatus{Last: ran("2026-11-20 03:15", "x")}, 9, "2026-11-26 03:30", app.BackupMade, "2026-11-26 03:30"},
		"never rehearsed":      {app.BackupStatus{Good: ran("2026-11-26 03:15", "")}, 0, "2026-11-26 03:30", app.BackupRehearsed, "2026-11-26 03:30"},
		"rehearsed a week ago": {app.BackupStatus{Good: ran("2026-11-27 03:15", ""), Rehearsed: rehearsed}, 0, "2026-11-27 03:40", app.BackupRehearsed, "2026-11-27 04:00"},
		"a rehearsal failed":   {app.BackupStatus{Good: ran("2026-11-26 03:15", ""), Rehearsed: ran("2026-11-25 20:00", "x")}, 0, "2026-11-26 12:00", app.BackupRehearsed, "2026-11-26 20:10"},
		"the clock was wrong":  {app.BackupStatus{Good: ran("2031-01-01 03:15", ""), Last: ran("2031-01-01 03:15", "")}, 0, "2026-11-26 12:00", app.BackupMade, "2026-11-26 12:00"},
		"and a try failed":     {app.BackupStatus{Last: ran("2031-01-01 03:15", "x")}, 1, "2026-11-26 12:00", app.BackupMade, "2026-11-26 12:00"},
		"summer time begins":   {app.BackupStatus{Policy: app.BackupPolicy{At: "01:30"}, Good: ran("2026-03-28 01:30", ""), Rehearsed: ran("2026-03-28 02:00", "")}, 0, "2026-03-28 12:00", app.BackupMade, "2026-03-29 02:30"},
		"summer time ends":     {app.BackupStatus{Policy: app.BackupPolicy{At: "01:30"}, Good: ran("2026-10-25 01:30", ""), Rehearsed: ran("2026-10-24 02:00", "")}, 0, "2026-10-25 12:00", app.BackupMade, "2026-10-26 01:30"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.st.Policy.At == "" {
				tt.st.Policy.At = "03:15"
			}
			tt.st.Policy.Rehearse = 7 * 24 * time.Hour
			kind, when := Due(tt.st, tt.failed, at(t, tt.now))
			if kind != tt.kind || !when.Equal(at(t, tt.at)) {
				t.Errorf("%s at %s", kind, when)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	ended := time.Unix(1, 0)
	runs := []app.BackupRun{
		{Kind: app.BackupMade}, // under way
		{Kind: app.BackupMade, Ended: ended, Error: "x"},
		{Kind: app.BackupRehearsed, Ended: ended},
		{Kind: app.BackupMade, Ended: ended, Error: "x"},
		{Kind: app.BackupMade, Ended: ended},
		{Kind: app.BackupMade, Ended: ended, Error: "x"},
	}
	if n := Failures(runs, app.BackupMade); n != 2 {
		t.Errorf("%d", n)
	}
	if n := Failures(runs, app.BackupPruned); n != 0 {
		t.Errorf("%d", n)
	}
}
