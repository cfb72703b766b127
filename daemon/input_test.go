package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"berth/cgroup"
	"berth/proc"
	"berth/proc/logs"
)

// reader is run 7 of a program that reads its input, for the user of the tests.
var reader = app.Program{App: "bot", Run: 7, UID: -1}

// reads starts a program at the input of a run.
func reads(b *logs.Book, p app.Program, dir, script string) (*exec.Cmd, error) {
	in, err := b.Input(p)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir, cmd.Stdin = dir, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
}

// typeUntilKilled is what a daemon has to do with a program's input: the first one starts the program,
// the others find it running. What the test says, it types. It is killed.
func typeUntilKilled(dir string) {
	b, h, err := keptBook(dir)
	if _, started := os.Stat(filepath.Join(dir, "started")); err == nil && started != nil {
		if err = os.WriteFile(filepath.Join(dir, "started"), nil, 0o600); err == nil {
			_, err = reads(b, reader, dir, `while read x; do echo "got $x" >>out; done; echo end >>out`)
		}
	} else if err == nil {
		var held map[string]*os.File
		if held, err = h.Held(); err == nil {
			err = b.TakeOver(held, func(app.ID) bool { return true })
		}
		b.KeepInput(reader.App, reader.Run)
	}
	fmt.Println("open", err)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println("typed", b.Type(reader.App, reader.Run, lines.Text()))
	}
	os.Exit(0)
}

// A program that reads outlives daemons that are killed, and daemons that end: it gets each line once and in
// order, and sees the end of its input when its run is over, not before.
func TestInputOutlivesDaemons(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 8 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "BERTH_TEST_INPUT="+dir)
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
		said := bufio.NewReader(out)
		hear := func(want string) {
			t.Helper()
			if line, _ := said.ReadString('\n'); line != want+"\n" {
				t.Fatalf("daemon %d says %q, want %q", i, line, want)
			}
		}
		hear("open <nil>")
		for n := range 3 {
			line := strconv.Itoa(i) + "." + strconv.Itoa(n)
			want = append(want, "got "+line)
			if _, err := io.WriteString(in, line+"\n"); err != nil {
				t.Fatal(err)
			}
			hear("typed <nil>")
		}
		if i%2 == 0 {
			_ = cmd.Process.Kill() // at once: what is in the pipe is the program's
		}
		in.Close()
		_ = cmd.Wait()
	}
	b, h, err := keptBook(dir)
	if err != nil {
		t.Fatal(err)
	}
	held, err := h.Held()
	if err == nil {
		err = b.TakeOver(held, func(app.ID) bool { return true })
	}
	if err != nil {
		t.Fatal(err)
	}
	written := func(n int) (lines []string) {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			text, _ := os.ReadFile(filepath.Join(dir, "out"))
			lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			if len(lines) >= n || time.Now().After(deadline) {
				return lines
			}
		}
	}
	if got := written(len(want)); !slices.Equal(got, want) {
		t.Errorf("the program read %q, want %q", got, want)
	}
	b.Ended(reader) // which closes what leads to it
	if got := written(len(want) + 1); !slices.Equal(got, append(want, "end")) {
		t.Errorf("at the end the program read %q", got)
	}
	closeKept(t, b, h)
}

