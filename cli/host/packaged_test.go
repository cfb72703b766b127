package host

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/daemon/settings"
	"berth/systemd"
)

// files are the paths of all files and links below a root, in order.
func filesBelow(t *testing.T, root string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

// packed is the root directory of a machine with the package.
func packed(t *testing.T, root string) {
	t.Helper()
	if code, _, problems := start(t, nil, "install", "--root", root, "--prefix", "/usr"); code != 0 {
		t.Fatal(problems)
	}
}

const ofPackage = "/usr/bin/berth /usr/lib/systemd/system/berth-apps.service /usr/lib/systemd/system/berth.service /usr/lib/systemd/system/berth.socket"

// A package holds what is the same on every host.
func TestInstallToPack(t *testing.T) {
	root := t.TempDir()
	packed(t, root)
	if got := filesBelow(t, root); got != ofPackage {
		t.Errorf("the package holds %s", got)
	}
	unit := readFile(t, root+systemd.VendorDir+"/berth.service")
	for _, want := range []string{"\nExecStart=/usr/bin/berth serve\n", "\nStateDirectory=berth\n", "\nReadWritePaths=-/etc/berth/berth.d\n", " " + systemd.UnitEnv + "="} {
		if !strings.Contains(unit, want) {
			t.Errorf("%q is not in %s", want, unit)
		}
	}
}

// On a host with the package install makes what is the host's own, and nothing else.
func TestInstallBesideAPackage(t *testing.T) {
	root := t.TempDir()
	packed(t, root)
	install := func(args ...string) (int, string, string) {
		return start(t, nil, append([]string{"install", "--root", root}, args...)...)
	}
	code, out, problems := install()
	if code != 0 || out != "write "+root+settings.DefaultFile+"\n" {
		t.Errorf("exit code %d: %s%s", code, out, problems)
	}
	if info, err := os.Stat(root + managedDir); err != nil || !info.IsDir() {
		t.Errorf("the directory of berth's own settings: %v", err)
	}
	if got := filesBelow(t, root); got != "/etc/berth/berth.toml "+ofPackage {
		t.Errorf("there are %s", got)
	}
	if code, out, problems := install(); code != 0 || out+problems != "" {
		t.Errorf("again: exit code %d: %s%s", code, out, problems)
	}

	const drop = "/etc/systemd/system/berth.service.d/" + dropIn
	const socket = "/etc/systemd/system/berth.socket.d/" + dropIn
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(root+settings.DefaultFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("listen = \"0.0.0.0:9000\"\ndata_dir = \"/home/ana/berth\"\n")
	if code, out, problems := install(); code != 0 || strings.Count(out, "write ") != 2 {
		t.Errorf("other settings: exit code %d: %s%s", code, out, problems)
	}
	if got := readFile(t, root+socket); !systemd.Wrote(got) || !strings.HasSuffix(got, "\n[Socket]\nListenStream=\nListenStream=0.0.0.0:9000\n") {
		t.Errorf("the socket's drop-in is %s", got)
	}
	if got := readFile(t, root+drop); !systemd.Wrote(got) || !strings.HasSuffix(got, "\n[Service]\nStateDirectory=\nReadWritePaths=/home/ana/berth\nProtectHome=read-only\n") {
		t.Errorf("the daemon's drop-in is %s", got)
	}
	changed := readFile(t, root+drop) + "Nice=5\n"
	if err := os.WriteFile(root+drop, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	set("")
	if code, _, problems := install(); code != 1 || !strings.HasPrefix(problems, "berth: cannot replace "+drop+": it was changed by hand\nHint: ") || readFile(t, root+drop) != changed || missing(root+socket) {
		t.Errorf("a drop-in that was changed: exit code %d: %s", code, problems)
	}
	if code, out, problems := install("--force"); code != 0 || !missing(root+drop) || !missing(root+socket) {
		t.Errorf("the default again: exit code %d: %s%s", code, out, problems)
	}
}

// The package takes the place of what berth install made before.
func TestPackageSupersedesAnInstallation(t *testing.T) {
	const daemon = unitDir + "/" + systemd.DaemonUnit
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, root string)
		stays  string // of what was installed
		says   string
	}{
		{"as it was", func(*testing.T, string) {}, "", ""},
		{"after berth upgrade", func(t *testing.T, root string) {
			if err := os.WriteFile(root+"/usr/local/bin/berth.old", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "", "/usr/local/bin/berth.old\n"},
		{"a changed unit", func(t *testing.T, root string) {
			text := readFile(t, root+daemon) + "# mine\n"
			if err := os.WriteFile(root+daemon, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}, daemon + " /usr/local/bin/berth ", "keep  " + daemon + ", in place of the package's: it was changed by hand."},
		{"a masked unit", func(t *testing.T, root string) {
			if err := os.Remove(root + unitDir + "/berth.socket"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/dev/null", root+unitDir+"/berth.socket"); err != nil {
				t.Fatal(err)
			}
		}, unitDir + "/berth.socket ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if code, _, problems := start(t, nil, "install", "--root", root); code != 0 {
				t.Fatal(problems)
			}
			wants := root + unitDir + "/sockets.target.wants"
			if err := os.MkdirAll(wants, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(unitDir+"/berth.socket", wants+"/berth.socket"); err != nil {
				t.Fatal(err)
			}
			tt.change(t, root)
			packed(t, root)
			code, out, problems := start(t, nil, "install", "--root", root)
			if code != 0 || !strings.Contains(out, tt.says) {
				t.Errorf("exit code %d: %s%s", code, out, problems)
			}
			stays := ""
			for path := range strings.FieldsSeq(filesBelow(t, root)) {
				if strings.HasPrefix(path, unitDir+"/berth") || strings.HasPrefix(path, "/usr/local") {
					stays += path + " "
				}
			}
			link, err := os.Readlink(wants + "/berth.socket")
			enabled := systemd.VendorDir + "/berth.socket"
			if strings.Contains(tt.stays, "berth.socket") {
				enabled = unitDir + "/berth.socket"
			}
			if err != nil || link != enabled || stays != tt.stays {
				t.Errorf("it stays %q, want %q; the link leads to %s, %v", stays, tt.stays, link, err)
			}
			if missing(root+settings.DefaultFile) || missing(root+"/var/lib/berth") {
				t.Error("settings or data are gone")
			}
		})
	}
}

func TestInstallRefusesWhatIsThePackages(t *testing.T) {
	root := t.TempDir()
	packed(t, root)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"install", "--prefix", "/usr"}, "berth: --prefix /usr is for packages, and needs --root: install below /usr/local, or the package\n"},
		{[]string{"install", "--root", root, "--prefix", "/opt"}, "berth: berth is installed as a package, in /usr/bin: --prefix is of no use\n"},
	} {
		if code, out, problems := start(t, nil, tt.args...); code != 2 || !strings.HasPrefix(problems, tt.want) {
			t.Errorf("%v: exit code %d: %s%s", tt.args, code, out, problems)
		}
	}
	i := &installer{ctx: t.Context(), out: &bytes.Buffer{}, root: root, changed: map[string]bool{}}
	if err := i.uninstall("/var/lib/berth"); said(err) != "cannot uninstall: berth is installed as a package\nHint: apt remove berth" {
		t.Errorf("uninstall: %s", said(err))
	}
	if got := filesBelow(t, root); got != ofPackage {
		t.Errorf("there are %s", got)
	}
}

