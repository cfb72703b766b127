package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/daemon"
	"berth/daemon/backup"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/files/bundle"
	"berth/files/repository"
)

// backupRun is "backup run": a backup into the repository, now.
func backupRun(c *caller) *cobra.Command {
	var newKey *bool
	cmd := c.onBackups("run [--background] [--new-key] [--config FILE] [flags]",
		"back up the whole host into the repository of backups.repository; programs keep running", true,
		func(ctx context.Context, r *backup.Runner) error {
			r.AcceptKey = *newKey
			run, err := r.Backup(ctx)
			if err != nil {
				return err
			}
			c.Tell("backup %s: %s", run.Run, contents(run))
			if len(run.Missing) > 0 {
				return exit.NewProblem(exit.Incomplete, fmt.Errorf("the backup is made, but without the files of %d of the applications", len(run.Missing)),
					"Hint: the warnings say why; the rest of it is whole and can be restored.")
			}
			return nil
		})
	newKey = command.Toggle(cmd, "new-key", "back up with this host's key, although the newest backup needs another one")
	return cmd
}

// backupRehearse is "backup rehearse": the newest backup is proved.
func backupRehearse(c *caller) *cobra.Command {
	return c.onBackups("rehearse [--background] [--config FILE] [flags]", "prove that the newest backup can be restored: read all of it, compare every sum, and restore one application beside the others; nothing starts", false,
		func(ctx context.Context, r *backup.Runner) error {
			run, err := r.Rehearse(ctx)
			if err == nil {
				c.Tell("the backup %s can be restored: %s", run.Run, contents(run))
				if run.Whole != "" {
					c.Tell("the application %s was restored whole, and removed again", run.Whole)
				}
			}
			return err
		})
}

// backupPrune is "backup prune": old backups are removed.
func backupPrune(c *caller) *cobra.Command {
	return c.onBackups("prune [--background] [--config FILE] [flags]", "remove the backups that the settings do not keep, and free what they took", false,
		func(ctx context.Context, r *backup.Runner) error {
			_, err := r.Prune(ctx)
			return err
		})
}

// contents says what is in a backup.
func contents(run app.BackupRun) string {
	text := fmt.Sprintf("%s, %s", counted(run.Apps, "application"), megabytes(run.Bytes))
	if run.Reused > 0 {
		text += fmt.Sprintf(", %d of them unchanged since an earlier backup", run.Reused)
	}
	if len(run.Missing) > 0 {
		text += fmt.Sprintf(", without the files of %s", idList(run.Missing))
	}
	return text + ", " + run.Ended.Sub(run.Began).Round(100*time.Millisecond).String()
}

func megabytes(n int64) string {
	if n < 10<<20 {
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MB"
	}
	return strconv.FormatInt(inMB(n), 10) + " MB"
}

func idList(ids []app.ID) string {
	var names []string
	for _, id := range ids {
		names = append(names, string(id))
	}
	return strings.Join(names, ", ")
}

// onBackups is a command that works on the backups. A signal ends it cleanly.
func (c *caller) onBackups(use, short string, create bool, do func(context.Context, *backup.Runner) error) *cobra.Command {
	cmd := command.New(use, short, 0, 0)
	background := command.Toggle(cmd, "background", "let everything else on this host go first")
	from := c.settingFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		s, err := from.Load(c.Getenv)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(use, " ")
		if err := mustBeRoot(name+" a backup", ", for it reads the files of every application", "backup "+name); err != nil {
			return err
		}
		if *background {
			if err := lowPriority(); err != nil {
				c.Tell("warning: the backup runs at the usual priority: %v", err)
			}
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		r, closed, err := c.runner(ctx, s, create)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closed()) }()
		return runnerProblem(name, do(ctx, r))
	}
	return cmd
}

