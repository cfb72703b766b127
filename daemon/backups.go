package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"berth/app"
	"berth/app/exit"
	"berth/daemon/backup"
	"berth/daemon/settings"
	"berth/db"
	"berth/files/repository"
)

// BackupCacheName is the directory of the data directory where restic remembers what is in a
// remote repository.
const BackupCacheName = "backup-cache"

const (
	// backupsSettle is after how long a daemon makes up what was missed: what starts with the host needs it first.
	backupsSettle = 2 * time.Minute
	// backupsLook is the longest pause between two looks at what is due: a clock may be set meanwhile.
	backupsLook = 10 * time.Minute
	// backupsTell is the pause between two notices of backups that are missing, or not rehearsed.
	backupsTell = 24 * time.Hour
	// backupsTellKey is the pause between two notices of a key that berth has not shown yet.
	backupsTellKey = 7 * 24 * time.Hour
	// backupsBeat is how long a backup that gives way to others may get no processor time.
	backupsBeat = 10 * time.Second
	// backupsEnd is how long the process of a backup may take to end.
	backupsEnd = 10 * time.Second
)

// backups makes the backups of the host when they are due. Each is the work of a process of
// berth's own, berth backup run: it has the lowest priority, and its memory goes with it. It implements
// app.HostBackups and app.Snapshots.
type backups struct {
	settings settings.Settings
	data     *data
	restore  restorer
	log      *slog.Logger
	work     func(ctx context.Context, kind app.BackupKind) error // does it, and blocks
	notice   func(ctx context.Context, n app.Notice)
	giveWay  func(ctx context.Context, pid int, period time.Duration) error
	held     func() bool // the host holds its programs: its backups may be another host's by now
	settle   time.Duration

	reads *semaphore.Weighted // copies that are being read for owners: each takes the memory of a process

	mu     sync.Mutex
	policy app.BackupPolicy
	busy   *job                // what is under way; nil for nothing
	paused bool                // see pause
	wake   chan app.BackupKind // somebody asks for it now; "" to look at the policy again
	told   map[app.NoticeKind]time.Time
}

// job is one backup, or one rehearsal, under way.
type job struct {
	end   context.CancelFunc
	ended chan struct{}
}

// restorer is what brings the files of an application back: host.Host.
type restorer interface {
	App(owner app.AccountID, id app.ID) (app.Snapshot, error)
	RestoreFrom(ctx context.Context, owner app.AccountID, id app.ID, source app.Source, withVariables bool) (app.Deployed, error)
	UploadFrom(ctx context.Context, owner app.Account, source app.Source) (app.Deployed, error)
}

func newBackups(d *daemon, args []string) *backups {
	b := &backups{
		settings: d.settings, data: d.data, restore: d.host, log: d.log, policy: d.settings.BackupPolicy(), settle: backupsSettle,
		reads: semaphore.NewWeighted(1),
		wake:  make(chan app.BackupKind, 1), told: make(map[app.NoticeKind]time.Time),
		notice: func(ctx context.Context, n app.Notice) {
			if err := d.data.db.Notices.AddNotice(ctx, n); err != nil && ctx.Err() == nil {
				d.log.Error("cannot store how a backup went", "error", err)
			}
		},
	}
	b.giveWay = d.groups.GiveWay
	b.held = func() bool { return d.host.Held().Refusal() != nil }
	b.work = func(ctx context.Context, kind app.BackupKind) error { return b.command(ctx, kind, args) }
	return b
}

// run makes backups, and rehearses them, until ctx ends. It then ends what is under way, which the next daemon makes up.
func (b *backups) run(ctx context.Context) {
	if b.settings.Backups.Repository == "" {
		return
	}
	if err := b.data.db.Backups.SetUp(ctx); err != nil && ctx.Err() == nil {
		b.log.Error("cannot store that backups are set up", "error", err)
	}
	if err := b.nameKey(ctx); err != nil && ctx.Err() == nil {
		b.log.Error("cannot store which key of the backups was shown", "error", err)
	}
	pause := b.settle
	for {
		timer := time.NewTimer(pause)
		var asked app.BackupKind
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case asked = <-b.wake:
			timer.Stop()
		case <-timer.C:
		}
		pause = b.turn(ctx, asked)
	}
}

