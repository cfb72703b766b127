package panel

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/host/account"
)

func TestLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	b := w.as("ana")
	b.get("/apps/shop/logs").want(t, "an empty log", http.StatusOK, "It has not printed anything yet.", `role="log"`, `aria-live="off"`, `data-of="program"`)
	w.logs.print("shop", "\x1b[32mready\x1b[0m <script>alert(1)</script>", "second")
	w.logs.of("shop", true).Note("npm install")
	p := b.get("/apps/shop/logs")
	p.want(t, "the log", http.StatusOK, `<span class="c2">ready</span> &lt;script&gt;`, `<div class="own"><time datetime="`, "second", "what=log")
	p.lacks(t, "the log", "npm install", "\x1b")
	b.get("/apps/shop/logs?of=build").want(t, "the build's", http.StatusOK, "npm install", `data-of="build"`, "what=build")
	w.change("shop", func(s *app.Snapshot) { s.State, s.Running = app.Preparing, false })
	b.get("/apps/shop/logs").want(t, "while it is built", http.StatusOK, "npm install", `data-of="build"`, "under way")
	b.get("/apps/shop/logs?of=program").want(t, "the program's, while it is built", http.StatusOK, "ready")

	d := b.get("/apps/shop/logs/download?of=program")
	if lines := strings.Split(d.body, "\n"); len(lines) != 3 || !strings.HasSuffix(lines[1], " [berth] second") ||
		d.Header.Get("Content-Disposition") != `attachment; filename="shop.log"` || d.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the download is %q with %v", d.body, d.Header)
	}
	if act := w.acts.last(); act.Operation != "app.logs" || act.App != "shop" {
		t.Errorf("the audit log has %+v", act)
	}
	if d := b.get("/apps/shop/logs/download?of=build"); !strings.Contains(d.body, "npm install") || !strings.Contains(d.Header.Get("Content-Disposition"), "shop.build.log") {
		t.Errorf("the build's download is %q with %v", d.body, d.Header)
	}
	bob := w.as("bob")
	bob.get("/apps/shop/logs").want(t, "another's", http.StatusNotFound)
	must(t, onlyError(account.NewTeams(w.db.Teams).AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"status_app"})))
	for _, path := range []string{"/apps/shop/logs", "/apps/shop/logs/download", "/apps/shop/logs?q=x"} {
		bob.get(path).want(t, "a member without logs_app: "+path, http.StatusForbidden, "logs_app")
	}
}

// A search goes through everything that is kept, and shows the last lines.
func TestSearchLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	for i := range 2500 {
		w.logs.print("shop", fmt.Sprintf("\x1b[31mREQ\x1b[0mUEST %d", i), "other")
	}
	b := w.as("ana")
	p := b.get("/apps/shop/logs?q=request")
	p.want(t, "many", http.StatusOK, "2500 lines of all that is kept match.", "These are the last 1000.", `value="request"`, "UEST 1500<", "UEST 2499<")
	p.lacks(t, "many", "UEST 1499<", "other", "data-stream")
	if strings.Index(p.body, "UEST 1500<") > strings.Index(p.body, "UEST 2499<") {
		t.Error("the lines are not in their order")
	}
	b.get("/apps/shop/logs?q=REQUEST+1").want(t, "fewer", http.StatusOK, "1111 lines", "UEST 1999<")
	p = b.get("/apps/shop/logs?q=uest+2499")
	p.want(t, "one", http.StatusOK, "1 line of all that is kept matches.")
	p.lacks(t, "one", "These are the last")
	b.get("/apps/shop/logs?q=nothing+has+it").want(t, "none", http.StatusOK, "0 lines", "No line matches.")
	b.get("/apps/shop/logs?q="+strings.Repeat("x", 201)).want(t, "too long", http.StatusBadRequest, "at most 200 bytes")
}

