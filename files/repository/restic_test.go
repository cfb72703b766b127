package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/harness"
)

// How restic's words are read: of 0.14 and newer, of several servers.
func TestProblem(t *testing.T) {
	t.Parallel()
	r := newRestic(Options{Place: "rest:https://me:hunter2@host/x", Key: "the-key", Env: []string{"B2_ACCOUNT_KEY=b2b2b2", "AWS_DEFAULT_REGION=eu"}})
	for _, c := range []struct {
		exit int
		said string
		want error // nil for one that is none of the repository's
	}{
		{1, "Fatal: wrong password or no key found", ErrPassword},
		{12, `{"message_type":"exit_error","code":12,"message":"Fatal: wrong password or no key found"}`, ErrPassword},
		{1, "Fatal: unable to open config file: stat /x/config: no such file or directory\nIs there a repository at the following location?\n/x", ErrNone},
		{1, "Fatal: unable to open config file: Stat: The specified key does not exist.\nIs there a repository at the following location?", ErrNone},
		{1, "Fatal: unable to open config file: Stat: The specified bucket does not exist.", ErrNone},
		{1, "Fatal: unable to open config file: Lstat: file does not exist", ErrNone},
		{1, "Fatal: unable to open config file: <config/> does not exist", ErrNone},
		{10, "Fatal: repository does not exist: unable to open config file: stat /x/config: no such file or directory", ErrNone},
		{1, "Fatal: unable to open config file: Stat: The AWS Access Key Id you provided does not exist in our records.", nil},
		{1, "Fatal: unable to open config file: Stat: Access Denied.\nIs there a repository at the following location?", nil},
		{1, "Fatal: unable to open config file: Head \"https://host/\": dial tcp: lookup host: no such host", nil},
		{1, "unable to create lock in backend: repository is already locked exclusively by PID 7 on h by root (UID 0, GID 0)\nthe `unlock` command", ErrLocked},
		{11, "Fatal: unable to create lock in backend: repository is already locked by PID 7 on h", ErrLocked},
		{1, "Fatal: unable to save snapshot: write /x/data/ab: no space left on device", ErrFull},
		{1, "Fatal: unable to save snapshot: client.PutObject: No space left on device.", ErrFull},
		{1, "Fatal: unable to save snapshot: Write: sftp: \"Failure\" (SSH_FX_FAILURE)", ErrFull},
		{1, "Fatal: unable to save snapshot: googleapi: Error 403: quotaExceeded", ErrFull},
		{1, "server response unexpected: 507 Insufficient Storage (507)", ErrFull},
		{1, "Fatal: unable to open config file: Stat: The difference between the request time and the current time is too large.", ErrClock},
		{1, "Fatal: unable to save snapshot: client.PutObject: The difference between the request time and the server's time is too large.", ErrClock},
		{1, "error: load <index/0a>: invalid data returned\nFatal: LoadIndex returned errors", ErrDamaged},
		{1, "Fatal: ciphertext verification failed", ErrDamaged},
		{1, "  tree 0a: file \"shop\" blob 0b not found in index\nFatal: repository contains errors", ErrDamaged},
		{1, "could not load snapshot 0a: Get \"http://host/\": dial tcp: connection refused\nFatal: gave up", nil},
		{1, "pack 0a: connection reset by peer\nFatal: repository contains errors", nil},
		{1, "Fatal: something new", nil},
		{1, "", nil},
	} {
		err := r.problem(exitOf(t, c.exit), c.said)
		if c.want != nil && !errors.Is(err, c.want) || c.want == nil && isSaid(err) {
			t.Errorf("%q is read as: %v", c.said, err)
		}
		if strings.ContainsAny(err.Error(), "\n\"{") && strings.Contains(c.said, "message_type") {
			t.Errorf("the frame is shown: %v", err)
		}
	}
	if err := r.problem(exitOf(t, 1), "Fatal: cannot reach https://me:hunter2@host/x with b2b2b2 and the-key in eu\x1b[2J"); err.Error() !=
		"restic says: cannot reach https://me:***@host/x with *** and *** in eu [2J" {
		t.Errorf("%q", err)
	}
	// What newer versions say until they are ended.
	for why, want := range map[string]error{
		"Stat: The specified bucket does not exist.":                                 ErrNone,
		"Stat: The AWS Access Key Id you provided does not exist in our":             nil,
		"dial tcp 127.0.0.1:9: connect: connection refused":                          nil,
		"The difference between the request time and the current time is too large.": ErrClock,
	} {
		said := &tail{}
		fmt.Fprintf(said, "Stat(<config/>) returned error, retrying after 1.2s: %s\n\x1b[2Ksignal interrupt received, cleaning up\n"+
			"Fatal: unable to open config file: context canceled\nIs there a repository at the following location?\n/x\n", why)
		err := r.unfinished(context.DeadlineExceeded, said)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), why) || want != nil && !errors.Is(err, want) || want == nil && isSaid(err) {
			t.Errorf("%q is read as: %v", why, err)
		}
		err = r.unfinished(errUnopened, said)
		if !strings.HasSuffix(err.Error(), "restic says: "+why) || want != nil && !errors.Is(err, want) || want == nil && isSaid(err) {
			t.Errorf("%q, twice, is read as: %v", why, err)
		}
	}
	// Restic is ended at its second try, and once.
	ended := 0
	tries := &tail{until: unopened, found: func() { ended++ }}
	for n, want := range []int{0, 1, 1} {
		fmt.Fprint(tries, "Stat(<config/>) returned error, ")
		fmt.Fprint(tries, "retrying after 1s: no\n")
		if ended != want {
			t.Errorf("after %d tries it was ended %d times", n+1, ended)
		}
	}
	long := &tail{}
	for n := range 10_000 {
		fmt.Fprintf(long, "line %d\n", n)
	}
	if text := long.String(); len(text) > maxSaid || !strings.HasSuffix(text, "line 9999\n") {
		t.Errorf("%d bytes are kept", len(text))
	}
}