// activatePackage is what systemd is asked for on a host with the package.
func TestPackageActivates(t *testing.T) {
	socket, service := unitDir+"/berth.socket.d/"+dropIn, unitDir+"/berth.service.d/"+dropIn
	both := []string{"berth.service", "berth.socket"}
	for _, tt := range []struct {
		name    string
		now     bool
		changed []string
		active  []string
		want    string
		says    string
	}{
		{"first", false, nil, nil, "", "Start it: systemctl start berth\n"},
		{"first, now", true, nil, nil, "is-enabled; start berth.service", "Next, the first account and the panel: berth setup"},
		{"another address", false, []string{socket}, both, "show", "The service runs as it was until: berth install --now (programs run on)\n"},
		{"another address, now", true, []string{socket}, both, "show; restart berth.socket berth.service", ""},
		{"an older installation at the same address, now", true, []string{socket}, append(both, "listens"), "restart berth.service", ""},
		{"another data directory, now", true, []string{service}, both, "restart berth.service", ""},
		{"the same", false, nil, both, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			called := fakeSystemctl(t, tt.active...)
			if slices.Contains(tt.active, "listens") {
				real, err := exec.LookPath("systemctl")
				if err != nil {
					t.Fatal(err)
				}
				fakeCommand(t, t.TempDir(), "systemctl", "#!/bin/sh\ncase \"$*\" in 'show -p Listen --value berth.socket') echo '[::]:8400 (Stream)';; *) exec "+real+" \"$@\";; esac\n")
			}
			var out bytes.Buffer
			i := &installer{ctx: t.Context(), out: &out, now: tt.now, changed: map[string]bool{}}
			for _, path := range tt.changed {
				i.changed[path] = true
			}
			if err := i.activatePackage(settings.Settings{Listen: ":8400"}); err != nil {
				t.Fatal(err)
			}
			want := strings.TrimSuffix("daemon-reload; "+strings.NewReplacer("is-enabled", "--quiet is-enabled berth.service", "show", "show -p Listen --value berth.socket").Replace(tt.want), "; ")
			if got := called(); got != want || !strings.Contains(out.String(), tt.says) {
				t.Errorf("called %q, want %q; said %s", got, want, &out)
			}
		})
	}
}
