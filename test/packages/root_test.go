package packages

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the root directory of a machine, in a mount namespace that ends with the test.
type root struct {
	t    *testing.T
	pid  string // of a process that is in there
	path string // from outside
}

// newRoot makes a root directory of this machine's own below a layer in memory, or of what is in base, to be
// changed for good; shared is a directory that is /repo in it.
func newRoot(t *testing.T, base, shared string) *root {
	t.Helper()
	dir := t.TempDir()
	const enter = `dir=$0 base=$1 shared=$2
		if [ -z "$base" ]; then
			base=$dir/root
			mount -t tmpfs -o mode=755 layer "$dir"
			mkdir "$dir/upper" "$dir/work" "$base"
			mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" root "$base"
			mount -t tmpfs run "$base/run" # this machine's systemd is not the root's
		fi
		mount --rbind /proc "$base/proc"
		mount --rbind /dev "$base/dev"
		mkdir -p "$base/repo"
		mount --bind "$shared" "$base/repo"
		echo "$base"
		exec cat`
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "bash", "-euc", enter, dir, base, shared)
	input, err := cmd.StdinPipe() // it ends when this is closed
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = input.Close(), cmd.Wait() })
	path, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("cannot make a root directory: %v", err)
	}
	r := &root{t: t, pid: fmt.Sprint(cmd.Process.Pid), path: strings.TrimSpace(path)}
	r.run("sh", "-c", "rm -f /etc/apt/sources.list.d/berth* && rm -rf /etc/berth /var/lib/berth && echo 'deb [signed-by=/repo/berth.asc] file:/repo stable main' > /etc/apt/berth.list")
	return r
}

