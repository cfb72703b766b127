//go:build soak

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// killedAt starts a command of berth backup and kills it after a while. It returns whether it was done by then.
func (d *daemon) killedAt(after time.Duration, input string, args ...string) (done bool) {
	d.T.Helper()
	cmd := d.ofBackup(input, args...)
	if err := cmd.Start(); err != nil {
		d.T.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	err := cmd.Wait()
	timer.Stop()
	return err == nil
}

// backups is how many backups the repository has.
func (d *daemon) backups() int {
	list, _ := d.backup(0, "", "list")
	return strings.Count(list, "Z ")
}

// A backup is killed at 20 moments, and the next one is whole each time; a restore is killed at 20
// moments, and either nothing is there or everything, and it can be done again.
func TestSoakBackupsKilled(t *testing.T) {
	const moments = 20
	for _, place := range []string{"restic", "archives:"} {
		t.Run(strings.TrimSuffix(place, ":"), func(t *testing.T) {
			d := backedUp(t, place)
			c := d.account("ana", 1000)
			var ids []string
			for n := range 4 {
				ids = append(ids, c.Upload(harness.ShellBot(teller, "RAM=50", fmt.Sprintf("NAME=teller%d", n))))
			}
			begun := time.Now()
			d.backup(0, "", "run")
			long := time.Since(begun)
			done := 0
			for n := range moments {
				for _, id := range ids { // so that there is something to save
					if err := os.WriteFile(d.Path(id, "more.txt"), fmt.Appendf(nil, "%d", n), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if d.killedAt(long*time.Duration(n)/moments, "", "run") {
					done++
				}
				if d.backups() < 1 {
					t.Fatalf("after the kill %d there is no backup", n)
				}
				d.backup(0, "", "rehearse")
			}
			d.backup(0, "", "run")
			d.backup(0, "", "prune")
			_, said := d.backup(0, "", "rehearse")
			if !strings.Contains(said, "4 applications") {
				t.Errorf("rehearse: %s", said)
			}
			t.Logf("a backup takes %s; of %d, %d were done before the kill", long, moments, done)
			key, _ := d.backup(0, "", "key")
			c.DeleteAll()
			d.End(syscall.SIGTERM)

			next := prepare(t)
			next.backUpTo(repositoryIn(place, d.Root))
			begun = time.Now()
			next.backup(0, key, "restore")
			long = time.Since(begun)
			for n := range moments {
				if err := os.RemoveAll(next.Data); err != nil {
					t.Fatal(err)
				}
				done := next.killedAt(long*time.Duration(n)/moments, key, "restore")
				_, unfinished := os.Stat(filepath.Join(next.Data, "restore.unfinished"))
				_, database := os.Stat(filepath.Join(next.Data, "berth.db"))
				if whole := database == nil && unfinished != nil; done && !whole {
					t.Errorf("moment %d: it was done, and is not whole", n)
				} else if !whole && database == nil {
					// The database is in its place, the sign that something is missing too: nobody serves from it.
					if code, _, errs := next.Run("check", "--data-dir", next.Data); code == 0 {
						t.Errorf("moment %d: a berth would serve from what is not whole: %s", n, errs)
					}
				}
			}
			if err := os.RemoveAll(next.Data); err != nil {
				t.Fatal(err)
			}
			next.backup(0, key, "restore")
			if found := len(next.Entries("apps")); found != 4 {
				t.Errorf("%d applications are there", found)
			}
		})
	}
}

// Either side of a move is killed at 20 moments in turns. Programs run on one host alone, and the same
// command finishes.
func TestSoakMoveKilled(t *testing.T) {
	const moments = 20
	var long time.Duration
	killed := 0
	for n := range moments + 1 { // the first is not killed, and tells how long a move takes
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			m := newMoving(t)
			ids, old, there := m.bots(3)
			m.watch()
			begun := time.Now()
			cmd, said := m.start()
			word := []string{"move", "move-receive"}[n%2]
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if n > 0 {
				select {
				case err := <-ended:
					ended <- err
				case <-time.After(long * time.Duration(n) / (moments + 1)):
					if m.kill(word) {
						killed++
					}
				}
			}
			err := <-ended
			if n == 0 {
				long = time.Since(begun)
			}
			if out, again := m.command("move", "new", "--yes").CombinedOutput(); again != nil {
				t.Fatalf("killed %s, %v: %s; again: %v: %s", word, err, said, again, out)
			}
			m.there(ids, old, there)
			m.seen()
		})
	}
	t.Logf("a move takes %s; %d of %d were killed", long, killed, moments)
	if killed < moments/2 {
		t.Errorf("only %d moves were killed", killed)
	}
}
