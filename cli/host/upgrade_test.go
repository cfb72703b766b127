package host

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"aead.dev/minisign"

	"berth/app/exit"
	"berth/daemon/release"
	"berth/daemon/settings"
	"berth/db"
	"berth/systemd"
)

// upgraded is a machine on which berth 1.2.0 serves, and a server with the release 1.3.0. Its
// binaries are scripts, and so are systemctl, dpkg and apt-get. The API answers as the version in the
// file "serving" of the root directory.
type upgraded struct {
	*upgrader
	t      *testing.T
	said   *bytes.Buffer
	files  map[string][]byte
	secret minisign.PrivateKey
	schema int
}

// script is a berth of that version: it installs itself as berth does, and more is a line that it
// runs after it.
func (m *upgraded) script(version, check, more string) string {
	return fmt.Sprintf(`#!/bin/sh
root=%s
case $1 in
serve) echo %[2]s >$root/serving ;;
check) %[3]s ;;
install)
	echo berth %[2]s "$@" >>$root/calls
	cp "$0" $root/temp && mv $root/temp $root/usr/local/bin/berth
	[ "$4" != --now ] || systemctl restart berth.service
	%[4]s ;;
esac
`, m.root, version, check, more)
}

func says(version string) string { return `echo '{"version":"` + version + `"}'` }

func newUpgraded(t *testing.T) *upgraded {
	t.Helper()
	m := &upgraded{t: t, said: &bytes.Buffer{}, files: map[string][]byte{}, schema: db.Schema()}
	key, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	m.secret = secret
	root := t.TempDir()
	publisher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, is := m.files[strings.TrimPrefix(r.URL.Path, "/")]
		if !is {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(publisher.Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		version, _ := os.ReadFile(root + "/serving")
		w.Header().Set("berth-version", strings.TrimSpace(string(version)))
	}))
	t.Cleanup(api.Close)
	source, err := release.Open(publisher.URL, key.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	m.upgrader = &upgrader{
		ctx: t.Context(), out: m.said, source: source, own: release.Version{1, 2, 0},
		root: root, exe: root + "/usr/local/bin/berth", comeUp: 300 * time.Millisecond,
		settings: settings.Settings{DataDir: "/var/lib/berth", Listen: strings.TrimPrefix(api.URL, "http://")},
	}
	m.write(unitDir+"/berth.service", "[Service]\nExecStart=/usr/local/bin/berth serve\n", 0o644)
	m.write("/usr/local/bin/berth", m.script("1.2.0", "exit 1", ""), 0o755)
	m.write("/serving", "1.2.0\n", 0o644)
	m.write("/run/x", "", 0o644)
	m.fake("systemctl", `case $* in
is-active*) if [ -e `+root+`/stopped ]; then echo inactive; exit 3; fi; echo active ;;
restart*) echo systemctl "$@" >>`+root+`/calls; `+root+`/usr/local/bin/berth serve ;;
show*) echo "StatusText=failed: no luck" ;;
esac`)
	m.fake("dpkg-query", "exit 1")
	m.publish("1.3.0", m.script("1.3.0", says("1.3.0"), ""))
	return m
}

// publish makes an archive with a berth that is this script, and a package that is the same.
func (m *upgraded) publish(version, script string) {
	m.t.Helper()
	var text bytes.Buffer
	packed := gzip.NewWriter(&text)
	files := tar.NewWriter(packed)
	for _, name := range []string{"README.md", "share/completions/berth", "berth"} {
		err := files.WriteHeader(&tar.Header{Name: "berth_" + version + "/" + name, Mode: 0o755, Size: int64(len(script))})
		if err == nil {
			_, err = io.WriteString(files, script)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), packed.Close()); err != nil {
		m.t.Fatal(err)
	}
	m.release(version, map[string][]byte{
		"berth_" + version + "_linux_" + runtime.GOARCH + ".tar.gz": text.Bytes(),
		"berth_" + version + "_" + runtime.GOARCH + ".deb":          []byte(script),
	})
}