// runner opens the database, the trees and the repository that the settings name.
func (c *caller) runner(ctx context.Context, s settings.Settings, create bool) (_ *backup.Runner, closed func() error, err error) {
	repo, key, keep, err := c.repository(s, create)
	if err != nil {
		return nil, nil, err
	}
	d, err := openDatabase(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	store, err := files.Open(s.DataDir, bundle.Limits{})
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	closed = func() error { return errors.Join(store.Close(), d.Close()) }
	warn := func(format string, args ...any) { c.Tell("warning: "+format, args...) }
	store.SetFloor(s.Host.DiskFloor.Bytes())
	c.copyDatabases(store)
	r := &backup.Runner{
		Source:     backup.Source{DB: d, DataDir: s.DataDir, Trees: store, Config: s.File, Managed: settings.ManagedFile(s.File)},
		Repository: repo, BackupKey: key, StoreKey: keep, Policy: s.BackupPolicy(), Where: time.Local, Note: warn,
	}
	if r.ID, err = d.GroupName(ctx); err != nil {
		return nil, nil, errors.Join(err, closed())
	}
	if hold, held, err := d.Holds.HoldOf(ctx); err != nil || create && held {
		if err == nil {
			err = exit.NewProblem(exit.Failure, fmt.Errorf("cannot back up: this host holds its programs, and the backups are those of %s", hold.Peer),
				"Hint: berth resume lets the programs start here, and the backups go on.")
		}
		return nil, nil, errors.Join(err, closed())
	}
	keys, err := daemon.Keys(s.DataDir, s.KeyFiles()...).Keys()
	if err == nil && create {
		r.Keys, err = backup.WrapKeys(keys, key, true)
	}
	if err != nil {
		return nil, nil, errors.Join(err, closed())
	}
	return r, closed, nil
}

// repository returns the repository that the settings name. With create it also returns the backup key, and
// for a key that it made what stores it.
func (c *caller) repository(s settings.Settings, create bool) (repo repository.Repository, key string, keep func() error, err error) {
	if !create || s.Backups.Repository == "" {
		repo, err = daemon.OpenRepository(s)
		return repo, "", nil, err
	}
	if key, err = backup.ReadKey(s.BackupKey); errors.Is(err, fs.ErrNotExist) {
		key, err = backup.NewKey(), nil
		keep = func() error {
			if err := backup.StoreKey(s.BackupKey, key); err != nil {
				return err
			}
			c.Tell("warning: berth made the key %s, which opens this backup and later ones, and stored it in %s; berth backup key prints it for a safe place", backup.KeyID(key), s.BackupKey)
			return nil
		}
	}
	if err == nil {
		repo, err = daemon.OpenRepositoryWith(s, key)
	}
	return repo, key, keep, err
}

// copyDatabases lets store copy the databases that programs have open whole, and warns of those that it cannot.
func (c *caller) copyDatabases(store *files.Store) {
	store.CopyDatabases(backup.CopyDatabase)
	store.NoteDatabases(func(id app.ID, path string, err error) {
		c.Tell("warning: the database %q of the application %s is in the backup as its files were, and may not be of one moment: %v", path, id, err)
	})
}

// runnerProblem says what is to be done about an error.
func runnerProblem(verb string, err error) error {
	if err == nil {
		return nil
	}
	var told *exit.Problem
	if errors.As(err, &told) {
		return err
	}
	code := exit.Failure
	switch {
	case errors.Is(err, backup.ErrRunning), errors.Is(err, repository.ErrLocked):
		code = exit.Busy
	case errors.Is(err, repository.ErrNone), app.KindOf(err) == app.NotFound:
		code = exit.NotFound
	}
	return exit.NewProblem(code, fmt.Errorf("cannot %s: %w", map[string]string{
		"run": "back up", "rehearse": "rehearse the backup", "prune": "remove old backups", "list": "list the backups", "restore": "restore",
	}[verb], err), daemon.RepositoryProblem(err))
}

// ioprioIdle is the class of disk access that waits for everybody else (ioprio_set(2)).
const (
	ioprioIdle       = 3 << 13
	ioprioWhoProcess = 1
)

// lowPriority gives every thread of this process, and so all that it starts, the lowest priority
// for processors and disks. Both belong to a thread on Linux (sched(7), ioprio_set(2)). With the policy SCHED_IDLE
// other processes of its group that wake up go first; the daemon puts it into a group that waits for all others
// (cgroup.Tree.GiveWay). The threads share one processor, which leaves the others to sites: on two processors a backup
// of 344 MB took as long as with both.
func lowPriority() error {
	threads, err := os.ReadDir("/proc/self/task")
	one := lastProcessor()
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: 19}
		err = errors.Join(err, unix.SchedSetAttr(id, &idle, 0), unix.SchedSetaffinity(id, one))
		if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, uintptr(id), ioprioIdle); errno != 0 {
			err = errors.Join(err, errno)
		}
	}
	return err
}

