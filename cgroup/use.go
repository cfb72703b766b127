package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Use is what a group uses, as it is asked for often: of the same files as
// Memory and CPU, but of no others, and with next to no garbage.
type Use struct {
	Memory int64 // bytes, current less inactive file cache
	Limit  int64 // bytes
	CPU    time.Duration
}

// useFiles are the files of a memory controller that Use reads.
type useFiles struct {
	current, limit string // hold a number
	inactive       string // a word of memory.stat
}

// Use reads what the group uses now. It works until Remove.
func (g *Group) Use() (Use, error) {
	dir, files := g.mem.files()
	used, err := number(filepath.Join(dir, files.current), "")
	inactive, err2 := number(filepath.Join(dir, "memory.stat"), files.inactive)
	limit, err3 := number(filepath.Join(dir, files.limit), "")
	micros, err4 := number(filepath.Join(g.path, "cpu.stat"), "usage_usec")
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return Use{}, fmt.Errorf("cannot read what the group uses: %w", err)
	}
	return Use{Memory: max(used-inactive, 0), Limit: limit, CPU: time.Duration(micros) * time.Microsecond}, nil
}

// buffers are as large as the largest of the files.
var buffers = sync.Pool{New: func() any { return new([8 << 10]byte) }}

// number reads the number behind a word at the beginning of a line, or the only
// one of the file when the word is "". No limit ("max") is -1.
func number(path, word string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	buf := buffers.Get().(*[8 << 10]byte)
	defer buffers.Put(buf)
	n, err := f.Read(buf[:])
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for rest := buf[:n]; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		if word != "" {
			name, value, _ := bytes.Cut(line, []byte{' '})
			if string(name) != word {
				continue
			}
			line = value
		}
		if string(line) == "max" {
			return -1, nil
		}
		return strconv.ParseInt(string(line), 10, 64)
	}
	return 0, fmt.Errorf("%s has no %q", filepath.Base(path), word)
}

func (m memoryV2) files() (string, useFiles) {
	return m.dir, useFiles{"memory.current", "memory.max", "inactive_file"}
}

func (m *memoryV1) files() (string, useFiles) {
	return m.dir, useFiles{"memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"}
}