// nameKey stores which key was shown, if an earlier release has stored only that one was.
func (b *backups) nameKey(ctx context.Context) error {
	st, err := b.data.db.Backups.Status(ctx)
	if err != nil || st.ShownKey != db.ShownBefore {
		return err
	}
	id := ""
	if key, missing := backup.ReadKey(b.settings.BackupKey); missing == nil {
		id = backup.KeyID(key)
	}
	return b.data.db.Backups.ShownKey(ctx, id)
}

// turn does what is asked, or due, and returns after how long to look again.
func (b *backups) turn(ctx context.Context, asked app.BackupKind) time.Duration {
	kind := asked
	if kind == "" {
		if b.held() {
			return backupsLook
		}
		due, at, err := b.due(ctx)
		if err != nil {
			if ctx.Err() == nil {
				b.log.Error("cannot tell when the next backup is due", "error", err)
			}
			return backupsLook
		}
		if wait := time.Until(at); wait > 0 {
			b.tell(ctx)
			return min(wait, backupsLook)
		}
		kind = due
	}
	err := b.do(ctx, kind)
	if ctx.Err() != nil {
		return 0
	}
	if errors.Is(err, backup.ErrRunning) || errors.Is(err, errPaused) { // by a command: look when it may have ended
		return backupsLook
	}
	b.report(ctx, kind, err)
	b.tell(ctx)
	return time.Second // something else may be due
}

// errPaused is the error of work that an upgrade of berth calls off, and the next image makes up.
var errPaused = errors.New("berth is being upgraded")

// do does the work, unless pause calls it off.
func (b *backups) do(given context.Context, kind app.BackupKind) error {
	ctx, end := context.WithCancel(given)
	defer end()
	w := &job{end, make(chan struct{})}
	defer close(w.ended)
	b.mu.Lock()
	paused := b.paused
	if !paused {
		b.busy = w
	}
	b.mu.Unlock()
	if paused {
		return errPaused
	}
	err := b.work(ctx, kind)
	b.mu.Lock()
	b.busy = nil
	b.mu.Unlock()
	if ctx.Err() != nil && given.Err() == nil {
		return errPaused
	}
	return err
}

// pause ends what is under way, waits for its end, and lets nothing begin; or lets work begin again. An upgrade
// pauses while requests are answered: what ends later would let them wait.
func (b *backups) pause(on bool) {
	b.mu.Lock()
	b.paused = on
	w := b.busy
	b.mu.Unlock()
	if on && w != nil {
		w.end()
		<-w.ended
	}
}

