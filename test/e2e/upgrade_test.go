package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// upgradable is prepare with a binary of the daemon's own, which may be replaced.
func upgradable(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := prepare(t, args...)
	d.binary = filepath.Join(d.root, "berth")
	d.replace(berth)
	return d
}

// replace puts another file in the place of the daemon's binary, as package
// managers do. Another process writes it: a program that is open for writing
// here, also in what a parallel test forks just then, cannot be executed.
func (d *daemon) replace(with string) {
	d.t.Helper()
	out, err := exec.Command("install", "-m", "755", with, d.binary+".new").CombinedOutput()
	if err == nil {
		err = os.Rename(d.binary+".new", d.binary)
	}
	if err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
}

// images is how many images of the daemon have begun to listen.
func (d *daemon) images() int { return strings.Count(d.Out.String(), "msg=\"listening on") }

// upgrade asks for an upgrade and returns when it is done.
func (d *daemon) upgrade() {
	d.t.Helper()
	before := d.images()
	d.Signal(syscall.SIGHUP)
	d.untilImages(before + 1)
}

func (d *daemon) untilImages(n int) {
	d.t.Helper()
	harness.Eventually(d.t, "another image serves", func() bool {
		if d.Ended() {
			d.t.Fatal("the daemon ended")
		}
		return d.images() >= n
	})
}

// visitors open connections, so many a second, ask something on each, and count
// what was not answered well.
type visitors struct {
	stop   context.CancelFunc
	done   sync.WaitGroup
	asked  atomic.Int64
	mu     sync.Mutex
	failed []string
}

func (c *client) visit(rate int) *visitors {
	ctx, stop := context.WithCancel(context.Background())
	v := &visitors{stop: stop}
	transport := &http.Transport{DisableKeepAlives: true}
	v.done.Go(func() {
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				v.done.Go(func() { v.ask(c, transport) })
			case <-ctx.Done():
				return
			}
		}
	})
	return v
}

func (v *visitors) ask(c *client, transport *http.Transport) {
	v.asked.Add(1)
	began := time.Now()
	resp, err := transport.RoundTrip(c.request("GET", "/v2/user", nil))
	what := ""
	if err != nil {
		what = fmt.Sprintf("%v, asked at %s, after %v", err, began.UTC().Format("15:04:05.000"), time.Since(began))
	} else {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			what = fmt.Sprint(resp.Status, err)
		}
		_ = resp.Body.Close()
	}
	if what != "" {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.failed = append(v.failed, what)
	}
}

// end waits for all answers.
func (v *visitors) end(t *testing.T, least int64) {
	t.Helper()
	v.stop()
	v.done.Wait()
	if n := v.asked.Load(); len(v.failed) > 0 || n < least {
		t.Errorf("of %d connections, at least %d wanted, %d failed: %.10q", n, least, len(v.failed), v.failed)
	}
}

const chatty = "let n = 0; setInterval(() => { for (let i = 0; i < 5; i++) console.log('line', n++) }, 10)\n"

// counted makes sure that the lines of a chatty program are all there, in order
// and once.
func (c *client) counted(id string, least int) {
	c.t.Helper()
	next := 0
	for line := range strings.Lines(c.log(id)) {
		_, text, ok := strings.Cut(line, "line ")
		if n, err := strconv.Atoi(strings.TrimSpace(text)); ok && (err != nil || n != next) {
			c.t.Fatalf("line %q, want number %d", line, next)
		} else if ok {
			next++
		}
	}
	if next < least {
		c.t.Errorf("%d lines, want at least %d", next, least)
	}
}

