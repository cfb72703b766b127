package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Tools are the commands of the host: where programs find them, and their
// versions. It is safe for concurrent use.
type Tools struct {
	dirs  []string // the PATH of programs
	shown []string // where they see commands; nil when it is everywhere
	homes []string // patterns of directories where people keep runtimes of their own

	patience time.Duration // with a command that is asked for its version

	querying sync.Mutex // one command is asked at a time

	mu       sync.Mutex
	versions map[file]string

	packages packages

	host *Tools // of tools before it: what it knows of versions and packages is shared; nil for the host's own
}

// file is one state of one file.
type file struct {
	path          string
	dev, ino      uint64
	size, changed int64
}

// places are where programs find commands: never the daemon's own PATH, which
// may lead into somebody's home. What an owner installs by hand goes before the
// distribution's.
var places = []string{
	"/usr/local/sbin", "/usr/local/bin", "/usr/local/go/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/opt/*/bin",
}

// homePlaces are where installers without root put runtimes, below a home.
var homePlaces = []string{
	".cargo/bin", ".bun/bin", ".deno/bin", ".local/bin", ".local/share/pnpm", ".nvm/versions/node/*/bin", ".volta/bin",
	".pyenv/shims", ".rbenv/shims", ".asdf/shims", ".local/share/mise/shims", ".sdkman/candidates/java/current/bin",
	"go/bin", "go/go/bin", "sdk/go*/bin", "bin",
}

// FindTools looks once for the directories that hold commands.
func FindTools() *Tools {
	t := &Tools{dirs: usable(places), patience: versionTimeout, versions: make(map[file]string), packages: packages{path: dpkgStatus}}
	for _, home := range []string{"/root", "/home/*"} {
		for _, place := range homePlaces {
			t.homes = append(t.homes, home+"/"+place)
		}
	}
	return t
}

// Only leaves out what programs with a root directory of their own do not see:
// they have the system's directories and paths. It MUST come before the first
// use.
func (t *Tools) Only(paths []string) {
	t.shown = []string{"/usr", "/bin", "/sbin"}
	for _, path := range paths {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			t.shown = append(t.shown, real)
		}
	}
	t.dirs = slices.DeleteFunc(t.dirs, func(dir string) bool {
		real, err := filepath.EvalSymlinks(dir)
		return err != nil || !t.sees(real)
	})
}

// Before returns the tools of dir with those of t behind them. dir is where programs see
// it, without links, and MUST be writable by root alone.
func (t *Tools) Before(dir string) *Tools {
	more := &Tools{dirs: append([]string{dir}, t.dirs...), homes: t.homes, patience: t.patience, host: cmp.Or(t.host, t)}
	if t.shown != nil {
		more.shown = append([]string{filepath.Dir(dir)}, t.shown...)
	}
	return more
}

// sees reports whether programs see a path without links.
func (t *Tools) sees(real string) bool {
	return t.shown == nil || slices.ContainsFunc(t.shown, func(dir string) bool {
		return real == dir || strings.HasPrefix(real, dir+"/")
	})
}

