//go:build linux

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/coder/websocket"

	"berth/client"
)

// attacks on the terminal of who reads what others have chosen.
var attacks = map[string]string{
	"the clipboard, OSC 52":      "\x1b]52;c;ZWNobyBvd25lZA==\a",
	"the title":                  "\x1b]0;root@host\x1b\\",
	"a link, OSC 8":              "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
	"a device control string":    "\x1bP+q544e\x1b\\",
	"clear the screen":           "\x1b[2J\x1b[H",
	"hidden text":                "\x1b[8mrm -rf /\x1b[0m",
	"the other screen":           "\x1b[?1049h",
	"C1 controls":                "\u009b2J\u009d0;x\u009c\u0090q",
	"a line written over":        "\rberth: all is well\x7f\b\b",
	"asking the terminal":        "\x1b[c\x05",
	"the direction":              "\u202etxt.exe\u2066",
	"text without a width":       "\u200b\ufeff\u2028",
	"a NUL, a bell, a form feed": "\x00\a\f\v",
}

// acting reports whether a terminal obeys a character of a program that writes to no
// terminal and so has no colours.
func acting(r rune) bool {
	return r != '\n' && unicode.IsControl(r) || slices.Contains([]rune{0x061c, 0x200e, 0x200f, 0x2028, 0x2029, 0xfeff}, r) ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// told are texts that berth's own programs read, and that are not shown as they are.
var told = regexp.MustCompile(`^(\d+|\d{4}-\d\d-\d\dT.*|ok|bot-one|EMPTY|PIN)$`)

// poisoned is an answer with an attack in each of its texts.
func poisoned(v any, attack string) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = poisoned(value, attack)
		}
	case []any:
		for i := range v {
			v[i] = poisoned(v[i], attack)
		}
	case string:
		if !told.MatchString(v) {
			return v + attack
		}
	}
	return v
}

// evil is a server that answers as berth does, by berth's recorded answers, with an attack
// in every text. The asked requests are kept in answered.
func evil(t *testing.T, attack string, answered *sync.Map) *httptest.Server {
	t.Helper()
	answers := map[string]any{}
	files, err := filepath.Glob("../httpapi/testdata/*_ok*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded answers: %v", err)
	}
	slices.Sort(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var g struct {
			Request string
			Status  int
			Body    any
		}
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatal(err)
		}
		request, _, _ := strings.Cut(g.Request, "?")
		if body, is := g.Body.(map[string]any); is && g.Status == 200 && (answers[request] == nil || !strings.Contains(file, "_empty")) {
			answers[request] = poisoned(body, attack)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			line, _ := json.Marshal(map[string]any{"app": "bot-one", "build": false, "pos": "1:2", "text": "2026-11-20T09:31:02.123Z out" + attack + "\n"})
			state, _ := json.Marshal(map[string]any{"app": "bot-one", "state": "online" + attack, "why": "why" + attack, "name": "bot" + attack})
			fmt.Fprintf(w, "id: 1\nevent: app.log\ndata: %s\n\nid: 2\nevent: app.state\ndata: %s\n\nid: 3\nevent: app.exit\ndata: %s\n\n", line, state, state)
			fmt.Fprintf(w, "id: 4\nevent: end\ndata: {}\n\nid: 5\nevent: app.removed\ndata: %s\n\n", state)
			answered.Store(r.Method+" "+r.URL.Path, true)
			return
		}
		if r.URL.Path == "/v2/ws/app/bot-one/exec" {
			if conn, err := websocket.Accept(w, r, nil); err == nil {
				text, _ := json.Marshal(map[string]any{"exit": map[string]any{"code": 137, "reason": "reason" + attack}})
				_ = conn.Write(r.Context(), websocket.MessageText, text)
				_ = conn.Close(websocket.StatusNormalClosure, "")
				answered.Store(r.Method+" "+r.URL.Path, true)
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v2/upload" || r.URL.Path == "/v2/app/bot-one/commit" {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			for _, p := range []client.Progress{{ID: "bot-one", Phase: "queued" + attack, Position: 2}, {ID: "bot-one", Phase: "building", Log: "step" + attack + "\n"}} {
				text, _ := json.Marshal(p)
				fmt.Fprintf(w, "event: progress\ndata: %s\n\n", text)
			}
			text, _ := json.Marshal(answers[r.Method+" "+r.URL.Path])
			fmt.Fprintf(w, "event: done\ndata: %s\n\n", text)
			answered.Store(r.Method+" "+r.URL.Path, true)
			return
		}
		body, known := answers[r.Method+" "+r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusConflict)
			body = map[string]any{"status": "error", "message": "no" + attack + "\n" + attack, "requestId": "r" + attack, "logs": "l" + attack}
		}
		answered.Store(r.Method+" "+r.URL.Path, known)
		text, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(s.Close)
	return s
}