// release signs a manifest of these files.
func (m *upgraded) release(version string, files map[string][]byte) {
	manifest := fmt.Sprintf("version %s\nschema %d\n", version, m.schema)
	clear(m.files)
	for name, text := range files {
		m.files[name] = text
		manifest += fmt.Sprintf("%x  %s\n", sha256.Sum256(text), name)
	}
	m.files["manifest"], m.files["manifest.minisig"] = []byte(manifest), minisign.Sign(m.secret, []byte(manifest))
}

func (m *upgraded) write(path, text string, mode os.FileMode) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.root+path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.root+path, []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
}

func (m *upgraded) fake(name, script string) {
	m.t.Helper()
	dir := m.root + "/fakes"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	fakeCommand(m.t, dir, name, "#!/bin/sh\n"+script+"\n")
}

// packaged makes it the package's berth.
func (m *upgraded) packaged() {
	m.t.Helper()
	if err := os.Remove(m.root + unitDir + "/berth.service"); err != nil {
		m.t.Fatal(err)
	}
	m.write(systemd.VendorDir+"/berth.service", "[Service]\nExecStart=/usr/local/bin/berth serve\n", 0o644) // in place of /usr/bin, for the scripts
	m.fake("dpkg-query", "case $1 in --search) echo berth: $2 ;; *) cat "+m.root+"/state ;; esac")
	m.fake("dpkg", "echo dpkg \"$@\" >>"+m.root+"/calls; echo installed >"+m.root+"/state")
	m.fake("dpkg-deb", "[ $1 = --extract ] || exit 2; mkdir -p $3/usr/bin && cp $2 $3/usr/bin/berth && chmod 755 $3/usr/bin/berth")
	m.fake("apt-get", "for deb; do :; done; echo apt-get \"$@\" | sed 's|[^ ]*/||g' >>"+m.root+"/calls; echo half-configured >"+m.root+"/state; chmod 755 $deb; PATH=$PATH:/bin $deb install --prefix /usr --now && echo installed >"+m.root+"/state")
}

// calls are what was called.
func (m *upgraded) calls() string {
	b, _ := os.ReadFile(m.root + "/calls")
	_ = os.Remove(m.root + "/calls")
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", "; ")
}

// is checks which version is there and serves, and that nothing else is left.
func (m *upgraded) is(version string, kept bool) {
	m.t.Helper()
	if got := readFile(m.t, m.root+"/usr/local/bin/berth"); !strings.Contains(got, "echo "+version+" >") {
		m.t.Errorf("the binary is not %s: %s", version, got)
	}
	if got := readFile(m.t, m.root+"/serving"); got != version+"\n" {
		m.t.Errorf("what serves is %s", got)
	}
	left, err := os.ReadDir(m.root + "/usr/local/bin")
	if want := map[bool]int{false: 1, true: 2}[kept]; err != nil || len(left) != want {
		m.t.Errorf("beside the binary are %v, %v", left, err)
	}
	if kept && !strings.Contains(readFile(m.t, m.root+"/usr/local/bin/berth.old"), "echo 1.2.0 >") {
		m.t.Error("what is kept is not the old binary")
	}
}

func TestUpgrade(t *testing.T) {
	m := newUpgraded(t)
	if err := m.upgrade(); err != nil {
		t.Fatalf("%v: %s", err, m.said)
	}
	archive := "berth_1.3.0_linux_" + runtime.GOARCH + ".tar.gz"
	want := "upgrade  /usr/local/bin/berth, from 1.2.0 to 1.3.0\ndownload " + m.source.Base() + "/" + archive + "\n" +
		"call     berth install; the old binary is kept as /usr/local/bin/berth.old\nberth 1.3.0 serves in the place of 1.2.0; programs ran on\n"
	if got := m.said.String(); got != want {
		t.Errorf("it said %s", got)
	}
	if got := m.calls(); got != "berth 1.3.0 install --prefix /usr/local --now; systemctl restart berth.service" {
		t.Errorf("called %s", got)
	}
	m.is("1.3.0", true)

	// Again: it is the newest.
	m.own, m.ctx = release.Version{1, 3, 0}, t.Context()
	m.said.Reset()
	if err := m.upgrade(); err != nil || m.said.String() != "berth 1.3.0 is the newest release at "+m.source.Base()+"\n" || m.calls() != "" {
		t.Errorf("again: %v, %s", err, m.said)
	}
}

