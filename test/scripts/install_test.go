package scripts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
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

	"aead.dev/minisign"

	"berth/test/harness"
)

// machine is one on which install.sh runs: a directory with tools of this machine's, and others
// that only say that they were called.
type machine struct {
	t      *testing.T
	dir    string
	script string
	env    []string
}

// has gives the machine a program that is a shell script.
func (m *machine) has(name, script string) {
	m.t.Helper()
	m.write("bin/"+name, "#!/bin/sh\n"+script+"\n", 0o755)
}

func (m *machine) write(name, text string, mode os.FileMode) {
	m.t.Helper()
	at := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		m.t.Fatal(err)
	}
	_ = os.Remove(at)        // it may be a link to a real tool
	syscall.ForkLock.RLock() // what a parallel test starts now has the file open too, and nobody can execute it
	err := os.WriteFile(at, []byte(text), mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) lacks(names ...string) {
	for _, name := range names {
		_ = os.Remove(filepath.Join(m.dir, "bin", name))
	}
}

// installed is a berth of that version, whose unit is in the directory units.
func (m *machine) installed(version, units string) {
	m.has("installed-berth", "echo 'berth "+version+" go1.26.7 linux/amd64'")
	m.write(units+"/berth.service", "[Service]\nExecStart="+m.dir+"/bin/installed-berth serve\n", 0o644)
}

// run is curl | sh, and returns what it said, its exit status, and what it called.
func (m *machine) run() (said string, status int, called string) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), filepath.Join(m.dir, "bin/sh"))
	cmd.Stdin = strings.NewReader(m.script)
	cmd.Env = append([]string{"PATH=" + m.dir + "/bin", "TMPDIR=" + m.dir + "/tmp"}, m.env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		m.t.Fatal(err)
	}
	calls, _ := os.ReadFile(m.dir + "/calls")
	_ = os.Remove(m.dir + "/calls")
	left, err := os.ReadDir(m.dir + "/tmp")
	if err != nil || len(left) > 0 {
		m.t.Errorf("left in TMPDIR are %v, %v", left, err)
	}
	return string(out), cmd.ProcessState.ExitCode(), strings.ReplaceAll(string(calls), m.dir, "")
}

// tools are what a minimal Debian has, besides apt-get and dpkg.
const tools = "sh sed grep tail head cut tr wc sort base64 sha256sum mktemp rm chmod cat flock tar gzip openssl minisign curl"

// newMachine is a Debian or another system with systemd, on which install.sh of base is run.
func newMachine(t *testing.T, debian bool, base, key string) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	for _, dir := range []string{"bin", "tmp", "run/systemd/system", "usr/local/bin"} {
		if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range strings.Fields(tools) {
		if at, err := exec.LookPath(tool); err != nil {
			t.Fatal(err)
		} else if err := os.Symlink(at, filepath.Join(m.dir, "bin", tool)); err != nil {
			t.Fatal(err)
		}
	}
	m.has("id", "echo 0")
	m.has("uname", `case $1 in -s) echo Linux ;; -m) echo `+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+` ;; esac`)
	m.has("df", `echo "Filesystem 1024-blocks Used Available Capacity Mounted on"; echo "-              9000000  1000000   8000000      12% /"`)
	if debian {
		m.has("dpkg", "exit 1")
		m.has("apt-get", `echo apt-get "$@" >>`+m.dir+`/calls
case "$*" in *.deb) for deb; do :; done; cat "$deb" >>`+m.dir+`/calls ;; esac`)
	}
	script, err := os.ReadFile("../../deploy/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	m.script = strings.NewReplacer("@BASE@", base, "@KEY@", key, "/run/", m.dir+"/run/",
		"/etc/systemd/system/", m.dir+"/etc/", "/usr/lib/systemd/system/", m.dir+"/lib/").Replace(string(script))
	return m
}

// publisher is a server with a release.
type publisher struct {
	files map[string][]byte
	key   minisign.PublicKey
	sign  func(manifest []byte) []byte
	*httptest.Server
}