// The lines of a log are filtered by level and by time, all that is kept of them, in the address.
func TestFilterLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	w.logs.program("shop", "ready", "INFO:root:listening", "ERROR:root:it failed", "Traceback (most recent call last):", `  File "main.py", line 7`, "ValueError: no",
		"after it", "\x1b[33mWARN\x1b[0m slow", `{"level":50,"msg":"of pino"}`)
	w.logs.of("shop", false).Note("restarting <b>")
	b := w.as("ana")
	p := b.get("/apps/shop/logs")
	p.want(t, "everything", http.StatusOK, `<div class="error">`, `title="error"><span aria-hidden="true">E</span><span class="sr">error:</span>`, `<div class="own">`, `<div class="day">`)
	p.lacks(t, "everything", "Show the whole log", "data-filtered")
	p = b.get("/apps/shop/logs?level=error")
	p.want(t, "errors", http.StatusOK, "it failed", "Traceback", "main.py", "ValueError", "of pino", "5 lines of all that is kept match.", "level=error", "what=log", " data-filtered", `<option value="error" selected>`)
	p.lacks(t, "errors", "ready", "listening", "after it", "slow", "restarting")
	p = b.get("/apps/shop/logs?level=warn&q=slow")
	p.want(t, "a warning that is searched for", http.StatusOK, "1 line of all that is kept matches.")
	p.lacks(t, "a warning that is searched for", "it failed", "data-stream")
	p = b.get("/apps/shop/logs?level=berth")
	p.want(t, "berth's own", http.StatusOK, "restarting &lt;b&gt;")
	p.lacks(t, "berth's own", "it failed", "ready")
	b.get("/apps/shop/logs?level=berth&of=build").want(t, "of the build", http.StatusOK, "No line matches.")
	b.get("/apps/shop/logs?since=1h").want(t, "the last hour", http.StatusOK, "it failed", "from=", "what=log")
	p = b.get("/apps/shop/logs?from=2026-01-01T00:00&to=2026-01-02T00:00")
	p.want(t, "a day long ago", http.StatusOK, "No line matches.", `value="2026-01-01T00:00"`, `value="2026-01-02T00:00"`)
	p.lacks(t, "a day long ago", "data-stream", "it failed")
	b.get("/apps/shop/logs?to="+time.Now().UTC().Format(minuteLayout)).want(t, "up to this minute", http.StatusOK, "it failed")
	b.get("/apps/shop/logs?from=yesterday").want(t, "no time", http.StatusBadRequest, "2026-11-26T15:04")
	b.get("/events?what=log&app=shop&from=yesterday").want(t, "no time, live", http.StatusBadRequest)
}

// timeOptions are how a script tells times of day.
var timeOptions = regexp.MustCompile(`hour: "[^}]*`)

// Scripts tell times from 00:00 to 23:59, also where an engine has 24:05 for five minutes past midnight. Chromium has none
// now; Node.js 20 has.
func TestMidnight(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs Node.js")
	}
	all, script := 0, ""
	for _, name := range []string{"log.js", "charts.js", "panel.js"} {
		text, err := os.ReadFile("static/" + name)
		must(t, err)
		for _, options := range timeOptions.FindAllString(string(text), -1) {
			script += fmt.Sprintf("console.log(%q, new Date(\"2026-01-01T00:05:00\").toLocaleTimeString(\"en\", {%s}))\n", name, options)
			all++
		}
	}
	out, err := exec.CommandContext(t.Context(), node, "-e", script).CombinedOutput()
	if err != nil || all < 6 || strings.Count(string(out), " 00:05") != all {
		t.Errorf("%d times are %s %v", all, out, err)
	}
}

// Deploys and ends are on the page for those who may see the overview, and not for others.
func TestMarksAreForMembersOfTheOverview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	w.logs.program("shop", "ready")
	time.Sleep(2 * time.Millisecond) // the stamps of lines have milliseconds
	w.ended("shop", app.Exit{Run: 1, Code: 3, Ran: 90 * time.Second})
	w.as("ana").get("/apps/shop/logs").want(t, "the owner's", http.StatusOK, `<div class="mark bad" data-mark="`, "It ended with code 3", "after 1 min")
	w.as("ana").get("/apps/shop/logs?of=build").lacks(t, "of the build", "data-mark")
	w.as("ana").get("/apps/shop/logs?q=ready").lacks(t, "a search", "data-mark")
	teams := account.NewTeams(w.db.Teams)
	must(t, onlyError(teams.AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"logs_app"})))
	p := w.as("bob").get("/apps/shop/logs")
	p.want(t, "a member's", http.StatusOK, "ready")
	p.lacks(t, "a member's", "data-mark", "It ended with code 3")
}

