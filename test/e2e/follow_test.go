package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// follower is a command that goes on while the daemon comes and goes.
type follower struct {
	t           *testing.T
	cmd         *exec.Cmd
	out, errors harness.Output
	ended       chan struct{}
}

// follower starts berth with arguments, over the local socket or by a token.
func (c *client) follower(byToken bool, args ...string) *follower {
	c.T.Helper()
	cmd := c.d.Command(args...)
	cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR="+c.d.Runtime(), "BERTH_ACCOUNT="+c.Name)
	if byToken {
		cmd.Env = append(harness.CleanEnv(), "BERTH_URL="+c.d.Base, "BERTH_TOKEN="+c.Token)
	}
	f := &follower{t: c.T, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &f.out, &f.errors
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	go func() {
		defer close(f.ended)
		_ = cmd.Wait() // the state is in cmd
	}()
	c.T.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-f.ended
	})
	return f
}

// interrupt types Ctrl-C, and returns what was printed.
func (f *follower) interrupt() string {
	f.t.Helper()
	_ = f.cmd.Process.Signal(os.Interrupt)
	harness.Eventually(f.t, "the command ends", func() bool {
		select {
		case <-f.ended:
			return true
		default:
			return false
		}
	})
	if code := f.cmd.ProcessState.ExitCode(); code != 130 {
		f.t.Errorf("exit status %d, want 130: %s", code, f.errors.String())
	}
	return f.out.String()
}

// lasting is a daemon that can be replaced, always at the same address.
func lasting(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := upgradable(t, append([]string{"--listen", fmt.Sprintf("127.0.0.1:%d", harness.Ports(t, 1))}, args...)...)
	d.Serve()
	return d
}

// ends are the ways in which a daemon ends and another one comes.
func (d *daemon) comeAndGo() {
	d.T.Helper()
	d.Restart()
	d.End(syscall.SIGKILL)
	d.Serve()
	d.Upgrade()
	d.End(syscall.SIGKILL)
	d.Serve()
	d.Upgrade()
}

// counts prints how often it did, and when it was started, every few milliseconds.
const counts = `const run = Date.now(); let n = 0; setInterval(() => console.log("run", run, "line", n++), 7)`

// A follower of a program that prints without end has every line once and in order, over
// restarts, kills and upgrades of the daemon, on the host and by a token.
func TestLogsAreFollowedOverTheEndOfTheDaemon(t *testing.T) {
	t.Parallel()
	d := lasting(t)
	c := d.account("ana", 300)
	id := c.Upload(harness.NodeBot(counts, "RAM=64", "AUTORESTART=true"))
	all := []*follower{c.follower(false, "logs", id, "-f", "-n", "all"), c.follower(true, "logs", id, "-f", "-n", "all"), c.follower(true, "logs", id, "-f", "-n", "all", "--json")}
	for _, f := range all {
		harness.Eventually(t, "it follows", func() bool { return strings.Contains(f.out.String(), "line 3") })
	}
	d.comeAndGo()
	c.Until(id, "apps.online", true)
	c.Put("/app/"+id+"/stop", "").Want(200)
	link := c.Get("/app/" + id + "/logs").Text("apps.terminal.url")
	log := string(c.Download(d.Base + link[strings.Index(link, "/d/"):]))
	for i, f := range all {
		harness.Eventually(t, "it has the last line", func() bool {
			return strings.Contains(f.errors.String(), "connected again") && len(f.plain(i == 2)) >= len(log)
		})
		if i < 2 && strings.Contains(f.out.String(), "left out") {
			t.Errorf("follower %d was told that lines are missing", i)
		}
		f.interrupt()
		if got := f.plain(i == 2); got != log {
			at := 0
			for at < min(len(got), len(log)) && got[at] == log[at] {
				at++
			}
			t.Errorf("follower %d has %d bytes, the log %d; they differ at %d: %.200q, %.200q", i, len(got), len(log), at, got[at:], log[at:])
		}
	}
	checkCounts(t, log)
}