// due is what is next.
func (b *backups) due(ctx context.Context) (app.BackupKind, time.Time, error) {
	st, err := b.status(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	runs, err := b.data.db.Backups.BackupRuns(ctx, 50)
	if err != nil {
		return "", time.Time{}, err
	}
	kind, at := backup.Due(st, backup.Failures(runs, app.BackupMade), time.Now())
	return kind, at, nil
}

// report tells owners of the host of what failed, and of applications that a backup lacks.
func (b *backups) report(ctx context.Context, kind app.BackupKind, failed error) {
	if failed != nil {
		b.log.Error("a backup failed", "kind", kind, "error", failed)
		b.notice(ctx, app.Notice{At: time.Now(), Kind: app.NoticeBackupFailed, Args: []string{string(kind), failed.Error()}})
		return
	}
	st, err := b.data.db.Backups.Status(ctx)
	if err != nil || kind != app.BackupMade || st.Good == nil || len(st.Good.Missing) == 0 {
		return
	}
	var names []string
	for _, id := range st.Good.Missing {
		names = append(names, string(id))
	}
	b.notice(ctx, app.Notice{At: time.Now(), Kind: app.NoticeBackupIncomplete, Args: []string{strings.Join(names, ", ")}})
}

// tell reminds administrators of missing backups, of missing rehearsals and of a key that was not shown.
func (b *backups) tell(ctx context.Context) {
	st, err := b.status(ctx)
	if err != nil {
		return
	}
	now := time.Now()
	day := func(r *app.BackupRun) string {
		if r == nil {
			return ""
		}
		return r.Began.In(time.Local).Format(time.DateOnly)
	}
	for _, one := range []struct {
		is    bool
		kind  app.NoticeKind
		last  string
		pause time.Duration
	}{
		{st.Missing(now), app.NoticeBackupMissing, day(st.Good), backupsTell},
		{st.Unrehearsed(now), app.NoticeBackupUnrehearsed, day(st.Rehearsed), backupsTell},
		{!st.KeyShown && st.Good != nil, app.NoticeBackupKey, "", backupsTellKey},
	} {
		if one.is && now.Sub(b.told[one.kind]) >= one.pause {
			b.told[one.kind] = now
			b.log.Warn("the backups are not as they should be; berth backup status says more", "kind", one.kind)
			b.notice(ctx, app.Notice{At: now, Kind: one.kind, Args: []string{one.last}})
		}
	}
}

// command runs berth backup run, or rehearse, with the settings of this daemon. Its error is the
// last line that the command printed.
func (b *backups) command(ctx context.Context, kind app.BackupKind, args []string) error {
	name := "run"
	if kind == app.BackupRehearsed {
		name = "rehearse"
	}
	// The image that runs, whatever the file is by now: both must know the same schema.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"backup", name, "--background"}, args...)...)
	cmd.Args[0] = "berth"
	var problems bytes.Buffer
	cmd.Stderr = &bound{b: &problems}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it takes restic along
	cmd.WaitDelay = backupsEnd
	err := cmd.Start()
	if err == nil {
		way, ended := context.WithCancel(ctx)
		var giving sync.WaitGroup
		giving.Go(func() {
			if problem := b.giveWay(way, cmd.Process.Pid, backupsBeat); problem != nil {
				b.log.Info("sites may answer later during a backup", "error", problem)
			}
		})
		err = cmd.Wait()
		ended()
		giving.Wait()
	}
	var ended *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &ended):
		return fmt.Errorf("cannot start berth backup %s: %w", name, err)
	case ended.ExitCode() == exit.Incomplete:
		return nil // Missing says which
	case ended.ExitCode() == exit.Busy:
		return backup.ErrRunning
	}
	lines := strings.Split(strings.TrimSpace(problems.String()), "\n")
	for _, line := range lines {
		if text, ok := strings.CutPrefix(line, "berth: "); ok {
			return errors.New(text)
		}
	}
	return fmt.Errorf("berth backup %s ended: %w", name, err)
}

