//go:build guest

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/ca"
	"berth/test/harness"
)

// countingPython prints numbers, and ends with a code when it finds the file "go".
const countingPython = `import os, sys, time
n = 0
while not os.path.exists("go"):
    print("alive", n, flush=True)
    n += 1
    time.sleep(0.05)
print("last words", flush=True)
sys.exit(3)
`

// installed makes berth a service as its owner would: install, settings, start.
// There is one in a guest.
func installed(t *testing.T) *service {
	t.Helper()
	s := uninstalled(t)
	s.settings()
	s.command("install", "--now")
	return s
}

// uninstalled is all of installed but the settings and the installation.
func uninstalled(t *testing.T) *service {
	t.Helper()
	guest(t)
	address, d := harness.Address(t), prepare(t)
	s := &service{daemon: d, unit: "berth.service"}
	d.Base, d.Data = "http://"+address, "/var/lib/berth"
	// Files in memory would count as memory of the programs.
	data := filepath.Join("/disk", "installed")
	for _, dir := range []string{data, d.Data} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount(data, d.Data, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			status, _ := exec.Command("systemctl", "status", "--no-pager", "-n0", "berth.service", "berth-apps.service", "berth.socket").CombinedOutput()
			t.Logf("the units:\n%s\n%s", status, harness.Tail(harness.BesidesRequests(s.journal()), 9000))
		}
		s.try("stop", "berth.socket", "berth.service", "berth-apps.service")
		_ = syscall.Unmount(d.Data, syscall.MNT_DETACH)
	})
	return s
}

// settings writes the settings file with more lines at its top.
func (s *service) settings(lines ...string) {
	s.T.Helper()
	if err := os.MkdirAll("/etc/berth", 0o755); err != nil {
		s.T.Fatal(err)
	}
	harness.Write(s.T, "/etc/berth/berth.toml", strings.Join(append(lines,
		fmt.Sprintf("listen = %q", strings.TrimPrefix(s.Base, "http://")), "rate_limit = 100000", "[apps]", `ok_delay = "400ms"`, `stop_timeout = "5s"`,
		fmt.Sprintf("uid_base = %d", s.UID), fmt.Sprintf("uid_count = %d", harness.UIDs), "port_first = 30000", "port_last = 30099", ""), "\n"))
}

// command is berth with the settings of the service.
func (s *service) command(args ...string) string {
	s.T.Helper()
	out, err := exec.Command(harness.Binary, args...).CombinedOutput()
	if err != nil {
		s.T.Fatalf("berth %v: %v: %s", args, err, out)
	}
	return string(out)
}

// runs checks that an application's program is still the one it was, where it
// was, and that the daemon knows it.
func (s *service) runs(c *client, after string, pids map[string]int) {
	s.T.Helper()
	for id, pid := range pids {
		c.Info(id).Want(200, "apps.online", true, "apps.ramKilled", false)
		if now := s.PID(id); now != pid {
			s.T.Errorf("after %s the program of %s is %d, was %d", after, id, now, pid)
		}
		s.held(pid, id)
	}
}