func TestUpgradeOfAPackage(t *testing.T) {
	m := newUpgraded(t)
	m.packaged()
	if err := m.upgrade(); err != nil {
		t.Fatalf("%v: %s", err, m.said)
	}
	deb := "berth_1.3.0_" + runtime.GOARCH + ".deb"
	if got, want := m.calls(), "apt-get -q install -y --no-install-recommends --reinstall -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "+deb+"; berth 1.3.0 install --prefix /usr --now"; !strings.HasPrefix(got, want) {
		t.Errorf("called %s", got)
	}
	m.is("1.3.0", false)
}

// The service stays stopped.
func TestUpgradeOfAStoppedService(t *testing.T) {
	m := newUpgraded(t)
	m.write("/stopped", "", 0o644)
	if err := m.upgrade(); err != nil || !strings.HasSuffix(m.said.String(), "berth 1.3.0 is installed in the place of 1.2.0. The service is stopped, as it was: systemctl start berth\n") {
		t.Errorf("%v: %s", err, m.said)
	}
	if got := m.calls(); got != "berth 1.3.0 install --prefix /usr/local" {
		t.Errorf("called %s", got)
	}
}

// A release that does not come up is taken back, with its own error.
func TestUpgradeGoesBack(t *testing.T) {
	for about, tt := range map[string]struct {
		change func(*upgraded)
		why    string
	}{
		"systemd cannot start it": {func(m *upgraded) {
			m.publish("1.3.0", m.script("1.3.0", says("1.3.0"), "echo 'berth: systemctl restart berth.service: the daemon does not start: the disk is on fire' >&2; echo 'Hint: water' >&2; exit 1"))
		}, "berth: systemctl restart berth.service: the daemon does not start: the disk is on fire"},
		"it does not answer": {func(m *upgraded) {
			m.publish("1.3.0", m.script("1.3.0", says("1.3.0"), "echo none >$root/serving"))
		}, "no luck"},
		"a package that does not start": {func(m *upgraded) {
			m.packaged()
			m.publish("1.3.0", m.script("1.3.0", says("1.3.0"), "echo 'berth: it does not start' >&2; echo 'E: Sub-process returned an error code (1)' >&2; exit 100"))
		}, "apt-get: it does not start"},
	} {
		t.Run(about, func(t *testing.T) {
			m := newUpgraded(t)
			tt.change(m)
			err := m.upgrade()
			want := "berth 1.3.0 did not come up: " + tt.why + "; berth 1.2.0 is back"
			if got := fmt.Sprint(err); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if p, ok := errors.AsType[*exit.Problem](err); !ok || p.Code != exit.Failure {
				t.Errorf("it is no failure: %v", err)
			}
			calls := m.calls()
			if !strings.HasSuffix(calls, "; systemctl restart berth.service") || m.deb == strings.Contains(calls, "berth 1.2.0 install --prefix /usr/local; ") ||
				m.deb != strings.Contains(calls, "; dpkg --configure berth; ") {
				t.Errorf("called %s", calls)
			}
			m.is("1.2.0", false)
		})
	}
}

// The old berth could not open the database that another schema may have changed by now.
func TestUpgradeDoesNotGoBackAcrossASchema(t *testing.T) {
	m := newUpgraded(t)
	m.schema++
	m.publish("1.3.0", m.script("1.3.0", says("1.3.0"), "echo none >$root/serving"))
	copied := fmt.Sprintf("/var/lib/berth/berth.db.schema-%d", db.Schema())
	m.write(copied, "", 0o600)
	want := "berth 1.3.0 is installed and did not come up: no luck; it has another schema of the database, so berth does not go back by itself: " +
		"the old binary is /usr/local/bin/berth.old, and the database from before is " + copied
	if err := m.upgrade(); fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if got := readFile(t, m.root+"/usr/local/bin/berth.old"); !strings.Contains(got, "echo 1.2.0 >") {
		t.Errorf("the old binary is %s", got)
	}
}