// A program that does not read fills its pipe, and nobody waits for it; one that has closed its input, and
// one that never had one, say so.
func TestInputThatNobodyReads(t *testing.T) {
	dir := t.TempDir()
	b, h, err := keptBook(dir)
	if err != nil {
		t.Fatal(err)
	}
	sleeper, err := reads(b, reader, dir, `while [ ! -e go ]; do sleep 0.01; done; cat >out`)
	if err != nil {
		t.Fatal(err)
	}
	line, sent := strings.Repeat("x", app.MaxInput), 0
	began := time.Now()
	for ; sent < 1000; sent++ {
		if err = b.Type("bot", 7, line); err != nil {
			break
		}
	}
	if app.KindOf(err) != app.Unavailable || !strings.Contains(err.Error(), "does not read its input") || sent != 16 || time.Since(began) > 10*time.Second {
		t.Errorf("after %d lines, in %s: %v", sent, time.Since(began), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for err = errFirst; err != nil && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		err = b.Type("bot", 7, "later")
	}
	if err != nil {
		t.Errorf("to a program that reads again: %v", err)
	}
	b.Ended(reader)
	if err := sleeper.Wait(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || string(text) != strings.Repeat(line+"\n", sent)+"later\n" {
		t.Errorf("it read %d bytes, %v", len(text), err)
	}
	shut := reader
	shut.Run = 8
	closer, err := reads(b, shut, dir, `exec <&-; : >shut; while [ ! -e stop ]; do sleep 0.01; done`)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "shut")); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for run, says := range map[int]string{8: "has closed its input", 7: "lost the way", 9: "lost the way"} {
		if err := b.Type("bot", run, "x"); app.KindOf(err) != app.Conflict || !strings.Contains(err.Error(), says) {
			t.Errorf("to run %d: %v", run, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := closer.Wait(); err != nil {
		t.Error(err)
	}
	b.Ended(shut)
	closeKept(t, b, h)
}

// errFirst is an error before the first try.
var errFirst = io.EOF

// Two runs of an application read their own lines; of those that a killed daemon left, the one that goes on
// keeps its input. One whose program is dead is given up.
func TestInputsOfTwoRuns(t *testing.T) {
	dir := t.TempDir()
	b, h, err := keptBook(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []*exec.Cmd
	for run := 1; run <= 3; run++ {
		p := app.Program{App: "bot", Run: run, UID: -1}
		if run == 3 {
			p.App = "gone"
		}
		cmd, err := reads(b, p, dir, "cat >out"+strconv.Itoa(run))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
		if err := b.Type(p.App, run, "to "+strconv.Itoa(run)); err != nil {
			t.Error(err)
		}
	}
	for _, end := range []func() error{b.Close, h.Close} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	if b, h, err = keptBook(dir); err != nil {
		t.Fatal(err)
	}
	held, err := h.Held()
	if err == nil {
		err = b.TakeOver(held, func(id app.ID) bool { return id == "bot" })
	}
	if err != nil || len(held) != 3 {
		t.Fatal(held, err)
	}
	if err := all[2].Wait(); err != nil { // nobody holds its input any more
		t.Error(err)
	}
	b.KeepInput("bot", 2)
	if err := all[0].Wait(); err != nil {
		t.Error(err)
	}
	if err := b.Type("bot", 2, "more"); err != nil {
		t.Error(err)
	}
	b.Ended(app.Program{App: "bot", Run: 2})
	if err := all[1].Wait(); err != nil {
		t.Error(err)
	}
	for run, want := range map[int]string{1: "to 1\n", 2: "to 2\nmore\n", 3: "to 3\n"} {
		if text, err := os.ReadFile(filepath.Join(dir, "out"+strconv.Itoa(run))); string(text) != want {
			t.Errorf("run %d read %q, %v", run, text, err)
		}
	}
	closeKept(t, b, h)
}

// Of a program that is ended without being adopted nothing stays held: of an application that cannot run, and of one
// whose log cannot be opened.
func TestNothingIsHeldOfTheUnadopted(t *testing.T) {
	groups := &cgroup.Tree{} // the groups are gone already
	v := survivor{Survivor: proc.Survivor{Group: "apps/bot/7"}, run: reader.Run}
	for name, end := range map[string]func(b *logs.Book, dir string){
		"untaken": func(b *logs.Book, _ string) {
			_, pipe, err := b.Pipe(reader.App, false, -1)
			if err != nil {
				t.Fatal(err)
			}
			b.HoldProcess(reader.App, reader.Run, pipe)
			pipe.Close()
			s := &survivors{data: &data{logs: b}, groups: groups, log: slog.New(slog.DiscardHandler), all: map[app.ID]survivor{reader.App: v}}
			s.endUntaken(0, "ended")
		},
		"without a log": func(b *logs.Book, dir string) {
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, "logs"), 0o700), os.WriteFile(filepath.Join(dir, "logs", string(reader.App)), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			l := &launcher{proc: &proc.Launcher{Tree: groups, Log: slog.New(slog.DiscardHandler)}, logs: b, adopts: func(app.ID) (survivor, bool) { return v, true }}
			if s, err := l.adopt(reader); err == nil {
				t.Errorf("it was adopted: %v", s)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b, h, err := keptBook(dir)
			if err != nil {
				t.Fatal(err)
			}
			in, err := b.Input(reader)
			if err != nil {
				t.Fatal(err)
			}
			in.Close()
			end(b, dir)
			if err := b.Type(reader.App, reader.Run, "x"); err == nil || !strings.Contains(err.Error(), "lost the way") {
				t.Errorf("its input is still there: %v", err)
			}
			closeKept(t, b, h)
		})
	}
}