// held checks that a program is in the unit that holds them.
func (s *service) held(pid int, id string) {
	s.T.Helper()
	want := "/system.slice/berth-apps.service/" + harness.GroupOfData(s.Data) + "/apps/" + id + "/"
	if group, _ := groupOf(s.T, pid, ""); !strings.HasPrefix(group, want) {
		s.T.Errorf("the program's group is %s, want it below %s", group, want)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if score, _ := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || score < 1 { // the daemon has -500
		s.T.Errorf("the program's oom_score_adj is %s, %v", b, err)
	}
}

// whole checks that what a program counted is in its log without a gap.
func (c *client) whole(id string, least int) {
	c.T.Helper()
	next := 0
	for line := range strings.Lines(c.Log(id)) {
		_, text, ok := strings.Cut(line, "alive ")
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err != nil || n != next {
			c.T.Fatalf("line %q, want number %d", line, next)
		}
		next++
	}
	if next < least {
		c.T.Errorf("only %d lines", next)
	}
}

// restarted waits until systemd has started the daemon so many times by itself.
func (s *service) restarted(times int) {
	s.T.Helper()
	harness.Eventually(s.T, "systemd has started the daemon again", func() bool {
		now := s.properties("NRestarts", "ActiveState")
		return now["NRestarts"] == strconv.Itoa(times) && now["ActiveState"] == "active"
	})
}

// TestGuestInstalled is the life of an installed berth: programs and their
// output survive whatever happens to the daemon, and end when their unit does.
func TestGuestInstalled(t *testing.T) {
	t.Parallel()
	s := installed(t)
	c := s.account("ana", 600)
	counter := c.Upload(harness.PythonBot(countingPython, "RAM=40"))
	node := c.Upload(harness.NodeBot("console.log('compiled', WebAssembly.validate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])))\n"+harness.IdleNode, "RAM=90"))
	pids := map[string]int{counter: s.PID(counter), node: s.PID(node)}
	s.runs(c, "the start", pids)
	for path, mode := range map[string]os.FileMode{"/run/berth": os.ModeDir | 0o700, "/run/berth/berth.sock": os.ModeSocket | 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v, want %s", path, info, err, mode)
		}
	}

	s.answersThrough(func() { s.systemctl("restart", "berth") })
	s.runs(c, "a restart", pids)
	harness.Kill(t, s.main())
	s.restarted(1)
	s.runs(c, "SIGKILL", pids)
	s.setsUp(c, pids)
	if !hybrid(t) {
		s.survivesAnUpgrade(c, pids)
		s.survivesTheRest(c, pids)
	}
	s.stopAndStart(c, counter, node, pids)
	s.saysWhyNot(c, pids)
	s.endEverything(c, node)
}