// lastProcessor is the one with the highest number of those that this process may use.
func lastProcessor() *unix.CPUSet {
	var may, one unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil {
		return &may // what cannot be asked cannot be set either
	}
	last := len(may)*64 - 1
	for last > 0 && !may.IsSet(last) {
		last--
	}
	one.Set(last)
	return &one
}

// backupStatus is "backup status": how the backups are. It fails when they are not as they should be.
func backupStatus(c *caller) *cobra.Command {
	cmd := command.New("status [--json] [--data-dir DIR]", "show when this host was backed up and rehearsed last, and what is next; fails when something is wrong", 0, 0)
	asJSON := command.JSON(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, _ []string) error {
		st, err := daemon.BackupStatus(ctx, s, d)
		if err != nil {
			return err
		}
		if err := c.printBackups(st, *asJSON); err != nil {
			return err
		}
		problem, hint := daemon.BackupProblem(st, time.Now())
		if problem == "" {
			return nil
		}
		return exit.NewProblem(exit.Failure, errors.New(problem), "Hint: "+hint)
	})
}

// backupJSON is a backup as programs read it.
type backupJSON struct {
	Name    string     `json:"name"`
	Began   time.Time  `json:"began"`
	Ended   *time.Time `json:"ended,omitempty"`
	Apps    int        `json:"apps"`
	Reused  int        `json:"reused"`
	Bytes   int64      `json:"bytes"`
	Missing []app.ID   `json:"missing,omitempty"`
	Error   string     `json:"error,omitempty"`
}

func asBackup(r *app.BackupRun) *backupJSON {
	if r == nil {
		return nil
	}
	b := &backupJSON{Name: r.Run, Began: r.Began, Apps: r.Apps, Reused: r.Reused, Bytes: r.Bytes, Missing: r.Missing, Error: r.Error}
	if !r.Ended.IsZero() {
		b.Ended = &r.Ended
	}
	return b
}

// printBackups prints how the backups are.
func (c *caller) printBackups(st app.BackupStatus, asJSON bool) error {
	if asJSON {
		return c.Print(true, map[string]any{
			"repository": st.Repository, "at": st.Policy.At, "keepDaily": st.Policy.Daily, "keepWeekly": st.Policy.Weekly, "keepMonthly": st.Policy.Monthly,
			"rehearseSeconds": int(st.Policy.Rehearse.Seconds()), "next": st.Next, "running": asBackup(st.Running), "last": asBackup(st.Last), "good": asBackup(st.Good),
			"rehearsed": asBackup(st.Rehearsed), "missing": st.Missing(time.Now()), "unrehearsed": st.Unrehearsed(time.Now()), "keyShown": st.KeyShown,
		}, nil)
	}
	day := func(t time.Time) string { return t.In(time.Local).Format("2006-01-02 15:04") }
	told := func(r *app.BackupRun, never string) string {
		switch {
		case r == nil:
			return never
		case r.Error != "":
			return fmt.Sprintf("%s, failed: %s", day(r.Began), r.Error)
		}
		return fmt.Sprintf("%s, %s", day(r.Began), contents(*r))
	}
	rows := [][2]string{
		{"repository", st.Repository},
		{"keeps", fmt.Sprintf("%d daily, %d weekly, %d monthly", st.Policy.Daily, st.Policy.Weekly, st.Policy.Monthly)},
		{"next", day(st.Next)},
		{"last good", told(st.Good, "none yet")},
		{"rehearsed", told(st.Rehearsed, "never")},
		{"key", map[bool]string{true: "was shown", false: "was never shown: berth backup key prints it for a safe place"}[st.KeyShown]},
	}
	if r := st.Running; r != nil {
		rows = slices.Insert(rows, 3, [2]string{"under way", fmt.Sprintf("a %s, since %s", r.Kind, day(r.Began))})
	}
	if st.Last != nil && st.Last.Error != "" {
		rows = slices.Insert(rows, 3, [2]string{"last", told(st.Last, "")})
	}
	for _, row := range rows {
		if err := c.say(0, fmt.Sprintf("%-12s%s", row[0], row[1])); err != nil {
			return err
		}
	}
	return nil
}

