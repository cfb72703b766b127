package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/app/build"
	"berth/cgroup"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/systemd"
)

// errUpgrade is the end of a daemon that another binary is to follow. Nothing of
// it is open any more, and its programs run.
var errUpgrade = errors.New("another binary takes over")

// upgrader prepares a daemon to be followed by the next binary.
type upgrader struct {
	settings settings.Settings
	log      *slog.Logger
	db       *db.DB
	hold     func(on bool) // refuses uploads that begin
	handover *handover
	next     *nextBinary     // nil when hangups is
	hangups  <-chan struct{} // ask for an upgrade; nil when nothing does
}

// await returns false when the daemon is to stop, and true when a binary that has
// proved itself is to follow. Until then the daemon serves.
func (u *upgrader) await(ctx context.Context, v *serving) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-v.ended.Done():
			return false
		case <-u.hangups:
		}
		err := u.prepare(ctx, v)
		if err == nil {
			return true
		}
		v.leaving.Store(false)
		u.hold(false)
		u.handover.only(u.settings.Listens()...)
		if ctx.Err() != nil {
			return false
		}
		u.log.Error("not upgraded, serving as before", "binary", u.next.path, "error", err)
		tellManager(u.log, func() error { return systemd.Serving("not upgraded, serving as before: " + err.Error()) })
	}
}

// prepare lets the next binary prove itself and waits for what should not be
// interrupted. Connections are accepted and answered meanwhile.
func (u *upgrader) prepare(ctx context.Context, v *serving) error {
	tellManager(u.log, func() error { return systemd.Reloading("checking the binary that takes over") })
	p, err := u.prove(ctx)
	if err != nil {
		return err
	}
	patience := u.settings.Upgrade.Patience
	u.log.Info("upgrading", "from", build.Version(), "to", p.Version, "patience", patience)
	tellManager(u.log, func() error { return systemd.Reloading("waiting for uploads and deployments under way") })
	u.hold(true)
	v.leaving.Store(true)
	v.settle(ctx, patience)
	for range 3 {
		now, err := u.next.identity()
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if now == p.file && len(u.hangups) == 0 {
			return u.databaseIsThere()
		}
		select { // it is answered by what follows
		case <-u.hangups:
		default:
		}
		if p, err = u.prove(ctx); err != nil { // it, or the settings, may be others now
			return err
		}
	}
	return errors.New("it changes all the time")
}

// prove lets the next binary check itself, and opens what it needs and this
// daemon does not have: it must not fail later.
func (u *upgrader) prove(ctx context.Context) (proof, error) {
	if err := u.databaseIsThere(); err != nil {
		return proof{}, err
	}
	p, err := u.next.prove(ctx)
	if err != nil {
		return proof{}, err
	}
	if p.DataDir != u.settings.DataDir {
		return proof{}, fmt.Errorf("data_dir is %s now, which needs a restart", p.DataDir)
	}
	for _, address := range p.listens() {
		if err := u.handover.open(ctx, address); err != nil {
			return proof{}, err
		}
	}
	return p, nil
}

// databaseIsThere refuses an upgrade while the next binary would not find the database
// that is open: for it the directory is empty, or another one, and it could not serve.
func (u *upgrader) databaseIsThere() error {
	if err := u.db.Moved(); err != nil {
		return fmt.Errorf("cannot hand over the database in %s: %w; put it back, or stop berth and start it where the database is", u.settings.DataDir, err)
	}
	return nil
}

// nextBinary is the binary that takes over on SIGHUP: the file that berth was
// started from, as it is then.
type nextBinary struct {
	path string
	args []string // of serve
	exec func(path string, argv, env []string) error
}

// proofTime bounds a self check.
const proofTime = 30 * time.Second

// identity changes whenever a file is replaced or written to.
type identity struct {
	dev, inode   uint64
	size         int64
	written, set unix.Timespec
}

// newNextBinary finds the path under which this process was started. A package
// upgrade replaces it, and /proc/self/exe is "(deleted)" from then on; a link
// stays one.
func newNextBinary(args []string) (*nextBinary, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find berth's own binary: %w", err)
	}
	n := &nextBinary{path: own, args: args, exec: syscall.Exec}
	named, err := exec.LookPath(os.Args[0])
	if err == nil {
		named, err = filepath.Abs(named)
	}
	if err != nil || named == own {
		return n, nil
	}
	is, err := os.Stat("/proc/self/exe")
	if at, gone := os.Stat(named); err == nil && gone == nil && os.SameFile(is, at) {
		n.path = named
	}
	return n, nil
}

