package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/app/exit"
	"berth/daemon/settings"
	"berth/files"
	"berth/systemd"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fakeCommand puts a script in the way of a command.
func fakeCommand(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// fakeSystemctl puts a systemctl in the way that writes down how it is called,
// and returns what it was. active are units that it says are.
func fakeSystemctl(t *testing.T, active ...string) func() string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nfor last; do :; done\nif [ \"$2\" = is-active ]; then case \" " + strings.Join(active, " ") + " \" in *\" $last \"*) exit 0;; esac; exit 3; fi\n" +
		"if [ -e " + dir + "/fails ]; then echo it does not work >&2; exit 1; fi\ncase \"$*\" in *ActiveState*) exit 0;; esac\necho \"$@\" >> " + dir + "/calls\n"
	fakeCommand(t, dir, "systemctl", script)
	return func() string {
		b, _ := os.ReadFile(filepath.Join(dir, "calls"))
		_ = os.Remove(filepath.Join(dir, "calls"))
		return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", "; ")
	}
}

func TestInstallBelowARoot(t *testing.T) {
	root := t.TempDir()
	code, out, problems := start(t, nil, "install", "--root", root, "--listen", "0.0.0.0:80", "--data-dir", "/srv/berth")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, problems)
	}
	for _, path := range []string{"/usr/local/bin/berth", "/etc/berth/berth.toml", unitDir + "/berth.service", unitDir + "/berth-apps.service", unitDir + "/berth.socket"} {
		if !strings.Contains(out, "write "+root+path+"\n") || missing(root+path) {
			t.Errorf("%s is not written: %s", path, out)
		}
	}
	if info, err := os.Stat(root + "/srv/berth"); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("the data directory is %v, %v", info, err)
	}
	if got := readFile(t, root+settings.DefaultFile); !strings.Contains(got, "data_dir = \"/srv/berth\"\nlisten = \"0.0.0.0:80\"\n") {
		t.Errorf("the settings are %s", got)
	}
	if got := readFile(t, root+unitDir+"/berth.socket"); !strings.Contains(got, "\nListenStream=0.0.0.0:80\n") {
		t.Errorf("the socket is %s", got)
	}
	if got := readFile(t, root+unitDir+"/berth.service"); !strings.Contains(got, "\nReadWritePaths=/srv/berth\n") || strings.Contains(got, "StateDirectory") {
		t.Errorf("the service is %s", got)
	}

	// Again: nothing changes.
	code, out, problems = start(t, nil, "install", "--root", root)
	if code != 0 || strings.Contains(out, "write") || strings.Count(out, "keep ") != 6 {
		t.Errorf("exit code %d: %s%s", code, out, problems)
	}
	// Another version's unit is replaced, one that was changed by hand is not.
	service := root + unitDir + "/berth.service"
	is := readFile(t, service)
	older := strings.ReplaceAll(strings.SplitN(is, "\n", 2)[1], "WatchdogSec=60s\n", "")
	for _, tt := range []struct {
		name, text string
		args       []string
		code       int
		says       string
	}{
		{"an older one", systemd.Marked(older), nil, 0, "write " + service},
		{"a changed one", strings.Replace(is, "60s", "61s", 1), nil, 1, "berth: cannot replace " + unitDir + "/berth.service: it was changed by hand\nHint: put the changes into a drop-in (systemctl edit berth.service) and use --force.\n"},
		{"a foreign one", "[Service]\nExecStart=/bin/true\n", nil, 1, "it was changed by hand"},
		{"a changed one, forced", strings.Replace(is, "60s", "61s", 1), []string{"--force"}, 0, "write " + service},
	} {
		if err := os.WriteFile(service, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, problems := start(t, nil, append([]string{"install", "--root", root}, tt.args...)...)
		if code != tt.code || !strings.Contains(out+problems, tt.says) || (readFile(t, service) == is) != (code == 0) {
			t.Errorf("%s: exit code %d: %s%s", tt.name, code, out, problems)
		}
	}
}

