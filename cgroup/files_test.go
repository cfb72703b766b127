package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"
)

// A directory with the kernel's files in it stands for a group: what these
// tests hold is what is read and written, not what the kernel makes of it.
func fakeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func fakeV2(t *testing.T, files map[string]string) memoryV2 {
	t.Helper()
	dir := fakeFiles(t, files)
	mgr, err := cgroup2.Load("/", cgroup2.WithMountpoint(dir))
	if err != nil {
		t.Fatal(err)
	}
	return memoryV2{dir: dir, mgr: mgr}
}

func TestMemoryV2Reads(t *testing.T) {
	files := map[string]string{
		"memory.stat": "anon 1000\ninactive_file 300\n", "memory.current": "1500\n", "memory.max": "4096\n", "memory.peak": "2000\n",
		"memory.events": "low 0\nhigh 0\nmax 21\noom 7\noom_kill 2\noom_group_kill 1\nsomething_new 9\n",
	}
	m, err := fakeV2(t, files).read()
	want := Memory{Used: 1200, Limit: 4096, Peak: 2000, Kills: 2, OOMs: 7}
	if err != nil || m != want {
		t.Errorf("read() = %+v, %v; want %+v", m, err, want)
	}
	// "oom" without "oom_kill" is no kill, and a cache above the use is no debt.
	files["memory.events"], files["memory.current"] = "max 1\noom 1\noom_kill 0\n", "100\n"
	delete(files, "memory.peak") // before Linux 5.19
	m, err = fakeV2(t, files).read()
	want = Memory{Limit: 4096, OOMs: 1}
	if err != nil || m != want {
		t.Errorf("read() = %+v, %v; want %+v", m, err, want)
	}
}

func TestMemoryV2Limits(t *testing.T) {
	with := fakeV2(t, map[string]string{"memory.max": "max", "memory.swap.max": "max"})
	if err := with.limit(64 << 20); err != nil || content(t, with.dir, "memory.max") != "67108864" || content(t, with.dir, "memory.swap.max") != "0" {
		t.Errorf("limit() = %v: %s and %s", err, content(t, with.dir, "memory.max"), content(t, with.dir, "memory.swap.max"))
	}
	without := fakeV2(t, map[string]string{"memory.max": "max"})
	if err := without.limit(1 << 20); err != nil {
		t.Errorf("without swap accounting: %v", err)
	}
	if _, err := os.Stat(filepath.Join(without.dir, "memory.swap.max")); err == nil {
		t.Error("a file that the kernel does not have was written")
	}
	gone := memoryV2{dir: without.dir + "/gone", mgr: without.mgr}
	if _, _, err := gone.alarm(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the events of a group that is gone: %v", err)
	}
}

func fakeV1(t *testing.T, swap bool) (*memoryV1, string) {
	t.Helper()
	files := map[string]string{}
	for name, text := range map[string]string{
		"memory.stat": "cache 10\ntotal_inactive_file 300\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
		"memory.usage_in_bytes": "1500", "memory.max_usage_in_bytes": "2000", "memory.failcnt": "5", "memory.limit_in_bytes": "4096",
		"memory.swappiness": "60", "cgroup.event_control": "",
	} {
		files["memory/berth/x/"+name] = text
	}
	if swap {
		files["memory/memory.memsw.usage_in_bytes"] = "0"
		files["memory/berth/x/memory.memsw.limit_in_bytes"] = "4096"
	}
	mount := filepath.Join(fakeFiles(t, files), "memory")
	return newMemoryV1(mount, filepath.Join(mount, "berth"), "x"), filepath.Join(mount, "berth", "x")
}

