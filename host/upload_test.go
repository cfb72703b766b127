package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"berth/app"
)

func TestUploadRuns(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		begin := time.Now()
		d, err := w.upload("MAIN=a,RAM=200")
		if err != nil || d.State != app.Online || !d.Running || d.RAM != 200 || d.Logs != "" {
			t.Fatalf("Upload() = %+v, %v; want it online with 200 MB", d, err)
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("the answer took %s, want the ok delay", took)
		}
		if len(d.ID) < 13 || strings.Trim(string(d.ID), "0123456789") != "" {
			t.Errorf("the id is %q, want 13 or more digits", d.ID)
		}
		if p := w.runs[0].p; p.RAM != 200 || p.UID < 70000 || p.Port == 0 || p.Run != 1 || p.Argv[1] != "a" {
			t.Errorf("it was started as %+v", p)
		}
		other, err := w.upload("MAIN=b")
		if err != nil || other.ID == d.ID || other.RAM != 100 {
			t.Errorf("a second upload: %+v, %v; want another id and the default RAM", other, err)
		}
		if list := w.host.Apps(owner); len(list) != 2 || list[0].ID != d.ID {
			t.Errorf("Apps() = %v, want both, oldest first", list)
		}
		if list := w.host.Apps(2); len(list) != 0 {
			t.Errorf("another account sees %v", list)
		}
	})
}

func TestUploadThatDiesIsThere(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(1, 50*time.Millisecond))
		d, err := w.upload("MAIN=a")
		if err != nil || d.Running || d.ExitCode() != 1 || !strings.Contains(d.Logs, "last words") {
			t.Fatalf("Upload() = %+v, %v; want it offline with code 1 and its last lines", d, err)
		}
		if s := w.snapshot(d.ID); s.State != app.Stopped || s.Wanted != app.WantStopped || w.recorded(d.ID).Wanted != app.WantStopped {
			t.Errorf("then it is %+v", s)
		}
		if !w.noted(d.ID, "exited with code 1 after 100ms") {
			t.Errorf("its log says %q", w.notes[d.ID])
		}
	})
}

func TestUploadThatCannotStartIsThere(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{err: errTest} })
		d, err := w.upload("MAIN=a")
		if err != nil || d.Running || !strings.Contains(d.Logs, "did not start") {
			t.Errorf("Upload() = %+v, %v; want it there, offline, and why", d, err)
		}
	})
}

func TestUploadRefusals(t *testing.T) {
	tests := []struct {
		name, file string
		prepare    func(w *world)
		kind       app.Kind
		says       string
	}{
		{"not a ZIP", "bad", nil, app.Unusable, "not a ZIP"},
		{"no config", "", nil, app.Unusable, "no MAIN"},
		{"no MAIN", "MAIN=missing", nil, app.Unusable, "no MAIN"},
		{"over the account", "MAIN=a,RAM=1001", nil, app.Exhausted, "discloud.config: RAM=1001: the account"},
		{"site without ID", "MAIN=a,TYPE=site", nil, app.Unusable, "TYPE=site needs ID"},
		{"site with a bad ID", "MAIN=a,TYPE=site,ID=a_b", nil, app.Unusable, `ID="a_b"`},
		{"site called all", "MAIN=a,TYPE=site,ID=all", nil, app.Unusable, `ID="all"`},
		{"site of digits", "MAIN=a,TYPE=site,ID=1745338954955", nil, app.Unusable, "with a letter"},
		{"publish fails", "MAIN=a", func(w *world) { w.breaks("Publish", errTest) }, app.Internal, "it broke"},
		{"the record fails", "MAIN=a", func(w *world) { w.breaks("CreateApp", errTest) }, app.Internal, "it broke"},
		{"build fails", "MAIN=a,BUILD=make", func(w *world) { w.set(exits(2, time.Second)) }, app.Unusable, `"make" failed with exit code 2`},
		{"build cannot start", "MAIN=a,BUILD=make", func(w *world) {
			w.set(func(app.Program) behaviour { return behaviour{err: errTest} })
		}, app.Internal, "it broke"},
		{"build takes too much memory", "MAIN=a,BUILD=make", func(w *world) {
			w.set(func(app.Program) behaviour {
				return behaviour{exit: &app.Exit{Code: 137, OOM: true}, life: time.Second}
			})
		}, app.Unusable, "needed more than 512 MB"},
		{"build takes too long", "MAIN=a,BUILD=make", nil, app.Unusable, "took longer than 10m0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				if tt.prepare != nil {
					tt.prepare(w)
				}
				_, err := w.upload(tt.file)
				wantKind(t, err, tt.kind)
				if err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("the sentence is %q, want %q in it", err, tt.says)
				}
				if len(w.host.Apps(owner)) != 0 || len(w.apps) != 0 {
					t.Errorf("an application is there: %v", w.apps)
				}
			})
		})
	}
}

func TestBuildErrorsCarryTheOutput(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(2, time.Second))
		_, err := w.upload("MAIN=a,BUILD=make")
		var e *app.Error
		if !errors.As(err, &e) || e.Logs != "build output\n" {
			t.Errorf("got %#v, want the build's output with it", err)
		}
	})
}

func TestBuildsTakeTurns(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(p app.Program) behaviour {
			if !p.Build {
				return behaviour{}
			}
			for _, r := range w.runs {
				if r.p.Build && !r.ended() {
					t.Error("two builds at once")
				}
			}
			return behaviour{exit: &app.Exit{}, life: time.Minute}
		})
		begin := time.Now()
		done := make(chan error, 3)
		for range 3 {
			go func() { _, err := w.upload("MAIN=a,BUILD=make"); done <- err }()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took < 3*time.Minute {
			t.Errorf("three builds of a minute took %s", took)
		}
	})
}
