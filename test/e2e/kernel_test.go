package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is one that runs on this machine.
type process struct {
	pid, uid int
	command  string
}

func (p process) String() string { return fmt.Sprintf("%d (uid %d) %s", p.pid, p.uid, p.command) }

// processes are those of the daemon's user ids. Zombies do not count: whoever
// inherited them has not looked yet, and they hold nothing.
func (d *daemon) processes() []process {
	list, err := os.ReadDir("/proc")
	if err != nil {
		d.t.Fatal(err)
	}
	var found []process
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil { // it has ended meanwhile
			continue
		}
		uid, _ := strconv.Atoi(field(string(status), "Uid:"))
		if uid < d.uid || uid >= d.uid+uids || field(string(status), "State:") == "Z" {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		found = append(found, process{pid, uid, strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " ")})
	}
	return found
}

// field is the first word after a label in a status file.
func field(text, label string) string {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == label {
			return words[1]
		}
	}
	return ""
}

// of are the processes of one application.
func (d *daemon) of(id string) []process {
	var found []process
	uid := d.uidOf(id)
	for _, p := range d.processes() {
		if p.uid == uid {
			found = append(found, p)
		}
	}
	return found
}

// pid is the only process of an application.
func (d *daemon) pid(id string) int {
	d.t.Helper()
	list := d.of(id)
	if len(list) != 1 {
		d.t.Fatalf("the application runs as %v, want one process", list)
	}
	return list[0].pid
}

// uidOf is the owner of an application's directory.
func (d *daemon) uidOf(id string) int {
	info, err := os.Stat(d.path(id))
	if err != nil {
		return -1
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

// path is a file of an application.
func (d *daemon) path(id string, parts ...string) string {
	return filepath.Join(append([]string{d.data, "apps", id}, parts...)...)
}

// groups are the daemon's control groups in every hierarchy.
func (d *daemon) groups() []string { return groupsNamed(d.Group) }

func groupsNamed(name string) []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/berth/", "/sys/fs/cgroup/*/berth/"} {
		list, _ := filepath.Glob(pattern + name) // the pattern is well-formed
		found = append(found, list...)
	}
	return found
}

// groupOfData is the name of the groups of the daemon on a data directory.
func groupOfData(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:4])
}
