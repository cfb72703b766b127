package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is one that runs on this machine.
type Process struct {
	PID, UID int
	Command  string
}

func (p Process) String() string { return fmt.Sprintf("%d (uid %d) %s", p.PID, p.UID, p.Command) }

// Processes are those of the daemon's user ids. Zombies do not count: whoever
// inherited them has not looked yet, and they hold nothing.
func (d *Berth) Processes() []Process {
	list, err := os.ReadDir("/proc")
	if err != nil {
		d.T.Fatal(err)
	}
	var found []Process
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil { // it has ended meanwhile
			continue
		}
		uid, _ := strconv.Atoi(Field(string(status), "Uid:"))
		if uid < d.UID || uid >= d.UID+UIDs || Field(string(status), "State:") == "Z" {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		command := strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " ")
		if strings.Contains(command, ": pause;") || command == "sleep 3661" {
			continue // of the container that holds the namespaces of a pod (test/cluster)
		}
		found = append(found, Process{pid, uid, command})
	}
	return found
}

// Field is the first word after a label in a status file.
func Field(text, label string) string {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == label {
			return words[1]
		}
	}
	return ""
}

// Of are the processes of one application.
func (d *Berth) Of(id string) []Process {
	var found []Process
	uid := d.UIDOf(id)
	for _, p := range d.Processes() {
		if p.UID == uid {
			found = append(found, p)
		}
	}
	return found
}

// PID is the only process of an application. On a cluster it waits for that: berth ends there what one before it left
// by a command of its own.
func (d *Berth) PID(id string) int {
	d.T.Helper()
	list := d.Of(id)
	for until := time.Now().Add(Patience); len(list) > 1 && os.Getenv("BERTH_E2E_ENGINE") != "" && time.Now().Before(until); list = d.Of(id) {
		time.Sleep(Pause)
	}
	if len(list) != 1 {
		d.T.Fatalf("the application runs as %v, want one process", list)
	}
	return list[0].PID
}

// UIDOf is the owner of an application's directory.
func (d *Berth) UIDOf(id string) int {
	info, err := os.Stat(d.Path(id))
	if err != nil {
		return -1
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

// Path is a file of an application.
func (d *Berth) Path(id string, parts ...string) string {
	return filepath.Join(append([]string{d.Data, "apps", id}, parts...)...)
}

// Groups are the daemon's control groups in every hierarchy.
func (d *Berth) Groups() []string { return GroupsNamed(d.Group) }

// GroupsNamed are the control groups of the daemon whose groups have a name.
func GroupsNamed(name string) []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/berth/", "/sys/fs/cgroup/*/berth/"} {
		list, _ := filepath.Glob(pattern + name) // the pattern is well-formed
		found = append(found, list...)
	}
	return found
}

// GroupOfData is the name of the groups of the daemon on a data directory.
func GroupOfData(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:4])
}

// Keeper is the process that keeps the programs' output, 0 if there is none.
func (d *Berth) Keeper() int {
	d.T.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		d.T.Fatal(err)
	}
	for _, path := range list {
		if text, _ := os.ReadFile(path); string(text) == "berth\x00keep-descriptors\x00"+d.Data+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // digits
			return pid
		}
	}
	return 0
}

// Kill ends one process.
func Kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
