//go:build guest

package e2e

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// apts is a machine that has berth as packages: 1.0.0, 1.0.1, and 2.0.0 with a schema of its own
// (test/vm/packages), from a repository on loopback.
type apts struct {
	*service
	c     *client
	pids  map[string]int
	since map[string]string
}

// aptSettings let apt look for packages in the test's repository alone.
const aptSettings = "/etc/apt/apt.conf.d/99berth-test"

func (a *apts) get(args ...string) (string, error) {
	cmd := exec.Command("apt-get", append([]string{"-q", "-y", "--no-install-recommends", "--allow-downgrades", "-o", "Dpkg::Use-Pty=0"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is get for what must succeed and say this.
func (a *apts) must(says string, args ...string) {
	a.T.Helper()
	began := time.Now()
	out, err := a.get(args...)
	if err != nil || !strings.Contains(out, says) {
		a.T.Fatalf("apt-get %v: %v, want %q in %s", args, err, says, out)
	}
	a.T.Logf("apt-get %v took %v", args, time.Since(began).Round(time.Second))
}

// same checks that the programs are those that they were, and that this version serves.
func (a *apts) same(after, version string) {
	a.T.Helper()
	a.runs(a.c, after, a.pids)
	for id, since := range a.since {
		if now := a.c.Get("/app/"+id+"/status").Want(200, "apps.container", "Online").Text("apps.startedAt"); now != since {
			a.T.Errorf("after %s %s runs since %s, was since %s", after, id, now, since)
		}
	}
	if now := a.c.Get("/user").Want(200).Header.Get("berth-version"); now != version {
		a.T.Errorf("after %s %s serves, want %s", after, now, version)
	}
}

// repository serves what test/vm/packages made, in the directory that it returns, and lets apt
// know.
func (a *apts) repository() (dir string) {
	t := a.T
	t.Helper()
	dir = filepath.Join(filepath.Dir(harness.Binary), "apt")
	if !harness.Exists(t, dir+"/dists/stable/InRelease") {
		t.Fatalf("there is no repository in %s: test/vm/packages makes it", dir)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	key, err := os.ReadFile(dir + "/berth.asc")
	if err != nil {
		t.Fatal(err)
	}
	harness.Write(t, "/etc/apt/berth.asc", string(key))
	harness.Write(t, "/etc/apt/berth.list", "deb [signed-by=/etc/apt/berth.asc] http://"+l.Addr().String()+" stable main\n")
	harness.Write(t, aptSettings, `Acquire::http::Proxy "DIRECT"; Dir::Etc::SourceList "/etc/apt/berth.list"; Dir::Etc::SourceParts "-";`+"\n")
	// A machine that is an image of a container lets packages start nothing.
	if err := os.Remove("/usr/sbin/policy-rc.d"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	// dpkg reads the lists of all files of all packages at each call, which takes a minute here.
	if err := syscall.Mount("dpkg", "/var/lib/dpkg", "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount("/var/lib/dpkg", syscall.MNT_DETACH) })
	for _, name := range []string{"info", "updates", "triggers"} {
		if err := os.Mkdir("/var/lib/dpkg/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	harness.Write(t, "/var/lib/dpkg/status", "")
	a.must("", "update")
	return dir
}

// TestGuestPackages: a machine goes from "berth install" to packages, to newer ones and back,
// while people use it; no program restarts, no request fails and no line is lost.
// Not parallel: a guest has one installed berth.
func TestGuestPackages(t *testing.T) {
	a := &apts{service: uninstalled(t), pids: map[string]int{}, since: map[string]string{}}
	a.repository()
	t.Cleanup(a.clean)
	sites := harness.Address(t)
	usual := append(behind(sites), "logs.rate = 100000", "logs.max_file = 64")
	a.settings(usual...)
	a.command("install", "--now")
	a.c = a.account("ana", 600)
	site := a.c.Upload(shopNode)
	talkers := []string{a.c.Upload(harness.NodeBot(harness.Chatty, "RAM=64")), a.c.Upload(harness.NodeBot(harness.Chatty, "RAM=64"))}
	for _, id := range append(talkers, site) {
		a.pids[id], a.since[id] = a.PID(id), a.c.Get("/app/"+id+"/status").Text("apps.startedAt")
	}

	a.through(a.c, sites, func() {
		// From /usr/local to the package: by a restart, for the daemon is another file's.
		a.must("remove /etc/systemd/system/berth.service\n", "install", "berth=1.0.0")
		a.same("the first package", "1.0.0")
		for _, gone := range []string{"/etc/systemd/system/berth.service", "/usr/local/bin/berth"} {
			if harness.Exists(t, gone) {
				t.Errorf("%s is left", gone)
			}
		}
		main := a.main()
		a.must("berth 1.0.1 serves; programs run on\n", "install", "berth=1.0.1")
		a.same("an upgrade", "1.0.1")
		a.must("berth 1.0.0 serves; programs run on\n", "install", "berth=1.0.0")
		a.same("the way back", "1.0.0")
		if long() {
			a.brokenSettings(usual)
		}
		a.must("berth 2.0.0 serves; programs run on\n", "install", "berth")
		a.same("a migration", "2.0.0")
		if now := a.main(); now != main {
			t.Errorf("the daemon was %d and is %d", main, now)
		}
		if long() {
			a.refusesOlder()
		}
	})
	a.goBack()
	for _, id := range talkers {
		a.c.Counted(id, 100)
	}
	a.removed(talkers[0])
}

// clean leaves nothing to the next test.
func (a *apts) clean() {
	_, _ = a.get("purge", "berth") // if the test failed before
	_ = exec.Command(harness.Binary, "uninstall").Run()
	paths, _ := filepath.Glob("/etc/systemd/system/berth*.d")
	data, _ := filepath.Glob(a.Data + "/*")
	for _, path := range append(append(paths, data...), "/etc/berth", "/etc/apt/berth.list", "/etc/apt/berth.asc", aptSettings) {
		if err := os.RemoveAll(path); err != nil {
			a.T.Error(err)
		}
	}
}

// long says whether there is time for what test/packages does too, in a root directory without
// systemd.
func long() bool { return !harness.Emulated || os.Getenv("BERTH_E2E_LONG") != "" }

// through lets visitors of the API and of a site come all the time, and none may go without an
// answer.
func (s *service) through(c *client, sites string, happens func()) {
	t := s.T
	t.Helper()
	rate := 100
	if harness.Emulated {
		rate = 5
	}
	s.shopOpens(sites)
	began := time.Now()
	api := harness.Visit(rate, func() *http.Request { return c.Request("GET", "/v2/user", nil) })
	site := harness.Visit(rate, func() *http.Request { return atShop(sites) })
	happens()
	t.Logf("in %v there were %d requests to the API and %d to a site", time.Since(began).Round(time.Second), api.End(t, harness.MaxVisitors), site.End(t, harness.MaxVisitors))
}

// shopOpens waits until the site answers.
func (s *service) shopOpens(sites string) {
	s.T.Helper()
	harness.Eventually(s.T, "the site answers", func() bool {
		resp, err := http.DefaultTransport.RoundTrip(atShop(sites))
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func atShop(sites string) *http.Request {
	r, err := http.NewRequest("GET", "http://"+sites+"/", nil)
	if err != nil {
		panic(err)
	}
	r.Host = "shop.apps.example.org"
	return r
}

// brokenSettings: a new berth that could not start does not take over, apt says why and how
// to go back, and the daemon serves on.
func (a *apts) brokenSettings(usual []string) {
	t := a.T
	t.Helper()
	a.settings(append([]string{"no_such_setting = 1"}, usual...)...)
	out, err := a.get("install", "berth=1.0.1")
	if err == nil || !strings.Contains(out, "no_such_setting") || !strings.Contains(out, "berth: to go back: apt install --allow-downgrades berth=1.0.0\n") {
		t.Errorf("an upgrade with a wrong setting: %v: %s", err, out)
	}
	a.same("an upgrade that failed", "1.0.0")
	a.settings(usual...)
	if out, err := exec.Command("dpkg", "--configure", "-a").CombinedOutput(); err != nil || !strings.Contains(string(out), "berth 1.0.1 serves; programs run on\n") {
		t.Errorf("dpkg --configure -a: %v: %s", err, out)
	}
	a.same("the end of that upgrade", "1.0.1")
}

// refusesOlder: a berth that could not read the database is not installed.
func (a *apts) refusesOlder() {
	t := a.T
	t.Helper()
	out, err := a.get("install", "berth=1.0.1")
	if err == nil || !strings.Contains(out, "berth: cannot install berth 1.0.1: the database in /var/lib/berth has schema ") || !strings.Contains(out, "Hint: stay with berth 2.0.0. Or lose what happened since: ") {
		t.Errorf("across a migration: %v: %s", err, out)
	}
	if out, err := exec.Command("dpkg-query", "-W", "-f", "${Version} ${Status}", "berth").CombinedOutput(); err != nil || string(out) != "2.0.0 install ok installed" {
		t.Errorf("dpkg has %s, %v", out, err)
	}
	a.same("a refusal", "2.0.0")
}

// goBack is what the refusal says: the copy from before the migration, and the older berth.
func (a *apts) goBack() {
	t := a.T
	t.Helper()
	a.systemctl("stop", "berth.socket", "berth")
	copies, err := filepath.Glob("/var/lib/berth/berth.db.schema-*")
	if err != nil || len(copies) != 1 {
		t.Fatalf("the copies are %v, %v", copies, err)
	}
	for _, name := range []string{"berth.db", "berth.db-wal", "berth.db-shm"} {
		if err := os.Rename("/var/lib/berth/"+name, "/var/lib/berth/newer."+name); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Rename(copies[0], "/var/lib/berth/berth.db"); err != nil {
		t.Fatal(err)
	}
	a.must("", "install", "berth=1.0.1")
	a.same("the way back across a migration", "1.0.1")
}

// removed: programs end, data and settings stay, and the package can come again.
func (a *apts) removed(id string) {
	t := a.T
	t.Helper()
	a.must("  rm -rf /var/lib/berth /etc/berth ", "remove", "berth")
	if left := a.Processes(); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	for _, gone := range []string{"/usr/bin/berth", "/usr/lib/systemd/system/berth*"} {
		if harness.Exists(t, gone) {
			t.Errorf("%s is left", gone)
		}
	}
	if !harness.Exists(t, a.Path(id)) || !harness.Exists(t, "/etc/berth/berth.toml") {
		t.Error("data or settings are gone")
	}
	if !long() {
		return
	}
	a.must("Next, the first account and the panel: berth setup", "install", "berth=1.0.1")
	a.c.Until(id, "apps.online", true)
	a.must("", "purge", "berth")
	if !harness.Exists(t, a.Path(id)) || !harness.Exists(t, "/etc/berth/berth.toml") {
		t.Error("after a purge data or settings are gone")
	}
}
