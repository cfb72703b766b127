//go:build linux

package cli

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"berth/cli/importer"
)

// importApp is an application of an importServer.
type importApp struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	RAM    int    `json:"ram"`
	Online bool   `json:"online"`
	files  map[string]string
	env    map[string]string
}

// importServer is what an import asks of a berth. An older one starts what it gets; a mean one
// refuses variables.
type importServer struct {
	older, mean bool
	mu          sync.Mutex
	apps        []*importApp
	log         []string
}

// ServeHTTP implements http.Handler.
func (s *importServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(status int, v map[string]any) {
		v["status"], v["statusCode"] = map[bool]string{true: "ok", false: "error"}[status < 300], status
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	if r.Method != http.MethodGet {
		s.log = append(s.log, r.Method+" "+r.URL.RequestURI())
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /v2/app/all":
		answer(200, map[string]any{"apps": append([]*importApp{}, s.apps...)})
		return
	case "GET /v2/team":
		answer(200, map[string]any{"apps": []any{}})
		return
	case "POST /v2/upload":
		a, err := newImportApp(r, len(s.apps)+1000)
		if err != nil {
			answer(422, map[string]any{"message": err.Error()})
			return
		}
		a.Online = s.older || r.URL.Query().Get("stopped") != "true"
		s.apps = append(s.apps, a)
		answer(200, map[string]any{"message": "Your application was uploaded.", "app": a})
		return
	}
	id, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/app/"), "/")
	i := slices.IndexFunc(s.apps, func(a *importApp) bool { return a.ID == id })
	if i < 0 {
		answer(404, map[string]any{"message": "Nothing here."})
		return
	}
	switch a := s.apps[i]; r.Method + " " + verb {
	case "PUT env":
		var body struct{ Env map[string]string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || s.mean {
			answer(422, map[string]any{"message": "no variables here"})
			return
		}
		a.env = body.Env
		answer(200, map[string]any{"message": "m"})
	case "GET env":
		list := []map[string]string{}
		for name := range a.env {
			list = append(list, map[string]string{"name": name, "value": "****"})
		}
		answer(200, map[string]any{"env": list})
	case "PUT start", "PUT stop":
		a.Online = verb == "start"
		answer(200, map[string]any{"message": "m", "appStatus": map[string]any{"online": a.Online}})
	case "DELETE delete":
		s.apps = slices.Delete(s.apps, i, i+1)
		answer(200, map[string]any{"message": "m"})
	default:
		answer(404, map[string]any{"message": "Nothing here."})
	}
}

// newImportApp reads an upload.
func newImportApp(r *http.Request, id int) (*importApp, error) {
	f, _, err := r.FormFile("file")
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, err
	}
	a := &importApp{ID: strconv.Itoa(id), files: map[string]string{}}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		a.files[f.Name] = string(text)
	}
	for line := range strings.Lines(a.files["discloud.config"]) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "NAME="); is {
			a.Name = name
		}
	}
	return a, nil
}

// imported runs "berth import" against a server, and returns what it prints.
func imported(t *testing.T, s *importServer, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	h := httptest.NewServer(s)
	defer h.Close()
	return start(t, map[string]string{"BERTH_URL": h.URL, "BERTH_TOKEN": "token"}, append([]string{"import"}, args...)...)
}

// programs makes a directory with two programs and PM2's dump of them.
func programs(t *testing.T) (dir, dump string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("BERTH_RUNTIME_DIR", "/none")
	for name, text := range map[string]string{
		"bot/index.js": "x", "bot/package.json": "{}", "bot/.env": "FROM_FILE=hush-file\nTOKEN=hush-other\n", "bot/.env.local": "X=hush-local\n",
		"own/main.py": "x", "own/discloud.config": "MAIN=main.py\nRAM=64\n",
		"dump": fmt.Sprintf(`[{"name":"bot","pm_cwd":"%s/bot","pm_exec_path":"%s/bot/index.js","env":{"TOKEN":"hush-token"},"max_memory_restart":157286400,"pm_pid_path":"%s/bot.pid"},
			{"name":"own","pm_cwd":"%s/own","pm_exec_path":"%s/own/main.py","exec_interpreter":"python3"}]`, dir, dir, dir, dir, dir),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, "dump")
}