func exitOf(t *testing.T, code int) error {
	t.Helper()
	err := exec.Command("sh", "-c", "exit "+strconv.Itoa(code)).Run()
	if err == nil {
		t.Fatal("no error")
	}
	return err
}

// childOf returns the restic of this process that works at a place.
func childOf(t *testing.T, place string) (pid int) {
	t.Helper()
	harness.Eventually(t, "restic works at "+place, func() bool {
		paths, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range paths {
			env, _ := os.ReadFile(path)
			stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
			if strings.Contains(string(env), "RESTIC_REPOSITORY="+place+"\x00") && strings.Contains(string(stat), "(restic)") {
				pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
			}
		}
		return pid != 0
	})
	return pid
}

// What other users of the host may see of restic, what it inherits, and how it takes its turn.
func TestProcess(t *testing.T) {
	o := engines["restic"](t)
	o.Nice, o.Env = true, []string{"B2_ACCOUNT_KEY=b2b2b2"}
	t.Setenv("SECRET_OF_BERTH", "1")
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	must(t, err)
	r := open(t, o, true)
	_, err = r.Save(t.Context(), "host", nil, func(w io.Writer) error {
		if _, err := w.Write(noise(1, 1<<20)); err != nil {
			return err
		}
		pid := childOf(t, o.Place)
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		must(t, err)
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		must(t, err)
		if strings.Contains(string(args)+string(env), key) || strings.Contains(string(args), o.Place) || strings.Contains(string(env), "SECRET_OF_BERTH") {
			t.Errorf("%q, %q", args, env)
		}
		if !strings.Contains(string(env), "B2_ACCOUNT_KEY=b2b2b2\x00") {
			t.Errorf("%q", env)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(t, err)
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if nice, session := fields[16], fields[3]; nice != "19" || session != strconv.Itoa(pid) {
			t.Errorf("nice %s, session %s of %d", nice, session, pid)
		}
		class, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(pid), 0)
		if errno != 0 || class>>13 != 3 {
			t.Errorf("class %d of input and output, %v", class>>13, errno)
		}
		return nil
	})
	must(t, err)
	if after, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || after != before {
		t.Errorf("this process had the priority %d and has %d, %v", before, after, err)
	}
}

// A stream that ends because restic dies is no stream, however much of it came.
func TestLoadCutShort(t *testing.T) {
	t.Parallel()
	o := engines["restic"](t)
	r := open(t, o, true)
	s := save(t, r, "host", noise(1, 20<<20))
	n := 0
	err := r.Load(t.Context(), s, func(from io.Reader) error {
		k, err := io.ReadFull(from, make([]byte, 1<<20))
		must(t, err)
		must(t, unix.Kill(childOf(t, o.Place), syscall.SIGKILL))
		rest, err := io.Copy(io.Discard, from)
		n = k + int(rest)
		return err
	})
	if err == nil || n == 20<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	// And so is a Save: what the kernel lets restic see is the end of a pipe.
	_, err = r.Save(t.Context(), "host", nil, func(w io.Writer) error {
		_, err := w.Write(noise(2, 1<<20))
		must(t, err)
		must(t, unix.Kill(childOf(t, o.Place), syscall.SIGKILL))
		return endless(t.Context(), 0, nil)(w)
	})
	if err == nil {
		t.Error("Save succeeds without restic")
	}
	if all := list(t, r); len(all) != 1 {
		t.Errorf("%+v", all)
	}
}