func TestInstallRefuses(t *testing.T) {
	root, missed := t.TempDir(), filepath.Join(t.TempDir(), "none")
	if err := os.MkdirAll(root+"/etc/berth", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+settings.DefaultFile, []byte("listen = \"127.0.0.1:9000\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type refusal struct {
		args []string
		code int
		want string
	}
	var all []refusal
	if missing("/run/systemd/system") && os.Getuid() == 0 { // else it would be done
		all = []refusal{
			{[]string{"install"}, 1, "berth: cannot install: this machine does not run systemd\nHint: let its own service manager run berth serve as root.\n"},
			{[]string{"uninstall"}, 1, "berth: cannot uninstall: this machine does not run systemd\n"},
		}
	}
	for _, tt := range append(all, []refusal{
		{[]string{"install", "--config", "/x"}, 2, "berth: the service reads /etc/berth/berth.toml; --config is of no use\n"},
		{[]string{"install", "--prefix", "usr"}, 2, "berth: --prefix and --root need an absolute path\n"},
		{[]string{"install", "--root", root, "--now"}, 2, "berth: --now and --root exclude each other"},
		{[]string{"install", "--root", root, "--listen", "127.0.0.1:8400"}, 78, `berth: cannot install: listen is "127.0.0.1:9000" in ` + root + `/etc/berth/berth.toml line 1, and --listen says "127.0.0.1:8400"` + "\nHint: "},
		{[]string{"install", "--root", root, "--data-dir", "/srv/x"}, 78, `cannot install: data_dir is "/var/lib/berth" in `},
		{[]string{"install", "--root", missed, "--listen", "127.0.0.1:0"}, 78, `cannot install: listen is "127.0.0.1:0": a socket unit needs a port`},
		{[]string{"install", "--root", missed, "--listen", "localhost:80"}, 78, `cannot install: listen is "localhost:80": a socket unit needs an IP address, not a name`},
		{[]string{"install", "--root", missed, "--data-dir", "/tmp/berth"}, 78, "cannot install: the data directory /tmp/berth is below /tmp, which is emptied, and which the service has for its own"},
		{[]string{"install", "--root", missed, "--data-dir", "/srv/my apps"}, 78, `cannot install: a unit cannot name "/srv/my apps": give it a path of letters, digits and -_./`},
		{[]string{"install", "--root", missed, "--prefix", "/srv/%h"}, 78, `cannot install: a unit cannot name "/srv/%h/bin/berth"`},
	}...) {
		if code, out, problems := start(t, nil, tt.args...); code != tt.code || !strings.Contains(problems, tt.want) {
			t.Errorf("%v: exit code %d: %s%s", tt.args, code, out, problems)
		}
	}
	if !missing(missed) {
		t.Error("what is refused leaves something")
	}
}

// Whoever is not root is told so, by a process that is not.
func TestInstallRefusesUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	exe := filepath.Join("/tmp", "berth-install-test."+filepath.Base(t.TempDir()))
	i := &installer{ctx: t.Context(), out: &bytes.Buffer{}, exe: "/proc/self/exe", changed: map[string]bool{}}
	if err := i.copyBinary(exe); err != nil { // where others may run it
		t.Fatal(err)
	}
	defer os.Remove(exe)
	berth := filepath.Join(filepath.Dir(exe), "berth-of-"+filepath.Base(exe))
	if err := os.Mkdir(berth, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(berth)
	if err := os.Rename(exe, berth+"/berth"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", berth+"/berth", "install").CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != exit.Permission || !strings.Contains(string(out), "berth: cannot install: only root may change the services of this machine\nHint: sudo berth install\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// activate is what systemd is asked for, with --now and without.
func TestInstallActivates(t *testing.T) {
	socket := unitDir + "/berth.socket"
	for _, tt := range []struct {
		name    string
		now     bool
		changed []string
		active  []string
		want    string
		says    string
	}{
		{"first", false, []string{socket}, nil, "", "Start it: systemctl start berth\n"},
		{"first, now", true, []string{socket}, nil, "start berth.service", "Next, the first account and the panel: /usr/local/bin/berth setup"},
		{"again, now", true, nil, []string{"berth.service", "berth.socket"}, "", ""},
		{"a new binary", true, []string{"/usr/local/bin/berth"}, []string{"berth.service", "berth.socket"}, "restart berth.service", ""},
		{"a new binary, later", false, []string{"/usr/local/bin/berth"}, []string{"berth.service", "berth.socket"}, "", "The service runs as it was until: systemctl restart berth (programs run on)\n"},
		{"another address", true, []string{socket}, []string{"berth.service", "berth.socket"}, "restart berth.socket berth.service", ""},
		{"another holder", true, []string{unitDir + "/berth-apps.service"}, []string{"berth.service", "berth.socket"}, "restart berth.service", "A change of berth-apps.service takes effect with: systemctl restart berth-apps (programs start anew)\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			called := fakeSystemctl(t, tt.active...)
			var out bytes.Buffer
			i := &installer{ctx: t.Context(), out: &out, now: tt.now, changed: map[string]bool{}}
			for _, path := range tt.changed {
				i.changed[path] = true
			}
			if err := i.activate(settings.Settings{}, "/usr/local/bin/berth"); err != nil {
				t.Fatal(err)
			}
			want := strings.TrimSuffix("daemon-reload; enable --quiet berth.service berth.socket; "+tt.want, "; ")
			if got := called(); got != want || !strings.Contains(out.String(), tt.says) {
				t.Errorf("called %q, want %q; said %s", got, want, &out)
			}
		})
	}
}

func TestInstallTellsWhatSystemdSays(t *testing.T) {
	called := fakeSystemctl(t)
	dir, _ := exec.LookPath("systemctl")
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "fails"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	i := &installer{ctx: t.Context(), out: &bytes.Buffer{}, changed: map[string]bool{}}
	if err := i.activate(settings.Settings{}, "/x"); err == nil || err.Error() != "systemctl daemon-reload: it does not work (exit status 1)" || called() != "" {
		t.Errorf("got %v", err)
	}
}

// A daemon that was started by hand keeps its data.
func TestInstallRefusesDataInUse(t *testing.T) {
	dir := t.TempDir()
	lock, err := files.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	i := &installer{ctx: context.Background(), out: &bytes.Buffer{}}
	fakeSystemctl(t)
	if err := i.unused(dir); err == nil || !strings.HasPrefix(err.Error(), "cannot install: cannot use "+dir+": another berth is serving from it (pid "+strconv.Itoa(os.Getpid())+"), and it is not the service") {
		t.Errorf("got %v", err)
	}
	fakeSystemctl(t, systemd.DaemonUnit)
	if err := i.unused(dir); err != nil {
		t.Errorf("in use by the service: %v", err)
	}
	lock.Close()
	fakeSystemctl(t)
	if err := i.unused(dir); err != nil {
		t.Errorf("in use by nobody: %v", err)
	}
}

func TestUninstall(t *testing.T) {
	root := t.TempDir()
	if code, _, problems := start(t, nil, "install", "--root", root); code != 0 {
		t.Fatal(problems)
	}
	called := fakeSystemctl(t)
	dropIn := root + unitDir + "/berth.service.d"
	if err := os.Mkdir(dropIn, 0o755); err != nil {
		t.Fatal(err)
	}
	service := root + unitDir + "/berth.service"
	is := readFile(t, service)
	var out bytes.Buffer
	i := &installer{ctx: t.Context(), out: &out, root: root, changed: map[string]bool{}}
	if err := os.WriteFile(service, []byte(is+"#\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := i.uninstall("/var/lib/berth"); err == nil || !strings.Contains(err.Error(), "it was changed by hand") || called() != "" {
		t.Errorf("a unit that was changed: %v", err)
	}
	if err := os.WriteFile(service, []byte(is), 0o600); err != nil {
		t.Fatal(err)
	}
	i.dry = true
	if err := i.uninstall("/var/lib/berth"); err != nil || called() != "" || missing(service) {
		t.Errorf("a dry run: %v, %s", err, &out)
	}
	i.dry = false
	out.Reset()
	if err := i.uninstall("/var/lib/berth"); err != nil {
		t.Fatal(err)
	}
	if got, want := called(), "disable --now --quiet berth.service berth.socket berth-apps.service; daemon-reload"; got != want {
		t.Errorf("called %q, want %q", got, want)
	}
	for _, path := range []string{"/usr/local/bin/berth", unitDir + "/berth.service", unitDir + "/berth-apps.service", unitDir + "/berth.socket"} {
		if !missing(root+path) || !strings.Contains(out.String(), "remove "+root+path+"\n") {
			t.Errorf("%s is left: %s", path, &out)
		}
	}
	if missing(root+settings.DefaultFile) || missing(root+"/var/lib/berth") || missing(dropIn) ||
		!strings.Contains(out.String(), "Kept: /var/lib/berth, "+root+"/etc/berth/berth.toml, "+dropIn+".") || !strings.Contains(out.String(), "\n  rm -rf /var/lib/berth ") {
		t.Errorf("what the owner made is gone, or nobody says where it is: %s", &out)
	}
	out.Reset()
	if err := i.uninstall("/var/lib/berth"); err != nil || out.String() != "The service is not installed.\n" {
		t.Errorf("again: %v, %s", err, &out)
	}
}

// Programs inherit what the unit of the daemon says: what they or the walls
// around them could miss is not in it.
func TestUnits(t *testing.T) {
	s := settings.Settings{DataDir: "/var/lib/berth", Listen: "127.0.0.1:8400"}
	f, err := newUnitFacts(s, "/usr/local/bin/berth")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f.Berth = "/bin/true" // verify looks for it
	for _, name := range systemd.Units {
		text, err := systemd.Unit(name, f)
		if err != nil || !systemd.Wrote(text) || systemd.Wrote(text+"\n") || systemd.Wrote(strings.TrimPrefix(text, "#")) {
			t.Errorf("%s: %v, %s", name, err, text)
		}
		if name == systemd.DaemonUnit {
			for _, out := range []string{"ProtectControlGroups", "MemoryDenyWriteExecute", "ProcSubset", "ProtectHostname", "RestrictNamespaces", "RestrictSUIDSGID", "RestrictAddressFamilies", "PrivateUsers", "UMask", "Delegate"} {
				if strings.Contains(text, "\n"+out+"=") {
					t.Errorf("the daemon's unit has %s", out)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(analyze, "verify", "./berth.service", "./berth-apps.service", "./berth.socket")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

func TestUnitsOfAHome(t *testing.T) {
	for _, tt := range []struct{ data, paths, binary, want string }{
		{"/var/lib/berth", "/opt", "/usr/local/bin/berth", "yes"},
		{"/home/ana/berth", "/opt", "/usr/local/bin/berth", "read-only"},
		{"/var/lib/berth", "/opt,/root/tools", "/usr/local/bin/berth", "read-only"},
		{"/var/lib/berth", "/opt", "/home/ana/bin/berth", "read-only"},
		{"/homes/berth", "/opt", "/usr/bin/berth", "yes"},
	} {
		s := settings.Settings{DataDir: tt.data, Listen: ":8400"}
		s.Sandbox.Paths = tt.paths
		f, err := newUnitFacts(s, tt.binary)
		if err != nil || f.Home != tt.want || f.Listen != "8400" {
			t.Errorf("%+v: %+v, %v", tt, f, err)
		}
	}
}
