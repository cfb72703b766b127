package host

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// allowed is a test whose owner may have what limits says.
func allowed(t *testing.T, limits app.Limits, f func(t *testing.T, w *world)) {
	t.Helper()
	play(t, func(t *testing.T, w *world) {
		w.may[owner] = limits
		f(t, w)
	})
}

func TestAccountHasSoManyApplications(t *testing.T) {
	allowed(t, app.Limits{Apps: 2}, func(t *testing.T, w *world) {
		w.mustUpload("MAIN=a,RAM=10")
		id := w.mustUpload("MAIN=a,RAM=10")
		_, err := w.upload("MAIN=a,RAM=10")
		wantSaid(t, err, app.Exhausted, "the account has 2 of 2 applications; delete one, or ask the owner of this host for more")
		if err := w.host.Delete(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		w.mustUpload("MAIN=a,RAM=10")
	})
}

func TestAccountLimitChanges(t *testing.T) {
	allowed(t, app.Limits{Disk: 10}, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.takes(id, 8, 12)
		const said = "cannot deploy the application: the files and backups of the account would take 12 MB of disk, and may take 10 MB; remove some, or ask the owner of this host for more"
		_, err := w.commit(id, "MAIN=b")
		wantSaid(t, err, app.Unusable, said)
		w.may[owner] = app.Limits{Disk: 12}
		_, err = w.commit(id, "MAIN=b")
		wantSaid(t, err, app.Unusable, said) // nobody has said that it changed
		if err := w.host.AccountChanged(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		if _, err := w.commit(id, "MAIN=b"); err != nil {
			t.Error(err)
		}
		w.fail["Account"] = app.Errorf(app.NotFound, "gone")
		wantKind(t, w.host.AccountChanged(t.Context(), owner), app.NotFound)
	})
}

// The processor of an account is dealt out by RAM among what runs, and dealt anew when
// something starts, ends, or may have more.
func TestAccountDealsItsProcessor(t *testing.T) {
	allowed(t, app.Limits{CPU: 90}, func(t *testing.T, w *world) {
		want := func(when string, shares map[app.ID]int) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if !maps.Equal(w.shares, shares) {
				t.Errorf("%s: %v, want %v", when, w.shares, shares)
			}
			clear(w.shares)
		}
		var began []int
		w.behave = func(p app.Program) behaviour {
			began = append(began, p.CPU)
			return behaviour{}
		}
		small := w.mustUpload("MAIN=a,RAM=100")
		want("one runs", map[app.ID]int{small: 90})
		large := w.mustUpload("MAIN=a,RAM=200")
		want("two run", map[app.ID]int{small: 30, large: 60})
		if fmt.Sprint(began) != "[90 60]" {
			t.Errorf("they began with %v percent", began)
		}
		if err := w.host.SetRAM(t.Context(), owner, small, 200); err != nil {
			t.Fatal(err)
		}
		want("they have the same RAM", map[app.ID]int{small: 45, large: 45})
		if err := w.host.Stop(t.Context(), owner, large); err != nil {
			t.Fatal(err)
		}
		want("one has ended", map[app.ID]int{small: 90})
		w.may[owner] = app.Limits{}
		if err := w.host.AccountChanged(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		want("there is no limit any more", map[app.ID]int{small: 0})
		if _, err := w.host.Start(t.Context(), owner, large); err != nil {
			t.Fatal(err)
		}
		want("another starts without one", map[app.ID]int{})
	})
}

// A build is dealt a part too, beside a program and in a place of its own.
func TestAccountDealsItsProcessorToBuilds(t *testing.T) {
	allowed(t, app.Limits{CPU: 100}, func(t *testing.T, w *world) {
		var built []int
		w.behave = func(p app.Program) behaviour {
			if p.Build {
				built = append(built, p.CPU)
				return behaviour{exit: &app.Exit{}, life: time.Second}
			}
			return behaviour{}
		}
		w.mustUpload("MAIN=a,RAM=100")
		w.mustUpload("MAIN=a,RAM=300,BUILD=make")
		if fmt.Sprint(built) != "[75]" {
			t.Errorf("the build had %v percent", built)
		}
	})
}

func TestAccountBuildsSoManyAtOnce(t *testing.T) {
	q := newQueue(3, 32)
	var turns []*turn
	began := func() (n int) {
		for _, turn := range turns {
			select {
			case <-turn.come:
				n++
			default:
			}
		}
		return n
	}
	for i := range 4 {
		turn, err := q.join(app.ID(fmt.Sprint(i)), 'a', 2)
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, turn)
	}
	if began() != 2 || turns[1].why != "" || turns[2].why != "2 of the 2 builds run that the account may have at once" {
		t.Errorf("%d began, and the third waits for %s", began(), turns[2].why)
	}
	other, err := q.join("b", 'b', 0)
	if err != nil || other.position != 0 {
		t.Errorf("another account's waits at %d, %v", other.position, err)
	}
	q.bound('a', 1)
	q.leave(turns[0])
	if began() != 2 {
		t.Errorf("%d began under a lower bound", began())
	}
	q.bound('a', 0)
	if began() != 3 {
		t.Errorf("%d began without a bound, on three places", began())
	}
	q.leave(turns[1])
	q.leave(other)
	if began() != 4 {
		t.Errorf("%d began", began())
	}
}

