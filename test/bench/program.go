package main

import (
	"archive/zip"
	"bytes"
	"context"
	_ "embed" // the program's source
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed program/probe.c
var source string

// compile builds the program that is measured, static so that each copy of it
// takes as little as a program can.
func compile(ctx context.Context, to string) error {
	cmd := exec.CommandContext(ctx, "gcc", "-O2", "-static", "-s", "-x", "c", "-o", to, "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot compile the program: %w: %s", err, out)
	}
	return nil
}

// install puts the program under a name, which says what it does, into a
// directory.
func (b *bench) install(dir, name string) error {
	return os.Link(b.probe, filepath.Join(dir, name))
}

// bundle is the ZIP of an application that runs the program under a name.
func (b *bench) bundle(name string, restart bool) ([]byte, error) {
	binary, err := os.ReadFile(b.probe)
	if err != nil {
		return nil, err
	}
	return packed([]content{
		{"discloud.config", 0o644, fmt.Appendf(nil, "MAIN=%s\nRAM=32\nAUTORESTART=%t\n", name, restart)},
		{name, 0o755, binary},
	})
}

// content is a file of an application.
type content struct {
	name string
	mode fs.FileMode
	text []byte
}

// packed is the ZIP of files.
func packed(files []content) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(f.mode)
		entry, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// event is what a program stamped.
type event struct {
	at  time.Time
	pid int
}

// parseStamps reads a file of stamps; of several with one word the last
// counts, and a line that is not whole yet does not.
func parseStamps(text string) map[string]event {
	events := map[string]event{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 || !strings.HasSuffix(line, "\n") {
			continue
		}
		ns, err := strconv.ParseInt(words[1], 10, 64)
		pid, err2 := strconv.Atoi(words[2])
		if err == nil && err2 == nil {
			events[words[0]] = event{time.Unix(0, ns), pid}
		}
	}
	return events
}

// stamped waits until the program in a directory has stamped a word after a
// time.
func stamped(ctx context.Context, dir, word string, after time.Time) (event, error) {
	var e event
	err := until(ctx, "a program stamps its "+word, func() (bool, error) {
		text, err := os.ReadFile(filepath.Join(dir, "stamp"))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		e = parseStamps(string(text))[word]
		return e.at.After(after), err
	})
	return e, err
}

// pass opens the gate that a program waits for and returns how long it took
// for what it does then. What was written before is on the disk by then.
func pass(ctx context.Context, dir string) (time.Duration, error) {
	syscall.Sync()
	if err := os.WriteFile(filepath.Join(dir, "gate"), nil, 0o644); err != nil {
		return 0, err
	}
	end, err := stamped(ctx, dir, "end", time.Time{})
	if err != nil {
		return 0, err
	}
	begin, err := stamped(ctx, dir, "begin", time.Time{})
	return end.at.Sub(begin.at), err
}
