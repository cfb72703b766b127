//go:build linux

package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"berth/cli/command"
)

// What people see of channels and deliveries, at the widths of a terminal and of a phone's.
func TestNotifyOnTheTerminal(t *testing.T) {
	compareOnTerminals(t, "notify", []string{"notify"},
		"list", "deliveries 4", "add webhook https://example.org/in", "secret 4", "test 4", "off 4", "again 9", "--help", "add --help")
}

// compareOnTerminals compares what commands of a group say, to berth's recorded answers, with
// the files of a directory of testdata, to the letter. BERTH_UPDATE=1 rewrites them.
func compareOnTerminals(t *testing.T, dir string, group []string, all ...string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("TZ", "UTC")
	t.Setenv("BERTH_RUNTIME_DIR", "/none")
	s := evil(t, "", &sync.Map{})
	env := map[string]string{"BERTH_URL": s.URL, "BERTH_TOKEN": "token"}
	for _, words := range all {
		for _, width := range []uint16{80, 40} {
			code, seen, said := onColumns(t, width, env, slices.Concat(group, strings.Fields(words))...)
			seen = strings.ReplaceAll(seen, "\r\n", "\n")
			for line := range strings.Lines(seen) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > int(width) && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("%s: %d columns at %d: %q", words, n, width, line)
				}
			}
			name := strings.NewReplacer(" ", "_", "https://example.org/in", "x", "--", "").Replace(words)
			file := filepath.Join("testdata", dir, name+map[uint16]string{80: "_80", 40: "_40"}[width]+".txt")
			got := seen + "-- stderr --\n" + said
			if os.Getenv("BERTH_UPDATE") != "" {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || code != 0 || got != string(want) {
				t.Errorf("%s at %d: exit code %d, %v, got\n%s\nwant\n%s", words, width, code, err, got, want)
			}
		}
	}
}

