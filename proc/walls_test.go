package proc

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/proc/sandbox"
)

// with skips the test where the host does not give a wall that it is about.
func (b bench) with(t *testing.T, layers ...sandbox.Layer) {
	t.Helper()
	for _, l := range layers {
		if !slices.Contains(b.Walls.Layers, l) {
			t.Skipf("this host does not give the wall %s: it needs %s", l, l.Needs())
		}
	}
}

// says runs a script to its end, which MUST be a success, and returns what it
// printed.
func (b bench) says(t *testing.T, edit func(*Spec), script string) string {
	t.Helper()
	s := b.spec(t, script)
	s.MemoryMB, s.Name = 256, "app-1"
	if edit != nil {
		edit(&s)
	}
	if e := b.launch(t, s).Wait(); e.Code != 0 {
		t.Errorf("%s\nended with %+v: %s", script, e, output(t, s))
	}
	return output(t, s)
}

// What a program sees is the system's programs, its own directory and its own
// groups.
func TestKernelWallsView(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Mounts, sandbox.Proc, sandbox.Cgroup)
	for _, tt := range []struct{ name, script, want string }{
		{"its root", `for f in /*; do [ -L $f ] || echo $f; done | grep -Ev '^/(bin|sbin|lib.*|opt)$' | tr '\n' ' '`, "/dev /etc /proc /run /sys /tmp /usr /var "},
		{"who it is", "id -un; id -gn; hostname; echo ~app", "app\napp\napp-1\n" + b.dir + "\n"},
		{"its host", "cat /etc/hostname; getent hosts app-1 | grep -c -E '^(::1|127.0.0.1) '", "app-1\n1\n"},
		{"its names", "grep -c . /etc/passwd /etc/group; getent passwd root nobody | cut -d: -f1", "/etc/passwd:3\n/etc/group:3\nroot\nnobody\n"},
		{"no secrets", "cat /etc/shadow /etc/sudoers /etc/ssl/private /root /home /mnt /var/log /var/lib /boot /media 2>&1 | grep -vc 'No such file'; true", "0\n"},
		{"its processes", fmt.Sprintf(`sleep 60 & [ -e /proc/$! ] && echo own; [ -e /proc/%d ] && echo daemon; cat /proc/1/cmdline 2>&1; kill $!`, os.Getpid()), "own\ncat: /proc/1/cmdline: No such file or directory\n"},
		{"no devices", "ls /dev | tr '\\n' ' '", "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero "},
		{"devices work", "head -c 5 /dev/zero | wc -c; echo x >/dev/null; head -c 3 /dev/urandom | wc -c; true", "5\n3\n"},
		{"/tmp", "stat -c '%a %U' /tmp /dev/shm; df --output=size -k /tmp /dev/shm | tail -n 2 | tr -d ' '; echo x >/tmp/x; echo y >/dev/shm/y; cat /tmp/x /var/tmp/x /dev/shm/y", "1777 root\n1777 root\n131072\n131072\nx\nx\ny\n"},
		{"/tmp is bounded", "head -c 200M /dev/zero >/tmp/x; stat -c %s /tmp/x; /usr/bin/python3 -c '" + `import os
n = 0
try:
    while n < 40000: os.close(os.open("/dev/shm/%d" % n, os.O_CREAT)); n += 1
except OSError: print(n < 33000)'`, "head: error writing 'standard output': No space left on device\n134217728\nTrue\n"},
		{"nothing to write to", "for d in / /usr /usr/bin /bin /lib /etc /dev /var /run /sys /proc/sys/kernel /opt /sys/fs/cgroup; do touch $d/x 2>/dev/null && echo $d; done; true", ""},
		{"its directory", "pwd; touch x; stat -c '%U %G' x; [ $(stat -c %i .) = $(stat -c %i ~app) ]", b.dir + "\napp app\n"},
		{"a closed way to it", "ls " + filepath.Dir(b.dir) + " | grep -v '^x$'; true", filepath.Base(b.dir) + "\n"},
		{"no mounts of the host", `grep -vcE ' (/|/usr.*|/opt.*|/s?bin|/lib.*|/etc/.*|/dev/.*|/tmp|/var/tmp|/proc|/proc/(locks|key-users|interrupts)|/sys/.*|` + b.dir + `) ' /proc/self/mounts; true`, "0\n"},
		{"nothing set-uid", `grep -vE ' (/dev/(null|zero|full|random|urandom|tty)) ' /proc/self/mounts | grep -vc nosuid; true`, "0\n"},
		{"its time zone", `[ -L /etc/localtime ] || [ ! -e /etc/localtime ] || [ -s /etc/localtime ]; date +%Y | wc -c`, "5\n"},
		{"terminals", `/usr/bin/python3 -c 'import os; m, s = os.openpty(); os.write(s, b"x"); print(os.read(m, 1), os.ttyname(s))'`, "b'x' /dev/pts/0\n"},
		{"processors", "[ $(nproc) -ge 1 ] && ls /sys/devices/system/cpu | grep -c '^cpu0$'", "1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := b.says(t, nil, tt.script); got != tt.want {
				t.Errorf("%s\nsays %q, want %q", tt.script, got, tt.want)
			}
		})
	}
}

