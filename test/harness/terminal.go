package harness

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Terminal is a person at a terminal, for a command that asks.
type Terminal struct {
	Out   Output // what the command printed, as the terminal got it
	t     testing.TB
	side  *os.File
	wide  int // columns
	read  int // how much of Out the person has read
	ended chan error
}

// OpenTerminal starts cmd at a terminal of some columns.
func OpenTerminal(t testing.TB, cmd *exec.Cmd, columns uint16) *Terminal {
	t.Helper()
	side, other := OpenPTY(t, columns, 24)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = other, other, other
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = other.Close() // the command has it
	p := &Terminal{t: t, side: side, wide: int(columns), ended: make(chan error, 1)}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := side.Read(b)
			_, _ = p.Out.Write(b[:n])
			if err != nil { // EIO, when nobody has the other side any more
				p.ended <- cmd.Wait()
				return
			}
		}
	}()
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
		}
		_ = side.Close()
	})
	return p
}

// Answer waits until the command has printed a question, and types a line.
func (p *Terminal) Answer(question, line string) {
	p.t.Helper()
	p.Wait(question)
	p.Type(line)
}

// Wait waits until the command has printed a question since the last one.
func (p *Terminal) Wait(question string) {
	p.t.Helper()
	Eventually(p.t, "the terminal shows "+question, func() bool {
		text := p.Out.String()
		// Lines break where the terminal is narrow.
		i := strings.Index(strings.Join(strings.Fields(text[p.read:]), " "), question)
		if i >= 0 {
			p.read = len(text)
		}
		return i >= 0
	})
}

// Screen is what stands on the terminal, and what went up over its edge: the lines, without
// colours and without the spaces at their ends.
func (p *Terminal) Screen() string {
	lines, x, y := [][]rune{nil}, 0, 0
	text := []rune(p.Out.String())
	for i := 0; i < len(text); i++ {
		switch r := text[i]; r {
		case '\r':
			x = 0
		case '\n':
			y++
		case '\x1b':
			if i+1 >= len(text) || text[i+1] != '[' {
				p.t.Fatalf("the terminal got %q", string(text[i:]))
			}
			n := 0
			for i += 2; i < len(text) && (text[i] >= '0' && text[i] <= '9' || text[i] == ';'); i++ {
				n = 10*n + int(text[i]-'0')
			}
			if i == len(text) { // the rest is on its way
				break
			}
			switch text[i] {
			case 'm':
			case 'A':
				y = max(y-max(n, 1), 0)
			case 'K':
				lines[y] = lines[y][:min(x, len(lines[y]))]
			case 'J':
				lines = lines[:y+1]
				lines[y] = lines[y][:min(x, len(lines[y]))]
			default:
				p.t.Fatalf("the terminal got %q", string(text[i]))
			}
		default:
			if x == p.wide {
				x, y = 0, y+1
			}
			for len(lines) <= y {
				lines = append(lines, nil)
			}
			for len(lines[y]) <= x {
				lines[y] = append(lines[y], ' ')
			}
			lines[y][x] = r
			x++
		}
		for len(lines) <= y {
			lines = append(lines, nil)
		}
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Press types keys without the end of a line.
func (p *Terminal) Press(keys string) {
	p.t.Helper()
	if _, err := p.side.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// Type types a line.
func (p *Terminal) Type(line string) {
	p.t.Helper()
	p.Press(line + "\n")
}

// End waits for the end of the command and returns its exit code.
func (p *Terminal) End() int {
	p.t.Helper()
	var err error
	Eventually(p.t, "the command ends", func() bool {
		select {
		case err = <-p.ended:
			return true
		default:
			return false
		}
	})
	if failed, is := err.(*exec.ExitError); is { //nolint:errorlint // Wait returns no other
		return failed.ExitCode()
	}
	return 0
}