// status is BackupStatus without what only people need.
func (b *backups) status(ctx context.Context) (app.BackupStatus, error) {
	st, err := b.data.db.Backups.Status(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	st.Policy, st.Repository = b.policy, b.settings.Backups.Repository
	if key, missing := backup.ReadKey(b.settings.BackupKey); missing == nil {
		st.KeyShown = st.ShownKey == backup.KeyID(key) || st.ShownKey == db.ShownBefore
	}
	for _, r := range []**app.BackupRun{&st.Last, &st.Good, &st.Rehearsed} {
		if *r != nil && (*r).Place != repository.Public(st.Repository) {
			*r = nil // of a repository of before
		}
	}
	if st.Running != nil && !backup.Running(b.settings.DataDir) {
		st.Running = nil // its process was killed, and nobody has said so yet
	}
	return st, err
}

// BackupStatus returns how the backups of a host are that s and d belong to.
func BackupStatus(ctx context.Context, s settings.Settings, d *db.DB) (app.BackupStatus, error) {
	b := &backups{settings: s, data: &data{db: d}, policy: s.BackupPolicy()}
	return b.BackupStatus(ctx)
}

// BackupProblem says what is wrong with the backups of a host, and what helps; "" when nothing is.
func BackupProblem(st app.BackupStatus, now time.Time) (problem, hint string) {
	last := "none yet"
	if st.Good != nil {
		last = st.Good.Began.In(time.Local).Format(time.DateOnly)
	}
	switch {
	case st.Repository == "":
		return "no backup is set up: if this disk dies, everything on it is lost", "set backups.repository in berth.toml, and restart berth"
	case st.Failed() != "":
		return "the last backup failed: " + st.Failed() + " (the last good one: " + last + ")", "berth backup run tries again"
	case st.Missing(now):
		return "this host has had no good backup for longer than a day and a half (the last good one: " + last + ")", "berth backup run makes one, or says why it cannot"
	case st.Rehearsed != nil && st.Rehearsed.Error != "":
		return "the last rehearsal of a backup failed: " + st.Rehearsed.Error, "berth backup rehearse tries again"
	case st.Unrehearsed(now):
		return "nobody knows whether the backup can be restored: it was not rehearsed", "berth backup rehearse finds out"
	case !st.KeyShown && st.ShownKey != "":
		return "the key that opens new backups is not the one that was shown, and is on this host alone", "berth backup key prints it for a safe place; older backups need the key of before"
	case !st.KeyShown:
		return "the key that opens the backups is on this host alone", "berth backup key prints it for a safe place"
	}
	return "", ""
}

// BackupStatus implements app.HostBackups.
func (b *backups) BackupStatus(ctx context.Context) (app.BackupStatus, error) {
	st, err := b.status(ctx)
	if err != nil || st.Repository == "" {
		return st, err
	}
	st.Repository = repository.Public(st.Repository)
	if st.Fixed, err = settings.FixedBackups(b.settings.File); err != nil {
		return st, err
	}
	runs, err := b.data.db.Backups.BackupRuns(ctx, 50)
	if err != nil {
		return st, err
	}
	kind, at := backup.Due(st, backup.Failures(runs, app.BackupMade), time.Now())
	for range 2 { // a rehearsal comes before the next backup
		if kind == app.BackupMade {
			break
		}
		ok := app.BackupRun{Began: at, Ended: at}
		after := st
		after.Rehearsed = &ok
		kind, at = backup.Due(after, 0, time.Now())
	}
	st.Next = at
	return st, nil
}

// SetBackupPolicy implements app.HostBackups.
func (b *backups) SetBackupPolicy(_ context.Context, p app.BackupPolicy) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.Rehearse == 0 {
		p.Rehearse = b.policy.Rehearse
	}
	stored, err := settings.ManageBackups(b.settings.File, p)
	var problem *exit.Problem
	if errors.As(err, &problem) {
		kind := app.Invalid
		if strings.Contains(err.Error(), "that file wins") {
			kind = app.Forbidden
		}
		return app.Errorf(kind, "the settings cannot be stored: %v", err)
	}
	if err != nil {
		return err
	}
	b.policy = stored
	b.poke("")
	return nil
}

// StartBackup implements app.HostBackups.
func (b *backups) StartBackup(_ context.Context, rehearse bool) error {
	kind := app.BackupMade
	if rehearse {
		kind = app.BackupRehearsed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.settings.Backups.Repository == "":
		return app.Errorf(app.Unusable, "no backup is set up: set backups.repository in berth.toml, and restart berth")
	case b.busy != nil || !b.poke(kind):
		return app.Errorf(app.Already, "a backup, or a rehearsal of one, is under way already")
	}
	return nil
}

func (b *backups) poke(kind app.BackupKind) bool {
	select {
	case b.wake <- kind:
		return true
	default:
		return false
	}
}

// Snapshots implements app.Snapshots.
func (b *backups) Snapshots(ctx context.Context, owner app.AccountID, id app.ID) ([]app.BackupSnapshot, error) {
	a, err := b.restore.App(owner, id)
	if err != nil {
		return nil, err
	}
	return b.data.db.Backups.Copies(ctx, a.App)
}

