package db

import (
	"context"
	"strings"

	"berth/app"
)

// Backups remembers what was done for the backup of the host.
type Backups struct{ db *DB }

// keptBackupRuns is how many rows of each kind are remembered: the newest.
const keptBackupRuns = 400

// CutShort is the error of what was under way when its process ended.
const CutShort = "it was cut short: berth or the host was stopped"

const (
	selectBackupRuns = "SELECT id, kind, place, run, began, ended, apps, reused, bytes, stored, missing, error FROM backup_run"
	newestBackup     = " ORDER BY id DESC LIMIT 1"
)

func scanBackupRun(row scanner) (r app.BackupRun, err error) {
	var missing string
	err = row.Scan(&r.ID, &r.Kind, &r.Place, &r.Run, asTime(&r.Began), asTime(&r.Ended),
		&r.Apps, &r.Reused, &r.Bytes, &r.Stored, &missing, &r.Error)
	for id := range strings.FieldsSeq(missing) {
		r.Missing = append(r.Missing, app.ID(id))
	}
	return r, err
}

// BeginBackup remembers that something begins at a place, and that whatever was under way was CutShort:
// the caller holds the lock that only one can have.
func (s Backups) BeginBackup(ctx context.Context, kind app.BackupKind, place string) (app.BackupRun, error) {
	return put(ctx, s.db, "store that a backup begins", func(t tx) (r app.BackupRun, err error) {
		now := stored(s.db.now())
		if err := t.exec("UPDATE backup_run SET ended = max(began, 1), error = ? WHERE ended = 0", CutShort); err != nil {
			return r, err
		}
		r = app.BackupRun{Kind: kind, Place: place, Began: now}
		r.ID, err = t.insert(`INSERT INTO backup_run (kind, place, run, began, ended, apps, reused, bytes, stored, missing, error)
			VALUES (?, ?, '', ?, 0, 0, 0, 0, 0, '', '')`, kind, place, stamp(now))
		if err == nil {
			err = t.exec("DELETE FROM backup_run WHERE kind = ?1 AND id NOT IN (SELECT id FROM backup_run WHERE kind = ?1 ORDER BY id DESC LIMIT ?2)",
				kind, keptBackupRuns)
		}
		return r, err
	})
}

// AppCopy is a copy of an application that a backup has.
type AppCopy struct {
	App     app.ID
	UID     int
	Account app.AccountID
	Bytes   int64
}

// EndBackup remembers how something ended, and in the same transaction the copies that a backup has.
func (s Backups) EndBackup(ctx context.Context, r app.BackupRun, copies []AppCopy) error {
	var missing []string
	for _, id := range r.Missing {
		missing = append(missing, string(id))
	}
	return s.db.write(ctx, "store how a backup ended", func(t tx) error {
		err := t.change(nil, "UPDATE backup_run SET run = ?, ended = ?, apps = ?, reused = ?, bytes = ?, stored = ?, missing = ?, error = ? WHERE id = ?",
			r.Run, stamp(r.Ended), r.Apps, r.Reused, r.Bytes, r.Stored, strings.Join(missing, " "), r.Error, r.ID)
		for _, c := range copies {
			if err == nil {
				err = t.exec("INSERT OR REPLACE INTO snapshot (app, uid, account, run, bytes) VALUES (?, ?, ?, ?, ?)", c.App, c.UID, c.Account, r.Run, c.Bytes)
			}
		}
		return err
	})
}

// BackupRuns returns the newest rows, newest first.
func (s Backups) BackupRuns(ctx context.Context, most int) ([]app.BackupRun, error) {
	return getAll(ctx, s.db, "list the backups", scanBackupRun, selectBackupRuns+" ORDER BY id DESC LIMIT ?", most)
}

// Status returns what is remembered of app.BackupStatus.
func (s Backups) Status(ctx context.Context) (app.BackupStatus, error) {
	return get(ctx, s.db, "look at the backups", func(t tx) (st app.BackupStatus, err error) {
		running, err := one(t, scanBackupRun, nil, selectBackupRuns+" WHERE ended = 0"+newestBackup)
		if err != nil {
			return st, err
		}
		last, err := one(t, scanBackupRun, nil, selectBackupRuns+" WHERE kind = 'backup' AND ended > 0"+newestBackup)
		if err != nil {
			return st, err
		}
		good, err := one(t, scanBackupRun, nil, selectBackupRuns+" WHERE kind = 'backup' AND ended > 0 AND error = ''"+newestBackup)
		if err != nil {
			return st, err
		}
		rehearsed, err := one(t, scanBackupRun, nil, selectBackupRuns+" WHERE kind = 'rehearsal' AND ended > 0"+newestBackup)
		if err != nil {
			return st, err
		}
		st.Running, st.Last, st.Good, st.Rehearsed = knownRun(running), knownRun(last), knownRun(good), knownRun(rehearsed)
		_, err = one(t, func(row scanner) (struct{}, error) {
			return struct{}{}, row.Scan(asTime(&st.Since), &st.ShownKey)
		}, nil, "SELECT since, shown FROM backup_state")
		return st, err
	})
}

// knownRun is a row that there is; nil for none.
func knownRun(r app.BackupRun) *app.BackupRun {
	if r.ID == 0 {
		return nil
	}
	return &r
}

// SetUp remembers since when there is something to back up, unless that is known.
func (s Backups) SetUp(ctx context.Context) error {
	return s.db.update(ctx, "store that backups are set up", nil,
		"INSERT INTO backup_state (since) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM backup_state)", stamp(s.db.now()))
}

// ShownBefore is the ShownKey of a database in which an earlier release has stored that the key was
// shown, and not which.
const ShownBefore = "?"

// ShownKey stores the id of the backup key that berth showed; "" for none.
func (s Backups) ShownKey(ctx context.Context, id string) error {
	if err := s.SetUp(ctx); err != nil {
		return err
	}
	return s.db.update(ctx, "store that the backup key was shown", nil, "UPDATE backup_state SET shown = ?", id)
}

// Copies returns those that backups have of an application, newest first. What had its id
// before, and another uid, has none among them.
func (s Backups) Copies(ctx context.Context, a app.App) ([]app.BackupSnapshot, error) {
	scan := func(row scanner) (c app.BackupSnapshot, err error) {
		err = row.Scan(&c.Run, &c.Bytes)
		c.At, _ = app.ParseRun(c.Run)
		return c, err
	}
	return getAll(ctx, s.db, "list the snapshots", scan,
		"SELECT run, bytes FROM snapshot WHERE app = ? AND uid = ? AND account = ? ORDER BY run DESC", a.ID, a.UID, a.Account)
}

// CopyBytes returns how large the newest copy of each application is.
func (s Backups) CopyBytes(ctx context.Context) (map[app.ID]int64, error) {
	return get(ctx, s.db, "look at the snapshots", func(t tx) (map[app.ID]int64, error) {
		return allByKey[app.ID, int64](t, "SELECT s.app, s.bytes FROM snapshot s JOIN app a ON a.id = s.app ORDER BY s.run")
	})
}

// ForgetBackups forgets the copies of backups that are not among those that there are.
func (s Backups) ForgetBackups(ctx context.Context, there []string) error {
	list, err := jsonText(append([]string{}, there...), false)
	if err != nil {
		return err
	}
	return s.db.update(ctx, "forget old snapshots", nil, "DELETE FROM snapshot WHERE run NOT IN (SELECT value FROM json_each(?))", list)
}
