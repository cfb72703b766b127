package app

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// BackupSnapshot is a copy of an application's files in the backup of the host.
type BackupSnapshot struct {
	Run   string    // the backup that it belongs to: RunName of its time
	At    time.Time // when the backup began
	Bytes int64     // of the files' contents
}

// runLayout is the form of a backup's name.
const runLayout = "20060102T150405Z"

// RunName names the backup of the host that begins at a time.
func RunName(at time.Time) string { return at.UTC().Format(runLayout) }

// ParseRun returns the time that a backup's name tells, and whether it is one.
func ParseRun(name string) (time.Time, bool) {
	at, err := time.Parse(runLayout, name)
	return at, err == nil && RunName(at) == name
}

// BackupPolicy says when the host is backed up, and what is kept. The zero value keeps nothing.
type BackupPolicy struct {
	At       string // HH:MM in the local time of the host
	Daily    int    // of so many days the newest backup is kept
	Weekly   int
	Monthly  int
	Rehearse time.Duration // between two rehearsals
}

// BackupKind is what was done to the backups of the host.
type BackupKind string

// The kinds. They are stored.
const (
	BackupMade      BackupKind = "backup"
	BackupRehearsed BackupKind = "rehearsal"
	BackupPruned    BackupKind = "prune"
)

// BackupRun is one backup of the host, one rehearsal, or one removal of old backups.
type BackupRun struct {
	ID      int64
	Kind    BackupKind
	Place   string // the repository, without passwords
	Run     string // the backup that was made or rehearsed; "" when pruned
	Began   time.Time
	Ended   time.Time // zero while it is under way, or when its process was killed
	Apps    int       // applications that are in it, or that were checked
	Reused  int       // of those, applications that had not changed, so that an earlier copy counts
	Bytes   int64     // of contents
	Stored  int64     // that the repository grew by; 0 when that is not known
	Missing []ID      // applications of which the files are not in it
	Whole   ID        // of a rehearsal that ends now: the application that was restored whole; not remembered
	Error   string    // why it failed, in words; "" when it did not
}

// Good reports whether it ended without an error.
func (r BackupRun) Good() bool { return !r.Ended.IsZero() && r.Error == "" }

// BackupStatus is how the backup of the host is.
type BackupStatus struct {
	Repository string // where it goes, without passwords; "" when nothing is set up
	Policy     BackupPolicy
	Fixed      []string // the settings of the policy that the settings file decides, by their keys
	Next       time.Time
	Running    *BackupRun // what is under way
	Last       *BackupRun // the last backup that ended, well or not
	Good       *BackupRun // the last one that ended well
	Rehearsed  *BackupRun // the last rehearsal that ended
	Since      time.Time  // from when on there was something to back up
	ShownKey   string     // the id of the backup key that berth showed last; "" for none
	KeyShown   bool       // ShownKey is the key that opens the backups now
}

// Overdue is after how long without a good backup berth says that one is missing.
const Overdue = 36 * time.Hour

// Failed returns why the last backup failed, "" if it did not.
func (s BackupStatus) Failed() string {
	if s.Repository == "" || s.Last == nil {
		return ""
	}
	return s.Last.Error
}

// Missing reports whether there was no good backup for longer than Overdue.
func (s BackupStatus) Missing(now time.Time) bool {
	since := s.Since
	if s.Good != nil {
		since = s.Good.Began
	}
	return s.Repository != "" && now.Sub(since) > Overdue
}

// Unrehearsed reports whether no rehearsal has ended well for twice the time between two.
func (s BackupStatus) Unrehearsed(now time.Time) bool {
	since := s.Since
	if s.Rehearsed != nil && s.Rehearsed.Good() {
		since = s.Rehearsed.Began
	}
	return s.Repository != "" && s.Good != nil && now.Sub(since) > 2*s.Policy.Rehearse
}

// Keep returns the names of the backups that the policy keeps, of those that there are: of each
// of the newest Daily days that have one the newest, and so with weeks (ISO 8601) and months, in
// the time zone of where. The newest of all is always kept. Names that are none are kept.
func (p BackupPolicy) Keep(runs []string, where *time.Location) []string {
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b string) int { return strings.Compare(b, a) })
	kept := map[string]bool{}
	newest := func(most int, period func(time.Time) string) {
		seen := map[string]bool{}
		for _, run := range runs {
			at, ok := ParseRun(run)
			if !ok {
				kept[run] = true
				continue
			}
			if in := period(at.In(where)); !seen[in] && len(seen) < most {
				seen[in], kept[run] = true, true
			}
		}
	}
	newest(max(p.Daily, 1), func(t time.Time) string { return t.Format(time.DateOnly) })
	newest(p.Weekly, func(t time.Time) string { return fmt.Sprint(t.ISOWeek()) })
	newest(p.Monthly, func(t time.Time) string { return t.Format("2006-01") })
	return slices.DeleteFunc(runs, func(run string) bool { return !kept[run] })
}
