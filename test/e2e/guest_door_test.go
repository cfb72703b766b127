//go:build guest

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"berth/test/ca"
	"berth/test/dns"
	"berth/test/harness"
)

// publishPackage makes the package of a version, as it is in a directory, the newest release.
func (r *releases) publishPackage(dir, version string, schema int) {
	r.t.Helper()
	found, err := filepath.Glob(dir + "/pool/*/*/*/berth_" + version + "_*.deb")
	if err != nil || len(found) != 1 {
		r.t.Fatalf("packages of berth %s in %s: %v, %v", version, dir, found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		r.t.Fatal(err)
	}
	clear(r.files)
	name := filepath.Base(found[0])
	manifest := fmt.Sprintf("version %s\nschema %d\n%x  %s\n", version, schema, sha256.Sum256(text), name)
	r.files[name], r.files["manifest"] = text, []byte(manifest)
	r.files["manifest.minisig"] = minisign.Sign(r.secret, []byte(manifest))
}

// door is the domain to which the panel moves.
const door = "apps.example.org"

// domain calls berth setup again, with a domain of the owner and an authority on loopback, and
// brings a site there. open checks that visitors have panel and site by the authority's
// certificates, from now on.
func (a *apts) domain() (open func(after string)) {
	t := a.T
	t.Helper()
	names := dns.Start(t)
	for _, name := range []string{door, "*." + door} {
		names.SetHost(name, netip.MustParseAddr("127.0.0.1"))
	}
	authority := ca.New(t, ca.Config{Resolver: names.Addr(), HTTP: 80, TLS: 443})
	authority.Start()
	// The daemon has a /tmp of its own.
	const roots, given, file = "/etc/berth/roots.pem", "/etc/berth/given.pem", "/etc/berth/berth.toml"
	own, err := os.ReadFile(authority.Roots)
	if err != nil {
		t.Fatal(err)
	}
	harness.Write(t, roots, string(own))
	harness.Write(t, given, authority.Given())
	is, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	harness.Write(t, file, fmt.Sprintf("names.resolver = %q\nproxy.acme_directory = %q\nproxy.acme_roots = %q\n%s", names.Addr(), authority.Directory, roots, is))
	for _, changed := range []string{"visit https sites", ""} {
		said, err := exec.Command("/usr/bin/berth", "setup", "--domain", door, "--json").Output()
		var r result
		if err != nil || json.Unmarshal(said, &r) != nil || r.Panel != "https://"+door || r.Name != door || r.Tunnel != "" || strings.Join(r.changed(), " ") != changed {
			t.Fatalf("berth setup --domain: %v, %s, want changes %q", err, said, changed)
		}
	}
	site := a.c.Upload(shopNode)
	a.pids[site], a.since[site] = a.PID(site), a.c.Get("/app/"+site+"/status").Text("apps.startedAt")
	return func(after string) {
		t.Helper()
		for at, want := range map[string]string{door + "/login": "<form", "shop." + door + "/": ""} {
			host, _, _ := strings.Cut(at, "/")
			var said []byte
			harness.Eventually(t, "https://"+at+" opens after "+after, func() bool {
				said, err = exec.Command("curl", "-sSf", "--max-time", "60", "--noproxy", "*", "--cacert", given, "--resolve", host+":443:127.0.0.1", "https://"+at).CombinedOutput()
				return err == nil && strings.Contains(string(said), want)
			})
		}
	}
}

// TestGuestDoor: a new owner installs the package, calls berth setup and has a bot online, with
// the settings as they are, and then panel and a site at a domain over HTTPS; later berth upgrade
// brings the next package, while people use berth, and goes back where that does not come up.
// Not parallel: a guest has one installed berth.
func TestGuestDoor(t *testing.T) {
	a := &apts{service: uninstalled(t), pids: map[string]int{}, since: map[string]string{}}
	dir := a.repository()
	t.Cleanup(a.clean)
	a.Base = "http://127.0.0.1:8400" // the default
	a.must("Next, the first account and the panel: berth setup\n", "install", "berth=1.0.0")

	cmd := exec.Command("/usr/bin/berth", "setup", "--account", "ana", "--ram", "600", "--password-file", "-", "--tunnel", "--json")
	cmd.Stdin = strings.NewReader(password + "\n")
	said, err := cmd.Output()
	var made result
	if err != nil || json.Unmarshal(said, &made) != nil || made.Panel != a.Base || !strings.HasPrefix(made.Tunnel, "ssh -L 8400:127.0.0.1:8400 ") || strings.Join(made.changed(), " ") != "account" {
		t.Fatalf("berth setup: %v, %s", err, said)
	}
	token, err := exec.Command("/usr/bin/berth", "token", "create", "ana").Output()
	if err != nil {
		t.Fatal(err)
	}
	a.c = &client{&harness.Client{T: t, Berth: a.Berth, Name: "ana", Token: strings.TrimSpace(string(token))}, a.daemon}
	bot := a.c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64"))
	a.c.Until(bot, "apps.online", true)
	a.UID = a.UIDOf(bot) // of the default range
	a.pids[bot], a.since[bot] = a.PID(bot), a.c.Get("/app/"+bot+"/status").Text("apps.startedAt")
	a.same("berth setup", "1.0.0")
	open := a.domain()
	open("berth setup")
	a.same("berth setup with a domain", "1.0.0")

	r := newReleases(t)
	upgrade := func(want int, says ...string) {
		t.Helper()
		cmd := exec.Command("/usr/bin/berth", "upgrade", "--from", r.URL, "--key", r.key.String())
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
			t.Errorf("berth upgrade: %v, want status %d", err, want)
		}
		for _, line := range says {
			if !strings.Contains(string(out), line) {
				t.Errorf("berth upgrade does not say %q, but %s", line, out)
			}
		}
	}
	installed := func(want string) {
		t.Helper()
		if out, err := exec.Command("dpkg-query", "-W", "-f", "${Version} ${Status}", "berth").CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("dpkg has %s, %v; want %s", out, err, want)
		}
		if harness.Exists(t, "/usr/bin/.berth-upgrade-*") || harness.Exists(t, "/usr/bin/berth.old") {
			t.Error("berth upgrade has left something in /usr/bin")
		}
	}
	// The first release does not come up: it is to start, for the daemon has failed, and cannot.
	good, err := os.ReadFile("/etc/berth/berth.toml")
	if err != nil {
		t.Fatal(err)
	}
	harness.Write(t, "/etc/berth/berth.toml", "no_such_setting = 1\n"+string(good))
	_, _ = a.try("restart", "berth")
	harness.Write(t, "/etc/berth/berth.toml", string(good))
	if err := os.MkdirAll("/run/systemd/system/berth.service.d", 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Write(t, "/run/systemd/system/berth.service.d/broken.conf",
		"[Service]\nExecStartPre=/bin/sh -c 'case $$(/usr/bin/berth --version) in *1.0.1*) echo it is broken on purpose; exit 1;; esac'\n")
	a.systemctl("daemon-reload")
	r.publishPackage(dir, "1.0.1", a.schema())
	upgrade(1, "berth: cannot upgrade: berth 1.0.1 did not come up: ", "; berth 1.0.0 is back\n")
	a.same("an upgrade that was taken back", "1.0.0")
	open("an upgrade that was taken back")
	installed("1.0.1 install ok installed") // dpkg believes so, and apt works on
	if err := os.RemoveAll("/run/systemd/system/berth.service.d"); err != nil {
		t.Fatal(err)
	}
	a.systemctl("daemon-reload")

	main := a.main()
	a.answersThrough(func() {
		upgrade(0, "call     apt-get install; the old binary is kept as /usr/bin/berth.old\n", "berth 1.0.1 serves in the place of 1.0.0; programs ran on\n")
	})
	a.same("berth upgrade", "1.0.1")
	open("berth upgrade")
	installed("1.0.1 install ok installed")
	if now := a.main(); now != main {
		t.Errorf("the daemon was %d and is %d", main, now)
	}
	upgrade(0, "berth 1.0.1 is the newest release at ")
}
