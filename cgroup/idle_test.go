package cgroup

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// busyOn starts a process that never rests, on the first processor that this one may use.
func busyOn(t *testing.T, group string) int {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "read go; while :; do :; done")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !may.IsSet(first) {
		first++
	}
	one.Set(first)
	if err := unix.SchedSetaffinity(cmd.Process.Pid, &one); err != nil {
		t.Fatal(err)
	}
	if group != "" {
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// What gives way waits for all others, and is not put off for ever by a program that never rests.
func TestKernelGiveWay(t *testing.T) {
	tree := weighing(t)
	create(t, tree, "apps/a/1", Limits{Memory: 32 << 20})
	busyOn(t, filepath.Join(tree.weights.root, "apps", "a", "1"))
	pid, dir := busyOn(t, ""), tree.idle()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	const period = 200 * time.Millisecond
	go func() { ended <- tree.GiveWay(ctx, pid, period) }()
	seen := map[string]bool{}
	poll(t, "it has waited, and was let in", func() bool {
		if exists(filepath.Join(dir, idleFile)) {
			seen[content(t, dir, idleFile)] = true
		}
		return seen["0"] && seen["1"] && used(dir) >= 2*period
	})
	if got := content(t, dir, "cgroup.procs"); got != strconv.Itoa(pid) {
		t.Errorf("the processes that give way are %q", got)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