// Neither comes up: both say why.
func TestUpgradeCannotGoBack(t *testing.T) {
	m := newUpgraded(t)
	m.publish("1.3.0", m.script("1.3.0", says("1.3.0"), "echo none >$root/serving"))
	m.write("/usr/local/bin/berth", strings.ReplaceAll(m.script("1.2.0", "exit 1", ""), "echo 1.2.0 >", "echo none >"), 0o755)
	want := "cannot upgrade: berth 1.3.0 did not come up: no luck; and berth 1.2.0, which is to be back, did not either: no luck"
	if err := cannot("upgrade", m.upgrade()); fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// What is refused before the binary is replaced changes nothing.
func TestUpgradeRefuses(t *testing.T) {
	archive := "berth_1.3.0_linux_" + runtime.GOARCH + ".tar.gz"
	for about, tt := range map[string]struct {
		change func(*upgraded)
		says   string
	}{
		"no service":      {func(m *upgraded) { _ = os.Remove(m.root + unitDir + "/berth.service") }, "berth is not a service of this machine"},
		"another berth":   {func(m *upgraded) { m.exe = "/proc/self/exe" }, "this is not the berth that the service starts, which is /usr/local/bin/berth"},
		"another package": {func(m *upgraded) { m.fake("dpkg-query", "echo anchor: $2") }, "neither berth install nor the package berth has installed /usr/local/bin/berth"},
		"a unit of its own": {func(m *upgraded) {
			m.write(unitDir+"/berth.service", "[Service]\nExecStart=/opt/berth serve\n", 0o644)
			m.write("/opt/berth", "", 0o755)
			m.exe = m.root + "/opt/berth"
		}, "neither berth install nor the package berth has installed /opt/berth"},
		"no binary":          {func(m *upgraded) { m.write(unitDir+"/berth.service", "ExecStart=/none/berth serve\n", 0o644) }, "the service starts /none/berth: stat DIR/none/berth: no such file or directory"},
		"an older release":   {func(m *upgraded) { m.release("1.1.9", nil); m.publish("1.1.9", "") }, "berth 1.2.0 is installed, and BASE has only 1.1.9, which is older"},
		"no signature":       {func(m *upgraded) { m.files["manifest.minisig"] = nil }, "the manifest at BASE is not signed by the key "},
		"a forged archive":   {func(m *upgraded) { m.files[archive] = []byte("x") }, "BASE/" + archive + " is not what the manifest names: its SHA-256 is "},
		"no archive":         {func(m *upgraded) { m.release("1.3.0", map[string][]byte{"x": nil}) }, "the release 1.3.0 at BASE has no file " + archive},
		"an archive of none": {func(m *upgraded) { m.release("1.3.0", map[string][]byte{archive: []byte("x")}) }, "cannot unpack " + archive + ": unexpected EOF"},
		"another version":    {func(m *upgraded) { m.publish("1.3.0", m.script("1.3.0", says("1.4.0"), "")) }, "the release 1.3.0 has a berth that calls itself 1.4.0"},
		"no berth":           {func(m *upgraded) { m.publish("1.3.0", m.script("1.3.0", "echo hello", "")) }, "berth does not answer as berth does"},
		"a check that fails": {func(m *upgraded) {
			m.publish("1.3.0", m.script("1.3.0", "echo berth: cannot read the settings >&2; echo 'Hint: x' >&2; exit 78", ""))
		}, "berth 1.3.0 could not serve here: cannot read the settings"},
		"a unit that was changed": {func(m *upgraded) {
			m.publish("1.3.0", strings.Replace(m.script("1.3.0", says("1.3.0"), ""), "install)", "install) echo berth: cannot replace the unit >&2; exit 1", 1))
		}, "berth: cannot replace the unit"},
		"another upgrade": {func(m *upgraded) {
			f, err := os.Create(m.root + "/run/berth-upgrade.lock")
			if err != nil || syscall.Flock(int(f.Fd()), syscall.LOCK_EX) != nil {
				m.t.Fatal(err)
			}
			m.t.Cleanup(func() { _ = f.Close() })
		}, "another installation or upgrade of berth is under way"},
	} {
		t.Run(about, func(t *testing.T) {
			m := newUpgraded(t)
			tt.change(m)
			err := m.upgrade()
			want := strings.NewReplacer("BASE", m.source.Base(), "DIR", m.root).Replace(tt.says)
			if got := fmt.Sprint(err); !strings.HasPrefix(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if calls := m.calls(); calls != "" {
				t.Errorf("called %s", calls)
			}
			m.is("1.2.0", false)
		})
	}
}

// A full disk is refused with the words of the system, and nothing stays.
func TestUpgradeOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	m := newUpgraded(t)
	m.publish("1.3.0", m.script("1.3.0", says("1.3.0"), "")+strings.Repeat("#", 1<<20))
	bin := m.root + "/usr/local/bin"
	is := readFile(t, bin+"/berth")
	if err := syscall.Mount("small", bin, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(bin, syscall.MNT_DETACH) })
	m.write("/usr/local/bin/berth", is, 0o755)
	if err := m.upgrade(); err == nil || !strings.HasSuffix(err.Error(), "no space left on device") || m.calls() != "" {
		t.Errorf("got %v", err)
	}
	m.is("1.2.0", false)
}