// An import uploads without a start, sets the variables, leaves the directory as it was, and
// does nothing twice. No value of a variable is printed.
func TestImportApply(t *testing.T) {
	dir, dump := programs(t)
	s := &importServer{}
	code, stdout, stderr := imported(t, s, "pm2", dump)
	if code != 0 || len(s.log) > 0 || !strings.Contains(stderr, "2 to import, 0 there already, 0 refused. Nothing was changed") {
		t.Fatalf("the plan: %d, %q, %s%s", code, s.log, stdout, stderr)
	}
	code, stdout, stderr = imported(t, s, "pm2", dump, "--apply")
	if code != 0 || !strings.Contains(stderr, "2 imported, 0 there already, 0 refused, 0 failed.") || !strings.Contains(stdout, "then       pm2 delete bot\nthen       berth start 1000\n") {
		t.Errorf("%d, %s%s", code, stdout, stderr)
	}
	want := []string{"POST /v2/upload?stopped=true", "PUT /v2/app/1000/env", "POST /v2/upload?stopped=true"}
	if !slices.Equal(s.log, want) {
		t.Errorf("asked %q", s.log)
	}
	bot, own := s.apps[0], s.apps[1]
	if bot.Online || bot.files["discloud.config"] != "NAME=bot\nTYPE=bot\nMAIN=index.js\nRAM=150\nAUTORESTART=true\n" || bot.files[".env"]+bot.files[".env.local"] != "" || bot.files["index.js"] != "x" {
		t.Errorf("the bot has %q", bot.files)
	}
	if len(bot.env) != 2 || bot.env["TOKEN"] != "hush-token" || bot.env["FROM_FILE"] != "hush-file" {
		t.Errorf("its variables: %q", bot.env)
	}
	if own.files["discloud.config"] != "MAIN=main.py\nRAM=64\n\nNAME=own\n" || len(own.env) > 0 {
		t.Errorf("the other has %q", own.files)
	}
	if _, err := os.Stat(filepath.Join(dir, "bot", "discloud.config")); err == nil {
		t.Error("a discloud.config is in the directory")
	}
	s.log = nil
	code, again, said := imported(t, s, "pm2", dump, "--apply")
	if code != 0 || len(s.log) > 0 || len(s.apps) != 2 || !strings.Contains(said, "0 imported, 2 there already") {
		t.Errorf("again: %d, %q, %s%s", code, s.log, again, said)
	}
	bot.env = nil // somebody had interrupted it
	if code, again, said = imported(t, s, "pm2", dump, "--apply"); code != 0 || len(bot.env) != 2 || !strings.Contains(again, "they are set now") {
		t.Errorf("after an interruption: %d, %q, %s%s", code, bot.env, again, said)
	}
	_, asJSON, _ := imported(t, s, "pm2", dump, "--json")
	var views []importView
	if err := json.Unmarshal([]byte(asJSON), &views); err != nil || len(views) != 2 || views[0].State != "there" || views[0].ID != "1000" || !slices.Equal(views[0].Variables, []string{"FROM_FILE", "TOKEN"}) {
		t.Errorf("%v, %s", err, asJSON)
	}
	if all := stdout + stderr + again + said + asJSON; strings.Contains(all, "hush") {
		t.Errorf("a value is printed: %s", all)
	}
}

