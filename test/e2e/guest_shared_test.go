//go:build guest

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/harness"
)

// shared is a host whose applications' files programs on other machines use: berth works on
// the server's file system, and the programs on mounts of the directory apps.
type shared struct {
	*daemon
	c      *client
	person *person
	nfs    *nfs
	right  *sharedMount   // mounted as berth needs it
	others []*sharedMount // with other options
	id     string
	uid    int
	at     int // the release that was deployed last
}

// sharedMount is the mount of a machine, and how often programs on it saw something else
// than there was.
type sharedMount struct {
	options, dir         string
	old, removed, missed int // the old content, what is removed, nothing of what is new
}

func (m *sharedMount) String() string {
	return fmt.Sprintf("options %q: old content %d times, removed names %d times, no new names %d times", m.options, m.old, m.removed, m.missed)
}

// rightOptions make a machine ask the server for each name that a program opens.
const rightOptions = "lookupcache=none"

// sharedCommits is how many commits programs look at.
const sharedCommits = 20

// sharedSpace is what an application may take, in MB.
const sharedSpace = 128

// TestFilesOverNFS: what berth promises of files holds for programs that have them over
// NFS, with the right options; with other ones it does not. The test is alone in its guest.
func TestFilesOverNFS(t *testing.T) {
	guest(t)
	s := &shared{daemon: prepare(t, "--apps-ok-delay", "10ms", "--deploys-keep", "10", "--apps-disk", fmt.Sprint(sharedSpace)), at: 1}
	s.Serve()
	s.c = s.account("ana", 600)
	s.person = s.daemon.person("ana")
	s.id = s.c.Upload(release(s.at))
	s.uid = s.UIDOf(s.id)
	s.nfs = serveNFS(t, filepath.Join(s.Data, "apps"))
	mount := func(options string) *sharedMount {
		return &sharedMount{options: options, dir: s.nfs.mount(options)}
	}
	s.right = mount(rightOptions)
	s.others = []*sharedMount{mount(""), mount("noac")}
	for _, part := range []struct {
		sentence string
		holds    func(*shared, *testing.T)
	}{
		{"a new program sees each commit, whole", (*shared).commits},
		{"a new program sees a rollback, whole", (*shared).rollbacks},
		{"what a program has synced is in the next backup and in the panel", (*shared).synced},
		{"a new program sees what the panel did to files", (*shared).edits},
		{"a new program sees a restore, whole", (*shared).restores},
		{"locks of fcntl hold between machines and the server", (*shared).locks},
		{"10,000 small files of a program are all there", (*shared).many},
		{"the disk space of an application bounds its program", (*shared).space},
		{"a program loses nothing while the server is away", (*shared).away},
		{"a machine that is gone holds up no commit", (*shared).gone},
		{"a program reads nothing of another application, and root nothing at all", (*shared).walls},
	} {
		t.Run(part.sentence, func(t *testing.T) {
			began := time.Now()
			part.holds(s, t)
			t.Logf("it took %v", time.Since(began).Round(time.Second))
		})
	}
}

// release is what is deployed as number n: files that are in each, and files, directories
// and a name that is a file or a directory, of its own.
func release(n int) harness.Files {
	text := strings.Repeat(fmt.Sprintln("release", n), n) // of another length each time
	f := harness.ShellBot("exec sleep 1000000\n", "RAM=32").With("index.js", text).With("lib/code.txt", text).
		With(fmt.Sprintf("file-%d.txt", n), text).With(fmt.Sprintf("dir-%d/below/file.txt", n), text)
	if n%2 == 0 {
		return f.With("either", text)
	}
	return f.With("either/file.txt", text)
}