// plain is what a follower printed, without JSON.
func (f *follower) plain(isJSON bool) string {
	f.t.Helper()
	if !isJSON {
		return f.out.String()
	}
	var b strings.Builder
	for line := range strings.Lines(f.out.String()) {
		var v struct{ At, Text string }
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			f.t.Fatalf("%q: %v", line, err)
		}
		at, err := time.Parse(time.RFC3339, v.At)
		if err != nil {
			f.t.Fatal(err)
		}
		b.WriteString(at.UTC().Format("2006-01-02T15:04:05.000Z ") + v.Text + "\n")
	}
	return b.String()
}

// checkCounts checks that each run of the program counts without a gap.
func checkCounts(t *testing.T, log string) {
	t.Helper()
	next, runs := map[string]int{}, 0
	for _, m := range regexp.MustCompile(`run (\d+) line (\d+)\n`).FindAllStringSubmatch(log, -1) {
		if next[m[1]] == 0 {
			runs++
		}
		if n, _ := strconv.Atoi(m[2]); n != next[m[1]] { // digits
			t.Fatalf("run %s has line %d, want %d", m[1], n, next[m[1]])
		}
		next[m[1]]++
	}
	if runs < 2 {
		t.Errorf("%d runs in %d bytes", runs, len(log))
	}
}

// Who watches states sees each once, over the same, and at the end what is so.
func TestStatusIsWatchedOverTheEndOfTheDaemon(t *testing.T) {
	t.Parallel()
	d := lasting(t)
	c := d.account("ana", 300)
	id := c.Upload(harness.NodeBot(counts, "RAM=64", "AUTORESTART=true"))
	all := []*follower{c.follower(false, "status", id, "-w"), c.follower(true, "status", id, "--watch"), c.follower(true, "events", id, "-f")}
	for _, f := range all[:2] {
		harness.Eventually(t, "it shows the state", func() bool { return strings.Contains(f.out.String(), id+" online") })
	}
	// A command says nothing of a state that is the same with other RAM.
	harness.Eventually(t, "it shows an event", func() bool {
		c.Put("/app/"+id+"/restart", "").Want(200)
		return strings.Contains(all[2].out.String(), id)
	})
	d.comeAndGo()
	c.Until(id, "apps.online", true)
	for _, f := range all {
		harness.Eventually(t, "it is back", func() bool {
			return strings.Count(f.errors.String(), "connected again") > 0 && strings.Count(f.errors.String(), "connected again") == strings.Count(f.errors.String(), "trying again")
		})
	}
	c.Put("/app/"+id+"/stop", "").Want(200)
	stopped := time.Now()
	for i, f := range all {
		defer func() {
			if t.Failed() {
				t.Logf("command %d: %s\n%s", i, f.out.String(), f.errors.String())
			}
		}()
		harness.Eventually(t, "it shows the end", func() bool {
			text := f.last(id)
			// A command that was cut off while the program stopped reads it in a list, which says less.
			if strings.HasPrefix(text, " stopped") || i < 2 && strings.HasPrefix(text, " offline") {
				return true
			}
			// A busy machine may not have told a command of the last daemon yet, and who comes to that one after the
			// end hears nothing of it.
			if time.Since(stopped) > 5*time.Second {
				c.Put("/app/"+id+"/start", "").Want(200)
				c.Put("/app/"+id+"/stop", "").Want(200)
				stopped = time.Now()
			}
			return false
		})
		last := ""
		for line := range strings.Lines(f.interrupt()) {
			_, text, _ := strings.Cut(line, id)
			if text == last {
				t.Errorf("command %d shows twice %q", i, line)
			}
			last = text
		}
	}
}

// last is what a follower has shown last of an application.
func (f *follower) last(id string) string {
	text := f.out.String()
	at := strings.LastIndex(text, id)
	if at < 0 {
		return ""
	}
	return text[at+len(id):]
}

