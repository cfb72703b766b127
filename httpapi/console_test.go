package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"berth/app"
)

func (w *world) Console(ctx context.Context, owner app.AccountID, id app.ID, command string) (app.Shell, error) {
	w.pause(ctx, "Console "+string(id))
	return w.shell, w.change(w.call("Console", id, command), owner, id)
}

// saying is the arrangement of what a command says.
func saying(s app.Shell) func(*world) { return func(w *world) { w.shell = s } }

func printed(s string) app.Output { return app.Output{Text: s} }

func consoleScenes() []scene {
	const op = "/v2/app/{appID}/console"
	make := func(outcome, body string, arrange func(*world)) scene {
		return scene{name: "app_console_" + outcome, method: "PUT", path: "/v2/app/bot-one/console", op: op, body: body, arrange: arrange}
	}
	run := `{"command":"ls -l"}`
	list := []scene{
		make("ok", run, saying(app.Shell{Online: true, Stdout: printed("total 0\n"), Stderr: printed("a warning\n")})),
		make("ok_offline", run, saying(app.Shell{Stdout: printed("total 0")})),
		make("ok_silent", run, nil),
		make("ok_failed", run, saying(app.Shell{Online: true, Stderr: printed("no such file"), Exit: app.Exit{Code: 2}})),
		make("ok_signal", run, saying(app.Shell{Exit: app.Exit{Code: 139, Signal: 11}})),
		make("ok_ended", run, saying(app.Shell{
			Online: true, Stdout: printed("begun"), Stderr: printed("so far"), Exit: app.Exit{Code: 137, Signal: 9},
			Cut: app.Textf("it took longer than 30s, the most it may"),
		})),
		make("ok_ram", run, saying(app.Shell{
			Online: true, Stderr: printed("Killed\n"), Exit: app.Exit{Code: 137, OOM: true, LimitMB: 64},
		})),
		make("ok_host_ram", run, saying(app.Shell{Online: true, Exit: app.Exit{Code: 137, Signal: 9, HostOOM: true}})),
		make("ok_dropped", run, saying(app.Shell{
			Stdout: app.Output{Text: "yes\nyes\nye", Dropped: 5 << 20}, Stderr: app.Output{Text: "no\n", Dropped: 100},
		})),
		make("ok_odd_text", run, saying(app.Shell{Stdout: printed("a\x00b\x1b[31m<é&\uFFFD>")})),
		make("invalid", `{"command":" \n"}`, nil),
		make("too_large", `{"command":"`+strings.Repeat("x", maxFields)+`"}`, nil),
		make("conflict", run, failing("Console", app.Conflict, "a console command of the application is running already; wait until it ends")),
		make("exhausted", run, failing("Console", app.Exhausted, "this host has 100 MB for applications")),
		make("too_many_own", run, failing("Console", app.Unavailable, "your account runs 2 console commands, as many as one may; try again when one has ended")),
		make("too_many", run, failing("Console", app.Unavailable, "this host runs 8 console commands, as many as it may; try again in a moment")),
	}
	missing := make("not_found", run, nil)
	missing.path = "/v2/app/nobody/console"
	return append(list, missing)
}

func TestConsoleCommands(t *testing.T) {
	quoted := func(s string) string { return `{"command":` + string(encode(s)) + `}` }
	long := strings.Repeat("x", maxCommand)
	for _, tt := range []struct {
		body string
		want string // the command, or a part of the refusal
		code int
	}{
		{quoted("ls"), "ls", 200},
		{quoted("  echo 'é\t\x01'\nexit  "), "  echo 'é\t\x01'\nexit  ", 200},
		{quoted(long), long, 200},
		{`{"command":"a","other":1}`, "a", 200},
		{quoted(long + "x"), "8193 bytes, and 8192 are allowed", 400},
		{quoted(""), "missing or empty", 400},
		{quoted(" \t\n"), "missing or empty", 400},
		{`{"command":null}`, "missing or empty", 400},
		{`{}`, "missing or empty", 400},
		{quoted("a\x00b"), "NUL", 400},
		{`{"command":["ls"]}`, "must be a text", 400},
		{`{"command":1}`, "must be a text", 400},
		{"", "no body", 400},
		{`ls`, "not valid JSON", 400},
	} {
		w := newWorld(t)
		rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/console", tt.body))
		if rec.Code != tt.code {
			t.Errorf("%.40s: status %d, want %d", tt.body, rec.Code, tt.code)
		}
		switch {
		case tt.code != 200:
			if !strings.Contains(rec.Body.String(), tt.want) || w.called("Console") > 0 {
				t.Errorf("%.40s: %s", tt.body, rec.Body)
			}
		case w.calls[len(w.calls)-2] != "Console bot-one "+tt.want: // App is the last
			t.Errorf("%.40s: it ran %q", tt.body, w.calls)
		}
	}
}

// Whatever a command prints comes out of the answer as it went in.
func TestConsoleTextSurvives(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r < 0x3000; r++ {
		all.WriteRune(r)
	}
	w := newWorld(t)
	w.shell = app.Shell{Stdout: printed(all.String())}
	rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/console", `{"command":"x"}`))
	var got struct {
		Apps struct {
			Shell struct{ Cmd, Stdout, Stderr string }
		}
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if s := got.Apps.Shell; s.Stdout != all.String() || s.Cmd != all.String() || s.Stderr != "" {
		t.Error("the text changed on its way")
	}
}

// A command's text is in no log line, neither of a good request nor of a bad one.
func TestConsoleCommandsAreNotLogged(t *testing.T) {
	for _, fail := range []error{nil, app.Errorf(app.Conflict, "busy"), context.Canceled} {
		w := newWorld(t)
		log := &strings.Builder{}
		w.config.Log = slog.New(slog.NewTextHandler(log, nil))
		if fail != nil {
			w.fail["Console"] = fail
		}
		w.shell = app.Shell{Stdout: printed("its output")}
		do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/console", `{"command":"echo secret"}`))
		if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "output") || !strings.Contains(log.String(), "/console") {
			t.Errorf("the log says %s", log)
		}
	}
}
