package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CopyDatabase copies the SQLite database name in dir, of a program that runs as uid and gid,
// into the file to, which is empty: all of it as it is at one moment (db.CopyForeign). dir is a
// directory of that program, which may change it meanwhile in any way, and to is one of
// berth's own that has a name; the group of to becomes gid.
//
// What reads the database is a child process, this binary with DatabaseWord: SQLite is in C,
// and the file is a stranger's. The child is of uid and gid and no other group, has no
// capability, no new privileges, no network and no other process, and its root directory holds
// nothing but dir, read-only, and the copy. So no link leads anywhere else, nothing of the
// program's can be changed, and what the child reads is what the program itself can read in
// dir. Its memory, its time and the size of the copy are bounded, by the size of the database.
//
// The error is plain. It blocks until the child has ended, and kills it when ctx ends.
func CopyDatabase(ctx context.Context, dir *os.File, name string, uid, gid int, to *os.File) error {
	if err := copyDatabase(ctx, dir, name, uid, gid, to); err != nil {
		return fmt.Errorf(cannotCopy+"%w", err)
	}
	return nil
}

// cannotCopy is what this error and that of db.CopyForeign begin with.
const cannotCopy = "cannot copy the database: "

func copyDatabase(ctx context.Context, dir *os.File, name string, uid, gid int, to *os.File) (err error) {
	if uid <= 0 || gid <= 0 {
		return fmt.Errorf("a program does not run as user %d and group %d", uid, gid)
	}
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%q is not the name of a file", name)
	}
	at := int(dir.Fd())
	size, err := sizeOfAll(at, name)
	if err != nil {
		return err
	}
	var disk unix.Statfs_t
	if err := unix.Fstatfs(int(to.Fd()), &disk); err != nil {
		return err
	}
	if free := int64(disk.Bavail) * disk.Bsize; size > free/2 {
		return fmt.Errorf("the disk has no room for a copy of %d MB", size>>20)
	}
	out, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(to.Fd())))
	if err != nil {
		return err
	}
	// The child writes to it by its group: its owner's quota is not the program's affair.
	if err := errors.Join(to.Chown(-1, gid), to.Chmod(0o660)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Chmod(0o600)) }()
	within := leastTime + time.Duration(size/leastRate)*time.Second
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	job := copyJob{name: name, out: out, uid: uid, gid: gid, size: size, seconds: int64(within / time.Second)}
	said, err := job.run(ctx, at, to)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("it took longer than %d seconds", job.seconds)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && said != "":
		return errors.New(strings.TrimPrefix(said, cannotCopy))
	}
	return err
}

const (
	leastTime = 30 * time.Second // of which SQLite waits 10 for a busy database
	leastRate = 16 << 20         // bytes in a second
)

// sizeOfAll returns how large a copy of a database can be at most: as the database and its log.
func sizeOfAll(dir int, name string) (size int64, err error) {
	for _, ending := range []string{"", "-wal", "-shm", "-journal"} {
		var st unix.Stat_t
		err := unix.Fstatat(dir, name+ending, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case errors.Is(err, unix.ENOENT) && ending != "":
			continue
		case err != nil:
			return 0, err
		case st.Mode&unix.S_IFMT != unix.S_IFREG: // a pipe would keep the child waiting
			return 0, fmt.Errorf("%q is not a regular file", name+ending)
		case ending != "" && ending != "-wal":
			continue
		case st.Blocks*512 < st.Size/2-copySlack: // a file system that compresses says less, too
			return 0, fmt.Errorf("%q has holes, which a copy would not have", name+ending)
		}
		size += st.Size
	}
	return size, nil
}

// copyJob is the work of the child, as its arguments.
type copyJob struct {
	name, out string
	uid, gid  int
	size      int64 // bytes of the database and its log
	seconds   int64 // of processor time
}

func (j copyJob) args() []string {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return []string{DatabaseWord, j.name, j.out, n(int64(j.uid)), n(int64(j.gid)), n(j.size), n(j.seconds)}
}

// parseJob is the inverse of args.
func parseJob(args []string) (j copyJob, err error) {
	if len(args) != 7 {
		return j, fmt.Errorf("it takes 6 arguments, not %d", len(args)-1)
	}
	j.name, j.out = args[1], args[2]
	var ids [2]int64
	for i, to := range []*int64{&ids[0], &ids[1], &j.size, &j.seconds} {
		if *to, err = strconv.ParseInt(args[i+3], 10, 64); err != nil {
			return j, err
		}
	}
	j.uid, j.gid = int(ids[0]), int(ids[1])
	return j, nil
}

// run runs the child in the directory that is open as at, and returns what it said.
func (j copyJob) run(ctx context.Context, at int, to *os.File) (said string, err error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe", j.args()...)
	// One processor, and so nothing that the runtime has to ask the control group for.
	cmd.Env = []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}
	cmd.ExtraFiles = []*os.File{to} // copyFD
	cmd.Stderr = &firstBytes{to: &stderr, left: 300}
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWPID,
	}
	done := make(chan error)
	go func() {
		// The thread is the child's model, and then of no use to anybody: it ends with this
		// goroutine, which never unlocks it. A child in a mount namespace of its own can mount
		// what its working directory is, but nothing that it was given as a descriptor: that
		// is in the namespace of whoever opened it (check_mnt in fs/namespace.c).
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS) // the working directory is this thread's alone
		if err == nil {
			err = errors.Join(unix.Fchdir(at), unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		}
		if err == nil {
			err = cmd.Run() // Pdeathsig looks at this thread
		}
		done <- errors.Join(err, unix.Chdir("/"))
	}()
	err = <-done
	return strings.Map(printable, strings.TrimSpace(stderr.String())), err
}

func printable(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return '?'
}

// firstBytes passes on the first bytes of what is written.
type firstBytes struct {
	to   *bytes.Buffer
	left int
}

// Write implements io.Writer.
func (w *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	w.to.Write(p[:n])
	return len(p), nil
}