// source is an application's files in a backup, and what they were.
func (b *backups) source(ctx context.Context, owner app.AccountID, id app.ID, run string, withVariables bool) (app.Source, error) {
	a, err := b.restore.App(owner, id)
	if err != nil {
		return nil, err
	}
	copies, err := b.data.db.Backups.Copies(ctx, a.App)
	if err != nil {
		return nil, err
	}
	there := false
	for _, c := range copies {
		there = there || c.Run == run
	}
	if !there {
		return nil, app.Errorf(app.NotFound, "there is no snapshot %q of this application", run)
	}
	r, err := b.runner(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (up app.Unpacked, err error) {
		if err := b.reads.Acquire(ctx, 1); err != nil {
			return up, err
		}
		defer b.reads.Release(1)
		err = r.Application(ctx, run, id, a.UID, func(stream io.Reader) (err error) {
			up, err = b.data.trees.UnpackSnapshot(ctx, stream, id)
			return err
		})
		if err == nil && withVariables {
			up.Variables.Found = true
			up.Variables.All, err = r.Variables(ctx, run, id, Keys(b.settings.DataDir, b.settings.KeyFiles()...))
		}
		if err != nil && app.KindOf(err) == app.Internal && ctx.Err() == nil {
			b.log.Error("cannot read the backups", "app", id, "run", run, "error", err)
			err = &app.Error{Kind: app.Unavailable, Message: app.Textf("the backup cannot be read now (%v)", err), Err: err}
		}
		return up, err
	}, nil
}

// RestoreSnapshot implements app.Snapshots.
func (b *backups) RestoreSnapshot(
	ctx context.Context, owner app.AccountID, id app.ID, run string, withVariables bool,
) (app.Deployed, error) {
	source, err := b.source(ctx, owner, id, run, withVariables)
	if err != nil {
		return app.Deployed{}, err
	}
	return b.restore.RestoreFrom(ctx, owner, id, source, withVariables)
}

// CopySnapshot implements app.Snapshots.
func (b *backups) CopySnapshot(ctx context.Context, owner app.Account, id app.ID, run string, withVariables bool) (app.Deployed, error) {
	source, err := b.source(ctx, owner.ID, id, run, withVariables)
	if err != nil {
		return app.Deployed{}, err
	}
	return b.restore.UploadFrom(ctx, owner, source)
}

// runner reads the repository that the settings name.
func (b *backups) runner(ctx context.Context) (*backup.Runner, error) {
	id, err := b.data.db.GroupName(ctx)
	if err != nil {
		return nil, err
	}
	repo, err := OpenRepository(b.settings)
	if err != nil {
		return nil, app.Errorf(app.Unavailable, "the backup cannot be read now (%v)", err)
	}
	return &backup.Runner{
		Source:     backup.Source{DB: b.data.db, DataDir: b.settings.DataDir, Trees: b.data.trees},
		Repository: repo, ID: id,
		Note: func(format string, args ...any) { b.log.Warn(fmt.Sprintf(format, args...)) },
	}, nil
}

// OpenRepository returns the repository that the settings name. Nothing of it is touched yet. A directory
// of archives needs no backup key, but for the secrets in it.
func OpenRepository(s settings.Settings) (repository.Repository, error) {
	if s.Backups.Repository == "" {
		return nil, notSetUp()
	}
	key, missing := backup.ReadKey(s.BackupKey)
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
		return nil, missing
	}
	repo, err := OpenRepositoryWith(s, key)
	if errors.Is(err, repository.ErrNoKey) {
		err = missing
	}
	return repo, err
}

func notSetUp() error {
	return exit.NewProblem(exit.NotFound, errors.New("no backup is set up"), "Hint: set backups.repository in berth.toml, and see docs/backups.md.")
}

// OpenRepositoryWith is OpenRepository with a backup key.
func OpenRepositoryWith(s settings.Settings, key string) (repository.Repository, error) {
	if s.Backups.Repository == "" {
		return nil, notSetUp()
	}
	env, err := s.BackupEnvironment()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return repository.New(repository.Options{
		Place: s.Backups.Repository, Key: key, Env: env, Cache: filepath.Join(s.DataDir, BackupCacheName), Host: host, Nice: true,
	})
}

// RepositoryProblem is what the owner of the host does about an error of the repository; "" where berth does not know.
func RepositoryProblem(err error) string {
	switch {
	case errors.Is(err, repository.ErrNone):
		return "Hint: look whether its disk is mounted, and whether backups.repository is right. berth makes a repository with the first backup to a place alone."
	case errors.Is(err, repository.ErrPassword):
		return "Hint: put the key that was printed for this repository into the file that backups.key_file names."
	case errors.Is(err, backup.ErrOtherKey):
		return "Hint: put that key into the file that backups.key_file names; or confirm once, with berth backup run --new-key, that this host's key opens the backups from now on."
	case errors.Is(err, repository.ErrFull):
		return "Hint: make room there, or keep fewer backups (backups.keep_daily, keep_weekly, keep_monthly), and run berth backup prune."
	case errors.Is(err, repository.ErrClock):
		return "Hint: compare the output of date -u with a clock that you trust; timedatectl set-ntp true keeps the clock of a host right."
	case errors.Is(err, repository.ErrLocked):
		return "Hint: wait until the other program has ended. berth removes a lock that nobody has after half an hour."
	}
	return ""
}