func TestMemoryV1Reads(t *testing.T) {
	m, dir := fakeV1(t, true)
	got, err := m.read()
	want := Memory{Used: 1200, Limit: 4096, Peak: 2000, Kills: 3}
	if err != nil || got != want {
		t.Errorf("read() = %+v, %v; want %+v", got, err, want)
	}
	if err := os.Remove(filepath.Join(dir, "memory.stat")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.read(); err == nil {
		t.Error("counters that are not there gave no error")
	}
	if err := os.Remove(filepath.Join(dir, "memory.limit_in_bytes")); err != nil {
		t.Fatal(err)
	}
	if err := m.limit(1); err == nil {
		t.Error("a limit on a group that cannot be read gave no error")
	}
}

func TestMemoryV1Limits(t *testing.T) {
	for _, swap := range []bool{true, false} {
		m, dir := fakeV1(t, swap)
		for _, bytes := range []int64{8192, 2048} { // up and down
			if err := m.limit(bytes); err != nil || content(t, dir, "memory.limit_in_bytes") != fmt.Sprint(bytes) || content(t, dir, "memory.swappiness") != "0" {
				t.Errorf("swap %t: limit(%d) = %v", swap, bytes, err)
			}
			if swap && content(t, dir, "memory.memsw.limit_in_bytes") != fmt.Sprint(bytes) {
				t.Errorf("memory plus swap is %s, want %d", content(t, dir, "memory.memsw.limit_in_bytes"), bytes)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "memory.memsw.limit_in_bytes")); !swap && err == nil {
			t.Error("a file that the kernel does not have was written")
		}
	}
}

func TestMemoryV1EventNeedsTheControlFiles(t *testing.T) {
	m, dir := fakeV1(t, false)
	fd, err := m.event() // an ordinary file takes any registration
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	if !strings.Contains(content(t, dir, "cgroup.event_control"), " ") {
		t.Errorf("registered %q, want two descriptors", content(t, dir, "cgroup.event_control"))
	}
	if err := os.Remove(filepath.Join(dir, "memory.oom_control")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.alarm(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without oom_control: %v", err)
	}
}

func TestSetPidsV1(t *testing.T) {
	mount := filepath.Join(fakeFiles(t, map[string]string{"pids/berth/x/pids.max": "max"}), "pids")
	dir := filepath.Join(mount, "berth", "x")
	if err := setPidsV1(mount, dir, 12); err != nil || content(t, dir, "pids.max") != "12" {
		t.Errorf("setPidsV1() = %v: %s", err, content(t, dir, "pids.max"))
	}
}

func TestMoveToLeaf(t *testing.T) {
	dir := fakeFiles(t, map[string]string{"cgroup.procs": "", "daemon/cgroup.procs": ""})
	for range 2 { // again after a re-exec
		if err := moveToLeaf(dir, daemonLeaf); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("41\n42\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := moveToLeaf(dir, daemonLeaf); err != nil || content(t, dir, "daemon/cgroup.procs") != "42" {
		t.Errorf("moveToLeaf() = %v: %s; want each pid written", err, content(t, dir, "daemon/cgroup.procs"))
	}
	if err := moveToLeaf(filepath.Join(dir, "none"), daemonLeaf); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such group: %v", err)
	}
}

func TestDelegated(t *testing.T) {
	dir := t.TempDir()
	if delegated(dir) || delegated(filepath.Join(dir, "none")) {
		t.Error("a directory without the mark counts as delegated")
	}
	err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skip("needs a file system with user attributes for temporary files")
	}
	if err != nil || !delegated(dir) {
		t.Errorf("the mark of systemd is not seen: %v", err)
	}
	if err := unix.Setxattr(dir, "user.delegate", []byte("0"), 0); err != nil || delegated(dir) {
		t.Errorf("a mark of 0 counts: %v", err)
	}
}

func TestEnableDown(t *testing.T) {
	dir := fakeFiles(t, map[string]string{
		"cgroup.subtree_control": "", "a/cgroup.subtree_control": "memory", "a/b/cgroup.subtree_control": "memory pids",
	})
	if err := enableDown(dir, filepath.Join(dir, "a", "b"), "memory", "pids"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{ // the last write is what an ordinary file keeps
		"cgroup.subtree_control": "+pids", "a/cgroup.subtree_control": "+pids", "a/b/cgroup.subtree_control": "memory pids",
	} {
		if got := content(t, dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if err := enableDown(dir, filepath.Join(dir, "a", "none"), "memory"); err == nil {
		t.Error("a group that is not there gave no error")
	}
}

func TestMkdirsRemembersAllThatIsOurs(t *testing.T) {
	top := t.TempDir()
	tree := &Tree{}
	if err := os.Mkdir(filepath.Join(top, "berth"), 0o755); err != nil { // of an earlier daemon
		t.Fatal(err)
	}
	if err := tree.mkdirs(top, filepath.Join(top, "berth", "x", "apps")); err != nil || len(tree.own) != 3 {
		t.Fatalf("mkdirs() = %v, own %v; want three", err, tree.own)
	}
	tree.removeOwn(0)
	if list, err := os.ReadDir(top); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tree.mkdirs(top, filepath.Join(top, "file", "x")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}

func TestBoundsSwap(t *testing.T) {
	with := fakeFiles(t, map[string]string{"memory.memsw.limit_in_bytes": "", "g/memory.max": "", "g/memory.swap.max": ""})
	without := fakeFiles(t, map[string]string{"g/memory.max": ""})
	for _, tt := range []struct {
		h    Host
		want bool
	}{
		{Host{Mode: Hybrid, V1Memory: with}, true},
		{Host{Mode: Hybrid, V1Memory: without}, false},
		{Host{Mode: Unified, V2: with}, true},
		{Host{Mode: Unified, V2: without}, false},
		{Host{Mode: Unified, V2: t.TempDir()}, true},
		{Host{Mode: Unusable}, false},
	} {
		if got := tt.h.boundsSwap(); got != tt.want {
			t.Errorf("%+v: %t, want %t", tt.h, got, tt.want)
		}
	}
}

func TestBoundsSockets(t *testing.T) {
	with, without := fakeFiles(t, map[string]string{socketLimit: ""}), t.TempDir()
	for _, tt := range []struct {
		h    Host
		want bool
	}{
		{Host{Mode: Hybrid, V1Memory: with}, true},
		{Host{Mode: Hybrid, V1Memory: without}, false},
		{Host{Mode: Unusable}, false},
	} {
		if got := tt.h.boundsSockets(); got != tt.want {
			t.Errorf("%+v: %t, want %t", tt.h, got, tt.want)
		}
	}
	for line, want := range map[string]bool{
		"": true, "quiet cgroup.memory=nokmem": true, "cgroup.memory=nosocket": false, "cgroup.memory=nokmem,nosocket quiet": false, "xcgroup.memory=nosocket": true,
	} {
		if got := countsSockets(line); got != want {
			t.Errorf("%q: %t, want %t", line, got, want)
		}
	}
}

// The buffers of sockets follow the memory limit, and only where there is a limit.
func TestLimitSockets(t *testing.T) {
	dir := fakeFiles(t, map[string]string{socketLimit: ""})
	m := &memoryV1{dir: dir, tcp: true}
	for memory, want := range map[int64]string{32 << 20: "8388608", 400 << 20: "104857600"} {
		if err := m.limitSockets(memory); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, socketLimit)); string(text) != want {
			t.Errorf("%d: %q, %v", memory, text, err)
		}
	}
	for _, m := range []*memoryV1{{dir: t.TempDir()}, {dir: filepath.Join(dir, "gone"), tcp: true}} {
		if err := m.limitSockets(1); (err != nil) != m.tcp {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func TestGroupReadsItsFiles(t *testing.T) {
	dir := fakeFiles(t, map[string]string{"cgroup.procs": "12\n13\n", "cgroup.events": "populated 1\nfrozen 0\n"})
	g := &Group{path: dir}
	if pids, err := g.Procs(); err != nil || len(pids) != 2 || pids[1] != 13 {
		t.Errorf("Procs() = %v, %v", pids, err)
	}
	if err := g.WaitEmpty(time.Millisecond); err == nil || !strings.Contains(err.Error(), "processes are left after 1ms") {
		t.Errorf("WaitEmpty of a busy group: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("what\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Procs(); err == nil {
		t.Error("a pid that is no number gave no error")
	}
	if err := g.Signal(unix.SIGTERM); err == nil {
		t.Error("a group that cannot be listed was signalled")
	}
	if err := rmdir(dir); err == nil || !strings.Contains(err.Error(), "cannot remove the control group") {
		t.Errorf("rmdir of a directory with files: %v", err)
	}
	if _, err := (&Group{path: dir + "/none"}).Open(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a group that is gone: %v", err)
	}
}