// setsUp: one command leads to the panel, first through a tunnel, then over HTTPS at the
// address of the host, whose certificate is in a file here. Programs run on, and a second call
// changes nothing.
func (s *service) setsUp(c *client, pids map[string]int) {
	t := s.T
	t.Helper()
	setup := func(args ...string) (r result) {
		t.Helper()
		out := s.command(append([]string{"setup", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("berth setup %v: %v: %s", args, err, out)
		}
		return r
	}
	const pair = "/etc/berth/pair.pem"
	ca.Pair(t, pair, "127.0.0.1")
	s.settings(fmt.Sprintf("proxy.cert = %q", pair), fmt.Sprintf("proxy.key = %q", pair+".key"))
	if r := setup("--tunnel"); r.Panel != s.Base || !strings.HasPrefix(r.Tunnel, "ssh -L ") || !strings.HasPrefix(r.Link, s.Base+"/setup/") {
		t.Errorf("by a tunnel: %+v", r)
	}
	for _, changed := range []string{"visit https", ""} {
		r := setup("--ip", "127.0.0.1")
		if r.Panel != "https://127.0.0.1" || strings.Join(r.changed(), " ") != changed {
			t.Errorf("by the address: %+v", r)
		}
	}
	out, err := exec.Command("curl", "-sS", "--noproxy", "*", "--cacert", pair, "https://127.0.0.1/login").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "<form") {
		t.Errorf("the panel: %v: %s", err, out)
	}
	s.runs(c, "berth setup", pids)
	if err := os.RemoveAll("/etc/berth/berth.d"); err != nil {
		t.Fatal(err)
	}
	s.settings()
	s.systemctl("reload", "berth")
	harness.Eventually(t, "port 443 is given up", func() bool { return !listensAt("127.0.0.1:443") })
	s.runs(c, "the settings of before", pids)
}

// survivesAnUpgrade: what systemd keeps for the daemon outlives an upgrade in
// place, so that who follows a daemon killed right behind one has all of it.
func (s *service) survivesAnUpgrade(c *client, pids map[string]int) {
	t := s.T
	t.Helper()
	main, kept := s.main(), s.properties("NFileDescriptorStore")
	images := func() int { return strings.Count(s.journal(), "msg=\"listening on") }
	before := images()
	s.answersThrough(func() {
		s.systemctl("reload", "berth")
		harness.Eventually(t, "another image serves", func() bool { return images() == before+1 })
	})
	s.runs(c, "an upgrade in place", pids)
	if now := s.main(); now != main {
		t.Errorf("the daemon was %d and is %d", main, now)
	}
	if now := s.properties("NFileDescriptorStore"); now["NFileDescriptorStore"] != kept["NFileDescriptorStore"] || now["NFileDescriptorStore"] == "0" {
		t.Errorf("systemd keeps %v descriptors, and kept %v", now, kept)
	}
	harness.Kill(t, main)
	s.restarted(2)
	s.runs(c, "SIGKILL behind an upgrade in place", pids)
	for id := range pids {
		c.Get("/app/" + id + "/logs").Want(200)
	}
}

// survivesTheRest is what else the daemon, systemd and the holder can suffer.
func (s *service) survivesTheRest(c *client, pids map[string]int) {
	t := s.T
	t.Helper()
	main := s.main()
	s.systemctl("daemon-reload")
	s.systemctl("daemon-reexec")
	s.runs(c, "daemon-reload and daemon-reexec", pids)
	if now := s.main(); now != main {
		t.Errorf("the daemon was %d and is %d", main, now)
	}
	if status := s.properties("StatusText")["StatusText"]; !strings.HasPrefix(status, "2 apps online; 130 of ") {
		t.Errorf("the status is %q", status)
	}
	s.looks(c)

	// A holder without its process is told and gets another.
	holder := filepath.Join("/sys/fs/cgroup/system.slice/berth-apps.service", "holder", "cgroup.procs")
	old, err := os.ReadFile(holder)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(old)))
	if err != nil {
		t.Fatal(err)
	}
	harness.Kill(t, pid)
	harness.Eventually(t, "the holder has a process again", func() bool {
		now, err := os.ReadFile(holder)
		return err == nil && len(now) > 0 && string(now) != string(old)
	})
	s.runs(c, "the death of the holder's process", pids)

	// A daemon that hangs is ended by the watchdog.
	if err := os.MkdirAll("/run/systemd/system/berth.service.d", 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Write(t, "/run/systemd/system/berth.service.d/watchdog.conf", "[Service]\nWatchdogSec=15s\n")
	s.systemctl("daemon-reload")
	s.systemctl("restart", "berth")
	if err := syscall.Kill(s.main(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.restarted(1)
	s.runs(c, "the watchdog", pids)
	if err := os.RemoveAll("/run/systemd/system/berth.service.d"); err != nil {
		t.Fatal(err)
	}
	s.systemctl("daemon-reload")

	// A bad setting ends the daemon, once, however many ask.
	s.settings("no_such_setting = 1")
	if code, out := s.try("restart", "berth"); code == 0 {
		t.Errorf("systemctl restart succeeded: %s", out)
	}
	if _, err := http.Get(s.Base + "/v2/openapi.json"); err == nil {
		t.Error("it answers with a bad setting")
	}
	s.is("ActiveState=failed", "Result=exit-code", "ExecMainStatus=78", "NRestarts=0")
	s.settings()
	s.systemctl("start", "berth")
	s.runs(c, "a bad setting", pids)
}

// looks uploads a program that looks around: the hardening of the unit takes
// nothing from the walls.
func (s *service) looks(c *client) {
	s.T.Helper()
	look := strings.Replace(lookAround, "DATA", `"`+s.Data+`"`, 1)
	id := c.Upload(harness.PythonBot(look+"import time; time.sleep(100000)\n", "RAM=40"))
	var got surroundings
	c.report(id, &got)
	if got.Host != "app-"+id || got.Filtered != "2" || got.Others || got.Data {
		s.T.Errorf("the program sees %+v", got)
	}
	if out := c.console(id, "id -u").Want(200).Text("apps.shell.stdout"); out != fmt.Sprintf("%d\n", s.UIDOf(id)) {
		s.T.Errorf("the program's uid is %q", out)
	}
	c.Delete(id).Want(200)
	hog := c.Upload(harness.ShellBot("exec tail /dev/zero", "RAM=40"))
	c.Until(hog, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
	c.Delete(hog).Want(200)
}

// stopAndStart: programs live on without a daemon, and what happens to them
// meanwhile is told.
func (s *service) stopAndStart(c *client, counter, node string, pids map[string]int) {
	s.T.Helper()
	s.systemctl("stop", "berth.socket", "berth")
	s.is("ActiveState=inactive", "Result=success")
	if harness.Exists(s.T, "/run/berth") {
		s.T.Error("/run/berth is left without a daemon")
	}
	if s.PID(counter) != pids[counter] || s.PID(node) != pids[node] {
		s.T.Errorf("after systemctl stop berth %v run, want %v", s.Processes(), pids)
	}
	harness.Write(s.T, s.Path(counter, "go"), "")
	harness.Eventually(s.T, "the program has ended", func() bool { return len(s.Of(counter)) == 0 })
	s.systemctl("start", "berth")
	delete(pids, counter)
	s.runs(c, "a stop", pids)
	c.Until(counter, "apps.online", false)
	if code := c.Info(counter).Text("apps.exitCode"); code != "-1" && code != "3" || exitsAreSeen() && code != "3" {
		s.T.Errorf("the exit code is %s", code)
	}
	if log := c.Log(counter); strings.Count(log, "last words\n") != 1 {
		s.T.Errorf("the log ends with %s", harness.Tail(log, 500))
	}
	c.whole(counter, 50) // the lines of all its lives
}

// saysWhyNot: where systemd cannot start the daemon, install says who has the port of its
// socket, and what the daemon said last.
func (s *service) saysWhyNot(c *client, pids map[string]int) {
	t := s.T
	t.Helper()
	listen := func(address string) net.Listener {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() }) // again
		return l
	}
	refused := func(want string) {
		out, err := exec.Command(harness.Binary, "install", "--now").CombinedOutput()
		if want = "the daemon does not start: " + want; err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), fmt.Sprintf("(pid %d", os.Getpid())) {
			t.Errorf("install says %s, %v; want %q and pid %d", out, err, want, os.Getpid())
		}
	}
	s.systemctl("stop", "berth.socket", "berth")
	address := strings.TrimPrefix(s.Base, "http://")
	l := listen(address)
	refused("systemd cannot listen on " + address + ": address already in use by ")
	_ = l.Close()
	taken := listen("127.0.0.1:0")
	s.settings(`proxy.mode = "behind"`, fmt.Sprintf("proxy.listen = %q", taken.Addr()))
	refused("cannot serve the sites: cannot listen on " + taken.Addr().String() + ": address already in use by ")
	s.settings()
	s.systemctl("restart", "berth")
	s.runs(c, "two starts that failed", pids)
}

