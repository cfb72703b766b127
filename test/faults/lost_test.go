package faults

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// database is a daemon's database, in one file once nobody has it open.
func database(t *testing.T, d *harness.Berth) string {
	t.Helper()
	file := filepath.Join(d.Data, "berth.db")
	if out, err := exec.Command("/usr/bin/python3", "-c", "import sqlite3, sys\nsqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// removeDatabase removes it with the files beside it.
func removeDatabase(t *testing.T, file string) {
	t.Helper()
	for _, more := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file + more); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// refused starts a daemon on the data that must end with 78 and a sentence.
func refused(t *testing.T, d *harness.Berth, says ...string) {
	t.Helper()
	code, _, stderr := d.Run("serve", "--listen", "127.0.0.1:0", "--apps-uid-base", "990000", "--apps-uid-count", "10")
	if code != 78 {
		t.Errorf("serve: exit status %d, want 78: %s", code, stderr)
	}
	for _, text := range append(says, "berth: cannot ", "Hint: ") {
		if !strings.Contains(stderr, text) {
			t.Errorf("serve says %q, want %q in it", stderr, text)
		}
	}
}

// TestFaultsNoDatabase: a start without the database is refused, so is every command,
// and nothing is touched; with it everything is as it was.
func TestFaultsNoDatabase(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.PythonBot(counts, "RAM=40"))
	c.UntilLog(id, "line 5\n")
	pid := d.PID(id)
	d.End(syscall.SIGKILL)
	file := database(t, d)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	removeDatabase(t, file)
	const gone = "its database berth.db is gone, and apps is there"
	refused(t, d, gone, "programs that run go on; put berth.db back")
	for _, args := range [][]string{{"check"}, {"account", "create", "bob", "--ram", "5"}, {"account", "list"}, {"setup-url"}, {"token", "create", "ana"}, {"audit"}} {
		if code, _, stderr := d.Run(args...); code != 78 || !strings.Contains(stderr, gone) {
			t.Errorf("%v: exit status %d, %s", args, code, stderr)
		}
	}
	if _, out, _ := d.Run("doctor"); !strings.Contains(out, " FAIL  database     ") || !strings.Contains(out, gone) {
		t.Errorf("doctor says:\n%s", out)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil { // one with nothing in it is none
		t.Fatal(err)
	}
	refused(t, d, gone)
	if now := d.PID(id); now != pid || !harness.Exists(t, d.Path(id, "main.py")) {
		t.Fatalf("the program was %d and is %d", pid, now)
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Serve()
	c.Info(id).Want(200, "apps.online", true)
	if now := d.PID(id); now != pid {
		t.Errorf("the program was %d and is %d", pid, now)
	}
	c.Put("/app/"+id+"/stop", "").Want(200)
	if n := whole(c, id); n < 6 {
		t.Errorf("only %d lines", n)
	}
}

// TestFaultsOlderDatabase: with an older copy in the database's place, what it does not
// know is moved aside whole, its program is asked to end, and nobody gets its user id.
func TestFaultsOlderDatabase(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	first := c.Upload(harness.PythonBot(counts, "RAM=40"))
	c.UntilLog(first, "line 5\n")
	pid := d.PID(first)
	d.End(syscall.SIGKILL)
	file := database(t, d)
	older, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d.Serve()
	const farewell = `import signal, sys, time
def end(*_):
    open('last', 'w').write('its last words')
    print('farewell', flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
print('up', flush=True)
time.sleep(1000)
`
	newer := c.Upload(harness.PythonBot(farewell, "RAM=40"))
	c.UntilLog(newer, "up\n")
	uid, tree := d.UIDOf(newer), harness.Snapshot(t, d.Path(newer))
	d.End(syscall.SIGKILL)
	removeDatabase(t, file)
	if err := os.WriteFile(file, older, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Serve()
	c.Info(first).Want(200, "apps.online", true)
	if now := d.PID(first); now != pid {
		t.Errorf("the program that is known was %d and is %d", pid, now)
	}
	c.Info(newer).Want(404)
	for _, p := range d.Processes() {
		if p.UID == uid {
			t.Errorf("it runs on: %v", p)
		}
	}
	lost, err := filepath.Glob(filepath.Join(d.Data, "lost", newer+".*"))
	if err != nil || len(lost) != 1 {
		t.Fatalf("lost are %v, %v; the daemon said %s", lost, err, d.Out)
	}
	now := harness.Snapshot(t, filepath.Join(lost[0], "apps"))
	if now["last"] == tree["last"] {
		t.Error("the program could not say its last words")
	}
	delete(now, "last")
	harness.SameTree(t, now, tree)
	if text, err := os.ReadFile(filepath.Join(lost[0], "logs", "run.log")); err != nil || !bytes.Contains(text, []byte("farewell")) {
		t.Errorf("its log is %q, %v", text, err)
	}
	if said := d.Out.String(); !strings.Contains(said, "the database does not know an application") || !strings.Contains(said, lost[0]) {
		t.Errorf("the daemon said %s", said)
	}
	if _, out, _ := d.Run("doctor"); !strings.Contains(out, " warn  lost         1 directories") {
		t.Errorf("doctor says:\n%s", out)
	}
	if got := d.UIDOf(c.Upload(harness.ShellBot(harness.IdleShell, "RAM=40"))); got == uid {
		t.Errorf("another application has the user id %d", uid)
	}
	if err := os.RemoveAll(lost[0]); err != nil {
		t.Fatal(err)
	}
}

// TestFaultsDatabaseRemovedWhileServing: what nobody would find again is not
// acknowledged, what is stored is saved, and reading goes on.
func TestFaultsDatabaseRemovedWhileServing(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.PythonBot(counts, "RAM=40"))
	c.UntilLog(id, "line 5\n")
	pid := d.PID(id)
	file := filepath.Join(d.Data, "berth.db")
	const why = "the host's database was removed or replaced; its owner must put it back and start berth again"
	change := func() harness.Answer { return c.Put("/app/"+id+"/ram", `{"ramMB":50}`) }

	away := filepath.Join(d.Root, "away.db")
	move := func(from, to string) {
		for _, more := range []string{"", "-wal", "-shm"} {
			if err := os.Rename(from+more, to+more); err != nil {
				t.Fatal(err)
			}
		}
	}
	move(file, away)
	change().Want(503, "status", "error").Says("message", why)
	move(away, file)
	change().Want(200, "status", "ok")

	harness.Eventually(t, "the daemon has done with the first time", func() bool {
		log := d.Out.String()
		return strings.Count(log, "was removed or replaced while berth serves") == strings.Count(log, "the database is back")
	})
	said := len(d.Out.String())
	removeDatabase(t, file)
	change().Want(503, "status", "error").Says("message", why)
	c.Post(harness.ShellBot(harness.IdleShell, "RAM=40").Zip()).Want(503).Says("message", why)
	c.Put("/app/"+id+"/stop", "").Want(503).Says("message", why)
	c.Delete(id).Want(503).Says("message", why)
	c.Info(id).Want(200, "apps.online", true, "apps.ram", 50)
	if got := d.Entries("apps"); len(got) != 1 {
		t.Errorf("the applications are %v", got)
	}
	var saved []string
	harness.Eventually(t, "the daemon has saved the database", func() bool {
		for line := range strings.Lines(d.Out.String()[said:]) {
			if strings.Contains(line, "what the database held is saved") {
				saved, _ = filepath.Glob(file + ".saved-*")
			}
		}
		return len(saved) > 0
	})
	if len(saved) == 0 || !strings.Contains(d.Out.String(), "the database was removed or replaced while berth serves") {
		t.Fatalf("saved are %v; the daemon said %s", saved, d.Out)
	}
	if code, _, stderr := d.Run("account", "create", "bob", "--ram", "5"); code != 78 || !strings.Contains(stderr, "its database berth.db is gone") {
		t.Errorf("a command: exit status %d, %s", code, stderr)
	}
	d.End(syscall.SIGKILL)
	refused(t, d, "its database berth.db is gone", "berth.db.saved-*")
	if err := os.Rename(saved[0], file); err != nil {
		t.Fatal(err)
	}
	d.Serve()
	c.Info(id).Want(200, "apps.online", true, "apps.ram", 50)
	if now := d.PID(id); now != pid {
		t.Errorf("the program was %d and is %d", pid, now)
	}
	if left, _ := filepath.Glob(file + ".saved-*"); len(left) > 1 {
		t.Errorf("saved again and again: %v", left)
	}
}

// TestFaultsDatabaseWithoutItsLog: without the files beside it, which nobody else can find
// again, changes are refused by the daemon and by commands, and the end of the daemon
// stores what it holds.
func TestFaultsDatabaseWithoutItsLog(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.PythonBot(counts, "RAM=40"))
	c.UntilLog(id, "line 5\n")
	file := filepath.Join(d.Data, "berth.db")
	for _, more := range []string{"-wal", "-shm"} {
		if err := os.Remove(file + more); err != nil {
			t.Fatal(err)
		}
	}
	c.Post(harness.ShellBot(harness.IdleShell, "RAM=40").Zip()).Want(503).Says("message", "the host's database was removed or replaced")
	c.Info(id).Want(200, "apps.online", true)
	const why = "a berth serves whose database files were removed or replaced"
	for _, args := range [][]string{{"account", "create", "bob", "--ram", "5"}, {"check"}} {
		if code, _, stderr := d.Run(args...); code != 78 || !strings.Contains(stderr, why) {
			t.Errorf("%v: exit status %d, %s", args, code, stderr)
		}
	}
	harness.Eventually(t, "the daemon has saved the database", func() bool {
		return strings.Contains(d.Out.String(), "what the database held is saved")
	})
	d.Restart()
	c.Until(id, "apps.online", true)
	c.Upload(harness.ShellBot(harness.IdleShell, "RAM=40"))
}

// TestFaultsOlderDatabaseBesideALog: a database in the place of another one whose log is
// still there would be mixed with it. That is seen before anything is stored or swept, and
// the sentence says what to do.
func TestFaultsOlderDatabaseBesideALog(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.PythonBot(counts, "RAM=40"))
	c.UntilLog(id, "line 5\n")
	pid := d.PID(id)
	d.End(syscall.SIGKILL)
	file := database(t, d)
	older, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d.Serve()
	newer := c.Upload(harness.PythonBot(counts, "RAM=40"))
	c.UntilLog(newer, "line 5\n")
	runs := d.PID(newer)
	for range 10 {
		c.Put("/app/"+id+"/ram", `{"ramMB":50}`).Want(200)
		c.Put("/app/"+id+"/ram", `{"ramMB":40}`).Want(200)
	}
	d.End(syscall.SIGKILL)
	database(t, d) // all of it is in the file
	d.Serve()
	if code, _, stderr := d.Run("account", "create", "bob", "--ram", "5"); code != 0 {
		t.Fatal(stderr)
	}
	d.End(syscall.SIGKILL)
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	put := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.ReadFile(file + "-wal")
	if err != nil || len(log) == 0 {
		t.Fatalf("the log is of %d bytes, %v", len(log), err)
	}
	put(older)
	const why = "the log beside it (-wal) is of another database, or of another state of this one"
	refused(t, d, why, "move berth.db-wal and berth.db-shm, which are of another database, away")
	for _, args := range [][]string{{"check"}, {"account", "create", "eve", "--ram", "5"}} {
		if code, _, stderr := d.Run(args...); code != 78 || !strings.Contains(stderr, why) {
			t.Errorf("%v: exit status %d, %s", args, code, stderr)
		}
	}
	if _, out, _ := d.Run("doctor"); !strings.Contains(out, " FAIL  database     ") || !strings.Contains(out, why) {
		t.Errorf("doctor says:\n%s", out)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, older) {
		t.Errorf("the file was written to, %v", err)
	}
	if now, err := os.ReadFile(file + "-wal"); err != nil || !bytes.Equal(now, log) {
		t.Errorf("the log was written to, %v", err)
	}
	if !harness.Exists(t, d.Path(newer, "main.py")) || d.PID(newer) != runs {
		t.Error("the application that is not known was touched")
	}
	put(right)
	d.Serve()
	c.Info(newer).Want(200, "apps.online", true)
	if now := d.PID(id); now != pid {
		t.Errorf("the program was %d and is %d", pid, now)
	}
}