// digits are what differs from run to run on a screen.
var (
	clockTimes = regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`)
	days       = regexp.MustCompile(`\d{4}-\d\d-\d\d`)
	figures    = regexp.MustCompile(` +[0-9.]+[%MKB]`)
)

// still makes a screen that can be compared.
func still(screen string) string {
	screen = days.ReplaceAllString(clockTimes.ReplaceAllString(screen, "TIME"), "DAY")
	return figures.ReplaceAllString(screen, " #")
}

// Screens of those who watch, on terminals of 80 and of 40 columns. What programs print acts
// on none of them.
func TestScreensOfWhoWatches(t *testing.T) {
	t.Parallel()
	d := launch(t)
	for columns, want := range map[uint16]struct{ logs, status, top string }{
		80: {
			`--- DAY ---
TIME hello
TIME \x1b]52;c;cm0gLXJmIH4=�\x1b[2J\x1b]0;title�\x1bP$q\x1b\
TIME red
TIME secret��good�2J
TIME up
`,
			`ID               STATE        CPU           RAM    IN/s   OUT/s RESTARTS
watched80        online # # of # # #        0
`,
			`TIME  1 of 2 online  CPU #  RAM # of #
ID               STATE        CPU          RAM*    IN/s   OUT/s RESTARTS
watched80        online # # of # # #        0
resting80        stopped        -             -       -       -        0
`,
		},
		40: {
			`--- DAY ---
TIME hello
TIME \x1b]52;c;cm0gLXJmIH4=�\x1b[2J\
x1b]0;title�\x1bP$q\x1b\
TIME red
TIME secret��good�2J
TIME up
`,
			`ID           STATE        CPU   RAM
watched40    online # #
`,
			`TIME  1 of 2 online  CPU #