// descriptors is what the daemon has open, by kind, and zombies how many
// processes have ended that it did not wait for.
func (d *daemon) descriptors() (open map[string]int, zombies int) {
	pid := strconv.Itoa(d.Cmd.Process.Pid)
	list, err := filepath.Glob("/proc/" + pid + "/fd/*")
	if err != nil {
		d.t.Fatal(err)
	}
	open = map[string]int{}
	for _, link := range list {
		// Connections to the database are opened as they are needed.
		if to, err := os.Readlink(link); err == nil && !strings.Contains(to, "/berth.db") {
			kind, _, _ := strings.Cut(to, ":[") // of sockets and pipes, which have numbers
			open[kind]++
		}
	}
	out, _ := exec.Command("ps", "--ppid", pid, "-o", "stat=").Output() // fails when there is none
	return open, strings.Count(string(out), "Z")
}

// TestUpgrade: the daemon is replaced in place, again and again, and neither
// programs nor clients notice.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	upgrades(t, 5, 100)
}

// upgrades is TestUpgrade with so many of them, and so many connections a second.
func upgrades(t *testing.T, times, rate int) {
	d := upgradable(t, "--logs-rate", "100000", "--logs-max-file", "64")
	d.start()
	c := d.account("ana", 800)
	talkers := []string{c.upload(nodeBot(chatty, "RAM=64")), c.upload(nodeBot(chatty, "RAM=64"))}
	pids, since := map[string]int{}, map[string]string{}
	for _, id := range talkers {
		pids[id], since[id] = d.pid(id), c.get("/app/"+id+"/status").text("apps.startedAt")
	}
	daemon := d.Cmd.Process.Pid
	d.upgrade() // one image may have other descriptors open than the next
	web.CloseIdleConnections()
	before, _ := d.descriptors()
	v := c.visit(rate)
	began := time.Now()
	for n := range times {
		ends := c.upload(shellBot("until [ -e go ]; do sleep 0.01; done; echo last; exit 7", "RAM=32"))
		d.replace(berth)
		images := d.images()
		d.Signal(syscall.SIGHUP)
		time.AfterFunc(time.Duration(n*250)*time.Millisecond, func() { _ = os.WriteFile(d.path(ends, "go"), nil, 0o644) })
		d.untilImages(images + 1)
		c.until(ends, "apps.online", false, "apps.exitCode", 7, "apps.ramKilled", false)
		if log := c.log(ends); strings.Count(log, "last\n") != 1 || strings.Contains(log, "repeat") {
			t.Errorf("its log is %s", log)
		}
		c.delete(ends).want(200)
		for _, id := range talkers {
			if pid := d.pid(id); pid != pids[id] {
				t.Fatalf("the program is %d, want %d", pid, pids[id])
			}
			c.info(id).want(200, "apps.online", true, "apps.ramKilled", false)
			if at := c.get("/app/" + id + "/status").text("apps.startedAt"); at != since[id] {
				t.Errorf("it runs since %s, want %s", at, since[id])
			}
		}
	}
	v.end(t, int64(time.Since(began).Seconds()*float64(rate)/2))
	var open map[string]int
	zombies := 0
	defer func() {
		if t.Failed() {
			t.Logf("before %v, after %v, zombies %d", before, open, zombies)
		}
	}()
	harness.Eventually(t, "no descriptor and no zombie is left", func() bool {
		web.CloseIdleConnections()
		open, zombies = d.descriptors()
		if most := before["pipe"] + 2*4; open["pipe"] <= most { // logs share up to four, as many as were busy at once
			open["pipe"] = before["pipe"]
		}
		return maps.Equal(open, before) && zombies == 0
	})
	if d.Ended() || d.Cmd.Process.Pid != daemon {
		t.Fatal("the daemon is another")
	}
	for _, id := range talkers {
		c.put("/app/"+id+"/stop", "").want(200, "status", "ok")
		c.counted(id, 500*times/2)
	}
	if log := besidesRequests(d.Out.String()); strings.Contains(log, "level=ERROR") {
		t.Errorf("the daemon complained: %s", log)
	}
}

