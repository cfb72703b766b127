package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// asPod is the argument with which this test binary is a program in a pod: it takes the
// user id of an application and does one thing with files. UID VERB PATH ARGUMENT... follow.
const asPod = "as-pod"

// podVerbs are what a program in a pod can do. It tells what it has done in lines, and some
// do it until their standard input ends.
var podVerbs = map[string]func(path string, args []string) error{
	"look":  podLooks,
	"watch": podWatches,
	"write": podWrites,
	"lines": podCounts,
	"many":  podWritesMany,
	"lock":  podLocks,
	"fill":  podFills,
	"forge": podForges,
}

// pod is the process of a program in a pod. It returns its exit status.
func pod(args []string) int {
	uid, err := strconv.Atoi(args[0])
	if err == nil {
		err = errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid))
	}
	if err == nil {
		err = podVerbs[args[1]](args[2], args[3:])
	}
	if err != nil {
		fmt.Println("failed:", reason(err))
		return 1
	}
	return 0
}

// reason is the name of an errno, or else the text of an error.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// untilTold returns when the standard input ends.
func untilTold() { _, _ = io.Copy(io.Discard, os.Stdin) }

// told is closed when the standard input ends.
func told() <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		untilTold()
	}()
	return c
}

// view is what a process sees of a tree: the content of a file, what else it is, or why it
// cannot be read.
type view struct {
	Named  map[string]string // by names that it knows; asked for first, for a listing refreshes what is remembered
	Listed map[string]string // by listing
}

func viewOf(top string, names []string) view {
	v := view{map[string]string{}, map[string]string{}}
	for _, name := range names {
		v.Named[name] = seen(filepath.Join(top, name))
	}
	_ = filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error { // errors are part of the view
		name, _ := filepath.Rel(top, path)
		v.Listed[name] = seen(path)
		if err != nil {
			v.Listed[name] += ", and listing it: " + reason(err)
		}
		return nil
	})
	return v
}

func seen(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return reason(err)
	}
	if !info.Mode().IsRegular() {
		return info.Mode().String()
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return reason(err)
	}
	return fmt.Sprintf("%v, %d bytes: %s", info.Mode(), info.Size(), content)
}

func podLooks(top string, names []string) error {
	return json.NewEncoder(os.Stdout).Encode(viewOf(top, names))
}

// podWatches looks once, and then asks for the names over and over: the machine remembers as
// much as it can, and is not reminded by a listing that something else is there.
func podWatches(top string, names []string) error {
	viewOf(top, names)
	fmt.Println("has looked")
	for end := told(); ; {
		for _, name := range names {
			seen(filepath.Join(top, name))
		}
		select {
		case <-end:
			return nil
		default:
		}
	}
}

// podWrites writes a file, syncs it, and keeps it open.
func podWrites(path string, args []string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(args[0]); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	fmt.Println("written")
	untilTold()
	return nil
}

// podCounts writes numbered lines, syncs each, and tells at last how many these are and how
// long one took at most.
func podCounts(path string, _ []string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	longest := time.Duration(0)
	end := told()
	for n := 0; ; n++ {
		select {
		case <-end:
			fmt.Println(n, longest.Milliseconds())
			return nil
		default:
		}
		began := time.Now()
		if _, err := fmt.Fprintln(f, n); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		longest = max(longest, time.Since(began))
		if n == 0 {
			fmt.Println("has written")
		}
	}
}

// perDirectory is how many files podWritesMany puts into a directory.
const perDirectory = 100

func manyName(n int) string { return fmt.Sprintf("%d/%d", n/perDirectory, n) }

// podWritesMany writes so many small files, and tells of each directory that is full.
func podWritesMany(top string, args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for n := range count {
		name := filepath.Join(top, manyName(n))
		if n%perDirectory == 0 {
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				return err
			}
		}
		if err := os.WriteFile(name, []byte(fmt.Sprintln("file", n)), 0o600); err != nil {
			return err
		}
		if (n+1)%perDirectory == 0 {
			fmt.Println(n + 1)
		}
	}
	return nil
}

// podLocks locks a file by fcntl(2) and another one by flock(2), and keeps the locks.
func podLocks(path string, _ []string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return err
	}
	other, err := os.OpenFile(path+".flock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	fmt.Println("locked")
	untilTold()
	return nil
}

// podFills writes so many MB, and syncs each.
func podFills(path string, args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for range count {
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}
