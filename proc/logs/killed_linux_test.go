package logs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// The binary of the tests is also a daemon that is to be killed, and a program
// that prints without end.
func TestMain(m *testing.M) {
	switch os.Getenv("BERTH_TEST_ROLE") {
	case "daemon":
		standIn()
	case "chatter":
		chatter()
	case "taker":
		taker()
	}
	os.Exit(m.Run())
}

// victims are logs to be killed over.
var victims = map[string]struct {
	kills int
	o     Options
	line  func(i int) string // what the program prints, without the end
}{
	"numbers": {200, Options{Rate: -1, MaxFile: 64 << 20}, sequence},
	"alike": {
		60,
		Options{Rate: -1, MaxFile: 64 << 20},
		func(int) string { return "again and again" },
	},
	"rotating": {30, Options{Rate: -1, MaxFile: 128 << 10, Keep: 500}, sequence},
	"dropping": {30, Options{Rate: 20 << 10, Burst: 30 << 10, MaxFile: 64 << 20}, sequence},
	"cut": {
		30,
		Options{Rate: -1, MaxFile: 64 << 20, MaxLine: 1000},
		func(i int) string { return sequence(i) + strings.Repeat("é", 700) },
	},
}

func sequence(i int) string { return "line " + strconv.Itoa(i) }

// standIn opens the log, says so, and goes on until it is killed or its parent
// is dead. Meanwhile it shows the log to a follower, from where that one was.
func standIn() {
	l, err := Open(os.Getenv("BERTH_TEST_DIR"), "run", victims[os.Getenv("BERTH_TEST_CASE")].o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	at := os.Getenv("BERTH_TEST_POSITION")
	c, err := l.Cursor(app.LineStart{Pos: at, All: at == ""})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for {
		if text := c.Take(); text != "" {
			_ = out.Encode(app.Lines{Text: text, Pos: c.Position()})
			continue
		}
		<-c.Ready()
	}
}

// listener is who follows a log from one daemon to the next.
type listener struct {
	text strings.Builder
	pos  string
	got  chan struct{} // if not nil, is closed at the next frame
}

// hear takes what a daemon says, until it is dead; half of a frame is nothing.
func (l *listener) hear(lines *bufio.Reader) error {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var frame app.Lines
		if err := json.Unmarshal(line, &frame); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		l.text.WriteString(frame.Text)
		l.pos = frame.Pos
		if l.got != nil {
			close(l.got)
			l.got = nil
		}
	}
}

// chatter prints its lines in pieces that end anywhere until its stdin ends,
// then how many they were, to the descriptor 3.
func chatter() {
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	line := victims[os.Getenv("BERTH_TEST_CASE")].line
	random := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	var text []byte
	for i := 0; ; {
		for len(text) < 4096 {
			text = append(append(text, line(i)...), '\n')
			i++
		}
		n := 1 + random.IntN(4096)
		if _, err := os.Stdout.Write(text[:n]); err != nil {
			os.Exit(1)
		}
		text = text[n:]
		select {
		case <-stop:
			_, _ = os.Stdout.Write(text)
			fmt.Fprintln(os.NewFile(3, "count"), i)
			os.Exit(0)
		case <-time.After(time.Duration(random.IntN(200)) * time.Microsecond):
		}
	}
}

// role is this binary as somebody else.
func role(t *testing.T, role, name, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "BERTH_TEST_ROLE="+role, "BERTH_TEST_CASE="+name, "BERTH_TEST_DIR="+dir)
	return cmd
}

// startChatter makes a log and a program that prints to it. finish ends the program and
// returns how many lines it has printed; somebody MUST be reading them.
func startChatter(t *testing.T, name, dir string, o Options) (finish func() int) {
	t.Helper()
	l := open(t, dir, o)
	keeper, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keeper.Close() })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	program := role(t, "chatter", name, dir)
	program.Stdout = keeper
	stop, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	count, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { count.Close() })
	program.ExtraFiles = []*os.File{w}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return func() int {
		t.Helper()
		stop.Close()
		text, err := io.ReadAll(count)
		if err != nil {
			t.Fatal(err)
		}
		printed, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := program.Wait(); err != nil {
			t.Fatal(err)
		}
		return printed
	}
}

// killAtRandom runs a daemon of a kind and kills it at a random moment: while it starts
// or opens the log, or while it writes. If the follower has got, it is killed after the next frame.
func killAtRandom(t *testing.T, kind, name, dir string, random *rand.Rand, follower *listener) {
	t.Helper()
	cmd := role(t, kind, name, dir)
	cmd.Env = append(cmd.Env, "BERTH_TEST_POSITION="+follower.pos)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, heard, got := make(chan string, 1), make(chan error, 1), follower.got
	go func() {
		lines := bufio.NewReader(out)
		first, _ := lines.ReadString('\n')
		said <- first
		heard <- follower.hear(lines)
	}()
	first := ""
	switch {
	case got != nil:
		select {
		case <-got:
		case err := <-heard:
			t.Fatalf("the daemon ended before it showed a line: %v", err)
		case <-time.After(time.Minute):
			t.Error("the daemon shows no line")
		}
	case random.IntN(10) > 0:
		first = <-said
	}
	<-time.After(time.Duration(random.IntN(6000)) * time.Microsecond)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-heard; err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if first != "" && first != "open\n" {
		t.Fatal(first)
	}
}

