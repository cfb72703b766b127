package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"berth/cgroup"
	"berth/proc/sandbox"
)

// shortEnv makes the test binary a daemon that is short of processes.
const shortEnv = "BERTH_TEST_SHORT"

// short is what that daemon has, and what it finds out.
type short struct {
	Tree     string
	Pids     int64
	Patience time.Duration
	Missing  []sandbox.Layer
	Err      string
}

// tryInShort tries the walls where so many processes and threads may be at once:
// of this process and its children, or, on a unified host, of the children alone.
func tryInShort(order string) {
	var s short
	err := json.Unmarshal([]byte(order), &s)
	var h cgroup.Host
	if err == nil {
		h, err = cgroup.Detect()
	}
	l := Launcher{Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Init: []string{"/proc/self/exe", InitWord}}
	if err == nil {
		l.Tree, err = cgroup.Open(h, s.Tree)
	}
	if err == nil {
		err = beShort(h, l.Tree, s.Pids)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	verdicts, err := l.Try(context.Background(), s.Patience)
	if err != nil {
		s.Err = err.Error()
	}
	for _, v := range verdicts {
		if v.Err != nil {
			s.Missing = append(s.Missing, v.Layer)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(s)
	os.Exit(0)
}

// beShort limits the processes of whatever a child of this process counts for.
func beShort(h cgroup.Host, tree *cgroup.Tree, pids int64) error {
	if h.Mode == cgroup.Unified {
		return os.WriteFile(filepath.Join(tree.Root(), "pids.max"), fmt.Append(nil, pids), 0)
	}
	group, err := tree.Create("apps/short/1", cgroup.Limits{Memory: 1 << 30, Pids: pids})
	if err != nil {
		return err
	}
	for _, file := range group.Joins() {
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), "pids.max")); err == nil {
			return os.WriteFile(filepath.Join(filepath.Dir(file), "cgroup.procs"), fmt.Append(nil, os.Getpid()), 0)
		}
	}
	return errors.New("nothing limits processes here")
}

// noThread is what the Go runtime says, or its part in C, without another thread.
var noThread = regexp.MustCompile("failed to create new OS thread|pthread_create failed")

// However few processes there may be, no wall is taken for missing: either all are
// found that there are, or nothing is said of them.
func TestTryWithoutProcesses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var lacking []sandbox.Layer
	for _, l := range sandbox.Layers {
		if !slices.Contains(b.Walls.Layers, l) {
			lacking = append(lacking, l)
		}
	}
	found, failed := 0, 0
	for _, pids := range []int64{1, 4, 6, 7, 8, 9, 10, 11, 13, 24} {
		order, err := json.Marshal(short{Tree: b.name, Pids: pids})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), shortEnv+"="+string(order), "GOMAXPROCS=2")
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		ended := cmd.Run()
		if _, err := b.Tree.Sweep(nil); err != nil {
			t.Fatal(err)
		}
		var s short
		switch err := json.Unmarshal(out.Bytes(), &s); {
		case err != nil && noThread.MatchString(said.String()):
			failed++ // it had too few for itself
		case err != nil:
			t.Fatalf("with %d: %v, %s%s", pids, ended, out.String(), said.String())
		case s.Err != "":
			failed++
		case !slices.Equal(s.Missing, lacking):
			t.Errorf("with %d processes the walls %v are missing, of which the host lacks %v", pids, s.Missing, lacking)
		default:
			found++
		}
	}
	if found == 0 || failed == 0 {
		t.Errorf("found %d times, failed %d times: want both", found, failed)
	}
}

// A child that ends on its way to the program, or is not even born, has put up no
// wall and found none missing. One that was killed is a run that ended so.
func TestChildEndsOnItsWay(t *testing.T) {
	b := newBench(t)
	l := *b.Launcher
	for _, init := range [][]string{{"/bin/false"}, {"/bin/true"}, {"/no/such/file"}, {"/bin/sh", "-c", "kill -9 $$"}} {
		l.Init = init
		if verdicts, err := l.Try(t.Context(), 0); err == nil || verdicts != nil {
			t.Errorf("%v: %v, %v", init, verdicts, err)
		}
	}
	l.Init = []string{"/bin/sh", "-c", "exit 2"} // as the Go runtime does without a thread
	s := b.spec(t, "echo ran")
	if _, err := l.Launch(s); !errors.Is(err, errEnded) {
		t.Errorf("it was started: %v", err)
	}
	l.Init = []string{"/bin/sh", "-c", "kill -9 $$"}
	s.Group += "b"
	r, err := l.Launch(s)
	if err != nil {
		t.Fatal(err)
	}
	if e := r.Wait(); e.Code != 137 || e.OOM {
		t.Errorf("it ended as %+v", e)
	}
}