func TestAccountDiskSpace(t *testing.T) {
	allowed(t, app.Limits{Disk: 100}, func(t *testing.T, w *world) {
		ctx := t.Context()
		first := w.mustUpload("MAIN=a,RAM=10")
		w.takes(first, 60, 60)
		time.Sleep(diskAge)
		w.takes("", 0, 41)
		_, err := w.upload("MAIN=a,RAM=10")
		wantSaid(t, err, app.Unusable, "cannot deploy the application: the files and backups of the account would take 101 MB of disk, and may take 100 MB")
		if len(w.reserved) != 0 {
			t.Errorf("left are %v", w.reserved)
		}
		w.takes("", 0, 40)
		second := w.mustUpload("MAIN=a,RAM=10")
		w.takes(second, 40, 40)
		time.Sleep(diskAge)
		err = w.host.WriteFile(ctx, owner, second, "b", make([]byte, 1), app.OverAny)
		wantSaid(t, err, app.Unusable, "cannot write the file: the files and backups of the account would take 101 MB of disk, and may take 100 MB")
		_, err = w.host.Backup(ctx, owner, first, false)
		wantSaid(t, err, app.Unusable, "cannot write the backup: the files and backups of the account take 100 MB of disk, and may take 100 MB")
		w.takes(second, 30, 35)
		time.Sleep(diskAge)
		if _, err := w.host.Backup(ctx, owner, first, false); err != nil || w.backup.Bytes != 10<<20 {
			t.Errorf("a backup had room for %d bytes, %v", w.backup.Bytes, err)
		}
		_, err = w.commit(second, "MAIN=b") // the backup counts
		wantSaid(t, err, app.Unusable, "would take 105 MB of disk, and may take 100 MB")
		w.takes(second, 50, 45)
		time.Sleep(diskAge)
		if _, err := w.commit(second, "MAIN=b"); err != nil {
			t.Errorf("what makes it smaller: %v", err)
		}
		if err := w.host.Stop(ctx, owner, second); err != nil {
			t.Fatal(err)
		}
		_, err = w.host.Start(ctx, owner, second)
		wantSaid(t, err, app.Unusable, "cannot start the application: the files and backups of its account take 120 MB of disk, and may take 100 MB")
		use, err := w.host.DiskUse(ctx, owner)
		if want := map[app.ID]int64{first: 60 << 20, second: 50 << 20}; !maps.Equal(use.Files, want) || use.Backups != 1 || use.BackupBytes != 10<<20 || err != nil {
			t.Errorf("the account has %+v, %v", use, err)
		}
	})
}

// Two uploads that fit alone do not fit together, however they meet.
func TestAccountDiskSpaceIsClaimed(t *testing.T) {
	allowed(t, app.Limits{Disk: 100}, func(t *testing.T, w *world) {
		w.behave = by(map[string]behaviour{"a": {}})
		w.takes("", 0, 60)
		first := w.uploading(owner, "MAIN=a,RAM=10,BUILD=make")
		second := w.uploading(owner, "MAIN=a,RAM=10,BUILD=make")
		other := w.uploading(owner+1, "MAIN=a,RAM=10,BUILD=make")
		one, two := <-first, <-second
		if one != nil || app.KindOf(two) != app.Unusable {
			t.Errorf("they ended with %v and %v", one, two)
		}
		if err := <-other; err != nil {
			t.Errorf("another account's: %v", err)
		}
	})
}

func TestAccountKeepsSoManyBackups(t *testing.T) {
	allowed(t, app.Limits{Backups: 2}, func(t *testing.T, w *world) {
		ctx := t.Context()
		a, b, c := w.mustUpload("MAIN=a,RAM=10"), w.mustUpload("MAIN=a,RAM=10"), w.mustUpload("MAIN=a,RAM=10")
		backup := func(id app.ID, keep int) {
			t.Helper()
			if _, err := w.host.Backup(ctx, owner, id, false); err != nil || w.backup.Keep != keep {
				t.Errorf("%s: %v, of which %d are kept, want %d", id, err, w.backup.Keep, keep)
			}
		}
		backup(a, 2)
		backup(b, 1)
		_, err := w.host.Backup(ctx, owner, c, false)
		wantSaid(t, err, app.Exhausted, "cannot write the backup: the account has 2 of 2 backups, all of other applications; wait until one expires, or ask the owner of this host for more")
		backup(a, 1) // in the place of its own
	})
}

// What grows beyond the account's disk space is stopped, the largest first.
func TestPatrolStopsTheLargestOfAnAccount(t *testing.T) {
	allowed(t, app.Limits{Disk: 100}, func(t *testing.T, w *world) {
		small, large := w.mustUpload("MAIN=a,RAM=10"), w.mustUpload("MAIN=a,RAM=10")
		defer w.patrol()()
		w.takes(small, 40, 0)
		w.takes(large, 60, 0)
		time.Sleep(2 * MeasureEvery)
		if !w.snapshot(large).Running || !w.snapshot(small).Running {
			t.Fatal("stopped within the limit")
		}
		w.takes(large, 61, 0)
		time.Sleep(2 * MeasureEvery)
		if s := w.snapshot(large); s.Running || s.Wanted != app.WantStopped || !w.snapshot(small).Running {
			t.Errorf("the large one is %v and the small one %v", s.State, w.snapshot(small).State)
		}
		if !w.noted(large, "the files and backups of its account take 101 MB of disk, and may take 100 MB: it is stopped and stays offline") {
			t.Error("its log does not say why")
		}
	})
}