// identity returns that of the file as it is now.
func (n *nextBinary) identity() (identity, error) {
	var st unix.Stat_t
	if err := unix.Stat(n.path, &st); err != nil {
		return identity{}, &fs.PathError{Op: "stat", Path: n.path, Err: err}
	}
	return identity{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}

// prove lets the binary check itself, as a child.
func (n *nextBinary) prove(ctx context.Context) (proof, error) {
	file, err := n.identity()
	if err != nil {
		return proof{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.path, append([]string{"check", "--json"}, n.args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &bound{b: &out}, &bound{b: &problems}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it may be anything
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	problem := strings.TrimPrefix(strings.TrimSpace(problems.String()), "berth: ")
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return proof{}, fmt.Errorf("its self check took longer than %s", proofTime)
	case err != nil && problem != "":
		return proof{}, fmt.Errorf("its self check failed: %s", problem)
	case err != nil:
		return proof{}, fmt.Errorf("its self check failed: %w", err)
	}
	p := proof{file: file}
	if err := json.Unmarshal(out.Bytes(), &p); err != nil || p.Version == "" {
		return proof{}, fmt.Errorf("%s does not answer as berth does", n.path)
	}
	return p, nil
}

// bound is a buffer that forgets what is too much.
type bound struct{ b *bytes.Buffer }

// Write implements io.Writer.
func (w *bound) Write(p []byte) (int, error) {
	const most = 4096
	w.b.Write(p[:min(len(p), most-w.b.Len())])
	return len(p), nil
}

// execute replaces this process by the binary, with its descriptors handed on.
// It returns when that fails, and then everything is as before; or when the
// daemon is to stop, nil: whoever wants that wants its programs to stop, so they
// are taken over here for it.
//
// A signal to stop that comes between this image and the next, within some
// milliseconds, ends the process, and programs run on: os/signal neither keeps it
// nor lets it be blocked (runtime.minitSignalMask).
func (n *nextBinary) execute(sig *stops, h *handover) error {
	defer sig.pause()()
	if sig.first.Err() != nil {
		return nil
	}
	// No other thread may fork while descriptors are left to be inherited.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	handed, err := h.pass()
	if err == nil {
		err = n.exec(n.path, append([]string{os.Args[0], "serve"}, n.args...), append(os.Environ(), handoverEnv+"="+handed))
	}
	return errors.Join(err, h.keep())
}

// Check looks whether this binary could serve with these settings, and
// changes nothing.
func Check(ctx context.Context, s settings.Settings) (proof, error) {
	if err := checkStored(ctx, s.DataDir); err != nil {
		return proof{}, err
	}
	if _, err := cgroup.Detect(); err != nil {
		return proof{}, err
	}
	if _, _, err := readTLS(s, slog.New(slog.DiscardHandler)); err != nil {
		return proof{}, err
	}
	if _, err := readProviders(s); err != nil {
		return proof{}, err
	}
	schema, err := db.SchemaOf(ctx, filepath.Join(s.DataDir, DatabaseName))
	if err != nil {
		return proof{}, err
	}
	return proof{Version: build.Version(), DataDir: s.DataDir, Listen: s.Listen, Sites: s.Listens()[1:], Schema: schema}, nil
}

// checkStored looks at a data directory, which serve would make if it did not exist.
func checkStored(ctx context.Context, dir string) error {
	if err := files.Reachable(dir); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot use the data directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("cannot use the data directory %s: it is not a directory", dir)
	}
	if err := unfinishedProblem(dir); err != nil {
		return err
	}
	if err := db.Usable(ctx, filepath.Join(dir, DatabaseName)); err != nil {
		return cmp.Or(databaseProblem(dir, err), err)
	}
	return LostDatabase(ctx, dir)
}

// LostDatabase refuses a data directory whose database is gone or cannot be used, and
// changes nothing.
func LostDatabase(ctx context.Context, dir string) error {
	anew, err := db.New(ctx, filepath.Join(dir, DatabaseName))
	if err != nil {
		return databaseProblem(dir, err) // nil for a newer one and the like: Open reports those
	}
	if !anew {
		return nil
	}
	return goneProblem(dir)
}

// proof is what a self check says of itself (berth check --json).
type proof struct {
	Version string `json:"version"`
	DataDir string `json:"dataDir"`
	Listen  string `json:"listen"`
	Schema  int    `json:"schema"` // of the database that is there; 0: none
	// Sites are the addresses of the sites' listeners.
	Sites []string `json:"sites,omitempty"`

	Settings []settings.Source `json:"settings,omitempty"` // that are not the default; the command adds them

	file identity // of what was checked
}

// listens are the addresses on which the binary will listen: those that are taken it must
// learn of before it takes over, not after. Port 0 is never taken.
func (p proof) listens() []string {
	all := []string{p.Listen}
	for _, address := range p.Sites {
		if !strings.HasSuffix(address, ":0") {
			all = append(all, address)
		}
	}
	return all
}
