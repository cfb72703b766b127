package host

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/daemon/mover"
	"berth/test/hosted"
	"berth/web/local"
)

// A restore holds the programs, but with --start, and resume ends the hold. An interrupted restore has no hold that could be missed: it has no database.
func TestRestoreHolds(t *testing.T) {
	h := hosted.New(t)
	parent := filepath.Dir(h.Path)
	file := filepath.Join(parent, "all.tar.gz")
	// That of a host which is held itself does not bring that hold along.
	hosted.Must(t, h.DB.Holds.SetHold(t.Context(), app.Hold{Why: app.HoldMoved, Peer: "elsewhere", At: time.Now()}))
	if code, _, errs := berthBeside(h, "backup", "create", "--to", file, "--data-dir", h.Path); code != 0 {
		t.Fatal(errs)
	}
	m, err := verifyBackup(t.Context(), file)
	hosted.Must(t, err)
	for name, tt := range map[string]struct {
		more []string
		want app.HoldReason
	}{
		"held":    {nil, app.HoldRestored},
		"started": {[]string{"--start"}, ""},
	} {
		to := filepath.Join(parent, name)
		code, _, errs := berthBeside(h, append([]string{"backup", "restore", file, "--data-dir", to}, tt.more...)...)
		if code != 0 || strings.Contains(errs, "the programs are held, so that they do not run here and on "+m.Host) != (tt.want != "") {
			t.Fatalf("%s: %d %s", name, code, errs)
		}
		there := hosted.Open(t, to)
		hold, _, err := there.DB.Holds.HoldOf(t.Context())
		hosted.Must(t, err)
		if hold.Why != tt.want || tt.want != "" && (hold.Peer != m.Host || time.Since(hold.At) > time.Minute) {
			t.Errorf("%s: the hold is %+v", name, hold)
		}
		want := "the programs are not held any more: those that were online start with berth"
		for range 2 {
			if tt.want == "" {
				want = "this host holds no programs"
			}
			if code, _, errs := berthBeside(h, "resume", "--data-dir", to); code != 0 || !strings.Contains(errs, want) {
				t.Errorf("%s, resume: %d %s", name, code, errs)
			}
			tt.want = ""
		}
		if _, held, err := there.DB.Holds.HoldOf(t.Context()); err != nil || held {
			t.Errorf("%s, afterwards: %t, %v", name, held, err)
		}
		records, err := there.DB.Audit.Records(t.Context(), app.AuditQuery{Operation: "host.resume", Limit: 10})
		if err != nil || (len(records) == 1) != (name == "held") {
			t.Errorf("%s: recorded are %+v, %v", name, records, err)
		}
	}
}

func TestResumeRefusals(t *testing.T) {
	h := hosted.New(t)
	hosted.Must(t, h.DB.Holds.SetHold(t.Context(), app.Hold{Why: app.HoldMoved, Peer: "new\x1b.example", At: time.Now()}))
	held := func(what string) {
		t.Helper()
		if _, held, err := h.DB.Holds.HoldOf(t.Context()); err != nil || !held {
			t.Errorf("%s: the hold is gone, %v", what, err)
		}
	}
	code, _, errs := berthBeside(h, "resume", "--data-dir", h.Path)
	if code != 1 || !strings.Contains(errs, `cannot start the programs: they moved to "new\x1b.example" on `) || !strings.Contains(errs, "berth resume --force then starts them here") {
		t.Errorf("moved: %d %s", code, errs)
	}
	held("without --force")
	end, err := mover.Lock(h.Path, 0)
	hosted.Must(t, err)
	if code, _, errs := berthBeside(h, "resume", "--force", "--data-dir", h.Path); code != 1 || !strings.Contains(errs, "a move of this host's programs is under way") {
		t.Errorf("during a move: %d %s", code, errs)
	}
	held("during a move")
	end()
	if code, _, errs := berthBeside(h, "resume", "--force", "--data-dir", h.Path); code != 0 || !strings.Contains(errs, "start with berth") {
		t.Errorf("forced: %d %s", code, errs)
	}
}