// Older berths gave the file of a snapshot a path with directories, which is still found.
func TestLoadOfAnOlderBerth(t *testing.T) {
	t.Parallel()
	o := engines["restic"](t)
	r := open(t, o, true)
	s := Snapshot{ID: newID(), Name: "apps/shop"}
	old := exec.Command(o.Restic, "backup", "--stdin", "--stdin-filename", s.Name, "--tag", strings.Join(tagsOf(s), ","), "-q", "--no-cache")
	old.Env = append(os.Environ(), "RESTIC_REPOSITORY="+o.Place, "RESTIC_PASSWORD="+key)
	old.Stdin = strings.NewReader("old")
	if said, err := old.CombinedOutput(); strings.Contains(string(said), "unable to save snapshot: open /apps") {
		t.Skip("restic 0.18.0 cannot make what an older one made")
	} else if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	s = list(t, r)[0]
	commit(t, r, oldRun, save(t, r, "host", []byte("head")), s)
	content(t, r, oldRun, map[string][]byte{"apps/shop": []byte("old"), "host": []byte("head")})
	must(t, r.Prune(t.Context()))
	content(t, open(t, o, false), oldRun, map[string][]byte{"apps/shop": []byte("old"), "host": []byte("head")})
}

// hold is a restic of somebody else that works in the repository until it is released.
func hold(t *testing.T, o Options) (release func()) {
	t.Helper()
	c := exec.Command(o.Restic, "backup", "--stdin", "--stdin-filename", "x", "-q", "--no-cache")
	c.Env = append(os.Environ(), "RESTIC_REPOSITORY="+o.Place, "RESTIC_PASSWORD="+key)
	stdin, err := c.StdinPipe()
	must(t, err)
	must(t, c.Start())
	harness.Eventually(t, "the repository is locked", func() bool { return len(locksOf(t, o)) > 0 })
	released := false
	release = func() {
		if !released {
			released = true
			stdin.Close()
			_ = c.Wait()
		}
	}
	t.Cleanup(release)
	return release
}

func locksOf(t *testing.T, o Options) []os.DirEntry {
	t.Helper()
	locks, err := os.ReadDir(filepath.Join(o.Place, "locks"))
	must(t, err)
	// A lock that is being written has another name still; if its writer is killed then, it is nobody's.
	return slices.DeleteFunc(locks, func(e os.DirEntry) bool { return strings.Contains(e.Name(), "-tmp-") })
}

// Whoever works in the repository is waited for, and then is said to be there. Whoever is gone is not.
func TestLocked(t *testing.T) {
	t.Parallel()
	o := engines["restic"](t)
	r, is := open(t, o, true).(*restic)
	if !is {
		t.Fatal("no restic")
	}
	head := save(t, r, "host", noise(1, 60_000))
	release := hold(t, o)
	r.pauses = []time.Duration{time.Millisecond, time.Millisecond}
	if _, err := r.Commit(t.Context(), oldRun, head, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("%v", err)
	}
	must(t, r.Open(t.Context(), false))
	if len(locksOf(t, o)) != 1 {
		t.Error("a lock of a process that lives was removed")
	}
	content(t, r, oldRun, nil)
	release()
	commit(t, r, oldRun, head)

	// A lock that keeps everybody off, of a process that was killed: Save finds out when its stream has begun.
	c := exec.Command(o.Restic, "check", "--read-data", "--limit-download=1", "-q", "--no-cache") // it would take a minute
	c.Env = append(os.Environ(), "RESTIC_REPOSITORY="+o.Place, "RESTIC_PASSWORD="+key)
	must(t, c.Start())
	harness.Eventually(t, "the repository is locked", func() bool { return len(locksOf(t, o)) > 0 })
	must(t, c.Process.Kill())
	_ = c.Wait()
	if len(locksOf(t, o)) != 1 {
		t.Fatal("check ended by itself")
	}
	calls := 0
	text := noise(3, 2<<20)
	s, err := r.Save(t.Context(), "apps/shop", nil, func(w io.Writer) error {
		calls++
		return writes(text)(w)
	})
	must(t, err)
	if got := load(t, r, s); !bytes.Equal(got, text) || calls != 1 || len(locksOf(t, o)) != 0 {
		t.Errorf("the same bytes: %t, after %d calls; there are the locks %v", bytes.Equal(got, text), calls, locksOf(t, o))
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	r := newRestic(Options{Place: "/x", Key: key})
	host, err := os.Hostname()
	must(t, err)
	now := time.Now()
	for what, c := range map[string]struct {
		lock lock
		want bool
	}{
		"of nobody":                  {lock{now, host, 1 << 30}, true},
		"of a number that berth has": {lock{now, host, os.Getpid()}, true},
		"of another host":            {lock{now, "another", 1 << 30}, false},
		"of long ago":                {lock{now.Add(-time.Hour), "another", 1}, true},
	} {
		if got := r.stale(c.lock); got != c.want {
			t.Errorf("a lock %s: %v", what, got)
		}
	}
}

func TestNoRestic(t *testing.T) {
	t.Parallel()
	r, err := New(Options{Place: "/mnt/backups", Key: key, Restic: "/nowhere/restic"})
	must(t, err)
	if err := r.Open(t.Context(), true); err == nil || !strings.Contains(err.Error(), "install the package restic") {
		t.Errorf("%v", err)
	}
}
