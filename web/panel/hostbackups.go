package panel

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/app"
)

// backupLines are what a host without backups lacks in its settings file.
const backupLines = `[backups]
repository = "sftp:backup@nas.example.org:/srv/berth"`

// The settings of app.BackupPolicy, as app.BackupStatus.Fixed names them.
const (
	keyAt       = "backups.at"
	keyDaily    = "backups.keep_daily"
	keyWeekly   = "backups.keep_weekly"
	keyMonthly  = "backups.keep_monthly"
	keyRehearse = "backups.rehearse"
)

// day is the unit in which people say how often a backup is rehearsed.
const day = 24 * time.Hour

// hostBackups is what the page of the host says of its backups.
type hostBackups struct {
	app.BackupStatus
	Lines      string         // of the settings file, where nothing is set up
	Late       bool           // there was no good backup for a while
	Unproved   bool           // there was no good rehearsal for a while
	Lacking    string         // applications of which the files are not in the last good backup
	Failed     *app.BackupRun // the last backup, if it failed
	Days       string         // between two rehearsals
	Typed      url.Values     // the fields of the form, if it was refused
	AllFixed   bool           // the settings file decides everything
	Rehearsing bool           // what is under way is a rehearsal
}

// backupsOf asks how the backup of the host is; all are the applications of the host. It is
// nil where the host can have none.
func (p *hostPages) backupsOf(c *call, all []app.Snapshot) (*hostBackups, error) {
	if p.backups == nil {
		return nil, nil //nolint:nilnil // nothing to show is no failure
	}
	s, err := p.backups.BackupStatus(c.ctx())
	if err != nil {
		return nil, err
	}
	now := time.Now()
	b := &hostBackups{
		BackupStatus: s, Lines: backupLines, Late: s.Missing(now), Unproved: s.Unrehearsed(now),
		Days:       strconv.FormatFloat(s.Policy.Rehearse.Hours()/day.Hours(), 'f', -1, 64),
		Rehearsing: s.Running != nil && s.Running.Kind == app.BackupRehearsed,
	}
	if c.Request.PostForm.Has("at") { // refused, so it is shown as it was typed
		b.Typed = c.Request.PostForm
	}
	if s.Good != nil {
		b.Lacking = names(s.Good.Missing, all)
	}
	if s.Last != nil && !s.Last.Good() {
		b.Failed = s.Last
	}
	decided := []string{keyAt, keyDaily, keyWeekly, keyMonthly, keyRehearse}
	b.AllFixed = len(slices.DeleteFunc(decided, b.Has)) == 0
	return b, nil
}

// Has reports whether the settings file decides a setting.
func (b *hostBackups) Has(key string) bool { return slices.Contains(b.Fixed, key) }

// Never reports whether no rehearsal has ended yet.
func (b *hostBackups) Never() bool { return b.Rehearsed == nil }

// Field is what the form shows for a setting: what was typed, or what holds.
func (b *hostBackups) Field(name string, holds any) any {
	if b.Typed.Has(name) {
		return b.Typed.Get(name)
	}
	return holds
}

// setBackups sets when the host is backed up, and what is kept. What the settings file
// decides stays, whatever the form says.
func (p *hostPages) setBackups(c *call, f url.Values) (answer, error) {
	if p.backups == nil {
		return answer{}, errNowhere()
	}
	s, err := p.backups.BackupStatus(c.ctx())
	if err != nil {
		return answer{}, err
	}
	policy := s.Policy
	set := func(key string, change func()) {
		if !slices.Contains(s.Fixed, key) {
			change()
		}
	}
	set(keyAt, func() { policy.At = strings.TrimSpace(f.Get("at")) })
	set(keyDaily, func() { policy.Daily = limitOf(f, "daily") })
	set(keyWeekly, func() { policy.Weekly = limitOf(f, "weekly") })
	set(keyMonthly, func() { policy.Monthly = limitOf(f, "monthly") })
	set(keyRehearse, func() { policy.Rehearse = time.Duration(min(limitOf(f, "days"), 10000)) * day })
	c.audit.Note("at=%.10q daily=%d weekly=%d monthly=%d rehearse=%s", policy.At, policy.Daily, policy.Weekly, policy.Monthly, policy.Rehearse)
	return done("/host", c.lang.Say("When the host is backed up, and what is kept, was changed.")), p.backups.SetBackupPolicy(c.ctx(), policy)
}

// startBackup returns the handler that starts a backup, or with rehearse a rehearsal.
func (p *hostPages) startBackup(rehearse bool) handler {
	return func(c *call) (answer, error) {
		if p.backups == nil {
			return answer{}, errNowhere()
		}
		said := c.lang.Say("A backup has begun.")
		if rehearse {
			said = c.lang.Say("A rehearsal has begun.")
		}
		return done("/host", said), p.backups.StartBackup(context.WithoutCancel(c.ctx()), rehearse)
	}
}