// sending runs a command with a standard input against a server that keeps what it was sent.
func sending(t *testing.T, stdin string, args ...string) (code int, stdout, stderr, sent string) {
	t.Helper()
	answers := evil(t, "", &sync.Map{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); len(body) > 0 {
			sent = r.Method + " " + r.URL.Path + " " + string(body)
		}
		answers.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	env := map[string]string{"BERTH_URL": s.URL, "BERTH_TOKEN": "token"}
	var out, problems bytes.Buffer
	c := &command.Caller{Args: args, Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &problems}
	code = execute(t.Context(), c)
	return code, out.String(), problems.String(), sent
}

// What flags say is what is sent, and nothing else: what they leave out stays as it is. A
// target need be in no argument.
func TestNotifySends(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("BERTH_RUNTIME_DIR", "/none")
	for _, tt := range []struct{ args, stdin, sent string }{
		{"add discord", "https://discord.com/api/webhooks/1/x\n", `POST /v2/channel {"service":"discord","name":"discord","target":"https://discord.com/api/webhooks/1/x"}`},
		{"add email ana@example.org --name me --lang pt-BR", "", `POST /v2/channel {"service":"email","name":"me","target":"ana@example.org","lang":"pt-BR"}`},
		{"add telegram --to @team", "123:abc", `POST /v2/channel {"service":"telegram","name":"telegram","target":"123:abc","recipient":"@team"}`},
		{"add ntfy --token", "https://ntfy.sh/x\ntk_1\n", `POST /v2/channel {"service":"ntfy","name":"ntfy","target":"https://ntfy.sh/x","token":"tk_1"}`},
		{"add webhook https://x.example --app bot-one --kinds crashed,deployed --least warning", "", `POST /v2/channel {"service":"webhook","name":"webhook","target":"https://x.example","apps":["bot-one"],"kinds":["crashed","deployed"],"least":"warning"}`},
		{"set 4 --app all --kinds usual", "", `PUT /v2/channel/4 {"apps":[],"kinds":[]}`},
		{"set <b>hook --name crew", "", `PUT /v2/channel/4 {"name":"crew"}`},
		{"set 4 --target", "https://y.example\n", `PUT /v2/channel/4 {"target":"https://y.example"}`},
		{"set 4 --token", "tk_2", `PUT /v2/channel/4 {"token":"tk_2"}`},
		{"on 4", "", `PUT /v2/channel/4 {"on":true}`},
		{"off <b>hook", "", `PUT /v2/channel/4 {"on":false}`},
	} {
		if code, _, stderr, sent := sending(t, tt.stdin, append([]string{"notify"}, strings.Fields(tt.args)...)...); code != 0 || sent != tt.sent {
			t.Errorf("%s: exit code %d, %s, sent %s", tt.args, code, stderr, sent)
		}
	}
}

func TestNotifyRefuses(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("BERTH_RUNTIME_DIR", "/none")
	for _, tt := range []struct {
		args, says string
		code       int
	}{
		{"add disocrd x", `there is no service "disocrd"; did you mean discord?`, 2},
		{"add discord", "there is no target: give it, or a line of the standard input", 2},
		{"add ntfy https://ntfy.sh/x --token", "there is no access token: give it, or a line of the standard input", 2},
		{"add webhook x --kinds crahsed", `there is no kind "crahsed"; did you mean crashed?`, 2},
		{"add webhook x --least loud", `there is no severity "loud"`, 2},
		{"add webhook x --app nobody", "nobody", 5},
		{"set 4", "what is to be changed? Give one of the flags", 2},
		{"set nobody --name x", `you have no channel "nobody"`, 5},
		{"again x", `"x" is not the id of a delivery, which is a number: berth notify deliveries CHANNEL shows it`, 2},
		{"again 10", "no", 9},
		{"test", "an argument is missing", 2},
	} {
		code, stdout, stderr, sent := sending(t, "", append([]string{"notify"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) || stdout != "" || sent != "" {
			t.Errorf("%s: exit code %d, %q, %q, sent %s", tt.args, code, stdout, stderr, sent)
		}
	}
}

// --json is what the API says, and only a new secret is in it.
func TestNotifyJSON(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("BERTH_RUNTIME_DIR", "/none")
	for args, want := range map[string][]string{
		"list --json":                          {"apps", "confirmed", "createdAt", "id", "kinds", "lang", "least", "name", "on", "recipient", "secrets", "service", "stopped", "target"},
		"secret 4 --json":                      {"apps", "confirmed", "createdAt", "id", "kinds", "lang", "least", "name", "on", "recipient", "secret", "secrets", "service", "stopped", "target"},
		"deliveries 4 --json":                  {"app", "at", "count", "id", "kind", "lines", "messageID", "nextAt", "severity", "state", "status", "title", "tries", "updatedAt", "why"},
		"set 4 --least info --json":            {"apps", "confirmed", "createdAt", "id", "kinds", "lang", "least", "name", "on", "recipient", "secrets", "service", "stopped", "target"},
		"add webhook https://x.example --json": {"apps", "confirmed", "createdAt", "id", "kinds", "lang", "least", "name", "on", "recipient", "secret", "secrets", "service", "stopped", "target"},
	} {
		code, stdout, stderr, _ := sending(t, "", append([]string{"notify"}, strings.Fields(args)...)...)
		var one map[string]any
		if strings.HasPrefix(stdout, "[") {
			var all []map[string]any
			if err := json.Unmarshal([]byte(stdout), &all); err != nil || len(all) == 0 {
				t.Fatalf("%s: %v, %s", args, err, stdout)
			}
			one = all[0]
		} else if err := json.Unmarshal([]byte(stdout), &one); err != nil {
			t.Fatalf("%s: exit code %d, %v, %s, %s", args, code, err, stdout, stderr)
		}
		names := []string{}
		for name := range one {
			names = append(names, name)
		}
		slices.Sort(names)
		if code != 0 || !slices.Equal(names, want) {
			t.Errorf("%s: exit code %d, %v", args, code, names)
		}
	}
}