// try runs a command in the root directory and returns what it printed.
func (r *root) try(args ...string) (string, error) {
	r.t.Helper()
	cmd := exec.Command("nsenter", append([]string{"--target", r.pid, "--mount", "chroot", r.path}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "HOME=/root"}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	return strings.ReplaceAll(string(out), "\r\n", "\n"), err // dpkg's is a terminal's
}

// run is try for what must succeed.
func (r *root) run(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return out
}

// apt is apt-get with our repository alone.
func (r *root) apt(args ...string) string {
	r.t.Helper()
	return r.run(aptGet(args...)...)
}

func aptGet(args ...string) []string {
	return append([]string{"apt-get", "-q", "-y", "--no-install-recommends", "-o", "Dir::Etc::SourceList=/etc/apt/berth.list", "-o", "Dir::Etc::SourceParts=-"}, args...)
}

// has checks which of these paths are there.
func (r *root) has(want bool, paths ...string) {
	r.t.Helper()
	for _, path := range paths {
		if _, err := r.try("test", "-e", path, "-o", "-L", path); (err == nil) != want {
			r.t.Errorf("%s is there: %v, want %v", path, err == nil, want)
		}
	}
}

// life is what an owner does with a package, on a machine whose systemd does not run.
func (r *root) life() {
	t := r.t
	t.Helper()
	const settings, socket = "/etc/berth/berth.toml", "/etc/systemd/system/berth.socket.d/10-berth-install.conf"
	made := []string{"/usr/bin/berth", "/usr/lib/systemd/system/berth.service", "/usr/share/man/man8/berth.8.gz", "/usr/share/bash-completion/completions/berth"}
	r.apt("update")
	if out := r.apt("install", "berth=0.9.1"); !strings.Contains(out, "write /etc/berth/berth.toml\n") {
		t.Errorf("apt install says %s", out)
	}
	r.has(true, append(made, settings, "/etc/berth/berth.d", "/etc/systemd/system/multi-user.target.wants/berth.service", "/etc/systemd/system/sockets.target.wants/berth.socket")...)
	r.has(false, "/var/lib/berth", socket) // an image of many hosts brings no data
	if out := r.run("dpkg-query", "-W", "-f", "${Version} ${Status} ${Conffiles}", "berth"); out != "0.9.1 install ok installed " {
		t.Errorf("dpkg says %q", out)
	}
	if out := r.run("grep", "-c", "^#", "/usr/share/doc/berth/berth.toml.example"); out == "0\n" {
		t.Error("the example has no settings")
	}

	r.run("sh", "-c", `echo 'listen = "0.0.0.0:9000"' > `+settings)
	if out := r.apt("install", "berth"); !strings.Contains(out, "write "+socket+"\n") {
		t.Errorf("an upgrade says %s", out)
	}
	if out := r.run("dpkg-query", "-W", "-f", "${Version}", "berth"); out != "0.9.2" {
		t.Errorf("dpkg has %s", out)
	}
	if out := r.run("cat", settings, socket); !strings.HasPrefix(out, "listen = \"0.0.0.0:9000\"\n# Written") || !strings.HasSuffix(out, "\nListenStream=0.0.0.0:9000\n") {
		t.Errorf("settings and drop-in are %s", out)
	}
	r.apt("install", "--allow-downgrades", "berth=0.9.1")
	r.fails(settings)
	for _, how := range []string{"remove", "purge"} {
		out := r.apt(how, "berth")
		if !strings.Contains(out, "berth: kept: /etc/berth /etc/systemd/system/berth.socket.d. To remove") || !strings.Contains(out, "  rm -rf /etc/berth /etc/systemd/system/berth.socket.d # there is no way back\n") {
			t.Errorf("apt %s says %s", how, out)
		}
		r.has(false, made...)
		r.has(true, settings, socket)
	}
	r.has(false, "/etc/systemd/system/multi-user.target.wants/berth.service", "/etc/systemd/system/sockets.target.wants/berth.socket")
	r.apt("install", "berth")
	if out := r.run("cat", settings); out != "listen = \"0.0.0.0:9000\"\n" {
		t.Errorf("installed again, the settings are %s", out)
	}
	r.apt("purge", "berth")
}

// fails is an upgrade that is refused before anything changes, and one that the settings stop.
func (r *root) fails(settings string) {
	t := r.t
	t.Helper()
	// A newer berth has changed the database.
	r.run("sh", "-c", `mv /usr/bin/berth /usr/bin/berth.is && printf '#!/bin/sh\n[ "$1" != check ] || echo %s\n' "'"'{"dataDir":"/d","schema":9999}'"'" > /usr/bin/berth && chmod 755 /usr/bin/berth`)
	out, err := r.try(aptGet("install", "berth")...)
	if err == nil || !strings.Contains(out, "berth: cannot install berth 0.9.2: the database in /d has schema 9999, and this version knows ") || !strings.Contains(out, "Hint: stay with berth 0.9.1. Or lose") {
		t.Errorf("across a migration: %v: %s", err, out)
	}
	r.run("mv", "/usr/bin/berth.is", "/usr/bin/berth")
	if out := r.run("dpkg-query", "-W", "-f", "${Version} ${Status}", "berth"); out != "0.9.1 install ok installed" {
		t.Errorf("after a refusal dpkg says %q", out)
	}

	was := r.run("cat", settings)
	r.run("sh", "-c", "echo 'no_such_setting = 1' >> "+settings)
	out, err = r.try(aptGet("install", "berth")...)
	if err == nil || !strings.Contains(out, "no_such_setting") || !strings.Contains(out, "berth: to go back: apt install --allow-downgrades berth=0.9.1\n") {
		t.Errorf("with a wrong setting: %v: %s", err, out)
	}
	r.run("sh", "-c", "printf %s '"+was+"' > "+settings)
	r.run("dpkg", "--configure", "-a")
	if out := r.run("dpkg-query", "-W", "-f", "${Version} ${Status}", "berth"); out != "0.9.2 install ok installed" {
		t.Errorf("mended, dpkg says %q", out)
	}
}

// refuses is that apt takes nothing that the key did not sign.
func (r *root) refuses(repository string) {
	t := r.t
	t.Helper()
	deb := filepath.Join(repository, "pool/main/b/berth/berth_0.9.2_"+arch(t)+".deb")
	change(t, deb)
	out, err := r.try(aptGet("install", "berth=0.9.2")...)
	if err == nil || !strings.Contains(out, "Hash Sum mismatch") {
		t.Errorf("a package with other bytes: %v: %s", err, out)
	}
	change(t, filepath.Join(repository, "dists/stable/InRelease"))
	out, err = r.try(aptGet("-o", "APT::Update::Error-Mode=any", "update")...)
	if err == nil || !strings.Contains(out, "invalid") && !strings.Contains(out, "BADSIG") {
		t.Errorf("a release with other bytes: %v: %s", err, out)
	}
	r.has(false, "/usr/bin/berth")
}

// change changes a byte in the middle of a file.
func change(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := len(b) / 3
	for b[at] == '\n' || b[at] == '-' {
		at++
	}
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