// Whatever a server, or the programs on it, say: a command shows it, and a terminal does
// nothing else with it, as JSON or not.
func TestNothingActsOnTheTerminal(t *testing.T) {
	project := t.TempDir()
	for name, text := range map[string]string{"discloud.config": "TYPE=bot\nMAIN=main.py\nRAM=100\nVERSION=latest\n", "main.py": "print()\n", "variables": "A=1\n"} {
		if err := os.WriteFile(filepath.Join(project, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commands := [][]string{
		{"ls"},
		{"whoami"},
		{"status"},
		{"status", "bot-one"},
		{"env", "list", "bot-one"},
		{"deploys", "bot-one"},
		{"events", "bot-one"},
		{"events", "-f", "bot-one"},
		{"logs", "bot-one"},
		{"logs", "bot-one", "-f"},
		{"domain", "list"},
		{"team", "list", "bot-one"},
		{"start", "bot-one"},
		{"stop", "bot-one"},
		{"restart", "bot-one"},
		{"ram", "bot-one", "200"},
		{"send", "bot-one", "hello"},
		{"rollback", "bot-one"},
		{"status", "nobody"},
		{"env", "set", "bot-one", "A=1"},
		{"env", "unset", "bot-one", "A"},
		{"delete", "bot-one", "--yes"},
		{"open", "bot-one", "--print"},
		{"exec", "bot-one", "--", "true"},
		{"domain", "add", "shop.example.org", "bot-one"},
		{"domain", "verify", "shop.example.org"},
		{"domain", "remove", "shop.example.org"},
		{"team", "add", "bot-one", "2", "--may", "logs_app"},
		{"team", "remove", "bot-one", "2"},
		{"notify", "list"},
		{"notify", "add", "webhook", "https://example.org/in", "--name", "hook"},
		{"notify", "set", "4", "--least", "info"},
		{"notify", "test", "4"},
		{"notify", "on", "4"},
		{"notify", "secret", "4"},
		{"notify", "secret", "4", "--end"},
		{"notify", "deliveries", "4"},
		{"notify", "again", "9"},
		{"notify", "remove", "4"},
		{"notify", "remove", "nobody"},
		{"token", "list"},
		{"token", "create", "--label", "ci"},
		{"token", "create", "--app", "bot-one", "--may", "logs_app"},
		{"token", "revoke", "3"},
		{"deploy", project, "--app", "bot-one"},
		{"deploy", project, "--new"},
		{"deploy", project, "--app", "bot-one", "--detach"},
		{"login", "URL", "--context", "evil"},
		{"context", "list"},
		{"env", "push", "bot-one", filepath.Join(project, "variables")},
		{"env", "push", "bot-one", filepath.Join(project, "variables"), "--exact"},
		{"env", "pull", "bot-one", filepath.Join(project, "pulled"), "--force"},
		{"app", "backup", "make", "bot-one"},
		{"app", "backup", "ls", "bot-one"},
		{"app", "backup", "get", "bot-one", filepath.Join(project, "backup.zip"), "--force"},
		{"app", "backup", "restore", "bot-one", "--number", "1", "--yes"},
		{"app", "snapshot", "ls", "bot-one"},
		{"app", "snapshot", "restore", "bot-one", "--yes"},
		{"app", "snapshot", "restore", "bot-one", "--as-new"},
		{"app", "snapshot", "restore", "bot-one", "none"},
		{"init", project, "--force"},
		{"__complete", "status", ""},
		{"__complete", "env", "unset", "bot-one", ""},
		{"__complete", "domain", "verify", ""},
		{"__complete", "notify", "test", ""},
		{"__complete", "app", "snapshot", "restore", "bot-one", ""},
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("BERTH_RUNTIME_DIR", "/none")
	answered := &sync.Map{}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			s := evil(t, attack, answered)
			env := map[string]string{"BERTH_URL": s.URL, "BERTH_TOKEN": "token"}
			for _, args := range commands {
				for _, form := range []string{"", "--json"} {
					args := slices.Clone(args)
					if args[0] == "login" {
						args[1] = s.URL
					}
					if form != "" {
						args = append(args, form)
					}
					code, stdout, stderr := start(t, env, args...)
					if args[0] == "__complete" { // a tab is between a word and what it is
						stdout = strings.ReplaceAll(stdout, "\t", "\n")
					}
					for stream, text := range map[string]string{"stdout": stdout, "stderr": stderr} {
						if i := strings.IndexFunc(text, acting); i >= 0 {
							t.Errorf("berth %s (%d): a terminal would obey %s: %q", strings.Join(args, " "), code, stream, text[max(0, i-60):min(len(text), i+60)])
						}
						if strings.Contains(text, attack) {
							t.Errorf("berth %s: the attack is in %s", strings.Join(args, " "), stream)
						}
					}
				}
			}
		})
	}
	for _, must := range []string{
		"GET /v2/app/all", "GET /v2/user", "GET /v2/app/bot-one/deploys", "GET /v2/app/bot-one/events", "GET /v2/app/bot-one/env", "GET /v2/events",
		"PUT /v2/app/bot-one/restart", "POST /v2/app/bot-one/input", "GET /v2/token", "GET /v2/ws/app/bot-one/exec", "POST /v2/token", "POST /v2/channel", "PUT /v2/channel/4", "GET /v2/channel/4/deliveries", "POST /v2/delivery/9/again", "POST /v2/upload", "PUT /v2/app/bot-one/commit",
		"GET /v2/app/bot-one/snapshots", "POST /v2/app/bot-one/copy",
	} {
		if known, _ := answered.Load(must); known != true {
			t.Errorf("nothing has asked for %s", must)
		}
	}
}

// What is meant for a file or another program is what the program has printed.
func TestRawIsWhatAProgramPrints(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("BERTH_RUNTIME_DIR", "/none")
	attack := attacks["the clipboard, OSC 52"]
	s := evil(t, attack, &sync.Map{})
	code, stdout, stderr := start(t, map[string]string{"BERTH_URL": s.URL, "BERTH_TOKEN": "token"}, "logs", "bot-one", "--raw")
	if code != 0 || !strings.Contains(stdout, "out"+attack+"\n") {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
}
