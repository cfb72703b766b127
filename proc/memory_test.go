package proc

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/app"
)

// leaking is a program in Python that holds what goal says, in parts of its RAM after so many
// seconds; base is what it has when it begins.
const leaking = `
import math, mmap, os, time
limit, rate = %d << 20, %g
def used():
    with open("/proc/self/statm") as f:
        pages = f.read().split()
    return (int(pages[1]) - int(pages[2])) * 4096
base = used() / limit
goal = lambda s: %s
chunk, held, began = 128 << 10, [], time.monotonic()
while True:
    want = (goal(time.monotonic() - began) - base) * limit
    while len(held) * chunk < want:
        m = mmap.mmap(-1, chunk, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        m.write(b"x" * chunk)
        held.append(m)
    while len(held) * chunk > want + chunk:
        held.pop().close()
    time.sleep(0.05)
`

// goals are the kinds of leaks; no rise of any is faster than a 30th of the RAM a second.
var goals = []string{
	"0.35 + rate * s",
	"0.35 + 0.05 * math.floor(s * rate / 0.05)",
	"0.35 * math.exp(rate * s)",
	"0.75 + rate / 3 * s",
	"0.5 + rate / 2 * s + 0.08 * ((s % 8) / 8)",
}

// warnings are what a run said of its memory.
type warnings struct {
	mu  sync.Mutex
	all []app.MemoryWarning
}

func (w *warnings) hear(m app.MemoryWarning) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, m)
}

// first is when the first of them came, zero when none did.
func (w *warnings) first() (at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) > 0 {
		at = w.all[0].At
	}
	return at
}

func (w *warnings) levels() (levels []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.all {
		levels = append(levels, m.Level)
	}
	return levels
}

// Programs of five kinds leak until the kernel kills them: 19 of 20 are warned of before. TestSoakLeakingPrograms
// has more of them, and slower ones. It is no test of guests, where an emulated processor takes minutes for what
// such a program does at its limit.
func TestLeakingProgramsAreReported(t *testing.T) {
	t.Parallel() // it waits
	leakingPrograms(t, 20, 1)
}

// leakingPrograms is that at least 95 % of so many programs are warned of before they are killed. The slowest leaks so many
// times slower than the fastest.
func leakingPrograms(t *testing.T, count int, slowest float64) {
	t.Helper()
	b := newBench(t)
	python, _ := FindTools().Find("python3")
	if python == "" {
		t.Skip("needs python3")
	}
	r := rand.New(rand.NewPCG(3, 4))
	type leak struct {
		kind  int
		rate  float64
		heard warnings
		exit  app.Exit
	}
	all := make([]*leak, count)
	var running sync.WaitGroup
	for i := range all {
		l := &leak{kind: i % len(goals), rate: math.Exp(-math.Log(31) - r.Float64()*math.Log(slowest))}
		all[i] = l
		s := b.spec(t, "")
		s.MemoryMB, s.Pids = 48, 16
		s.Argv = []string{python, "-c", fmt.Sprintf(leaking, s.MemoryMB, l.rate, goals[l.kind])}
		s.OnMemory = l.heard.hear
		run := b.launch(t, s)
		running.Go(func() { l.exit = run.Wait() })
	}
	running.Wait()
	told, least := 0, time.Hour
	for _, l := range all {
		if !l.exit.OOM || l.exit.Code != 137 {
			t.Errorf("kind %d at %.4f ended as %+v", l.kind, l.rate, l.exit)
			continue
		}
		first := l.heard.first()
		if first.IsZero() || !first.Before(l.exit.At) {
			t.Logf("kind %d at a %.0fth a second: nobody was warned", l.kind, 1/l.rate)
			continue
		}
		told++
		least = min(least, l.exit.At.Sub(first))
	}
	t.Logf("%d of %d were warned of, at least %s before the kill", told, count, least.Round(time.Millisecond))
	if told*100 < count*95 {
		t.Errorf("only %d of %d were warned of", told, count)
	}
}

// sized is a program that holds as many MB as a file says, and drops 10 when it is told that
// its memory is nearly full, if it handles that.
const sized = `
import os, signal, time
def dropped(*a):
    print("dropped", flush=True)
if %v:
    signal.signal(signal.SIGUSR2, dropped)
held = []
while True:
    try:
        want = int(open("size").read())
    except (OSError, ValueError):
        want = 0
    while len(held) < want:
        held.append(b"x" * (1 << 20))
    del held[want:]
    time.sleep(0.02)
`

// A program at 85 % is warned of once, also when later daemons adopt it; at 92 % again, and
// then it gets its signal, once, if it handles it. Cache of files is none of it.
func TestKernelMemoryWarnings(t *testing.T) {
	python, _ := FindTools().Find("python3")
	if python == "" {
		t.Skip("needs python3")
	}
	for _, handles := range []bool{true, false} {
		t.Run(map[bool]string{true: "handles the signal", false: "does not"}[handles], func(t *testing.T) {
			b := newBench(t)
			var heard warnings
			s := b.spec(t, "")
			s.MemoryMB, s.OnMemory, s.MemorySignal = 100, heard.hear, "SIGUSR2"
			s.Argv = []string{python, "-c", fmt.Sprintf(sized, map[bool]string{true: "True", false: "False"}[handles])}
			size := func(mb int) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(s.Dir, "size"), fmt.Append(nil, mb), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			size(78)
			r, err := b.Launch(s)
			if err != nil {
				t.Fatal(err)
			}
			poll(t, "it is warned of", func() bool { return slices.Equal(heard.levels(), []int{80}) })
			for range 2 { // a later daemon, and one more
				if !r.Leave() {
					t.Fatal("it was not left")
				}
				v := b.Survivors()[s.Group]
				if v.Warned != 80 {
					t.Errorf("the group says that %d was reported", v.Warned)
				}
				if r, err = b.Adopt(v, s); err != nil {
					t.Fatal(err)
				}
			}
			defer func() { r.Stop(0); r.Wait() }()
			size(88)
			poll(t, "it is warned of again", func() bool { return len(heard.levels()) > 1 })
			if got := heard.levels(); !slices.Equal(got, []int{80, 90}) {
				t.Errorf("warned at %v", got)
			}
			last := heard.all[1]
			if last.Signal != "SIGUSR2" || last.Sent != handles || last.LimitBytes != 100<<20 || last.HeldBytes < 90<<20 {
				t.Errorf("the warning is %+v", last)
			}
			if handles {
				poll(t, "it has the signal", func() bool { return strings.Contains(output(t, s), "dropped") })
			}
			if r.Ended() || strings.Count(output(t, s), "dropped") > 1 {
				t.Errorf("it has ended: %v, and said %q", r.Ended(), output(t, s))
			}
		})
	}
}

// What a process does with signals is what the kernel says.
func TestHandles(t *testing.T) {
	p := &process{pid: os.Getpid()}
	if is, err := p.handles(syscall.SIGTERM); !is || err != nil { // of which the runtime hears
		t.Errorf("SIGTERM: %v, %v", is, err)
	}
	if is, err := p.handles(syscall.SIGKILL); is || err != nil {
		t.Errorf("SIGKILL: %v, %v", is, err)
	}
	if is, err := (&process{pid: 1 << 30}).handles(syscall.SIGTERM); is || err == nil || !strings.Contains(err.Error(), "cannot tell which signals") {
		t.Errorf("of nobody: %v, %v", is, err)
	}
	if err := (&process{gone: true}).signal(syscall.SIGTERM); err != nil {
		t.Errorf("to one that is gone: %v", err)
	}
}