// namesOf are the files of releases and their directories.
func namesOf(releases ...int) []string {
	names := map[string]bool{}
	for _, n := range releases {
		for name := range release(n) {
			for ; name != "."; name = path.Dir(name) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// absent is how a view tells of a name that is not there.
func absent(sees string) bool { return sees == "" || sees == "ENOENT" || sees == "ENOTDIR" }

// differences are the names that look different, with what is seen and what should be.
func differences(sees, is map[string]string) (wrong []string) {
	all := maps.Clone(is)
	maps.Copy(all, sees)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if sees[name] != is[name] && (!absent(sees[name]) || !absent(is[name])) {
			wrong = append(wrong, fmt.Sprintf("%s: %.60q, want %.60q", name, sees[name], is[name]))
		}
	}
	return wrong
}

// looks counts what a new program on a mount sees, and returns where it sees something else
// than there is.
func (s *shared) looks(t *testing.T, m *sharedMount, names []string) (wrong []string) {
	t.Helper()
	is := viewOf(s.Path(s.id), names)
	sees := podView(t, s.uid, filepath.Join(m.dir, s.id), names)
	for name := range is.Named {
		switch sees, is := sees.Named[name], is.Named[name]; {
		case sees == is:
		case absent(is):
			m.removed++
		case absent(sees):
			m.missed++
		default:
			m.old++
		}
	}
	return append(differences(sees.Named, is.Named), differences(sees.Listed, is.Listed)...)
}

// watched does something to the files of which programs on these mounts know everything. On
// the right one another program asks for them over and over meanwhile.
func (s *shared) watched(t *testing.T, names []string, do func(), mounts ...*sharedMount) {
	t.Helper()
	for _, m := range mounts {
		podView(t, s.uid, filepath.Join(m.dir, s.id), names)
	}
	w := startPod(t, s.uid, "watch", filepath.Join(s.right.dir, s.id), names...)
	if said := w.says(); said != "has looked" {
		t.Fatalf("the program said %q", said)
	}
	do()
	if wrong := s.looks(t, s.right, names); len(wrong) > 0 {
		t.Errorf("a new program sees\n%s", strings.Join(wrong, "\n"))
	}
	for _, m := range mounts {
		s.looks(t, m, names)
	}
	if said := w.end(); said != "" {
		t.Errorf("the program that looks said %q", said)
	}
}

// deployed fails unless what is on the server is this release, beside what programs wrote.
func (s *shared) deployed(t *testing.T, n int, others ...int) {
	t.Helper()
	files := release(n)
	v := viewOf(s.Path(s.id), namesOf(append(others, n)...))
	for name, sees := range v.Named {
		text, file := files[name]
		directory := slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(f string) bool { return strings.HasPrefix(f, name+"/") })
		switch {
		case file && !strings.HasSuffix(sees, fmt.Sprintf(", %d bytes: %s", len(text), text)), directory && !strings.HasPrefix(sees, "d"),
			!file && !directory && !absent(sees):
			t.Errorf("release %d: %s is %.60q", n, name, sees)
		}
	}
}

// commits also shows that the check can fail: with the options that a machine has when
// nobody gives any, programs see what is not there anymore.
func (s *shared) commits(t *testing.T) {
	c := s.c.in(t)
	longest := time.Duration(0)
	for range sharedCommits {
		s.at++
		s.watched(t, namesOf(s.at-1, s.at, s.at+1), func() {
			began := time.Now()
			c.CommitExact(s.id, release(s.at)).Want(200, "status", "ok")
			longest = max(longest, time.Since(began))
		}, s.others...)
		s.deployed(t, s.at, s.at-1, s.at+1)
	}
	t.Logf("%d commits, the longest took %v", sharedCommits, longest.Round(time.Millisecond))
	for _, m := range append([]*sharedMount{s.right}, s.others...) {
		t.Log(m)
	}
	if usual := s.others[0]; usual.old+usual.removed+usual.missed == 0 {
		t.Error("with the options that nobody gives nothing was stale: this test would not see it")
	}
}

func (s *shared) rollbacks(t *testing.T) {
	for range 3 {
		to := s.at - 1
		s.watched(t, namesOf(s.at, to, to-1), func() {
			s.c.in(t).ask("POST", "/app/"+s.id+"/rollback", fmt.Sprintf(`{"deploy":%d}`, to)).Want(200, "status", "ok")
		})
		s.deployed(t, to, s.at, to-1)
		s.at = to
	}
}

func (s *shared) synced(t *testing.T) {
	p := *s.person
	p.t = t
	for n := range 3 {
		text := fmt.Sprintln("written by the program", n)
		w := startPod(t, s.uid, "write", filepath.Join(s.right.dir, s.id, "data.txt"), text)
		if said := w.says(); said != "written" {
			t.Fatalf("the program said %q", said)
		}
		// The program goes on, and its file is open.
		if got := string(backup(s.c.in(t), s.id, "")["data.txt"]); got != text {
			t.Errorf("the backup has %q, want %q", got, text)
		}
		if got := p.open("/apps/" + s.id + "/files/download?path=data.txt"); got != text {
			t.Errorf("the panel has %q, want %q", got, text)
		}
		if said := w.end(); said != "" {
			t.Errorf("the program said %q", said)
		}
	}
}

func (s *shared) edits(t *testing.T) {
	p := *s.person
	p.t = t
	at := "/apps/" + s.id + "/files/"
	names := []string{"index.js", "lib/code.txt", "made.txt", "moved.txt", "made", "made/moved.txt"}
	for _, edit := range []struct {
		verb  string
		pairs []string
		name  string
		is    string // a part of what a program sees
	}{
		{"write", []string{"path", "index.js", "text", "by hand\n", "over", "*"}, "index.js", "8 bytes: by hand"},
		{"new", []string{"dir", ".", "name", "made.txt"}, "made.txt", "0 bytes"},
		{"new", []string{"dir", ".", "name", "made", "kind", "dir"}, "made", "drwx"},
		{"move", []string{"dir", ".", "path", "made.txt", "to", "moved.txt"}, "moved.txt", "0 bytes"},
		{"write", []string{"path", "moved.txt", "text", "again\n", "over", "*"}, "moved.txt", "6 bytes: again"},
		{"move", []string{"dir", ".", "path", "moved.txt", "to", "made"}, "made/moved.txt", "6 bytes: again"},
		{"delete", []string{"dir", ".", "path", "made", "sure", "true"}, "made/moved.txt", "ENOENT"},
		{"delete", []string{"dir", ".", "path", "lib/code.txt", "sure", "true"}, "lib/code.txt", "ENOENT"},
	} {
		s.watched(t, names, func() { p.send(at+edit.verb, 200, edit.pairs...) })
		if is := seen(s.Path(s.id, edit.name)); !strings.Contains(is, edit.is) {
			t.Errorf("after %s, %s is %q", edit.verb, edit.name, is)
		}
	}
}

func (s *shared) restores(t *testing.T) {
	c := s.c.in(t)
	link := c.Get("/app/" + s.id + "/backup").Text("backups.url")
	before := viewOf(s.Path(s.id), nil).Listed
	c.CommitExact(s.id, release(s.at+1)).Want(200, "status", "ok")
	s.watched(t, namesOf(s.at, s.at+1), func() {
		c.ask("POST", "/app/"+s.id+"/restore", fmt.Sprintf(`{"backup":%q}`, link)).Want(200, "status", "ok")
	})
	if wrong := differences(viewOf(s.Path(s.id), nil).Listed, before); len(wrong) > 0 {
		t.Errorf("restored, there is\n%s", strings.Join(wrong, "\n"))
	}
}

// lockable tries a lock of fcntl on a file of the server.
func lockable(t *testing.T, name string) error {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}

func (s *shared) locks(t *testing.T) {
	here, there := s.Path(s.id, "lock"), filepath.Join(s.right.dir, s.id, "lock")
	w := startPod(t, s.uid, "lock", there)
	if said := w.says(); said != "locked" {
		t.Fatalf("the program said %q", said)
	}
	if err := lockable(t, here); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the program has the lock, and on the server the lock is %v", err)
	}
	// Locks of flock(2) are others on the server than those of fcntl, and become those on the way.
	f, err := os.Open(here + ".flock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("a lock of flock is seen on the server, which is better than it was: %v", err)
	}
	if err := lockable(t, here+".flock"); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the program has a lock of flock, and on the server that of fcntl is %v", err)
	}
	if said := w.end(); said != "" {
		t.Errorf("the program said %q", said)
	}
	harness.Eventually(t, "the lock of a program that ended is free", func() bool { return lockable(t, here) == nil })

	held, err := os.OpenFile(here, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.FcntlFlock(held.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	if said := startPod(t, s.uid, "lock", there).end(); said != "failed: EAGAIN" {
		t.Errorf("the server has the lock, and the program said %q", said)
	}
}

func (s *shared) many(t *testing.T) {
	const count, some = 10000, 300
	written := s.writesMany(t, s.right, count)
	for n := range count {
		if text, err := os.ReadFile(s.Path(s.id, "many", manyName(n))); err != nil || string(text) != fmt.Sprintln("file", n) {
			t.Fatalf("file %d is %q, %v", n, text, err)
		}
	}
	began := time.Now()
	packed := backup(s.c.in(t), s.id, "")
	for n := range count {
		if text := string(packed["many/"+manyName(n)]); text != fmt.Sprintln("file", n) {
			t.Fatalf("in the backup file %d is %q", n, text)
		}
	}
	t.Logf("%d files: written in %v, backed up in %v", count, written.Round(time.Second), time.Since(began).Round(time.Second))
	for _, m := range append([]*sharedMount{s.right}, s.others...) {
		s.empty(t)
		written, top := s.writesMany(t, m, some), filepath.Join(m.dir, s.id, "many")
		podView(t, s.uid, top, nil)
		began := time.Now()
		podView(t, s.uid, top, nil)
		read := time.Since(began)
		t.Logf("options %q: %d files written in %v, read again in %v", m.options, some, written.Round(100*time.Millisecond), read.Round(100*time.Millisecond))
	}
	s.empty(t)
}

// writesMany has a program write so many files into the directory many, and returns how long
// it took.
func (s *shared) writesMany(t *testing.T, m *sharedMount, count int) time.Duration {
	t.Helper()
	began := time.Now()
	w := startPod(t, s.uid, "many", filepath.Join(m.dir, s.id, "many"), fmt.Sprint(count))
	for n := perDirectory; n <= count; n += perDirectory {
		if said := w.says(); said != fmt.Sprint(n) {
			t.Fatalf("the program said %q", said)
		}
		if n%1000 == 0 { // a guest that says nothing for long is ended
			t.Logf("%d files are written", n)
		}
	}
	if said := w.end(); said != "" {
		t.Fatalf("the program said %q", said)
	}
	return time.Since(began)
}

// empty removes the directory many, which would be looked at with everything else.
func (s *shared) empty(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(s.Path(s.id, "many")); err != nil {
		t.Error(err)
	}
}

func (s *shared) space(t *testing.T) {
	if said := startPod(t, s.uid, "fill", filepath.Join(s.right.dir, s.id, "fill"), fmt.Sprint(2*sharedSpace)).end(); said != "failed: EDQUOT" {
		t.Errorf("a program that writes twice of what it may said %q", said)
	}
	name := s.Path(s.id, "fill")
	if info, err := os.Stat(name); err != nil || info.Size() == 0 || info.Size() > sharedSpace<<20 {
		t.Errorf("it wrote %v, %v", info, err)
	}
	if err := os.Remove(name); err != nil {
		t.Error(err)
	}
	// The machine keeps a file open that could not be written, though its program has ended.
	began := time.Now()
	harness.Eventually(t, "there is space again", func() bool {
		return startPod(t, s.uid, "write", filepath.Join(s.right.dir, s.id, "small"), "text").end() == "written"
	})
	t.Logf("the space of the file that was removed is free after %v", time.Since(began).Round(time.Second))
}

func (s *shared) away(t *testing.T) {
	const some, absence = 100, 5 * time.Second
	name := s.Path(s.id, "lines.txt")
	lines := func() int {
		text, _ := os.ReadFile(name) // none before the first
		return strings.Count(string(text), "\n")
	}
	w := startPod(t, s.uid, "lines", filepath.Join(s.right.dir, s.id, "lines.txt"))
	if said := w.says(); said != "has written" {
		t.Fatalf("the program said %q", said)
	}
	harness.Eventually(t, "the program writes", func() bool { return lines() > some })
	s.nfs.threads(0)
	last, since := lines(), time.Now()
	harness.Eventually(t, "nothing was written for a while", func() bool {
		if now := lines(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= absence
	})
	s.nfs.threads(nfsThreads)
	harness.Eventually(t, "the program goes on", func() bool { return lines() > last+some })
	var count, longest int
	said := w.end()
	if _, err := fmt.Sscan(said, &count, &longest); err != nil {
		t.Fatalf("the program said %q", said)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for n := range count {
		fmt.Fprintln(&want, n)
	}
	if string(text) != want.String() {
		t.Errorf("the program synced %d lines, and there are %d, the last %q", count, strings.Count(string(text), "\n"), harness.Tail(string(text), 20))
	}
	t.Logf("%d lines, %d of them before the server was away; the longest took %v", count, last, time.Duration(longest)*time.Millisecond)
}

// gone: the machine has read all files when its cable is cut.
func (s *shared) gone(t *testing.T) {
	names := namesOf(s.at, s.at+1)
	podView(t, s.uid, filepath.Join(s.right.dir, s.id), names)
	s.nfs.cut()
	s.at++
	began := time.Now()
	s.c.in(t).CommitExact(s.id, release(s.at)).Want(200, "status", "ok")
	took := time.Since(began)
	s.nfs.join()
	t.Logf("the commit took %v", took.Round(time.Millisecond))
	if took > 30*time.Second {
		t.Error("the commit waited for a machine that is gone")
	}
	if wrong := s.looks(t, s.right, names); len(wrong) > 0 {
		t.Errorf("back again, a new program sees\n%s", strings.Join(wrong, "\n"))
	}
}

// walls also shows why no pod may reach the server: it believes whatever user id a machine
// names.
func (s *shared) walls(t *testing.T) {
	c := s.c.in(t)
	other := c.Upload(harness.ShellBot("exec sleep 1000000\n", "RAM=32").With("index.js", "secret\n"))
	top, uid := s.right.dir, s.UIDOf(other)
	secret := filepath.Join(other, "index.js")
	names := []string{".", other, secret}
	if v := podView(t, s.uid, top, names); v.Named[secret] != "EACCES" || strings.Contains(fmt.Sprint(v), "secret") {
		t.Errorf("a program sees of another application %v", v)
	}
	if v := podView(t, 0, top, names); v.Named[secret] != "EACCES" || strings.Contains(fmt.Sprint(v), "secret") {
		t.Errorf("root of the machine sees %v", v)
	}
	for _, name := range []string{"made", filepath.Join(other, "made")} {
		if said := startPod(t, 0, "write", filepath.Join(top, name), "by root").end(); said != "failed: EACCES" {
			t.Errorf("root of the machine writes %s: %q", name, said)
		}
	}
	// A pod names a user id of its own choice, and the NFS server believes it.
	s.nfs.command("ip", "netns", "exec", nfsMachine, "sysctl", "-q", "net.ipv4.ip_unprivileged_port_start=0")
	server := net.JoinHostPort(nfsServer, "2049")
	if said := startPod(t, s.uid, "forge", secret, server, fmt.Sprint(s.uid)).end(); said != "failed: the server's status is 13" {
		t.Errorf("a program that speaks NFS itself, under its own user id, said %q", said)
	}
	if said := startPod(t, s.uid, "forge", secret, server, fmt.Sprint(uid)).end(); said != "secret" {
		t.Errorf("a program that names the user id of another application said %q: the rule that no pod may reach the server would not be needed", said)
	}
	// The export is a directory of a larger file system, and who guesses the handle of a file
	// passes by its directories (exports(5)): what is root's is closed to everybody else.
	err := filepath.WalkDir(s.Data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if path == filepath.Join(s.Data, "apps") {
			return fs.SkipDir
		}
		if info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Uid == 0 && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
