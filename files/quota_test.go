package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

// What quotas do is tested where a file system has them, in guests
// (test/e2e); here is what is done without.
func TestWithoutQuotas(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(data, 0o755))
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	defer unix.Unmount(data, unix.MNT_DETACH)
	s := openStore(t, data)
	if err := s.ProbeQuota(func(err error) bool { return err != nil }); err == nil || s.Quota().Why != nil || !strings.HasPrefix(err.Error(), "cannot look for disk quotas: ") {
		t.Errorf("an error that passes: %v, found out %+v", err, s.Quota())
	}
	must(t, s.ProbeQuota(func(error) bool { return false }))
	if q := s.Quota(); q.Enforced() || q.Why == nil || !strings.Contains(q.Why.Error(), "no quota of projects") {
		t.Errorf("a tmpfs has the quota %+v", q)
	}
	makeLive(t, s, map[string]string{"a": "x"})
	before := snapshot(t, s.root)
	must(t, errors.Join(s.SetLimit(testUID, 1<<20), s.SetLimit(testUID, 0), s.Mark(t.Context(), testID, testUID)))
	same(t, snapshot(t, s.root), before)
	q, err := ProbeQuota(filepath.Join(data, "not", "there"))
	if err != nil || q.Enforced() {
		t.Errorf("ProbeQuota() = %+v, %v", q, err)
	}
	same(t, snapshot(t, s.root), before)
	if _, err := ProbeQuota("/dev/null/x"); err == nil || !strings.HasPrefix(err.Error(), "cannot look for disk quotas: ") {
		t.Errorf("ProbeQuota of no directory: %v", err)
	}
}

// A quota that is used up is the application's own where it has one.
func TestOwnQuotaIsASentence(t *testing.T) {
	err := fmt.Errorf("deep: %w", unix.EDQUOT)
	for _, tt := range []struct {
		quota Quota
		want  string
	}{
		{Quota{}, "cannot prepare the build: " + app.DiskQuota},
		{Quota{Project: true}, "cannot prepare the build: " + app.DiskOwn},
		{Quota{User: true}, "cannot prepare the build: " + app.DiskOwn},
	} {
		got := (&disk{quota: tt.quota, staging: noDir}).cannot("prepare the build", err)
		if app.KindOf(got) != app.NoSpace || text(got) != tt.want || !errors.Is(got, unix.EDQUOT) {
			t.Errorf("with %+v: %v, want %s", tt.quota, got, tt.want)
		}
	}
	if got := (&disk{quota: Quota{User: true}, staging: noDir}).cannot("x", unix.ENOSPC); text(got) != "cannot x: "+app.DiskFull {
		t.Errorf("a full disk is %v", got)
	}
	s := newStore(t)
	s.quota = Quota{Project: true}
	if got := s.cannot("x", unix.ENOSPC); text(got) != "cannot x: "+app.DiskOwn {
		t.Errorf("no space on a disk that has some is %v", got)
	}
	s.quota = Quota{}
	if got := s.cannot("x", unix.ENOSPC); text(got) != "cannot x: "+app.DiskFull {
		t.Errorf("no space without a quota is %v", got)
	}
}

// A rename that is refused for another reason than a project stays refused.
func TestMoveAcrossFileSystems(t *testing.T) {
	s := newStore(t)
	must(t, unix.Mkdirat(int(s.staging), "m", 0o700))
	place := filepath.Join(s.root, "staging", "m")
	if err := unix.Mount("tmpfs", place, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	defer unix.Unmount(place, unix.MNT_DETACH)
	fd, err := unix.Open(place, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	other := dir(fd)
	defer other.close()
	f, err := other.create("file")
	must(t, err)
	must(t, f.Close())
	if err := move(other, "file", s.staging, "file"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("from another file system: %v", err)
	}
}

func TestFloor(t *testing.T) {
	s := newStore(t)
	makeLive(t, s, map[string]string{"a": "x"})
	stage := stageOf(t, s, map[string]string{"b": "y"})
	file := zipOf(t, s, map[string]string{"c": "z"})
	s.SetFloor(1 << 60)
	const why = "the host's disk is nearly full ("
	for what, call := range map[string]func() error{
		"keep the upload":       func() error { _, err := s.Spool(t.Context(), strings.NewReader("x"), 1); return err },
		"unpack the upload":     func() error { _, err := s.Unpack(t.Context(), file, nil, anything); return err },
		"prepare the build":     func() error { err := s.Prepare(t.Context(), stage, testID, testUID); return err },
		"write the backup":      func() error { _, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{}); return err },
		"build the application": func() error { return s.CheckFree("build the application") },
	} {
		if err := call(); app.KindOf(err) != app.NoSpace || !strings.HasPrefix(text(err), "cannot "+what+": "+why) || !strings.HasSuffix(text(err), " MB are free); its owner must make room") {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.SetFloor(0)
	if err := s.CheckFree("x"); err != nil {
		t.Errorf("without a floor: %v", err)
	}
}

func TestUsedAndAfter(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "data"), bundle.Limits{})
	must(t, err)
	defer s.Close()
	needRoot(t)
	const kb = 1 << 10
	fill := func(n int) string { return strings.Repeat("x", n*kb) }
	near := func(what string, space app.Space, err error, want int64) {
		t.Helper()
		if got := space.Bytes; err != nil || got < want*kb || got > (want+60)*kb { // and its directories
			t.Errorf("%s: %d KB, %v; want %d KB", what, got/kb, err, want)
		}
	}
	makeLive(t, s, map[string]string{"a": fill(400), "d/b": fill(200), "link": "->a"})
	temp, err := s.EnsureTemp(testID, false, testUID)
	must(t, err)
	used, err := s.Used(t.Context(), testID)
	near("with an empty temporary directory", used, err, 600)
	put(t, temp, map[string]string{"more": fill(300)})
	used, err = s.Used(t.Context(), testID)
	near("with temporary files", used, err, 900)
	must(t, s.DropTemp(testID, false))
	used, err = s.Used(t.Context(), testID)
	near("without", used, err, 600)

	stage := stageOf(t, s, map[string]string{"a": fill(100), "d/new": fill(50), "e/f": fill(20), "link": fill(8)})
	got, err := s.After(t.Context(), stage, "")
	near("a new application", got, err, 178)
	got, err = s.After(t.Context(), stage, testID)
	near("laid over", got, err, 100+200+50+20+8)
	build, err := s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
	must(t, err)
	must(t, os.Remove(filepath.Join(build, "d", "b")))
	put(t, build, map[string]string{"made": fill(500)})
	got, err = s.After(t.Context(), stage, testID)
	near("built", got, err, 100+50+20+8+500)
	for _, call := range []func() (app.Space, error){
		func() (app.Space, error) { return s.After(t.Context(), "nothing", testID) },
		func() (app.Space, error) {
			return s.After(t.Context(), stageOf(t, s, map[string]string{"a": "x"}), "nobody")
		},
		func() (app.Space, error) { return s.After(cancelled(t), stage, "") },
		func() (app.Space, error) { return s.Used(t.Context(), "nobody") },
	} {
		if n, err := call(); err == nil {
			t.Errorf("measured %v", n)
		}
	}
}