// Whenever a daemon is killed, the log loses nothing, repeats nothing and stays
// in order, also what the program printed last of all.
func TestKilledDaemonLosesNothing(t *testing.T) {
	for name, v := range victims {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			finish := startChatter(t, name, dir, v.o)
			kills := v.kills
			if testing.Short() {
				kills /= 10
			}
			random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
			follower := &listener{}
			for n := range kills {
				if n == kills/2 && follower.text.Len() == 0 { // on a busy machine each was killed too early
					follower.got = make(chan struct{})
				}
				killAtRandom(t, "daemon", name, dir, random, follower)
			}
			l := open(t, dir, v.o)
			printed := finish()
			l.Drain()
			checkAll(t, whole(t, l), printed, v.line)
			before := follower.text.Len()
			c := cursor(t, l, app.LineStart{Pos: follower.pos, All: follower.pos == ""})
			follower.text.WriteString(everything(c))
			if heard, has := follower.text.String(), whole(t, l); heard != has {
				at := 0
				for at < min(len(heard), len(has)) && heard[at] == has[at] {
					at++
				}
				t.Errorf("the follower got %d bytes, the log has %d; they differ at %d: %.100q, %.100q", len(heard), len(has), at, heard[at:], has[at:])
			}
			if before == 0 {
				t.Error("it heard nothing between the kills")
			}
			t.Logf("%d kills over %d lines", kills, printed)
		})
	}
}

// checkAll checks that the log has every line of the program once, in order,
// or says that it was dropped.
func checkAll(t *testing.T, text string, printed int, line func(int) string) {
	t.Helper()
	if stamps := strings.Split(text, "\n"); !slices.IsSortedFunc(stamps[:len(stamps)-1], func(a, b string) int {
		return strings.Compare(a[:len(stampLayout)], b[:len(stampLayout)])
	}) {
		t.Error("the stamps are not in order")
	}
	lines := bare(t, text)
	next := 0
	for i := 0; i < len(lines); i++ {
		got := lines[i]
		if m := dropMarker.FindStringSubmatch(got); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits
			next += n
			continue
		}
		for strings.HasSuffix(got, cutMark) && i+1 < len(lines) {
			i++
			got = strings.TrimSuffix(got, cutMark) + lines[i]
		}
		if want := line(next); got != want {
			t.Fatalf("line %d is %.60q, want %.60q; before it %.60q", i, got, want, lines[max(i-3, 0):i])
		}
		next++
	}
	if next != printed {
		t.Errorf("%d lines are in the log or counted, %d were printed", next, printed)
	}
}

// A program that dies while nobody reads has its last words in the log, and
// its unfinished line is continued where it was.
func TestLastWordsWhileNoDaemonLives(t *testing.T) {
	dir := t.TempDir()
	c := newClock()
	o := Options{Now: c.now}
	l := open(t, dir, o)
	keeper, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer keeper.Close()
	if _, err := keeper.WriteString("first\nthe line that had be\xe2\x82"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first line", func() bool { return l.Tail(100) != "" })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantLines(t, bare(t, whole(t, l)), "first")
	c.pass(time.Hour)
	program := exec.Command("/bin/sh", "-c", `printf '\254gun\nlast words'`)
	program.Stdout = keeper
	if err := program.Run(); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	l = open(t, dir, o)
	l.Drain()
	got := whole(t, l)
	wantLines(t, bare(t, got), "first", "the line that had be€gun", "last words")
	if stamps := strings.Count(got, "T03:04:05.678Z "); stamps != 2 {
		t.Errorf("%d lines have the stamp of their beginning, want 2: %q", stamps, got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// What nobody held is gone, but not the line that had begun: it is ended before
// anything else is said.
func TestBegunLineOfADeadProgram(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	keeper, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.WriteString("first\nbegun"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first line", func() bool { return l.Tail(100) != "" })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := keeper.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, Options{})
	wantLines(t, bare(t, l.Tail(1000)), "first", "begun")
	if _, err := os.Lstat(filepath.Join(dir, "run.state")); err == nil {
		t.Error("what was noted of a dead program is still there")
	}
	if keeper, err = l.Pipe(-1, -1); err != nil {
		t.Fatal(err)
	}
	l.Note("next")
	if _, err := keeper.WriteString("no end"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(keeper.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	wantLines(t, bare(t, whole(t, l)), "first", "begun", "[berth] next", "no end")
}