// Runtimes find the program's limit where they look for it.
func TestKernelRuntimesSeeTheirLimit(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Mounts, sandbox.Cgroup)
	tools := FindTools()
	const limit = 256 << 20
	got := b.says(t, nil, `cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; true`)
	if strings.TrimSpace(got) != fmt.Sprint(limit) {
		t.Errorf("its groups say %q, want %d", got, limit)
	}
	if node, _ := tools.Find("node"); node != "" {
		if got := b.says(t, nil, node+` -p 'process.constrainedMemory()'`); strings.TrimSpace(got) != fmt.Sprint(limit) {
			t.Errorf("Node sees %q, want %d", got, limit)
		}
	}
	if java, _ := tools.Find("java"); java != "" {
		got := b.says(t, nil, java+` -Xlog:os+container=trace -XX:+PrintFlagsFinal -XX:MaxRAMPercentage=50 -XX:MinRAMPercentage=50 -version 2>&1 | grep -E ' MaxHeapSize|container|cgroup' `)
		if !strings.Contains(got, fmt.Sprint(limit/2)) {
			t.Errorf("Java takes more than half of its limit of %d: %s", limit, got)
		}
	}
}

// The mounts of a program are seen by nobody else and end with it.
func TestKernelWallsLeaveNoMounts(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Mounts)
	mounts := func() string {
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := mounts()
	s := b.spec(t, "touch up; sleep 600")
	r := b.launch(t, s)
	poll(t, "it is up", func() bool { _, err := os.Stat(filepath.Join(b.dir, "up")); return err == nil })
	if got := mounts(); got != before {
		t.Errorf("the host's mounts were\n%sand are, while a program runs,\n%s", before, got)
	}
	r.Stop(0)
	r.Wait()
	s.Group, s.From = s.Group+"b", "/no/such/directory"
	if _, err := b.Launch(s); err == nil {
		t.Error("a program without a directory was started")
	}
	if got := mounts(); got != before {
		t.Errorf("the host's mounts were\n%sand are, after it,\n%s", before, got)
	}
}

