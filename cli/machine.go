package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/cli/importer"
)

// machine is this one, as an importer reads it. It is an importer.Machine.
type machine struct {
	// owner is the user that the description belongs to, when root reads that of somebody
	// else: what it names is read only if it is that user's too. -1 for everything.
	owner int
	home  string // of that user, or of the caller
}

// newMachine is the machine for a description that belongs to a user.
func newMachine(of fs.FileInfo) machine {
	m := machine{owner: -1}
	m.home, _ = os.UserHomeDir() // "" without one
	uid, known := ownerOf(of)
	if !known || uid == os.Geteuid() {
		return m
	}
	if os.Geteuid() == 0 {
		m.owner = uid
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		m.home = u.HomeDir
	}
	return m
}

var errOthers = errors.New("it belongs to another user than the description that names it")

// may reports whether the description may name a file.
func (m machine) may(info fs.FileInfo) error {
	if uid, known := ownerOf(info); m.owner >= 0 && known && uid != m.owner {
		return errOthers
	}
	return nil
}

// ReadFile implements importer.Machine.
func (m machine) ReadFile(path string, limit int64) ([]byte, error) {
	text, info, err := readRegular(path, limit)
	if err == nil {
		err = m.may(info)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// readRegular reads a regular file of at most limit bytes.
func readRegular(path string, limit int64) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("it is no file")
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it is larger than %d KB", limit>>10)
	}
	return text, info, err
}

// IsFile implements importer.Machine.
func (m machine) IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// IsDir implements importer.Machine.
func (m machine) IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Home implements importer.Machine.
func (m machine) Home(name string) string {
	if name == "" {
		return m.home
	}
	u, err := user.Lookup(name)
	if err != nil {
		return ""
	}
	return u.HomeDir
}

// openRoot opens the directory of a program.
func (m machine) openRoot(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, reason(err)
	}
	info, err := root.Stat(".")
	if err == nil {
		err = m.may(info)
	}
	if err != nil {
		_ = root.Close()
		return nil, reason(err)
	}
	return root, nil
}

// running is whether the program of a source runs at this moment.
type running struct {
	known, yes bool
	memory     int64 // bytes that it uses; 0 if that is not known
}

// running looks for a program that PM2 or systemd runs. It asks PM2 for nothing, for each of
// PM2's commands starts PM2.
func (m machine) running(ctx context.Context, c importer.Candidate) running {
	switch {
	case c.Unit != "" && c.Refusal == "":
		return unitRunning(ctx, c)
	case len(c.PIDFiles) > 0:
		return m.processes(c.PIDFiles)
	}
	return running{}
}

// systemctlTime bounds a question to systemd.
const systemctlTime = 10 * time.Second

func unitRunning(ctx context.Context, c importer.Candidate) running {
	args := []string{"show", "--property=LoadState,ActiveState,MemoryCurrent", "--", c.Unit}
	if c.User {
		if os.Geteuid() == 0 { // whose manager is another one
			return running{}
		}
		args = append([]string{"--user"}, args...)
	}
	ctx, cancel := context.WithTimeout(ctx, systemctlTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", args...).Output()
	if err != nil {
		return running{}
	}
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		said[key] = value
	}
	memory, _ := strconv.ParseInt(said["MemoryCurrent"], 10, 64) // 0 for "[not set]"
	active := slices.Contains([]string{"active", "activating", "deactivating", "reloading"}, said["ActiveState"])
	return running{known: said["ActiveState"] != "", yes: active, memory: memory}
}

// processes finds those of PM2's files, with what they have started.
func (m machine) processes(files []string) running {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return running{} // another system
	}
	now := running{known: true}
	parents := parentsOf()
	for _, file := range files {
		text, err := m.ReadFile(file, 32)
		pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || bad != nil || pid <= 1 {
			continue // it was stopped
		}
		info, err := os.Stat("/proc/" + strconv.Itoa(pid))
		if err != nil || m.may(info) != nil {
			continue // it has ended, and its number may be another's
		}
		now.yes = true
		for child := range parents {
			for at, n := child, 0; at > 1 && n < 64; at, n = parents[at], n+1 {
				if at == pid {
					now.memory += resident(child)
					break
				}
			}
		}
	}
	return now
}

// parentsOf is the parent of each process.
func parentsOf() map[int]int {
	all := map[int]int{}
	list, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	for _, file := range list {
		text, err := os.ReadFile(file)
		_, rest, is := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" "))
		fields := strings.Fields(string(rest))
		pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || !is || len(fields) < 2 || bad != nil {
			continue // it has ended
		}
		all[pid], _ = strconv.Atoi(fields[1])
	}
	return all
}

// resident is the memory of a process in bytes; 0 when it has ended.
func resident(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
