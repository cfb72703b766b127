package repository

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// The errors of a repository. They say what the owner of the host can mend.
var (
	// ErrNone is the error of a place without a repository.
	ErrNone = errors.New("there is no repository")
	// ErrNoKey is the error of New for a place that needs a key, without one.
	ErrNoKey = errors.New("a repository of restic needs a backup key")
	// ErrPassword is the error of a repository that another password opens.
	ErrPassword = errors.New("the backup key does not open the repository")
	// ErrLocked is the error of a repository in which somebody else is at work.
	ErrLocked = errors.New("somebody else works in the repository")
	// ErrFull is the error of a place that has no room left.
	ErrFull = errors.New("there is no room left in the repository")
	// ErrClock is the error of a server that refuses requests because its clock and that of this host differ.
	ErrClock = errors.New("the clock of this host is wrong, or that of the server")
	// ErrDamaged is the error of what is not what was saved.
	ErrDamaged = errors.New("the repository is damaged")
)

// Repository keeps streams. It is for one goroutine at a time, and Lock of daemon/backup keeps
// other processes of this host off. Methods block as long as the place needs, and end early
// when ctx does. What they leave when they fail, or their process is killed, is of no run.
type Repository interface {
	// Where names the place, without passwords.
	Where() string
	// Open makes sure that there is a repository which the key opens: ErrNone, unless create
	// makes it, or ErrPassword. It removes locks of processes of this host that are no more.
	Open(ctx context.Context, create bool) error
	// Save keeps what write writes under a name, such as apps/shop, and with labels, and
	// returns it. When write fails nothing is kept, or nothing that counts.
	Save(ctx context.Context, name string, labels map[string]string, write func(w io.Writer) error) (Snapshot, error)
	// Commit makes snapshots part of a run: those that were saved, and those of earlier runs.
	// head, one that was saved, comes last: the run is there when head is part of it. It
	// returns how many bytes the place keeps more for those that were saved, 0 where that is
	// not known.
	Commit(ctx context.Context, run string, head Snapshot, others []Snapshot) (int64, error)
	// List returns every snapshot, also of no run, the newest first.
	List(ctx context.Context) ([]Snapshot, error)
	// Load lets read read a stream. ErrDamaged when it is not what was saved, as far as the
	// place can tell. What read leaves is not read.
	Load(ctx context.Context, s Snapshot, read func(r io.Reader) error) error
	// Drop takes runs away, and snapshots that are of no other run. What they took of the
	// place is free after Prune.
	Drop(ctx context.Context, runs []string) error
	// Prune frees what nothing needs, and removes what was saved for no run.
	Prune(ctx context.Context) error
	// Check looks whether the repository is whole: ErrDamaged. Of the files that hold contents it reads and
	// proves those of one of parts (1 to 256): part is 0 to parts-1. A file is in one part alone, and stays
	// there, so that calls for each part prove every bit.
	Check(ctx context.Context, part, parts int) error
}

// Snapshot is one stream that was saved.
type Snapshot struct {
	ID     string            // of the place's own; it stays
	Name   string            // what it is of
	Labels map[string]string // keys and values of letters, digits and -_.:/
	At     time.Time         // when it was saved
	Runs   []string          // that it is part of
}

// Of reports whether the snapshot is part of a run.
func (s Snapshot) Of(run string) bool { return slices.Contains(s.Runs, run) }

// Find returns the snapshot of a name in a run.
func Find(all []Snapshot, run, name string) (Snapshot, bool) {
	at := slices.IndexFunc(all, func(s Snapshot) bool { return s.Name == name && s.Of(run) })
	if at < 0 {
		return Snapshot{}, false
	}
	return all[at], true
}

// Runs returns the names of the runs that there are, newest first: those of which the
// snapshot named head is part.
func Runs(all []Snapshot, head string) []string {
	var runs []string
	for _, s := range all {
		if s.Name == head {
			runs = append(runs, s.Runs...)
		}
	}
	slices.Sort(runs)
	slices.Reverse(runs)
	return slices.Compact(runs)
}

// Options are what a place needs.
type Options struct {
	// Place is where: "archives:" and the path of a directory, or anything that restic
	// takes as a repository.
	Place string
	// Key is the password of the repository; a directory of archives needs none.
	Key string
	// Env is added to the environment of restic: credentials of the place. Nothing else but
	// HOME and PATH is in it.
	Env []string
	// Cache is a directory for restic's cache; "" for none.
	Cache string
	// Host is the name of this host.
	Host string
	// Nice runs restic at the lowest priority for processors and disks.
	Nice bool
	// Restic is the program; "" looks for it in PATH.
	Restic string
}