// A directory of the data directory has its place wherever that is, and nothing
// else of it is seen.
func TestKernelDataDirectoryAnywhere(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Mounts)
	for _, parent := range []string{"/opt", "/usr/local", "/var", "/srv", "/mnt", "/media", "/tmp", "/var/tmp", "/run", "/"} {
		for _, linked := range []bool{false, true} {
			t.Run(fmt.Sprint(parent, linked), func(t *testing.T) {
				data, err := os.MkdirTemp(parent, "berth-proc-") //nolint:usetesting // t.TempDir is closed to other users
				if err != nil {
					t.Skip(err)
				}
				t.Cleanup(func() { os.RemoveAll(data) })
				own, temp := filepath.Join(data, "apps/1"), filepath.Join(data, "tmp/1.build")
				err = errors.Join(os.Chmod(data, 0o755), os.MkdirAll(own, 0o755), os.MkdirAll(temp, 0o755), os.Mkdir(filepath.Join(data, "apps/2"), 0o777),
					os.Chown(own, testUID, testUID), os.Chown(temp, testUID, testUID), os.WriteFile(filepath.Join(data, "berth.db"), nil, 0o644))
				if err != nil {
					t.Fatal(err)
				}
				node := filepath.Join(data, "runtimes/node")
				err = errors.Join(os.MkdirAll(filepath.Dir(node), 0o755), os.WriteFile(node, []byte("#!/bin/sh\necho runs\n"), 0o755), os.Chmod(node, 0o6755))
				if err != nil {
					t.Fatal(err)
				}
				named := data
				if linked {
					named = data + ".link"
					if err := os.Symlink(data, named); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { os.Remove(named) })
				}
				l := *b.Launcher
				l.Walls.Data, l.Walls.Paths = named, []string{"/opt", "/no/such/path", "/bin/sh", "/etc/hosts", "/etc/localtime"}
				l.Walls.Runtimes = filepath.Join(named, "runtimes")
				there := bench{&l, b.dir, ""}
				runs := there.says(t, func(s *Spec) { s.Dir, s.Temp = filepath.Join(named, "apps/1"), "" },
					fmt.Sprintf(`%[1]s/runtimes/node; %[2]s/runtimes/node; touch %[1]s/runtimes/x %[1]s/runtimes/node 2>&1 | grep -cE 'Read-only|denied'; grep -c ' %[2]s/runtimes [^ ]* ro,nosuid,nodev' /proc/self/mounts`, named, data))
				if want := "runs\nruns\n2\n1\n"; runs != want {
					t.Errorf("of its runtimes it says %q, want %q", runs, want)
				}
				got := there.says(t, func(s *Spec) {
					s.Dir, s.Temp = filepath.Join(named, "apps/1"), filepath.Join(named, "tmp/1.build")
				}, fmt.Sprintf(`pwd -P; touch here; touch %[1]s/tmp/1.build/temp; touch %[1]s/x %[1]s/apps/x %[1]s/apps/2/x 2>&1 | wc -l
ls -d %[1]s/berth.db %[1]s/apps/2 %[2]s/berth.db %[2]s/apps/2 2>&1 | grep -c 'No such'; ls /tmp/temp 2>/dev/null; true`, named, data))
				want := own + "\n3\n4\n/tmp/temp\n"
				if strings.HasSuffix(parent, "/tmp") { // has a /tmp in memory, to have its place in it
					want = own + "\n3\n4\n"
				}
				if got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				for _, file := range []string{own + "/here", temp + "/temp"} {
					if _, err := os.Stat(file); err != nil {
						t.Error(err)
					}
				}
				if list, err := os.ReadDir(data); err != nil || len(list) != 4 {
					t.Errorf("the data directory holds %v, %v", list, err)
				}
			})
		}
	}
}