// backupList is "backup list": what is in the repository.
func backupList(c *caller) *cobra.Command {
	cmd := command.New("list [--json] [--config FILE] [flags]", "list the backups in the repository, newest first", 0, 0)
	asJSON := command.JSON(cmd)
	from := c.settingFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		s, err := from.Load(c.Getenv)
		if err != nil {
			return err
		}
		repo, err := daemon.OpenRepository(s)
		if err != nil {
			return err
		}
		runs, all, err := (&backup.Runner{Repository: repo}).Backups(cmd.Context())
		if err != nil {
			return runnerProblem("list", err)
		}
		type row struct {
			Name string    `json:"name"`
			At   time.Time `json:"at"`
			Apps int       `json:"apps"`
		}
		rows := []row{}
		for _, run := range runs {
			at, _ := app.ParseRun(run)
			r := row{Name: run, At: at, Apps: -1} // the head is none
			for _, s := range all {
				if s.Of(run) {
					r.Apps++
				}
			}
			rows = append(rows, r)
		}
		return c.Print(*asJSON, rows, func(out io.Writer) {
			fmt.Fprintln(out, "NAME\tMADE\tAPPLICATIONS")
			for _, r := range rows {
				fmt.Fprintf(out, "%s\t%s\t%d\n", r.Name, r.At.In(time.Local).Format("2006-01-02 15:04"), r.Apps)
			}
		})
	}
	return cmd
}

// backupKey is "backup key": what opens the backups, for a safe place.
func backupKey(c *caller) *cobra.Command {
	cmd := command.New("key [--again] [--data-dir DIR]", "print the key that opens the backups, once, for a safe place", 0, 0)
	again := command.Toggle(cmd, "again", "print it although somebody has seen it before")
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, _ []string) error {
		if err := mustBeRoot("show the key of the backups", "", "backup key"); err != nil {
			return err
		}
		return c.showBackupKey(ctx, d, s, *again)
	})
}

func (c *caller) showBackupKey(ctx context.Context, d *db.DB, s settings.Settings, again bool) error {
	st, err := daemon.BackupStatus(ctx, s, d)
	if err != nil {
		return err
	}
	if st.KeyShown && !again {
		return exit.NewProblem(exit.Failure, errors.New("cannot show the key: it was shown before"), "Hint: --again shows it again.")
	}
	key, err := backup.ReadKey(s.BackupKey)
	if errors.Is(err, fs.ErrNotExist) {
		key = backup.NewKey()
		err = backup.StoreKey(s.BackupKey, key)
	}
	if err == nil {
		err = d.Backups.ShownKey(ctx, backup.KeyID(key))
	}
	if err != nil {
		return err
	}
	if st.ShownKey != "" && !st.KeyShown {
		c.Tell("warning: this is not the key that was shown before; older backups need that one")
	}
	c.record(ctx, d, 0, "backup.key", "", "")
	c.Tell("this key is in %s. It is the password of the repository, and opens the key of the secrets in it: with it alone every backup can be read and restored. Keep it in a safe place, away from this host and from the backups", s.BackupKey)
	_, err = fmt.Fprintln(c.Stdout, key)
	return err
}
