//go:build guest

package cgroup

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Why a group is never used twice, shown on a kernel that needs it.
func TestReusedGroupKills(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 64 << 20})
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := g.WaitEmpty(time.Second); err != nil {
		t.Fatal(err)
	}
	err := child(t, g, "exit 7").Wait()
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // Wait returns it as it is
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("a child in a group that was killed before ended with %v, want SIGKILL", err)
	}
}