// usable returns the directories there are that every user may enter, but not
// write to or put another one in the place of: what one program left there
// would be another's command.
func usable(patterns []string) (dirs []string) {
	for _, pattern := range patterns {
		for _, dir := range glob(pattern) {
			real, err := filepath.EvalSymlinks(dir)
			if err == nil && enterable(dir) && enterable(real) && mode(real)&0o002 == 0 && !strings.Contains(dir, ":") {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// glob returns what matches a pattern that is known to be well formed.
func glob(pattern string) []string {
	found, _ := filepath.Glob(pattern)
	return found
}

// Path is the PATH of programs and of what prepares them.
func (t *Tools) Path() string { return strings.Join(t.dirs, ":") }

// Find returns the path of a command that every user may run, each directory on
// the way included. When there is none, hidden is where one lies that programs
// may not use: in somebody's home, mostly.
func (t *Tools) Find(name string) (path, hidden string) {
	for _, dir := range t.dirs {
		path := filepath.Join(dir, name)
		real, err := filepath.EvalSymlinks(path)
		switch {
		case err == nil && open(real) && t.sees(real):
			return path, ""
		case err == nil && hidden == "" && runnable(real):
			hidden = path
		}
	}
	for _, pattern := range t.homes {
		if hidden != "" {
			break
		}
		for _, path := range glob(pattern + "/" + name) {
			if runnable(path) {
				hidden = path
			}
		}
	}
	return "", hidden
}

// Version returns what a command says of its version, "20.20.2" for instance,
// and "" when it says nothing. The command runs as nobody, for a few seconds at
// most, and again only when its file has changed.
func (t *Tools) Version(name string) string {
	path, _ := t.Find(name)
	if path == "" {
		return ""
	}
	id, err := identify(path)
	if err != nil {
		return ""
	}
	h := cmp.Or(t.host, t)
	if version, known := h.known(id); known {
		return version
	}
	h.querying.Lock()
	defer h.querying.Unlock()
	if version, known := h.known(id); known { // somebody else did
		return version
	}
	version, err := t.queryVersion(path, name)
	if err != nil { // it may have been the machine's fault
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[id] = version
	return version
}

// known returns what a command has said before.
func (t *Tools) known(id file) (version string, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version, known = t.versions[id]
	return version, known
}

// identify tells one state of the file behind path from the next.
func identify(path string) (file, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return file{}, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return file{}, err
	}
	id := file{path: real, size: info.Size(), changed: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.dev, id.ino = uint64(st.Dev), st.Ino //nolint:unconvert // another type on other processors
	}
	return id, nil
}

const (
	versionTimeout = 10 * time.Second // a JVM on a busy machine
	versionOutput  = 64 << 10
	nobody         = 65534
)

// versionArgs are the arguments of those that do not know --version.
var versionArgs = map[string]string{"go": "version", "java": "-version"}

// number finds a version in what a command says.
var number = regexp.MustCompile(`\d+(?:\.\d+)+|\d+`)

// queryVersion runs a command to learn its version.
func (t *Tools) queryVersion(path, name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.patience)
	defer cancel()
	arg := versionArgs[name]
	if arg == "" {
		arg = "--version"
	}
	cmd := exec.CommandContext(ctx, path, arg)
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + t.Path(), "HOME=/nonexistent", "LANG=C.UTF-8",
		"GOTOOLCHAIN=local", "COREPACK_ENABLE_NETWORK=0", // the one that is installed, and nothing of the network
	}
	var out head
	cmd.Stdout = &out
	if name == "java" {
		cmd.Stdout, cmd.Stderr = nil, &out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && (!failed || ctx.Err() != nil) {
		return "", err
	}
	return string(number.Find(out.Bytes())), nil
}

// head keeps the beginning of what is written to it.
type head struct{ bytes.Buffer }

// Write never fails: a command that says too much is not to die of it.
func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), versionOutput-h.Len())])
	return len(p), nil
}

// open reports whether everybody may execute the file, but not change it.
func open(path string) bool {
	return runnable(path) && mode(path)&0o003 == 0o001 && enterable(filepath.Dir(path))
}

// enterable reports whether everybody may go to a directory, and nobody may
// exchange what is on the way.
func enterable(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		m := mode(dir)
		if m&0o001 == 0 || m&0o002 != 0 && m&os.ModeSticky == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}

// runnable reports whether path is a file that somebody may execute.
func runnable(path string) bool {
	m := mode(path)
	return m.IsRegular() && m&0o111 != 0
}

// mode returns a file's mode; that of what is not there is of no regular file
// and permits nothing.
func mode(path string) os.FileMode {
	info, err := os.Stat(path)
	if err != nil {
		return os.ModeIrregular
	}
	return info.Mode()
}