ID           STATE        CPU  RAM*
watched40    online # #
resting40    stopped        -     -
`,
		},
	} {
		t.Run(strconv.Itoa(int(columns)), func(t *testing.T) {
			c := d.account("person"+strconv.Itoa(int(columns)), 300)
			id, resting := fmt.Sprint("watched", columns), fmt.Sprint("resting", columns)
			c.Upload(harness.NodeBot(`const gate = setInterval(() => { if (!require("fs").existsSync("go")) return; clearInterval(gate); process.stdout.write("hello\n\x1b]52;c;cm0gLXJmIH4=\x07\x1b[2J\x1b]0;title\x07\x1bP$q\x1b\\\n\x1b[31mred\nsecret\b\bgood\u009b2J\n");`+harness.IdleNode+"}, 20)", "ID="+id, "RAM=64").With("discloud.config", harness.Config("TYPE=site", "ID="+id, "MAIN=index.js", "RAM=100")))
			c.Upload(harness.NodeBot(harness.IdleNode, "ID="+resting).With("discloud.config", harness.Config("TYPE=site", "ID="+resting, "MAIN=index.js", "RAM=100")))
			c.Put("/app/"+resting+"/stop", "").Want(200)
			c.UntilLog(id, "[berth] this host serves no sites") // beside what it prints; not between
			harness.Write(t, d.Path(id, "go"), "")
			c.UntilLog(id, "up\n")
			at := func(env []string, args ...string) *harness.Terminal {
				cmd := d.Command(args...)
				cmd.Env = append(append(harness.CleanEnv(), "BERTH_URL="+d.Base, "BERTH_TOKEN="+c.Token, "TERM=xterm", "TZ=UTC"), env...)
				return harness.OpenTerminal(t, cmd, columns)
			}
			shows := func(p *harness.Terminal, want string) {
				t.Helper()
				deadline := time.Now().Add(harness.Patience / 4)
				for still(p.Screen()) != want {
					if time.Now().After(deadline) {
						t.Fatalf("the screen is\n%s\nwant\n%s\n%q", still(p.Screen()), want, p.Out.String())
					}
					time.Sleep(harness.Pause)
				}
			}
			for _, env := range [][]string{nil, {"NO_COLOR=1"}} {
				p := at(env, "logs", id, "-f", "-n", "5")
				shows(p, want.logs)
				if coloured := strings.Contains(p.Out.String(), "\x1b[31mred"); coloured == (env != nil) {
					t.Errorf("with %q the terminal got %q", env, p.Out.String())
				}
				p.Press("\x03")
				ends(t, p, 130)
			}
			p := at(nil, "status", id, "-w")
			shows(p, want.status)
			p.Press("\x03")
			ends(t, p, 130)
			p = at(nil, "top")
			shows(p, strings.Replace(want.top, "stopped ", "offline ", 1))
			c.Put("/app/"+resting+"/start", "").Want(200)
			c.Put("/app/"+resting+"/stop", "").Want(200)
			shows(p, want.top)
			p.Press("\x1b[D\x1b[D\x1b[D")
			shows(p, sortedByID(want.top))
			p.Press("q")
			ends(t, p, 0)
		})
	}
}

// sortedByID is a screen of top by another column.
func sortedByID(top string) string {
	lines := strings.SplitAfter(top, "\n")
	lines[1] = strings.Replace(strings.Replace(lines[1], " RAM*", "  RAM", 1), "ID ", "ID*", 1)
	return lines[0] + lines[1] + lines[3] + lines[2]
}

// A deployment is told in events while a client listens, and goes on when the client hangs
// up; who listens during an upgrade is answered.
func TestDeploysAreNarrated(t *testing.T) {
	t.Parallel()
	d := upgradable(t, "--upgrade-patience", "60s")
	d.Serve()
	c := d.account("ana", 300)
	zip := func(build string) []byte {
		return harness.Files{"discloud.config": harness.Config("TYPE=bot", "MAIN=index.js", "RAM=64", "BUILD="+build), "index.js": harness.IdleNode}.Zip()
	}
	gate := d.Gates + "/go"
	narrate := func(method, path, build string) (lines *bufio.Scanner, hangUp func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		r := c.Form(method, path, zip(build)).WithContext(ctx)
		r.Header.Set("Accept", "text/event-stream")
		resp, err := harness.Web.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			cancel()
			t.Fatalf("%v, %v", resp, err)
		}
		t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
		return bufio.NewScanner(resp.Body), cancel
	}
	until := func(lines *bufio.Scanner, texts ...string) string {
		t.Helper()
		var heard []string
		for lines.Scan() {
			heard = append(heard, lines.Text())
			if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(lines.Text(), text) }) {
				return lines.Text()
			}
		}
		t.Fatalf("the stream ended before %q: %v, having told %q", texts, lines.Err(), heard)
		return ""
	}
	const gated = "echo begun; until [ -e GATE ]; do sleep 0.05; done; echo ready"
	build := strings.Replace(gated, "GATE", gate, 1)
	lines, _ := narrate("POST", "/v2/upload", build)
	until(lines, `"phase":"building"`)
	until(lines, `"log":"begun\n"`)
	harness.Write(t, gate, "")
	until(lines, `"log":"ready\n"`)
	until(lines, `"phase":"launching"`)
	until(lines, "event: done")
	var done struct {
		StatusCode int
		App        struct{ ID string }
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(until(lines, "data:"), "data: ")), &done); err != nil || done.StatusCode != 200 {
		t.Fatalf("it ended with %+v, %v", done, err)
	}
	id := done.App.ID
	remove := func() {
		t.Helper()
		if err := os.Remove(gate); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	lines, hangUp := narrate("PUT", "/v2/app/"+id+"/commit", build)
	until(lines, `"log":"begun\n"`)
	hangUp()
	harness.Write(t, gate, "")
	harness.Eventually(t, "the deploy is made without its client", func() bool { return len(c.Get("/app/"+id+"/deploys").At("deploys").([]any)) == 2 })
	remove()
	for { // the deploy that nobody listens to is recorded before it is over
		lines, _ = narrate("PUT", "/v2/app/"+id+"/commit", build)
		if line := until(lines, `"log":"begun\n"`, `"statusCode":409`); strings.Contains(line, "begun") {
			break
		}
	}
	d.asked()
	harness.Write(t, gate, "")
	until(lines, "event: done")
	if text := until(lines, "data:"); !strings.Contains(text, `"statusCode":200`) {
		t.Errorf("during an upgrade it ended with %s", text)
	}
	d.UntilImages(2)
	c.Info(id).Want(200, "apps.online", true)
}
