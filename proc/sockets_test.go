package proc

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"berth/proc/sandbox"
)

// counted is a bench that counts sockets, with small bounds.
func counted(t *testing.T, b bench, bounds sandbox.SocketBounds, earlier ...string) bench {
	t.Helper()
	if err := sandbox.Probe().BPF; err != nil {
		t.Skip("the kernel lets nobody load eBPF programs here:", err)
	}
	n, err := sandbox.NewSockets(bounds, earlier...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A connection of a program that has ended ends on the host's own time.
		poll(t, "no socket of programs that have ended is counted", func() bool {
			left, err := n.Held(0)
			if err != nil {
				t.Fatal(err)
			}
			return left == 0
		})
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	b.Sockets = n
	return b
}

// socketProgram is a program that makes sockets as it is asked to by the ways that take
// a port without a bind, and keeps them.
const socketProgram = prelude + `
held = []
def udp():
    s = socket.socket(V4, UDP); s.connect(("127.0.0.1", 9)); return s
def tcp():
    s = socket.socket(V6, TCP); s.listen(); return s
def take(most, make):
    n = 0
    try:
        while n < most: held.append(make()); n += 1
    except OSError as e: return "%d %s" % (n, why(e))
    return "%d" % n
`

// acceptedProgram makes sockets that its listener has accepted, and that hold no port any
// more, or one that nobody listens at.
const acceptedProgram = `
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
l = bound(V4, TCP, "127.0.0.1", 0)
def accepted(l=l):
    with socket.create_connection(l.getsockname()[:2]): s, _ = l.accept()
    if libc.connect(s.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16): raise OSError(ctypes.get_errno(), "disconnect")
    return s
def left(end=lambda l: l.close()):
    "a connection that keeps the port of its listener, which is gone"
    n = bound(V4, TCP, "127.0.0.1", 0)
    with socket.create_connection(n.getsockname()): s, _ = n.accept()
    end(n); return s
`

func (b bench) holds(t *testing.T, account uint32, program string) (*Run, Spec) {
	t.Helper()
	s := b.spec(t, "")
	s.Argv, s.Account, s.MemoryMB = []string{python3(t), "-c", socketProgram + program}, account, 256
	return b.launch(t, s), s
}

// A program, the programs of one account and all together hold as many sockets
// as they may; those of others and those that were closed count for nothing.
func TestKernelSocketsAreBounded(t *testing.T) {
	b := counted(t, newBench(t), sandbox.SocketBounds{Program: 200, Account: 300, All: 451})
	stay := "\nsay('ready')\ntime.sleep(600)"
	start := func(account uint32, program string) string {
		t.Helper()
		r, s := b.holds(t, account, program+stay)
		t.Cleanup(func() { r.Stop(0); r.Wait() })
		poll(t, "it has what it gets", func() bool { return strings.Contains(output(t, s), "ready\n") })
		return strings.TrimSuffix(output(t, s), "ready\n")
	}
	for _, tt := range []struct {
		name, program, want string
		account             uint32
	}{
		{"one after the other", "n = 0\nfor i in range(600): udp().close(); n += 1\nsay(n)", "600\n", 1},
		{"accepted", `
l = bound(V4, TCP, "127.0.0.1", 0)
for i in range(150):
    c = socket.create_connection(l.getsockname()); held.append(c); held.append(l.accept()[0])
say(len(held))`, "300\n", 2},
		{"a program", "say(take(1000, udp)); held.clear(); say(take(150, tcp)); say(take(1000, udp))", "200 EMFILE\n150\n50 EMFILE\n", 1},
		{"another of the account", "say(take(1000, tcp))", "100 EMFILE\n", 1},
		// 151 are held by the second program.
		{"another account, when all have what they may", "say(take(1000, udp))", "0 EMFILE\n", 3},
	} {
		if got := start(tt.account, tt.program); got != strings.ReplaceAll(tt.want, "EMFILE", noSocket(b)) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if n, err := b.Sockets.Held(1); n != 300 || err != nil {
		t.Errorf("%d sockets of the account are counted, %v; want 300", n, err)
	}
}

func python3(t *testing.T) string {
	t.Helper()
	command, _ := FindTools().Find("python3")
	if command == "" {
		t.Fatal("there is no python3")
	}
	return command
}

// noSocket is what a program finds that has too many.
func noSocket(b bench) string {
	if b.Sockets.Says() {
		return "EMFILE"
	}
	return "EPERM"
}

// It is said once that a program was refused sockets, also of one that has ended.
func TestKernelSocketsRefusedIsSaid(t *testing.T) {
	b := counted(t, newBench(t), sandbox.SocketBounds{Program: 20, Account: 300, All: 451})
	s := b.spec(t, "")
	s.Argv, s.Account = []string{python3(t), "-c", socketProgram + "say(take(30, udp)); say(take(30, udp))\nsys.stdin.read()\ntime.sleep(600)"}, 7
	var said, held atomic.Int64
	s.OnNoSocket = func(n int, _ bool) { said.Add(1); held.Store(int64(n)) }
	r := b.launch(t, s)
	poll(t, "it was refused", func() bool { return strings.Count(output(t, s), "\n") == 2 })
	for range 3 {
		if _, err := r.Counts(); err != nil {
			t.Error(err)
		}
	}
	if said.Load() != 1 || held.Load() != 20 {
		t.Errorf("said %d times, of %d sockets", said.Load(), held.Load())
	}
	r.Stop(0)
	r.Wait()
	s = b.spec(t, "")
	s.Argv, s.Account = []string{python3(t), "-c", socketProgram + "say(take(30, udp))"}, 7
	s.OnNoSocket = func(int, bool) { said.Add(1) }
	b.launch(t, s).Wait()
	if said.Load() != 2 {
		t.Errorf("said %d times after one that ended", said.Load())
	}
}

// What an earlier daemon has counted is counted on: a program that goes on and
// one that is started now share what their account may have. What the earlier daemon
// did not see yet is seen from now on.
func TestKernelSocketsOfAnEarlierDaemon(t *testing.T) {
	bounds := sandbox.SocketBounds{Program: 50, Account: 80, All: 1000}
	for _, tt := range []struct {
		name          string
		counted       bool // by the earlier daemon
		alone         bool // in its own maps
		before, after string
		adopted       string // new ones, those it had accepted, and those it had made
		held          int    // of the account, that this daemon knows of
	}{
		{"that counted", true, false, "44 EMFILE\n", "30 EMFILE\n", "39 EMFILE 0 EMFILE 5", 50},
		{"that counted, and is not found at the start", true, true, "44 EMFILE\n", "50 EMFILE\n", "39 EMFILE 0 EMFILE 5", 0},
		// What was there before anybody counted is not known, and not counted down.
		{"that did not", false, true, "60\n", "50 EMFILE\n", "45 EMFILE 0 EMFILE 0 EMFILE", 50},
	} {
		b := newBench(t)
		s := b.spec(t, "")
		s.Account = 5
		s.Argv = []string{python3(t), "-c", socketProgram + acceptedProgram + `
import signal
had = [accepted() for i in range(10)]
kept = []
made = [socket.socket(V4, UDP) for i in range(5)]
def bind(s): s.bind(("0.0.0.0", 0)); return s
def anew(*_):
    held.clear()
    kept.extend(left() for i in range(5))
    say(take(1000, udp), take(10, lambda: bind(had.pop())), take(5, lambda: bind(made.pop())))
signal.signal(signal.SIGUSR1, anew)
say(take(60, udp))
while True: signal.pause()
`}
		var earlier *sandbox.SocketBounds
		if tt.counted {
			earlier = &sandbox.SocketBounds{Program: 50, Account: 60, All: 1000} // its own, which hold for what it started
		}
		v := b.startedCounted(t, s, earlier)
		poll(t, "it has what it gets", func() bool { return strings.Contains(output(t, s), "\n") })
		groups := []string{filepath.Join(b.Tree.Root(), "gone"), filepath.Join(b.Tree.Root(), v.Group)}
		if tt.alone {
			groups = groups[:1]
		}
		c := counted(t, b, bounds, groups...)
		r, err := c.Adopt(v, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Stop(0); r.Wait() })
		if got := output(t, s); got != strings.ReplaceAll(tt.before, "EMFILE", noSocket(c)) {
			t.Errorf("%s: before %q, want %q", tt.name, got, tt.before)
		}
		next, ns := c.holds(t, 5, "say(take(1000, udp))\ntime.sleep(600)")
		t.Cleanup(func() { next.Stop(0); next.Wait() })
		poll(t, "the next has what it gets", func() bool { return strings.Contains(output(t, ns), "\n") })
		if got := output(t, ns); got != strings.ReplaceAll(tt.after, "EMFILE", noSocket(c)) {
			t.Errorf("%s: after %q, want %q", tt.name, got, tt.after)
		}
		next.Stop(0)
		next.Wait()
		if err := r.group.Signal(10); err != nil { // SIGUSR1
			t.Fatal(err)
		}
		poll(t, "the adopted one has what it gets", func() bool { return strings.Count(output(t, s), "\n") == 2 })
		if got := strings.Split(output(t, s), "\n")[1]; got != strings.ReplaceAll(tt.adopted, "EMFILE", noSocket(c)) {
			t.Errorf("%s: the adopted one got %q", tt.name, got)
		}
		if n, err := c.Sockets.Held(5); n != tt.held || err != nil {
			t.Errorf("%s: %d counted, %v", tt.name, n, err)
		}
		r.Stop(0)
		r.Wait()
	}
}

// What a listener accepted is not counted, and can be disconnected and used anew:
// it is counted when it binds or connects. When it listens nothing can refuse it, and the
// program is ended. One that holds the port of a listener that is gone counts for it.
func TestKernelSocketsThatWereAccepted(t *testing.T) {
	b := counted(t, newBench(t), sandbox.SocketBounds{Program: 20, Account: 300, All: 450})
	const again = acceptedProgram + `
sink = bound(V4, TCP, "127.0.0.1", 0)
l6 = bound(V6, TCP, "::1", 0)
def connecting():
    s = accepted(); s.connect(sink.getsockname()); return s
def binding():
    s = accepted(); s.bind(("0.0.0.0", 0)); return s
def binding6():
    s = accepted(l6); s.bind(("::", 0)); return s
def listening():
    s = accepted(); s.listen(); return s
`
	r, s := b.holds(t, 1, again+`
for way in connecting, binding, binding6:
    say(take(60, way), len(held)); held.clear()
say(take(10, listening)); held.clear()
had, had6 = [accepted() for i in range(10)], [accepted(l6) for i in range(10)]
take(60, udp)
def bind(s, *to): s.bind(to); return s
say(take(10, lambda: bind(had.pop(), "127.0.0.1", 0)), take(10, lambda: bind(had.pop(), "127.0.0.1", 5000)), take(10, lambda: bind(had6.pop(), "::", 0)))`)
	r.Wait()
	// The three listeners and, while it lasts, the other end of a connection.
	if got, want := output(t, s), strings.Repeat(fmt.Sprintf("17 %s 17\n", noSocket(b)), 3)+"10\n"+strings.ReplaceAll("0 X 0 X 0 X\n", "X", noSocket(b)); got != want {
		t.Errorf("it said %q, want %q", got, want)
	}
	r, s = b.holds(t, 1, again+`
def left_by_shutdown():
    return left(lambda l: (l.shutdown(socket.SHUT_RD), l.close()))
for way in left, left_by_shutdown:
    say(take(60, way), len(held)); held.clear()
many = [left() for i in range(15)]
del many
say(take(60, udp))`)
	r.Wait()
	// The three listeners and, for a moment, a listener and the other end of its connection.
	if got, want := output(t, s), strings.Repeat(fmt.Sprintf("16 %s 16\n", noSocket(b)), 2)+fmt.Sprintf("17 %s\n", noSocket(b)); got != want {
		t.Errorf("of listeners that are gone: %q, want %q", got, want)
	}
	for name, program := range map[string]string{
		"accepted sockets": `
ready = [accepted() for i in range(500)]
for s in ready: s.listen()
time.sleep(600)`,
		// It has made all of them while it might.
		"one socket again and again": `
n, ends, kept = socket.socket(V4, TCP), [socket.socket(V4, TCP) for i in range(14)], []
for c in ends:
    n.listen(); c.connect(("127.0.0.1", n.getsockname()[1])); kept.append(n.accept()[0]); n.shutdown(socket.SHUT_RDWR)
time.sleep(600)`,
	} {
		var ended atomic.Bool
		s = b.spec(t, "")
		s.Argv, s.Account, s.MemoryMB = []string{python3(t), "-c", socketProgram + again + program}, 1, 256
		s.OnNoSocket = func(_ int, e bool) { ended.Store(ended.Load() || e) }
		if e := b.launch(t, s).Wait(); e.Signal != 9 || !ended.Load() {
			t.Errorf("%s: it ended with %+v, told: %t: %s", name, e, ended.Load(), output(t, s))
		}
	}
}
