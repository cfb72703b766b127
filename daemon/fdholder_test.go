package daemon

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/proc/logs"
)

// keptBook is the logbook of a data directory with its holder.
func keptBook(dir string) (*logs.Book, logs.Holder, error) {
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	b := logs.NewBook(filepath.Join(dir, "logs"), logs.Options{Rate: -1, MaxFile: 64 << 20}, log)
	h, _, err := openHolder(dir, log)
	b.HoldWith(h)
	return b, h, err
}

// chatty prints numbers until its directory has a file "stop", then says how
// many.
const chatty = `i=0; while [ ! -e stop ]; do echo "line $i"; i=$((i+1)); done; printf "last words" ; echo $i > count`

// logbookToKill is what a daemon has to do with a program's output: the first
// one starts the program, the others find it running. It is killed.
func logbookToKill(dir string) {
	b, _, err := keptBook(dir)
	if err == nil {
		_, err = b.Existing("bot", false)
	}
	if err == logs.ErrNone { //nolint:errorlint // it is never wrapped
		var pipe *os.File
		if _, pipe, err = b.Pipe("bot", false, -1); err == nil {
			cmd := exec.Command("/bin/sh", "-c", chatty)
			cmd.Dir, cmd.Stdout = dir, pipe
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			err = cmd.Start()
		}
	}
	fmt.Println("open", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// A program outlives many daemons that are killed, and prints its last words
// when there is none: everything is in the log, once and in order.
func TestOutputOutlivesDaemons(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { _ = os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600) })
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for i := range 30 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "BERTH_TEST_LOGBOOK="+dir)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if i == 0 || random.IntN(5) > 0 {
			if said, _ := bufio.NewReader(out).ReadString('\n'); said != "open <nil>\n" {
				t.Fatalf("it says %q", said)
			}
		}
		<-time.After(time.Duration(random.IntN(20)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		in.Close()
	}
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b, h, err := keptBook(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Existing("bot", false); err != nil { // for it waits for a reader to end
		t.Fatal(err)
	}
	var printed int
	for end := time.Now().Add(time.Minute); printed == 0; {
		text, _ := os.ReadFile(filepath.Join(dir, "count"))
		printed, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		if time.Now().After(end) {
			t.Fatal("the program does not end")
		}
	}
	held, err := h.Held()
	if err == nil {
		err = b.TakeOver(held, func(app.ID) bool { return false })
	}
	if err != nil {
		t.Fatal(err)
	}
	want := make([]string, 0, printed+1)
	for i := range printed {
		want = append(want, "line "+strconv.Itoa(i))
	}
	want = append(want, "last words")
	r, err := b.Open("bot", false)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || r.Close() != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(logs.Unstamped(string(text)), "\n"), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d in order; the last are %q", len(got), len(want), got[max(len(got)-3, 0):])
	}
	closeKept(t, b, h)
}

// What a program printed before it died while there was no daemon is in its
// log; that of an application that is no more is given up.
func TestLastWordsForTheNextDaemon(t *testing.T) {
	dir := t.TempDir()
	b, h, err := keptBook(dir)
	if err != nil {
		t.Fatal(err)
	}
	var programs []*exec.Cmd
	var wake []io.WriteCloser
	for _, id := range []app.ID{"bot", "gone"} {
		_, f, err := b.Pipe(id, false, -1)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", "-c", "read x; echo $x; printf 'last words'")
		cmd.Stdout = f
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		programs, wake = append(programs, cmd), append(wake, in)
	}
	for _, end := range []func() error{b.Close, h.Close} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	for i, cmd := range programs {
		if _, err := io.WriteString(wake[i], "hello\n"); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "logs", "gone")); err != nil {
		t.Fatal(err)
	}
	if b, h, err = keptBook(dir); err != nil {
		t.Fatal(err)
	}
	held, err := h.Held()
	if err == nil {
		err = b.TakeOver(held, func(app.ID) bool { return false })
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := logs.Unstamped(b.Tail("bot", false, 100)); got != "hello\nlast words\n" {
		t.Errorf("the log is %q", got)
	}
	if list, err := os.ReadDir(filepath.Join(dir, "logs")); err != nil || len(list) != 1 {
		t.Errorf("logs are %v, %v", list, err)
	}
	closeKept(t, b, h)
}

// closeKept closes a logbook whose keeper has nothing more to keep.
func closeKept(t *testing.T, b *logs.Book, h logs.Holder) {
	t.Helper()
	held, err := h.Held()
	if err != nil || len(held) > 0 {
		t.Errorf("held are %v, %v", held, err)
	}
	for _, end := range []func() error{b.Close, h.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// A keeper that dies is replaced with the next program, and keeps all then.
func TestKeeperThatDies(t *testing.T) {
	dir := t.TempDir()
	b, h, err := keptBook(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := func() (list []string) {
		held, err := h.Held()
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range held {
			list = append(list, name)
			f.Close()
		}
		slices.Sort(list)
		return list
	}
	for _, id := range []app.ID{"one", "two"} {
		_, f, err := b.Pipe(id, false, -1)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if got := names(); !slices.Equal(got, []string{"log-run-one", "log-run-two"}) {
		t.Errorf("held are %q", got)
	}
	pid := keeperOf(t, dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, f, err := b.Pipe("three", true, -1)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got := names(); !slices.Equal(got, []string{"log-build-three", "log-run-one", "log-run-two"}) {
		t.Errorf("after it died held are %q", got)
	}
	_, f, err = b.Pipe("one", false, -1) // of a second run
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	b.Ended(app.Program{App: "one", Run: 1})
	if got := names(); !slices.Contains(got, "log-run-one") {
		t.Errorf("with a run that goes on held are %q", got)
	}
	for _, id := range []app.ID{"one", "two"} {
		b.Ended(app.Program{App: id})
		b.Ended(app.Program{App: id}) // again does nothing
	}
	b.Ended(app.Program{App: "three", Build: true})
	closeKept(t, b, h)
}

// keeperOf finds the keeper of a data directory.
func keeperOf(t *testing.T, dir string) int {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		text, _ := os.ReadFile(path)
		if strings.HasSuffix(string(text), "\x00"+dir+"\x00") && strings.HasPrefix(string(text), "berth\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	t.Fatal("there is no keeper")
	return 0
}

// With a manager that keeps descriptors, no keeper is started.
func TestManagerAsHolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("NOTIFY_SOCKET", dir+"/nobody")
	t.Setenv("FDSTORE", "100")
	b, h, err := keptBook(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := h.(*manager); !ok {
		t.Errorf("the holder is %T", h)
	}
	_, f, err := b.Pipe("bot", false, -1) // the program runs although nobody listens
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	b.Ended(app.Program{App: "bot"})
	closeKept(t, b, h)
	if _, err := os.Lstat(dir + "/keeper.sock"); err == nil {
		t.Error("a keeper was started")
	}
}