// One whose old program runs is not started; a server that starts it all the same is made to
// stop it; one without its variables does not stay.
func TestImportNeverTwice(t *testing.T) {
	dir, dump := programs(t)
	old := exec.Command("sleep", "100")
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Process.Kill(); _ = old.Wait() }()
	if err := os.WriteFile(filepath.Join(dir, "bot.pid"), []byte(strconv.Itoa(old.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &importServer{}
	code, stdout, stderr := imported(t, s, "pm2", dump, "--only", "bot", "--apply", "--start")
	if code != 1 || len(s.log) > 0 || !strings.Contains(stdout, "refused: its old program still runs") || !strings.Contains(stdout, "now        runs, and uses ") || !strings.Contains(stderr, "1 of 1 programs were not imported") {
		t.Errorf("one that runs: %d, %q, %s%s", code, s.log, stdout, stderr)
	}
	if code, stdout, stderr = imported(t, s, "pm2", dump, "--only", "bot", "--apply"); code != 0 || s.apps[0].Online {
		t.Errorf("without a start: %d, %s%s", code, stdout, stderr)
	}
	_ = old.Process.Kill()
	_ = old.Wait()
	s = &importServer{}
	if code, stdout, stderr = imported(t, s, "pm2", dump, "--only", "bot", "--apply", "--start"); code != 0 || !s.apps[0].Online || strings.Contains(stdout, "berth start") ||
		!slices.Equal(s.log, []string{"POST /v2/upload?stopped=true", "PUT /v2/app/1000/env", "PUT /v2/app/1000/start"}) {
		t.Errorf("one that has ended: %d, %q, %s%s", code, s.log, stdout, stderr)
	}
	s = &importServer{older: true}
	if code, stdout, stderr = imported(t, s, "pm2", dump, "--only", "bot", "--apply"); code != 1 || s.apps[0].Online || !strings.Contains(stdout, "failed: the server started it") {
		t.Errorf("by an older server: %d, %s%s", code, stdout, stderr)
	}
	s = &importServer{mean: true}
	if code, stdout, stderr = imported(t, s, "pm2", dump, "--only", "bot", "--apply"); code != 1 || len(s.apps) > 0 || !strings.Contains(stdout, "failed: cannot set its variables") {
		t.Errorf("without its variables: %d, %s%s", code, stdout, stderr)
	}
}

// What root reads for somebody else is theirs alone, and no special file keeps anybody waiting.
func TestMachine(t *testing.T) {
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	mine, others := machine{owner: os.Geteuid()}, machine{owner: os.Geteuid() + 1}
	if text, err := mine.ReadFile(file, 4); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	for name, read := range map[string]func() error{
		"a file of others":      func() error { _, err := others.ReadFile(file, 4); return err },
		"a directory of others": func() error { _, err := others.openRoot(dir); return err },
		"a long file":           func() error { _, err := mine.ReadFile(file, 3); return err },
		"a FIFO":                func() error { _, err := mine.ReadFile(fifo, 4); return err },
		"a directory":           func() error { _, err := mine.ReadFile(dir, 4); return err },
		"nothing":               func() error { _, err := mine.ReadFile(file+"x", 4); return err },
	} {
		if read() == nil {
			t.Errorf("%s is read", name)
		}
	}
	if mine.IsFile(fifo) || !mine.IsFile(file) || mine.IsFile(dir) || !mine.IsDir(dir) || mine.IsDir(file) {
		t.Error("it takes one for another")
	}
}

// A plan is no wider than the terminal.
func TestImportOnTheTerminal(t *testing.T) {
	v := importView{
		Name: "api", From: "api.service", State: importNew, Dir: "/srv/api", Lang: "javascript", Main: "src/server.js", Start: "node --enable-source-maps src/server.js --port 8080",
		RAM: 300, RAMFrom: "MemoryMax=", Running: new(bool), Variables: []string{"API_KEY", "DATABASE_URL", "LOG_LEVEL", "MODE"},
		Notes: []string{"ExecStartPre= is not run: put what it does before the start into START, or into BUILD.", "evil \x1b[2J note"}, Next: []string{"systemctl disable --now api.service", "berth start api"},
	}
	for _, width := range []int{80, 40} {
		text := v.text(width)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns at %d: %q", n, width, line)
			}
		}
		got := strings.Join(strings.Fields(text), " ")
		want := strings.Join(strings.Fields(v.text(0)), " ")
		if got != want || strings.Contains(text, "\x1b") {
			t.Errorf("at %d columns: %s\nwant %s", width, got, want)
		}
	}
}

func TestRoomy(t *testing.T) {
	for memory, want := range map[int64]int{1: 100, 50 << 20: 100, 100 << 20: 128, 1 << 30: 1280} {
		if got := roomy(memory); int(got) != want {
			t.Errorf("roomy(%d) = %d, want %d", memory, got, want)
		}
	}
}

// Units are found by their file or in a directory; links lead nowhere.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.service": "[Service]\nExecStart=/usr/bin/python3 a.py\nWorkingDirectory=" + dir + "/a\n", "a.service.d/b.conf": "[Service]\nMemoryMax=64M\n", "a.timer": "[Timer]\n", "b@.service": "[Service]\nType=oneshot\n",
		"b@.service.d/x.conf": "[Service]\nType=simple\n", "a/a.py": "x", "x.target": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for to, link := range map[string]string{"/dev/null": "masked.service", "/etc/shadow": "link.service", "a.service.d/b.conf": "other.timer"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := units(dir)
	got := map[string]importer.Candidate{}
	for _, f := range list {
		got[f.From] = f.Candidate
	}
	if err != nil || len(got) != 4 || got["a.service"].Config.RAM != 64 || !strings.Contains(got["link.service"].Refusal, "it is a link: name the file that it leads to, /etc/shadow") ||
		got["a.timer"].Refusal == "" || !strings.Contains(got["b@.service"].Refusal, "template") {
		t.Errorf("%v, %+v", err, got)
	}
	one, err := units(filepath.Join(dir, "b@one.service"))
	if err != nil || len(one) != 1 || one[0].Refusal != "it has no ExecStart=" {
		t.Errorf("an instance: %+v, %v", one, err)
	}
}