// Where the kernel gives only some walls, a program has those.
func TestKernelSomeWalls(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Mounts, sandbox.Cgroup, sandbox.Seccomp)
	common, err := os.CreateTemp("", "berth-proc-") //nolint:usetesting // it is to be where everybody's files are
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(common.Name())
	defer common.Close()
	for _, tt := range []struct {
		name   string
		layers []sandbox.Layer
		want   string
	}{
		{"none", nil, "host tmp others groups"},
		{"mounts", []sandbox.Layer{sandbox.Mounts}, "own others"},
		{"mounts and groups", []sandbox.Layer{sandbox.Mounts, sandbox.Cgroup}, "own others groups"},
		{"system calls alone", []sandbox.Layer{sandbox.Seccomp}, "host tmp others groups filtered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := *b.Launcher
			l.Walls.Layers = tt.layers
			got := bench{&l, b.dir, ""}.says(t, nil, fmt.Sprintf(`[ "$(hostname)" = app-1 ] && echo own || echo host; [ -e %s ] && echo tmp
[ -e /proc/1 ] && echo others; [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes -o -e /sys/fs/cgroup/cgroup.procs ] && echo groups
grep -q '^Seccomp:.2' /proc/self/status && echo filtered; true`, common.Name()))
			if got = strings.Join(strings.Fields(got), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A socket without a file has no permissions: only landlock closes it.
func TestAbstractSockets(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Landlock)
	name := fmt.Sprintf("berth-proc-%d", os.Getpid())
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	script := fmt.Sprintf(`/usr/bin/python3 -c '
import socket, os
def reach(address, own=False):
    s = socket.socket(socket.AF_UNIX)
    if own:
        l = socket.socket(socket.AF_UNIX); l.bind(address); l.listen()
    try: s.connect(address); return "reached"
    except OSError as e: return os.strerror(e.errno)
print(reach("\0%[1]s"), reach("\0%[1]s-own", True), reach("own.sock", True), sep="\n")'`, name)
	if got := b.says(t, nil, script); got != "Operation not permitted\nreached\nreached\n" {
		t.Errorf("got %q", got)
	}
}

// A wall that cannot be put up although it was there before is an error of the
// start, and nothing is left of it.
func TestWallsThatAreRefused(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Mounts)
	s := b.spec(t, "echo ran")
	s.Temp = "/no/such"
	if _, err := b.Launch(s); err == nil || !strings.Contains(err.Error(), "cannot show the program its directory: no such file or directory") {
		t.Errorf("got %v", err)
	}
	s.Group, s.Temp, s.Name = s.Group+"b", "", strings.Repeat("x", 65) // what the kernel takes is 64
	if _, err := b.Launch(s); err == nil || !strings.Contains(err.Error(), "cannot name its host: ") {
		t.Errorf("got %v", err)
	}
	if got := output(t, s); got != "" {
		t.Errorf("it ran: %s", got)
	}
}

// A program that is set-uid gives nobody another user.
func TestKernelSetUID(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Mounts)
	path := filepath.Join(b.dir, "id")
	id, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(id)
	if err := errors.Join(err, os.WriteFile(path, content, 0o755), os.Chmod(path, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	if got := b.says(t, nil, "./id -u; ./id -ru"); got != fmt.Sprintf("%d\n%d\n", testUID, testUID) {
		t.Errorf("got %q", got)
	}
}

// However closed the daemon's own files are, a program can read what is made
// for it.
func TestWallsUnderAClosedUmask(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Mounts)
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	out := b.says(t, nil, "id -un; cat /etc/hostname; ls /tmp >/dev/null && echo seen; umask")
	if out != "app\napp-1\nseen\n0027\n" {
		t.Errorf("got %q", out)
	}
}

// Try says what programs get, and leaves nothing behind.
func TestTryWalls(t *testing.T) {
	b := newBench(t)
	var out bytes.Buffer
	verdicts, err := b.Try(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		fmt.Fprintln(&out, v.Layer, v.Err)
		if had := slices.Contains(b.Walls.Layers, v.Layer); had != (v.Err == nil) {
			t.Errorf("%s: %v at first, now %v", v.Layer, had, v.Err)
		}
	}
	t.Log(out.String())
	if groups, err := filepath.Glob(filepath.Join(b.Tree.Root(), "apps", "*", "cgroup.procs")); err != nil || len(groups) > 0 {
		t.Errorf("groups were left: %v, %v", groups, err)
	}
	var st unix.Utsname
	if err := unix.Uname(&st); err != nil || strings.HasPrefix(unix.ByteSliceToString(st.Nodename[:]), "berth") {
		t.Errorf("the host is now named %s, %v", st.Nodename, err)
	}
}