// endEverything: the programs' unit is the owner's way to do it, and the service
// goes without the data.
func (s *service) endEverything(c *client, node string) {
	t := s.T
	t.Helper()
	before := s.PID(node)
	s.systemctl("restart", "berth-apps")
	harness.Eventually(t, "the daemon runs again", func() bool { return s.properties("ActiveState")["ActiveState"] == "active" })
	c.Until(node, "apps.online", true)
	if s.PID(node) == before {
		t.Error("the program outlived its unit")
	}
	s.systemctl("stop", "berth-apps")
	if left := s.Processes(); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	s.is("ActiveState=inactive", "Result=success")
	if _, err := http.Get(s.Base + "/v2/openapi.json"); err == nil {
		t.Error("a request starts everything again")
	}
	s.systemctl("start", "berth")
	c.Until(node, "apps.online", true)
	out := s.command("uninstall")
	if !strings.Contains(out, "Kept: /var/lib/berth, /etc/berth/berth.toml.") {
		t.Errorf("uninstall says %s", out)
	}
	for _, gone := range []string{"/etc/systemd/system/berth*", "/etc/systemd/system/*.wants/berth*", "/usr/local/bin/berth"} {
		if harness.Exists(t, gone) {
			t.Errorf("%s is left", gone)
		}
	}
	for _, unit := range []string{"berth.service", "berth-apps.service", "berth.socket"} {
		s.is("ActiveState=inactive")
		for _, dir := range []string{"/sys/fs/cgroup/system.slice/", "/sys/fs/cgroup/unified/system.slice/"} {
			if harness.Exists(t, dir+unit) {
				list, _ := exec.Command("find", dir+unit, "-type", "d").CombinedOutput()
				t.Errorf("left groups: %s", list)
			}
		}
	}
	if !harness.Exists(t, s.Path(node)) || !harness.Exists(t, s.Data+"/berth.db") {
		t.Error("the data is gone")
	}
	if left := s.groups(); len(left) > 0 {
		t.Errorf("left groups: %v", left)
	}
}