// BenchmarkFilter is a page with a filter over all that is kept of a log, three files of 5 MB.
func BenchmarkFilter(b *testing.B) {
	line := "2026-11-26T10:00:00.000Z 2026-11-26 10:00:00,123 - bot - ERROR - it failed with a line of usual length\n"
	text := strings.Repeat(line, 15<<20/len(line))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s := sieve{logFilter: logFilter{Level: errorLevel, From: time.Unix(0, 0)}}
		for line := range strings.Lines(text) {
			s.takes(strings.TrimSuffix(line, "\n"))
		}
	}
}

// What berth remembers of an application stands between the lines of its log.
func TestMarksInLogs(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	at := time.Date(2026, time.November, 25, 12, 0, 0, 0, time.UTC)
	line := func(d time.Duration) logLine { return logLine{At: at.Add(d)} }
	mark := func(d time.Duration) logLine { return logLine{At: at.Add(d), Mark: &logMark{}} }
	show := func(lines []logLine) string {
		var b strings.Builder
		for _, l := range lines {
			switch {
			case l.Day:
				b.WriteString("|")
			case l.Mark != nil:
				b.WriteString("m")
			default:
				b.WriteString("-")
			}
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		lines, marks []logLine
		filter       logFilter
		want         string
	}{
		"nothing":        {nil, []logLine{mark(0)}, logFilter{}, ""},
		"before all":     {[]logLine{line(0)}, []logLine{mark(-1)}, logFilter{}, "|-"},
		"between":        {[]logLine{line(0), line(2), line(4)}, []logLine{mark(1), mark(3)}, logFilter{}, "|-m-m-"},
		"after all":      {[]logLine{line(0)}, []logLine{mark(1)}, logFilter{}, "|-m"},
		"after the time": {[]logLine{line(0)}, []logLine{mark(2)}, logFilter{To: at.Add(1)}, "|-"},
		"another day":    {[]logLine{line(0), line(day), line(day + 1)}, []logLine{mark(2 * day)}, logFilter{}, "|-|--|m"},
		"no stamp":       {[]logLine{{}, line(0), {}}, []logLine{mark(1)}, logFilter{}, "-|--m"},
	} {
		if got := show(withDays(withMarks(tt.lines, tt.marks, tt.filter))); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// What others have written is what they have published, with its licence.
func TestVendor(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("static/vendor/SHA256SUMS")
	must(t, err)
	listed := map[string]bool{"SHA256SUMS": true}
	for line := range strings.Lines(string(list)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		body, err := os.ReadFile(filepath.Join("static/vendor", name))
		if errors.Is(err, fs.ErrNotExist) {
			name += packedExt
			body, err = os.ReadFile(filepath.Join("static/vendor", name))
			must(t, err)
			body = unpacked(body)
		}
		must(t, err)
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s was changed", name)
		}
		listed[name] = true
	}
	all, err := os.ReadDir("static/vendor")
	must(t, err)
	for _, e := range all {
		if !listed[e.Name()] {
			t.Errorf("%s is not in SHA256SUMS", e.Name())
		}
	}
	if !listed["uPlot.LICENSE"] || !listed["uPlot.iife.min.js"] || len(listed) < 4 {
		t.Errorf("only %v are listed", listed)
	}
	w := newWorld(t)
	w.browser().get(assetURL("uPlot.iife.min.js")).want(t, "uPlot", http.StatusOK, "uPlot")
	w.browser().get(assetURL("xterm.mjs")).want(t, "xterm, unpacked", http.StatusOK, "export{")
	for name := range assets() {
		if strings.Contains(name, "LICENSE") || strings.Contains(name, "SHA256SUMS") {
			t.Errorf("%s is served", name)
		}
	}
}

// A program that prints colours in every other letter makes no page that the
// daemon has no memory for.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	colours := strings.Repeat("\x1b[1mA\x1b[0mB", 1600)
	for range 300 {
		w.logs.print("shop", colours)
	}
	p := w.as("ana").get("/apps/shop/logs?q=aba")
	p.want(t, "a search", http.StatusOK, "300 lines of all that is kept match.", "These are the last ")
	if len(p.body) > 4<<20 {
		t.Errorf("the page has %d bytes", len(p.body))
	}
}

// nestedLogs are logs that do something while they are searched.
type nestedLogs struct {
	app.Logs
	during *func()
}

func (l nestedLogs) Open(id app.ID, build bool) (io.ReadCloser, error) {
	(*l.during)()
	return l.Logs.Open(id, build)
}

// Each search reads a whole log: an account gets few at once, and others get theirs.
func TestSearchesTakeTurns(t *testing.T) {
	t.Parallel()
	during := func() {}
	w := newWorld(t, func(c *Config) { c.Logs = nestedLogs{c.Logs, &during} })
	w.host.add(w.ana.ID, "shop")
	w.host.add(w.bob.ID, "blog")
	b, deep := w.as("ana"), 0
	during = func() {
		if deep++; deep < accountTurns {
			b.get("/apps/shop/logs?level=error").want(t, "within the bound", http.StatusOK)
			return
		}
		during = func() {}
		b.get("/apps/shop/logs?q=x").want(t, "beyond it", http.StatusTooManyRequests, "As many logs are being searched as may be at once")
		b.get("/apps/shop/logs").want(t, "without a search", http.StatusOK)
		w.as("bob").get("/apps/blog/logs?q=x").want(t, "another account", http.StatusOK)
	}
	b.get("/apps/shop/logs?q=x").want(t, "the first", http.StatusOK)
	b.get("/apps/shop/logs?q=x").want(t, "afterwards", http.StatusOK)
	if deep != accountTurns {
		t.Errorf("%d searches were nested", deep)
	}
}

// The owner of an application that reads lines has a field for one below its log, on the page of its output
// alone; what the audit log has is no content.
func TestInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	const field = `action="/apps/shop/input"`
	b := w.as("ana")
	b.get("/apps/shop/logs").lacks(t, "an application that reads none", field)
	w.change("shop", func(s *app.Snapshot) { s.Code.Stdin = true })
	b.get("/apps/shop/logs").want(t, "one that reads", http.StatusOK, field, `name="line"`)
	for _, path := range []string{"/apps/shop/logs?of=build", "/apps/shop/logs?q=x"} {
		b.get(path).lacks(t, path, field)
	}
	must(t, onlyError(w.config.Teams.SetMember(t.Context(), w.ana.ID, "shop", w.bob.ID, app.AllPermissions.Names())))
	w.as("bob").get("/apps/shop/logs").lacks(t, "a member", field)
	b.post("/apps/shop/input", "line", "secret").leads(t, "a line", "/apps/shop/logs?of=program#line")
	if act := w.acts.last(); act.Operation != "app.input" || act.App != "shop" || act.Detail != "" || act.Status != http.StatusSeeOther {
		t.Errorf("the audit log has %+v", act)
	}
	if p := b.post("/apps/shop/input", "line", "more", "stay", ""); p.StatusCode != http.StatusNoContent || p.body != "" {
		t.Errorf("to a script: %d %q", p.StatusCode, p.body)
	}
	if want := []string{"line secret to shop", "line more to shop"}; !slices.Equal(w.host.done, want) {
		t.Errorf("done was %q", w.host.done)
	}
	w.host.fail = app.Errorf(app.Conflict, "the application is offline, so nothing reads this line; start it first")
	b.post("/apps/shop/input", "line", "<typed>").want(t, "a refusal", http.StatusConflict, "The application is offline, so nothing reads this line; start it first.", `value="&lt;typed&gt;"`, "autofocus")
}
