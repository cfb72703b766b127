package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// makeHolder makes what systemd makes of a unit with Delegate=yes, with a process
// in it, and returns its group and directory.
func makeHolder(t *testing.T, h Host) (group, dir string) {
	t.Helper()
	group = fmt.Sprintf("/berth-holder-%d-%d.service", os.Getpid(), trees.Add(1))
	dir = filepath.Join(h.V2, group)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	g := &Group{path: dir}
	t.Cleanup(func() {
		err := errors.Join(g.Kill(), g.WaitEmpty(belowTimeout))
		leaf := filepath.Join(dir, holderLeaf)
		if e := os.Remove(leaf); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		if err := errors.Join(err, os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := startIn(dir); err != nil {
		t.Fatal(err)
	}
	return group, dir
}

// startIn starts a process in a group.
func startIn(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

func TestKernelHolder(t *testing.T) {
	other := openTree(t)
	h := other.host
	group, dir := makeHolder(t, h)
	if _, err := HolderOf(h, group); err == nil || !strings.HasSuffix(err.Error(), "it has no Delegate=yes") {
		t.Errorf("a unit without Delegate=yes: %v", err)
	}
	if err := unix.Setxattr(dir, "trusted.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	if got, err := HolderOf(h, group); err != nil || got != dir {
		t.Fatalf("HolderOf() = %s, %v", got, err)
	}
	name := filepath.Base(other.Root())
	if Has(dir, name) {
		t.Error("it has a tree before")
	}
	// What an earlier daemon left where there was no holder is ended.
	left := create(t, other, "apps/a/1", Limits{Memory: 32 << 20, Pids: 16})
	program := child(t, left, "exec sleep 1000")
	tree, err := OpenIn(h, name, dir)
	if err != nil {
		t.Fatal(err)
	}
	if !tree.Held() || other.Held() || !Has(dir, name) || tree.Root() != filepath.Join(dir, name) || !tree.HolderLives() {
		t.Errorf("the tree is in %s, held %t, alive %t", tree.Root(), tree.Held(), tree.HolderLives())
	}
	if n, err := tree.Sweep(nil); n < 1 || err != nil {
		t.Errorf("Sweep() = %d, %v", n, err)
	}
	if err := program.Wait(); !killed(err) {
		t.Errorf("what was left elsewhere ended with %v", err)
	}
	g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20, Pids: 16})
	program = child(t, g, "exec tail /dev/zero")
	if err := program.Wait(); !killed(err) {
		t.Errorf("beyond its limit it ended with %v", err)
	}
	if m, err := g.Memory(); err != nil || m.Kills == 0 {
		t.Errorf("the limit of a program in the holder: %+v, %v", m, err)
	}
	revives(t, tree)
	leaf, err := tree.Keeper()
	if err != nil || leaf.Close() != nil || filepath.Dir(leaf.Name()) != tree.Root() {
		t.Errorf("Keeper() = %v, %v", leaf, err)
	}
	if err := errors.Join(g.Kill(), g.WaitEmpty(belowTimeout), g.Remove()); err != nil {
		t.Error(err)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	if Has(dir, name) {
		t.Error("the tree is left")
	}
}

// revives kills the holder's process and lets another be started.
func revives(t *testing.T, tree *Tree) {
	t.Helper()
	g := &Group{path: filepath.Join(tree.holder, holderLeaf)}
	if err := errors.Join(g.Kill(), g.WaitEmpty(belowTimeout)); err != nil {
		t.Fatal(err)
	}
	if tree.HolderLives() {
		t.Error("the holder lives without a process")
	}
	if err := tree.Revive(func(group *os.File) error { return startIn(group.Name()) }); err != nil || !tree.HolderLives() {
		t.Errorf("revived: %t, %v", tree.HolderLives(), err)
	}
	refused := errors.New("no")
	if err := tree.Revive(func(*os.File) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a process that cannot be started: %v", err)
	}
}

func TestHolderOfRefuses(t *testing.T) {
	h := Host{V2: t.TempDir()}
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(h.V2, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("file")
	for group, want := range map[string]string{
		"/system.slice/berth-apps.service": "cannot put programs in berth-apps.service: it is not running",
		"/file":                            "cannot put programs in file: it is not running",
		"/":                                "it is not running",
		"/../../etc":                       "cannot put programs in etc: it is not running",
	} {
		if dir, err := HolderOf(h, group); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %s, %v", group, dir, err)
		}
	}
}
