//go:build linux

package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"berth/app"
	"berth/daemon"
	"berth/db"
	"berth/files"
	"berth/web/local"
)

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			// An owner's own settings must not reach the scripts.
			env.Setenv("BERTH_DATA_DIR", filepath.Join(env.WorkDir, "data"))
			env.Setenv("BERTH_RUNTIME_DIR", filepath.Join(env.WorkDir, "run"))
			env.Setenv("BERTH_CONFIG", filepath.Join(env.WorkDir, "berth.toml"))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second under -race
			return os.WriteFile(filepath.Join(env.WorkDir, "berth.toml"), nil, 0o600)
		},
		Condition: func(cond string) (bool, error) {
			if cond != "root" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return os.Getuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"database": scriptDatabase,
			"deploy":   scriptDeploy,
			"forget":   scriptForget,
			"keep":     scriptKeep,
			"locks":    scriptLocks,
			"mode":     scriptMode,
			"answers":  scriptAnswers,
			"serves":   scriptServes,
			"status":   scriptStatus,
			"hostile":  scriptHostile,
			"server":   scriptServer,
		},
	})
}

// scriptStatus is "status CODE COMMAND...".
func scriptStatus(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var exit *exec.ExitError
	got := 0
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d: %s", got, want, ts.ReadFile("stderr"))
	}
}

// scriptDatabase is "database [DIR]": berth has been started there.
func scriptDatabase(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.Getenv("BERTH_DATA_DIR")
	if len(args) > 0 {
		dir = ts.MkAbs(args[0])
	}
	d, err := daemon.MakeDatabase(context.Background(), dir)
	ts.Check(err)
	ts.Check(d.Close())
}

// scriptServes is "serves DIR": a daemon at the local socket says that it serves DIR; or
// "serves nonsense" for what is no berth, until the script ends or the next one.
func scriptServes(ts *testscript.TestScript, _ bool, args []string) {
	run := ts.Getenv("BERTH_RUNTIME_DIR")
	ts.Check(os.RemoveAll(run))
	l, err := local.Open(run)
	ts.Check(err)
	answer := local.Daemon{PID: 4711, DataDir: ts.MkAbs(args[0])}
	if args[0] == "nonsense" {
		answer = local.Daemon{}
	}
	plan := local.Plan{
		HostMB: 1024, ReserveMB: 256, Overcommit: 1.5, CapacityMB: 1152, PromisedMB: 2048, GivenMB: 1200, Apps: 3, RunningMB: 448, Used: 100 << 20, Days: 30,
		Worst: &local.Moment{At: time.Date(2026, 11, 20, 18, 40, 0, 0, time.UTC), Used: 200 << 20, HadMB: 448, Apps: 2},
		Offers: []local.Offer{
			{Overcommit: 1, CapacityMB: 768, MoreMB: -432, Worst: 45, Verdict: app.RAMFits},
			{Overcommit: 1.5, CapacityMB: 1152, MoreMB: -48, Worst: 68, Verdict: app.RAMFits},
			{Overcommit: 2, CapacityMB: 1536, MoreMB: 336, Worst: 90, Verdict: app.RAMTight},
		},
		Message: "At the worst moment, programs used 45 % of their RAM: host.overcommit 1.5 fits.",
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch { // who asked may be gone
		case r.URL.Path == local.PlanPath && args[0] == "nonsense":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"status":"error","message":"Internal error."}`)
		case r.URL.Path == local.PlanPath:
			_ = json.NewEncoder(w).Encode(plan)
		default:
			_ = json.NewEncoder(w).Encode(answer)
		}
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	ts.Defer(func() { _ = server.Close(); <-done })
}

// scriptLocks is "locks DIR": another daemon has the directory until the script ends.
func scriptLocks(ts *testscript.TestScript, _ bool, args []string) {
	f, err := files.Lock(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { _ = f.Close() })
}

// inDatabase runs do on the database of a script.
func inDatabase(ts *testscript.TestScript, do func(context.Context, *db.DB) error) {
	d, err := db.Open(context.Background(), filepath.Join(ts.Getenv("BERTH_DATA_DIR"), "berth.db"), time.Now)
	ts.Check(err)
	ts.Check(errors.Join(do(context.Background(), d), d.Close()))
}

// scriptDeploy is "deploy ACCOUNT-ID APP MB [NAME [LANG VERSION]]": what the daemon remembers of an upload.
func scriptDeploy(ts *testscript.TestScript, _ bool, args []string) {
	owner, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	ram, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	inDatabase(ts, func(ctx context.Context, d *db.DB) error {
		a := app.App{ID: app.ID(args[1]), Account: app.AccountID(owner), RAM: app.MB(ram), Wanted: app.WantOnline}
		if len(args) > 3 {
			a.Name = args[3]
		}
		if len(args) > 5 {
			a.Code.Lang, a.Code.Version = args[4], args[5]
		}
		ids := db.IDRange{UIDBase: 70000, UIDCount: 10, PortFirst: 20000, PortLast: 20009}
		a, err := d.Allocations(ids).Reserve(ctx, a, func(app.Account, app.Use) error { return nil })
		if err != nil {
			return err
		}
		_, err = d.Apps.CreateApp(ctx, a, app.Deploy{By: a.Account, Kind: app.DeployUpload})
		return err
	})
}

// scriptForget is "forget APP": the application was deleted.
func scriptForget(ts *testscript.TestScript, _ bool, args []string) {
	inDatabase(ts, func(ctx context.Context, d *db.DB) error {
		id := app.ID(args[0])
		return errors.Join(d.Apps.DeleteApp(ctx, id), d.Allocations(db.IDRange{}).Release(ctx, id))
	})
}

// scriptHostile is "hostile": strangers have chosen all texts of an act.
func scriptHostile(ts *testscript.TestScript, _ bool, _ []string) {
	inDatabase(ts, func(ctx context.Context, d *db.DB) error {
		return d.Audit.Record(ctx, app.AuditRecord{
			At: time.Now(), Actor: 7, Name: "\x1b[2Jroot", Token: 3, Label: "\x1b]0;x\a", From: "192.0.2.1", Operation: "app.stop",
			App: "\u202eshop", Detail: "a\tb\nc", Status: 404, Refusal: "no \x1b[31m", Times: 12,
		})
	})
}

// scriptKeep is "keep NAME": the last output becomes the variable NAME.
func scriptKeep(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// scriptMode is "mode FILE OCTAL".
func scriptMode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := strconv.FormatInt(int64(info.Mode().Perm()), 8); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

// scriptAnswers is "answers TOKEN NAME" or "! answers TOKEN": whether the token
// is one that the daemon would know.
func scriptAnswers(ts *testscript.TestScript, neg bool, args []string) {
	inDatabase(ts, func(ctx context.Context, d *db.DB) error {
		a, _, err := d.Accounts.AccountByToken(ctx, sha256.Sum256([]byte(args[0])))
		if neg {
			if app.KindOf(err) != app.NotFound {
				ts.Fatalf("the token answers for %q, %v", a.Name, err)
			}
			return nil
		}
		if err == nil && a.Name != args[1] {
			ts.Fatalf("the token answers for %q, want %q", a.Name, args[1])
		}
		return err
	})
}