// A command that changes a hold lets the daemon read it anew, and prints what the daemon answers.
func TestDaemonHearsOfAHold(t *testing.T) {
	h := hosted.New(t)
	dir := filepath.Join(filepath.Dir(h.Path), "run")
	l, err := local.Open(dir)
	hosted.Must(t, err)
	var asked atomic.Int64
	var refuses atomic.Bool
	listener := local.NewListener(dir, func(uint32, int32) {})
	listener.Use(l)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == local.HostPath:
			_, _ = w.Write([]byte(`{"pid":1,"dataDir":"` + h.Path + `"}`))
		case refuses.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"message":"that takes too long"}`))
		case r.Method == http.MethodPut && r.URL.Path == local.HoldPath:
			asked.Add(1)
		}
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	resume := func() (int, string) {
		var out, errs bytes.Buffer
		code := Run(context.Background(), []string{"resume", "--data-dir", h.Path}, func(name string) string {
			return map[string]string{"BERTH_CONFIG": "/dev/null", "BERTH_RUNTIME_DIR": dir}[name]
		}, &out, &errs)
		return code, errs.String()
	}
	hold := app.Hold{Why: app.HoldRestored, Peer: "old", At: time.Now()}
	hosted.Must(t, h.DB.Holds.SetHold(t.Context(), hold))
	if code, errs := resume(); code != 0 || !strings.Contains(errs, "those that were online start now") || asked.Load() != 1 {
		t.Errorf("%d %s, asked %d times", code, errs, asked.Load())
	}
	refuses.Store(true)
	hosted.Must(t, h.DB.Holds.SetHold(t.Context(), hold))
	if code, errs := resume(); code != 1 || !strings.Contains(errs, "the change is stored, and cannot reach what runs: that takes too long") {
		t.Errorf("refused: %d %s", code, errs)
	}
}

// What move refuses without asking anybody.
func TestMoveRefusals(t *testing.T) {
	h := hosted.New(t)
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"move"}, 2, "an argument is missing"},
		{[]string{"move", "--data-dir", h.Path, "--", "-oProxyCommand=id"}, 2, `"-oProxyCommand=id" cannot be the name of a host`},
		{[]string{"move", "--data-dir", h.Path, "new", "newer"}, 2, `unexpected argument "newer"`},
		{[]string{"move", "--data-dir", h.Path, "new"}, 1, "berth does not run here, and somebody has to stop its programs"},
	} {
		if code, _, errs := berthBeside(h, tt.args...); code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%v: %d %s", tt.args, code, errs)
		}
	}
	end, err := mover.Lock(h.Path, 0)
	hosted.Must(t, err)
	defer end()
	if code, _, errs := berthBeside(h, "move", "--data-dir", h.Path, "new"); code != 1 || !strings.Contains(errs, "a move of this host's programs is under way") {
		t.Errorf("during another: %d %s", code, errs)
	}
}

// What a person reads when a move does not succeed says what has changed.
func TestMoveProblems(t *testing.T) {
	errNo := errors.New("no \x1b[2J")
	m := &moving{c: &caller{&command.Caller{}}, to: "new"}
	for _, tt := range []struct {
		err        error
		code       int
		says, hint string
	}{
		{errNo, 1, `cannot move to new: no \x1b[2J`, "Hint: nothing was changed here, and programs run on."},
		{&mover.HeldError{Err: errNo}, 1, `the move to new is not finished: no \x1b[2J`, again},
		{exit.NewProblem(exit.Unreachable, errNo, "x"), 7, "no \x1b[2J", "x"},
		{&mover.HeldError{Err: exit.NewProblem(exit.Unreachable, errNo, "x")}, 7, `the move to new is not finished: no \x1b[2J`, again},
	} {
		p, is := errors.AsType[*exit.Problem](m.problem(tt.err))
		if !is || p.Code != tt.code || p.Error() != tt.says || p.Hint != tt.hint {
			t.Errorf("%v: %+v", tt.err, p)
		}
	}
}