// publish serves version 1.3.0 by HTTPS.
func publish(t *testing.T) *publisher {
	t.Helper()
	harness.Tools(t, strings.Fields(tools)...)
	p := &publisher{files: map[string][]byte{}}
	key, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.key = key
	p.sign = func(manifest []byte) []byte {
		r := minisign.NewReader(bytes.NewReader(manifest))
		_, _ = io.Copy(io.Discard, r)
		return r.Sign(secret)
	}
	p.release("1.3.0", map[string][]byte{
		"berth_1.3.0_" + runtime.GOARCH + ".deb":          []byte("the package\n"),
		"berth_1.3.0_linux_" + runtime.GOARCH + ".tar.gz": berthArchive(t),
	})
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, is := p.files[strings.TrimPrefix(r.URL.Path, "/")]; is {
			_, _ = w.Write(text)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// release makes these the files, with a manifest of them.
func (p *publisher) release(version string, files map[string][]byte) {
	manifest := "version " + version + "\nschema 34\n"
	clear(p.files)
	for name, text := range files {
		p.files[name] = text
		manifest += fmt.Sprintf("%x  %s\n", sha256.Sum256(text), name)
	}
	p.manifest(manifest)
}

func (p *publisher) manifest(text string) {
	p.files["manifest"] = []byte(text)
	p.files["manifest.minisig"] = p.sign([]byte(text))
}

// authority is a file with the certificate authority of the server.
func (p *publisher) authority(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "authority.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// berthArchive is a tar.gz whose berth only says what it is asked for.
func berthArchive(t *testing.T) []byte {
	t.Helper()
	var text bytes.Buffer
	packed := gzip.NewWriter(&text)
	files := tar.NewWriter(packed)
	body := "#!/bin/sh\n[ \"$1\" != install ] || echo berth \"$@\" >>\"$TMPDIR/../calls\"\necho berth 1.3.0\n"
	for _, name := range []string{"berth_1.3.0/share/bash-completion/completions/berth", "berth_1.3.0/berth"} {
		if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(files, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// What install.sh installs, and how, on machines of every kind.
func TestInstallScript(t *testing.T) {
	p := publish(t)
	authority := p.authority(t)
	deb, archive := "berth_1.3.0_"+runtime.GOARCH+".deb", "berth_1.3.0_linux_"+runtime.GOARCH+".tar.gz"
	const first = "install.sh: install berth 1.3.0\n"
	const next = "install.sh: berth 1.3.0 is installed. Next, to make your account and open the panel: sudo berth setup\n"
	const upgraded = "install.sh: berth 1.3.0 is installed in the place of 1.2.9; berth doctor shows how it is\n"
	plan := "install.sh: download " + p.URL + "/" + deb + ", and call: apt-get install ./" + deb + "\n"
	unpacked := "install.sh: download " + p.URL + "/" + archive + ", and call: berth install --now --prefix "
	const apt = "apt-get -qq update\napt-get -q -o Dpkg::Use-Pty=0 install -y /tmp/berth-install.*/"
	for about, tt := range map[string]struct {
		debian bool
		change func(*machine)
		says   string
		calls  string // "*" is any word
	}{
		"Debian":                  {true, func(*machine) {}, first + plan + next, apt + deb + "\nthe package\n"},
		"Debian without minisign": {true, func(m *machine) { m.lacks("minisign") }, first + plan + next, apt + deb + "\nthe package\n"},
		"Debian without OpenSSL":  {true, func(m *machine) { m.lacks("openssl") }, first + plan + next, apt + deb + "\nthe package\n"},
		"Debian with nothing that verifies": {
			true, func(m *machine) {
				m.lacks("openssl", "minisign")
				at, _ := exec.LookPath("openssl")
				m.has("apt-get", "echo apt-get \"$@\" >>"+m.dir+"/calls\n[ -e "+m.dir+"/bin/openssl ] || { "+m.dir+"/bin/link; }")
				m.has("link", "PATH=/usr/bin:/bin ln -s "+at+" "+m.dir+"/bin/openssl")
			}, "install.sh: neither minisign nor OpenSSL 3 is there: apt-get install openssl\n" + first + plan + next,
			"apt-get -qq update\napt-get -qq install -y --no-install-recommends openssl\n" + apt + deb + "\n",
		},
		"Ubuntu with an old OpenSSL": {
			true, func(m *machine) {
				at, _ := exec.LookPath("minisign")
				m.lacks("minisign")
				m.has("openssl", "echo 'OpenSSL 1.1.1f  31 Mar 2020'")
				m.has("apt-get", "echo apt-get \"$@\" >>"+m.dir+"/calls\ncase \"$*\" in *minisign) PATH=/usr/bin:/bin ln -s "+at+" "+m.dir+"/bin/minisign ;; esac")
			}, "install.sh: neither minisign nor OpenSSL 3 is there: apt-get install openssl\ninstall.sh: neither minisign nor OpenSSL 3 is there: apt-get install minisign\n" + first + plan + next,
			"apt-get -qq update\napt-get -qq install -y --no-install-recommends openssl\n" +
				"apt-get -qq update\napt-get -qq install -y --no-install-recommends minisign\n" + apt + deb + "\n",
		},
		"a package to be upgraded": {
			true, func(m *machine) { m.installed("v1.2.9", "lib") },
			"install.sh: upgrade berth 1.2.9 to 1.3.0; programs run on\n" + plan + upgraded, apt + deb + "\nthe package\n",
		},
		"the same version":         {true, func(m *machine) { m.installed("1.3.0", "lib") }, "install.sh: berth 1.3.0 is installed, and there is none newer: nothing to do\n", ""},
		"the same version, no apt": {false, func(m *machine) { m.installed("1.3.0", "etc") }, "install.sh: berth 1.3.0 is installed, and there is none newer: nothing to do\n", ""},
		"another system":           {false, func(*machine) {}, first + unpacked + "/usr/local\nberth 1.3.0\n" + next, "berth install --now --prefix /usr/local\n"},
		"another system, upgraded": {false, func(m *machine) {
			m.installed("1.2.9", "etc")
			m.has("berth", "echo berth 1.2.9")
			m.write("etc/berth.service", "[Service]\nExecStart="+m.dir+"/bin/berth serve\n", 0o644)
		}, "install.sh: upgrade berth 1.2.9 to 1.3.0; programs run on\n" + unpacked + "DIR\nberth 1.3.0\n" + upgraded, "berth install --now --prefix \n"},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, tt.debian, p.URL, p.key.String())
			m.env = []string{"CURL_CA_BUNDLE=" + authority}
			tt.change(m)
			said, status, called := m.run()
			if want := strings.ReplaceAll(tt.says, "DIR", m.dir); status != 0 || said != want {
				t.Errorf("exit status %d: %s\nwant %s", status, said, want)
			}
			if before, after, any := strings.Cut(tt.calls, "*"); any && strings.HasPrefix(called, before) && strings.HasSuffix(called, after) {
				return
			}
			if called != tt.calls {
				t.Errorf("called %s\nwant %s", called, tt.calls)
			}
		})
	}
}

// install.sh refuses with one sentence, and then nothing is called and nothing left.
func TestInstallScriptRefuses(t *testing.T) {
	deb, archive := "berth_1.3.0_"+runtime.GOARCH+".deb", "berth_1.3.0_linux_"+runtime.GOARCH+".tar.gz"
	noBerth := goArchive(t)
	full := func(m *machine) {
		m.has("df", `echo Filesystem; echo "-              9000000  8980000     20000      99% /"`)
	}
	for about, tt := range map[string]struct {
		debian bool
		change func(*machine, *publisher)
		says   string // after "install.sh: cannot install berth: "
	}{
		"a user":  {true, func(m *machine, _ *publisher) { m.has("id", "echo 1000") }, "it needs root: curl -fsSL BASE/install.sh | sudo sh"},
		"FreeBSD": {false, func(m *machine, _ *publisher) { m.has("uname", "echo FreeBSD") }, "this is FreeBSD, and berth needs Linux"},
		"another processor": {true, func(m *machine, _ *publisher) {
			m.has("uname", "case $1 in -s) echo Linux ;; -m) echo riscv64 ;; esac")
		}, "there is no berth for the processor riscv64, only for x86_64 and aarch64"},
		"no flock":              {false, func(m *machine, _ *publisher) { m.lacks("flock") }, "the command flock is missing: install it with this system's package manager"},
		"no curl and no wget":   {true, func(m *machine, _ *publisher) { m.lacks("curl") }, "neither curl nor wget is there: install one of them with this system's package manager"},
		"no systemd":            {false, func(m *machine, _ *publisher) { _ = os.RemoveAll(m.dir + "/run/systemd") }, "this machine does not run systemd: unpack the archive from BASE and let its own service manager run berth serve as root"},
		"a build of a checkout": {true, func(m *machine, _ *publisher) { m.installed("v0.0.0-20261122120000-0123456789ab+dirty", "etc") }, "DIR/bin/installed-berth is a development build (0.0.0-20261122120000-0123456789ab+dirty), and nothing tells whether a release is newer: stop it and remove it first with berth uninstall, which keeps the data"},
		"a broken berth": {true, func(m *machine, _ *publisher) {
			m.installed("1.2.9", "etc")
			m.has("installed-berth", "exit 126")
		}, "DIR/bin/installed-berth, which the service starts, does not run: remove it and run this again"},
		"a unit of its own": {false, func(m *machine, _ *publisher) { m.installed("1.2.9", "etc") }, "the service starts DIR/bin/installed-berth, which berth install has not put there"},
		"plain HTTP":        {true, func(m *machine, _ *publisher) { m.env = append(m.env, "BERTH_BASE=http://berth.example.org") }, "http://berth.example.org is not HTTPS"},
		"hidden plain HTTP": {true, func(m *machine, _ *publisher) {
			m.env = append(m.env, "BERTH_BASE=http://127.0.0.1:80@berth.example.org")
		}, "http://127.0.0.1:80@berth.example.org is no address such as https://example.org/berth"},
		"another authority":  {true, func(m *machine, _ *publisher) { m.env = nil }, "cannot download BASE/manifest, or it has more than 1 MB: "},
		"nobody there":       {true, func(m *machine, _ *publisher) { m.env = append(m.env, "BERTH_BASE=https://127.0.0.1:1") }, "cannot download https://127.0.0.1:1/manifest, or it has more than 1 MB: curl: (7)"},
		"no manifest":        {true, func(_ *machine, p *publisher) { clear(p.files) }, "cannot download BASE/manifest, or it has more than 1 MB: curl: (22) The requested URL returned error: 404"},
		"a huge manifest":    {true, func(_ *machine, p *publisher) { p.manifest(strings.Repeat("x", 2<<20)) }, "cannot download BASE/manifest, or it has more than 1 MB: "},
		"no signature":       {true, func(_ *machine, p *publisher) { delete(p.files, "manifest.minisig") }, "cannot download BASE/manifest.minisig, or it has more than 1 MB: curl: (22)"},
		"a changed manifest": {true, func(_ *machine, p *publisher) { p.files["manifest"] = append(p.files["manifest"], '\n') }, "the manifest at BASE is not signed by the key KEY"},
		"a changed manifest, OpenSSL": {true, func(m *machine, p *publisher) {
			m.lacks("minisign")
			p.files["manifest"] = append(p.files["manifest"], '\n')
		}, "the manifest at BASE is not signed by the key KEY"},
		"another key": {true, func(m *machine, _ *publisher) { m.env = append(m.env, "BERTH_KEY="+publish(m.t).key.String()) }, "the manifest at BASE is not signed by the key RW"},
		"another key, OpenSSL": {true, func(m *machine, _ *publisher) {
			m.lacks("minisign")
			m.env = append(m.env, "BERTH_KEY="+publish(m.t).key.String())
		}, "the manifest at BASE is not signed by the key RW"},
		"no key, OpenSSL": {true, func(m *machine, _ *publisher) {
			m.lacks("minisign")
			m.env = append(m.env, "BERTH_KEY=RWxx")
		}, "the manifest at BASE is not signed by the key RWxx"},
		"a signature that is none": {true, func(m *machine, p *publisher) {
			m.lacks("minisign")
			p.files["manifest.minisig"] = []byte("<html>\n<html>\n")
		}, "the manifest at BASE is not signed by the key KEY"},
		"nothing verifies":         {false, func(m *machine, _ *publisher) { m.lacks("minisign", "openssl") }, "nothing here verifies its signature: install minisign, or OpenSSL 3"},
		"no version":               {true, func(_ *machine, p *publisher) { p.manifest("version 1.3.0; reboot\n") }, "the manifest at BASE names no version"},
		"an older version":         {true, func(m *machine, _ *publisher) { m.installed("1.10.0", "lib") }, "berth 1.10.0 is installed, and BASE has only 1.3.0, which is older"},
		"no package":               {true, func(_ *machine, p *publisher) { p.release("1.3.0", nil) }, "the release 1.3.0 has no " + deb},
		"a changed package":        {true, func(_ *machine, p *publisher) { p.files[deb] = []byte("another") }, "BASE/" + deb + " is not what the signed manifest names: its SHA-256 is another"},
		"a changed archive":        {false, func(_ *machine, p *publisher) { p.files[archive] = []byte("another") }, "BASE/" + archive + " is not what the signed manifest names: its SHA-256 is another"},
		"an archive that is none":  {false, func(_ *machine, p *publisher) { p.release("1.3.0", map[string][]byte{archive: []byte("no gzip")}) }, "cannot unpack " + archive + " in DIR/tmp/berth-install."},
		"an archive without berth": {false, func(_ *machine, p *publisher) { p.release("1.3.0", map[string][]byte{archive: noBerth}) }, "there is no berth in " + archive},
		"a full disk":              {true, func(m *machine, _ *publisher) { full(m) }, "DIR/tmp/berth-install."},
		"a full disk, archive":     {false, func(m *machine, _ *publisher) { full(m) }, "DIR/tmp/berth-install."},
		"a disk that fills meanwhile": {true, func(m *machine, _ *publisher) {
			at, _ := exec.LookPath("curl")
			m.lacks("curl")
			m.has("curl", `case $* in *.deb) echo "curl: (23) Failure writing output to destination" >&2; exit 23 ;; esac; exec `+at+` "$@"`)
		}, "cannot download BASE/" + deb + ", or it has more than 512 MB: curl: (23) Failure writing output to destination"},
		"apt-get refuses": {true, func(m *machine, _ *publisher) {
			m.has("apt-get", `case "$*" in *.deb) echo E: it is held; exit 100 ;; esac`)
		}, "apt-get refuses the package, as it says above"},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			p := publish(t)
			m := newMachine(t, tt.debian, p.URL, p.key.String())
			m.env = []string{"CURL_CA_BUNDLE=" + p.authority(t)}
			tt.change(m, p)
			said, status, called := m.run()
			want := "install.sh: cannot install berth: " + strings.NewReplacer("DIR", m.dir, "BASE", p.URL, "KEY", p.key.String()).Replace(tt.says)
			last := said[strings.LastIndexByte(strings.TrimSuffix(said, "\n"), '\n')+1:]
			if status != 1 || !strings.HasPrefix(last, want) {
				t.Errorf("exit status %d: %s\nwant %s", status, said, want)
			}
			if called != "" {
				t.Errorf("called %s", called)
			}
		})
	}
}

// wget does where there is no curl, and the lock keeps a second one out.
func TestInstallScriptByWget(t *testing.T) {
	p := publish(t)
	plain := httptest.NewServer(p.Config.Handler)
	defer plain.Close()
	m := newMachine(t, true, plain.URL, p.key.String())
	m.lacks("curl")
	at, err := exec.LookPath("wget")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at, m.dir+"/bin/wget"); err != nil {
		t.Fatal(err)
	}
	if said, status, called := m.run(); status != 0 || !strings.HasSuffix(called, "the package\n") {
		t.Errorf("exit status %d, called %s: %s", status, called, said)
	}
	p.manifest(strings.Repeat("x", 2<<20))
	if said, status, called := m.run(); status != 1 || called != "" || !strings.HasPrefix(said, "install.sh: cannot install berth: cannot download "+plain.URL+"/manifest, or it has more than 1 MB: ") {
		t.Errorf("a huge manifest: exit status %d, called %s: %s", status, called, said)
	}
	m.has("flock", "exit 1")
	if said, status, _ := m.run(); status != 1 || said != "install.sh: cannot install berth: another installation or upgrade of berth is under way\n" {
		t.Errorf("a second one: exit status %d: %s", status, said)
	}
}

// A download of install.sh that was cut anywhere calls nothing, unless only the end of the last
// line is missing, which does not change what it says.
func TestInstallScriptCut(t *testing.T) {
	p := publish(t)
	m := newMachine(t, true, p.URL, p.key.String())
	whole := m.script
	end := strings.LastIndex(whole, "\nmain") + 1
	cuts := []int{end, end + 1, end + 2, end + 3, end + len(`main "`), end + len(`main "$@`)}
	for at := 0; at < end; at += 97 {
		cuts = append(cuts, at)
	}
	for _, at := range cuts {
		m.script = whole[:at]
		if said, _, called := m.run(); called != "" || strings.Contains(said, "install.sh: ") {
			t.Errorf("cut at %d of %d it called %q and said %s", at, len(whole), called, said)
		}
	}
}