// What a killed upgrade has left, the next one removes.
func TestUpgradeTidiesUp(t *testing.T) {
	m := newUpgraded(t)
	m.write("/usr/local/bin/.berth-upgrade-123/deb/usr/bin/berth", "x", 0o755)
	if err := m.upgrade(); err != nil {
		t.Fatal(err)
	}
	m.is("1.3.0", true)
}

func TestUpgradeCheck(t *testing.T) {
	m := newUpgraded(t)
	err := m.check()
	if p, ok := errors.AsType[*exit.Problem](cannot("check", err)); !ok || p.Code != exit.Outdated || p.Hint != "Hint: sudo berth upgrade" ||
		p.Error() != "release 1.3.0 is at "+m.source.Base()+", and 1.2.0 is installed" {
		t.Errorf("got %v", err)
	}
	m.own = release.Version{1, 3, 0}
	if err := m.check(); err != nil || m.said.String() != "berth 1.3.0 is the newest release at "+m.source.Base()+"\n" {
		t.Errorf("the newest: %v, %s", err, m.said)
	}
	m.own = release.Version{1, 10, 0}
	if err := m.check(); err == nil || err.Error() != "berth 1.10.0 is installed, and "+m.source.Base()+" has only 1.3.0, which is older" {
		t.Errorf("an older one: %v", err)
	}
	m.is("1.2.0", false)
}

// A binary that no release was, and one that knows no releases.
func TestUpgradeOfABuild(t *testing.T) {
	for _, args := range [][]string{{"upgrade", "--check"}, {"upgrade"}} {
		code, _, problems := start(t, nil, args...)
		if what := map[int]string{1: "upgrade", 2: "check for a newer release"}[len(args)]; code != 1 || !strings.HasPrefix(problems, "berth: cannot "+what+": this berth is a development build (") || !strings.Contains(problems, "\nHint: ./do build && ") {
			t.Errorf("%v: exit code %d: %s", args, code, problems)
		}
	}
	exe := filepath.Join(t.TempDir(), "berth")
	compile := exec.Command("go", "test", "-c", "-o", exe, "-ldflags", "-X berth/app/build.stamped=1.2.0", ".")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "berth: cannot check for a newer release: this berth was built without an address of releases\nHint: set upgrade.base and upgrade.key in /etc/berth/berth.toml, or use --from and --key.\n"},
		{[]string{"--from", "https://127.0.0.1:1"}, "berth: cannot check for a newer release: this berth was built without the key that signs releases\nHint: set upgrade.base and "},
		{[]string{"--from", "http://example.org", "--key", key}, "berth: cannot check for a newer release: http://example.org is not HTTPS\n"},
		{[]string{"--from", "https://127.0.0.1:1", "--key", "RW"}, `berth: cannot check for a newer release: "RW" is no public key of minisign's`},
		{[]string{"--from", "https://127.0.0.1:1", "--key", key}, "berth: cannot check for a newer release: cannot download https://127.0.0.1:1/manifest: dial tcp 127.0.0.1:1: connect: connection refused\n"},
	} {
		cmd := exec.Command(exe, append([]string{"upgrade", "--check"}, tt.args...)...)
		cmd.Args[0] = "berth" // what the test binary is then
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(out), tt.want) {
			t.Errorf("%v: %v: %s", tt.args, err, out)
		}
	}
}