// A binary of another version takes over, and what is not well does not.
func TestUpgradeToAnotherVersion(t *testing.T) {
	t.Parallel()
	d := upgradable(t)
	if os.Getenv("BERTH_E2E_BINARY") != "" {
		t.Skip("nothing is built here")
	}
	d.start()
	c := d.account("ana", 100)
	id := c.upload(nodeBot(idleNode, "RAM=64"))
	pid, version := d.pid(id), c.get("/user").header.Get("berth-version")
	refused := func(says string) {
		t.Helper()
		before := d.Out.String()
		d.Signal(syscall.SIGHUP)
		harness.Eventually(t, "it refuses", func() bool {
			return strings.Contains(d.Out.String()[len(before):], "msg=\"not upgraded, serving as before\"")
		})
		if log := d.Out.String()[len(before):]; !strings.Contains(log, says) {
			t.Errorf("want %q in %s", says, log)
		}
		if got := c.get("/user").want(200).header.Get("berth-version"); got != version || d.pid(id) != pid {
			t.Errorf("version %s, program %d", got, d.pid(id))
		}
	}
	file := func(text string, mode os.FileMode) {
		t.Helper()
		write(t, filepath.Join(d.root, "text"), text)
		d.replace(filepath.Join(d.root, "text"))
		if err := os.Chmod(d.binary, mode); err != nil {
			t.Fatal(err)
		}
	}
	file("#!/bin/sh\necho berth: cannot use the database: of a test >&2; exit 1\n", 0o755)
	refused("its self check failed: cannot use the database: of a test")
	file("#!/bin/sh\necho hello\n", 0o755)
	refused("does not answer as berth does")
	whole, err := os.ReadFile(berth)
	if err != nil {
		t.Fatal(err)
	}
	file(string(whole[:len(whole)/3]), 0o755)
	refused("its self check failed: ")
	file("\x7fELF not", 0o755)
	refused("exec format error")
	file(string(whole), 0o644)
	refused("permission denied")
	file("#!/bin/sh\nexec "+berth+" \"$@\" --data-dir "+d.root+"/elsewhere\n", 0o755)
	refused("data_dir is " + d.root + "/elsewhere now, which needs a restart")
	if err := os.Remove(d.binary); err != nil {
		t.Fatal(err)
	}
	refused("no such file or directory")
	next := filepath.Join(d.root, "next")
	build := exec.Command("scripts/build", next)
	build.Dir, build.Env = "../..", append(os.Environ(), "VERSION=9.8.7")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.replace(next)
	d.upgrade()
	if got := c.get("/user").want(200).header.Get("berth-version"); got != "9.8.7" || d.pid(id) != pid {
		t.Errorf("version %s, program %d", got, d.pid(id))
	}
	if !strings.Contains(d.Out.String(), "from="+version+" to=9.8.7") {
		t.Errorf("the log does not tell the versions: %s", besidesRequests(d.Out.String()))
	}
}

// A stop at any moment of an upgrade stops all, and a second request for one
// does no harm.
func TestUpgradeThatIsStopped(t *testing.T) {
	t.Parallel()
	d := upgradable(t)
	d.start()
	c := d.account("ana", 100)
	id := c.upload(nodeBot(idleNode, "RAM=64"))
	d.Signal(syscall.SIGHUP)
	d.upgrade()
	for n := range 8 {
		d.Signal(syscall.SIGHUP)
		harness.Eventually(t, "it is on its way", func() bool { return strings.Contains(d.Out.String(), "msg=upgrading") })
		<-time.After(time.Duration(970+n*15) * time.Millisecond)
		code, left := d.End(syscall.SIGTERM), d.of(id)
		between := code == -1 && len(left) == 1 // the images; the next start takes it over
		if !between && (code != 0 || len(left) > 0) {
			t.Errorf("exit status %d, left running: %v: %s", code, left, besidesRequests(d.Out.String()))
		}
		d.start()
		c.until(id, "apps.online", true)
	}
	if apps := c.ids(); !slices.Equal(apps, []string{id}) {
		t.Errorf("there are %v", apps)
	}
}
