package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestParseCPU(t *testing.T) {
	const text = "42 (a) b (c)) S 1 42 42 0 -1 4194304 100 0 0 0 12 30 0 0 20 0 1 0 100 2000 100"
	if got, err := parseCPU(text); err != nil || got != 420*time.Millisecond {
		t.Errorf("got %s, %v; want 420ms", got, err)
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 (x) S 1 2 3 4 5 6 7 8 9 10 x 12 13"} {
		if got, err := parseCPU(bad); err == nil {
			t.Errorf("%q has %s", bad, got)
		}
	}
}

func TestField(t *testing.T) {
	const text = "Name:\tx\nVmRSS:\t    1024 kB\nRssAnon:\t 7 kB\nempty:\n"
	if got, err := field(text, "VmRSS"); err != nil || got != 1024 {
		t.Errorf("got %g, %v; want 1024", got, err)
	}
	for _, key := range []string{"Rss", "Name", "empty", ""} {
		if got, err := field(text, key); err == nil {
			t.Errorf("%q is %g", key, got)
		}
	}
}

// What is read of a real process must be plausible: the kernel has the last
// word on its formats.
func TestExamineProcess(t *testing.T) {
	pid := os.Getpid()
	f, err := examineProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if f.rss < 1 || f.pss <= 0 || f.pss > f.rss || f.dirty > f.rss || f.threads < 1 {
		t.Errorf("got %+v", f)
	}
	most, err := peak(pid)
	if err != nil || most < f.rss/2 {
		t.Errorf("the peak is %g MB of %g, %v", most, f.rss, err)
	}
	if n, err := wakeups(pid); err != nil || n < 1 {
		t.Errorf("%g wake-ups, %v", n, err)
	}
	if used, err := cpuTime(pid); err != nil || used > time.Hour {
		t.Errorf("%s of processor time, %v", used, err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(inside(filepath.Dir(dir)), pid) || slices.Contains(inside(dir+"x"), pid) || slices.Contains(inside(dir[:len(dir)-1]), pid) {
		t.Errorf("this process is not found in %s alone", dir)
	}
	if _, err := inGroup("/no such group/", "x"); err == nil {
		t.Error("found a process in a group that does not exist")
	}
}
