package db

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// Apps remembers the applications that exist: what is wanted of them, their runs, and what
// surrounds their programs.
type Apps struct{ db *DB }

// exitsKept is how many exits of one application are remembered.
const exitsKept = 20

// selectApps is in the order of scanApp. An application is its allocation, its own
// row, and the exit that is shown of it, if any.
const selectApps = `
SELECT app.id, place.account, app.name, app.avatar_url, app.type, place.ram, place.uid, place.port,
	app.wanted, app.created_at, app.main, app.lang, app.version, app.start_command, app.build_command,
	app.packages, app.health, app.memory_signal, app.stdin, app.auto_restart, app.apts, app.last_run, app.started_at,
	x.run, x.ended_at, x.ran_ms, x.code, x.signal, x.oom, x.peak_bytes, x.limit_mb, x.asked, x.host_oom,
	x.heap_full, x.heap_mb
FROM app
JOIN place ON place.id = app.id
LEFT JOIN exit_record x ON x.app = app.id AND x.run = app.last_exit
ORDER BY app.created_at, app.id`

// CreateApp turns a reservation into an application and returns it. ID,
// Account, RAM, UID, Port and CreatedAt MUST be those that Reserve returned. d is
// the first of its history: the number, the time and what was decided are given
// to it. variables are those that it has from the beginning. It fails with app.Conflict when the reservation is gone.
func (s Apps) CreateApp(ctx context.Context, a app.App, d app.Deploy, variables ...app.Variable) (app.App, error) {
	return put(ctx, s.db, "create the application", func(t tx) (app.App, error) {
		a.LastRun, a.StartedAt, a.LastExit = 0, time.Time{}, nil
		reserved, err := number(t, "SELECT count(*) FROM place WHERE id = ? AND account = ? AND ram = ? AND uid = ? AND port = ?",
			a.ID, a.Account, placeRAM(a), a.UID, a.Port)
		if err != nil {
			return a, err
		}
		if reserved == 0 {
			return a, app.Errorf(app.Conflict, "the place that was reserved for the application is gone; upload it again")
		}
		err = t.exec(`INSERT INTO app (id, name, avatar_url, type, wanted, created_at,
			main, lang, version, start_command, build_command, packages, health, memory_signal, stdin, auto_restart, apts, last_run, started_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`,
			a.ID, a.Name, a.AvatarURL, a.Type, a.Wanted, stamp(a.CreatedAt),
			a.Code.Main, a.Code.Lang, a.Code.Version, a.Code.Start, a.Code.Build, a.Code.Packages, a.Code.Health, a.Code.MemorySignal,
			a.Code.Stdin, a.AutoRestart, joinApts(a.Apts))
		if isTaken(err) {
			return a, app.Errorf(app.Conflict, "the id %q is taken", a.ID)
		}
		if err != nil {
			return a, err
		}
		if placeRAM(a) != a.RAM { // from here on its code says so
			if err := t.exec("UPDATE place SET ram = ? WHERE id = ?", a.RAM, a.ID); err != nil {
				return a, err
			}
		}
		d.Number, d.At, d.Code, d.Auto = 1, s.db.now(), a.Code, a.AutoRestart
		return a, errors.Join(insertDeploy(t, a.ID, d), deployed(t, a.ID, d), storeVariables(t, a.ID, variables))
	})
}

// Apps returns the applications of all accounts, oldest first.
func (s Apps) Apps(ctx context.Context) ([]app.App, error) {
	return getAll(ctx, s.db, "list the applications", scanApp, selectApps)
}

// DeleteApp forgets an application and its exits. Its allocation stays
// until Release, so that nobody gets its ID or uid while files have them; it says
// that they are to be removed (Gone). It fails with app.NotFound.
func (s Apps) DeleteApp(ctx context.Context, id app.ID) error {
	return s.db.write(ctx, "delete the application", func(t tx) error {
		if err := t.exec("UPDATE place SET removed = 1, ram = CASE WHEN "+charged+" THEN ram ELSE 1 END WHERE id = ?", id); err != nil {
			return err
		}
		return t.change(noApp(id), "DELETE FROM app WHERE id = ?", id)
	})
}

// SetWanted stores what the owner wants, or fails with app.NotFound. What is stored already
// is not written: a program can be restarted on a full disk.
func (s Apps) SetWanted(ctx context.Context, id app.ID, wanted app.Wanted) error {
	return s.db.write(ctx, "store what is wanted", func(t tx) error {
		now, err := one(t, value[app.Wanted], noApp(id), "SELECT wanted FROM app WHERE id = ?", id)
		if err != nil || now == wanted {
			return err
		}
		return t.exec("UPDATE app SET wanted = ? WHERE id = ?", wanted, id)
	})
}

// SetRAM stores the RAM of an application. admit gets the account's RAM and
// what its other applications have, and refuses by returning an error, which
// is returned as it is. It fails with app.NotFound.
func (s Apps) SetRAM(ctx context.Context, id app.ID, ram app.MB, admit func(total, usedByOthers app.MB) error) error {
	return s.db.write(ctx, "store the RAM", func(t tx) error {
		total, others, err := ramOfOthers(t, id)
		if err != nil {
			return err
		}
		if err := admit(total, others); err != nil {
			return err
		}
		return t.exec("UPDATE place SET ram = ? WHERE id = ?", ram, id)
	})
}

// Of what runs nothing, and is charged no RAM (app.App.Charged): a condition on a row of app,
// and of a row of place that it is none of those.
const (
	uncharged = "app.lang = '" + app.StaticLang + "' AND app.start_command = ''"
	charged   = "place.id NOT IN (SELECT id FROM app WHERE " + uncharged + ")"
)

// ramOfOthers returns the RAM of the account of an application, and what its other
// applications are charged of it. It fails with app.NotFound.
func ramOfOthers(t tx, id app.ID) (total, others app.MB, err error) {
	scan := func(row scanner) (total app.MB, err error) {
		err = row.Scan(&total, &others)
		return total, err
	}
	total, err = one(t, scan, noApp(id), `SELECT account.total_ram,
			(SELECT coalesce(sum(ram), 0) FROM place WHERE account = own.account AND id <> own.id AND `+charged+`)
		FROM app JOIN place own ON own.id = app.id JOIN account ON account.id = own.account
		WHERE app.id = ?`, id)
	return total, others, err
}

// SetProfile stores the fields of p that are not nil, or fails with app.NotFound.
func (s Apps) SetProfile(ctx context.Context, id app.ID, p app.Profile) error {
	return s.db.update(ctx, "store the profile", noApp(id),
		"UPDATE app SET name = coalesce(?, name), avatar_url = coalesce(?, avatar_url) WHERE id = ?", p.Name, p.AvatarURL, id)
}

// SetAutoRestart stores whether the program is started again when it fails, or
// fails with app.NotFound.
func (s Apps) SetAutoRestart(ctx context.Context, id app.ID, on bool) error {
	return s.db.update(ctx, "store the auto restart", noApp(id), "UPDATE app SET auto_restart = ? WHERE id = ?", on, id)
}

// SetApts stores the system packages that an application asks for, or fails
// with app.NotFound. Their names hold no comma.
func (s Apps) SetApts(ctx context.Context, id app.ID, apts []string) error {
	return s.db.update(ctx, "store the system packages", noApp(id), "UPDATE app SET apts = ? WHERE id = ?", joinApts(apts), id)
}

func joinApts(apts []string) string { return strings.Join(apts, ",") }

func splitApts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func scanApp(row scanner) (a app.App, err error) {
	var apts string
	var last app.Exit
	err = row.Scan(append([]any{
		&a.ID, &a.Account, &a.Name, &a.AvatarURL, &a.Type, &a.RAM, &a.UID, &a.Port,
		&a.Wanted, asTime(&a.CreatedAt), &a.Code.Main, &a.Code.Lang, &a.Code.Version, &a.Code.Start, &a.Code.Build,
		&a.Code.Packages, &a.Code.Health, &a.Code.MemorySignal, &a.Code.Stdin, &a.AutoRestart, &apts, &a.LastRun, asTime(&a.StartedAt),
	}, exitInto(&last)...)...)
	a.Apts = splitApts(apts)
	if last.Run > 0 {
		a.LastExit = &last
	}
	return a, err
}

func mustExist(t tx, id app.ID) error {
	_, err := one(t, value[int], noApp(id), "SELECT 1 FROM app WHERE id = ?", id)
	return err
}

func noApp(id app.ID) error { return app.Errorf(app.NotFound, "there is no application %q", id) }

// RunStarted stores the number and the start of a run, or fails with
// app.NotFound. It leaves the last exit as it is: see ClearExit. auto says that nobody asked
// for the start: see Starts.
func (s Apps) RunStarted(ctx context.Context, id app.ID, run int, at time.Time, auto bool) error {
	return s.db.write(ctx, "store the start of a run", func(t tx) error {
		if err := setRun(t, id, run, at); err != nil || !auto {
			return err
		}
		if err := t.exec("DELETE FROM auto_start WHERE app = ? AND at <= ?", id, stamp(at.Add(-24*time.Hour))); err != nil {
			return err
		}
		return t.exec("INSERT INTO auto_start (app, at) VALUES (?, ?)", id, stamp(at))
	})
}

// Starts returns when berth started applications by itself after since, oldest first. It
// forgets those that are older than a day.
func (s Apps) Starts(ctx context.Context, since time.Time) (map[app.ID][]time.Time, error) {
	type start struct {
		id app.ID
		at time.Time
	}
	scan := func(row scanner) (one start, err error) {
		err = row.Scan(&one.id, asTime(&one.at))
		return one, err
	}
	list, err := getAll(ctx, s.db, "list the starts of berth", scan, "SELECT app, at FROM auto_start WHERE at > ? ORDER BY at", stamp(since))
	if err != nil {
		return nil, err
	}
	all := map[app.ID][]time.Time{}
	for _, one := range list {
		all[one.id] = append(all[one.id], one.at)
	}
	return all, nil
}

func setRun(t tx, id app.ID, run int, at time.Time) error {
	return t.change(noApp(id), "UPDATE app SET last_run = ?, started_at = ? WHERE id = ?", run, stamp(at), id)
}

// RunEnded stores how a run ended, shows it as the last exit, and forgets all
// but the last 20 of the application. Storing the same run again replaces what
// was known of it. It fails with app.NotFound.
func (s Apps) RunEnded(ctx context.Context, id app.ID, e app.Exit) error {
	return s.db.write(ctx, "store the end of a run", func(t tx) error {
		if err := t.change(noApp(id), "UPDATE app SET last_exit = ? WHERE id = ?", e.Run, id); err != nil {
			return err
		}
		known, err := number(t, "SELECT count(*) FROM exit_record WHERE app = ? AND run = ?", id, e.Run)
		if err == nil && known == 0 { // else it has happened already
			err = addHistoryEvent(t, id, app.HistoryEvent{At: e.At, Kind: app.HistoryExit, Exit: &e})
		}
		if err != nil {
			return err
		}
		if err := t.exec(`INSERT OR REPLACE INTO exit_record
			(app, run, ended_at, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, host_oom, heap_full, heap_mb) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id, e.Run, stamp(e.At), e.Ran.Milliseconds(), e.Code, e.Signal, e.OOM, e.PeakBytes, e.LimitMB, e.Asked, e.HostOOM,
			e.HeapFull, e.HeapMB); err != nil {
			return err
		}
		return t.exec(`DELETE FROM exit_record WHERE app = ?1
			AND run NOT IN (SELECT run FROM exit_record WHERE app = ?1 ORDER BY run DESC LIMIT ?2)`, id, exitsKept)
	})
}

// ClearExit stops showing the last exit, because a person started the
// application; the record of it stays. It fails with app.NotFound.
func (s Apps) ClearExit(ctx context.Context, id app.ID) error {
	return s.db.update(ctx, "clear the last exit", noApp(id), "UPDATE app SET last_exit = NULL WHERE id = ?", id)
}

// exitInto reads the columns run, ended_at, ran_ms, code, signal, oom, peak_bytes,
// limit_mb, asked, host_oom, heap_full and heap_mb, which are all NULL when there is no exit.
func exitInto(e *app.Exit) []any {
	return []any{
		asNumber(&e.Run), asTime(&e.At), asDuration(&e.Ran), asNumber(&e.Code), asNumber(&e.Signal), asBool(&e.OOM),
		asNumber(&e.PeakBytes), asNumber(&e.LimitMB), asBool(&e.Asked), asBool(&e.HostOOM),
		asNumber(&e.HeapFull), asNumber(&e.HeapMB),
	}
}

// Variables returns the environment variables that the owner of an application
// set, by name. It fails with app.NotFound, and with app.Unavailable when the key that
// seals some of them is not there.
func (s Apps) Variables(ctx context.Context, id app.ID) ([]app.Variable, error) {
	return get(ctx, s.db, "read the environment variables", func(t tx) ([]app.Variable, error) {
		if err := mustExist(t, id); err != nil {
			return nil, err
		}
		set, sealed, err := variables(t, id)
		if err == nil && len(sealed) > 0 {
			err = app.Errorf(app.Unavailable, "the variables %s cannot be read: the key that seals them is not on this host; set them again, or ask the host's owner to put the key back (berth key add)",
				strings.Join(slices.Sorted(maps.Keys(sealed)), ", "))
		}
		if err != nil {
			return nil, err
		}
		var all []app.Variable
		for _, name := range slices.Sorted(maps.Keys(set)) {
			all = append(all, app.Variable{Name: name, Value: set[name]})
		}
		return all, nil
	})
}

// variables returns the variables of an application, and as they are stored those whose key
// is not there.
func variables(t tx, id app.ID) (set map[string]string, sealed map[string][]byte, err error) {
	stored, err := allByKey[string, []byte](t, "SELECT name, value FROM env WHERE app = ?", id)
	set, sealed = map[string]string{}, map[string][]byte{}
	for name, value := range stored {
		plain, failed := t.unseal("env.value", rowOf(string(id), name), value)
		switch {
		case errors.Is(failed, ErrKeyMissing):
			sealed[name] = value
		case failed != nil:
			return nil, nil, failed
		default:
			set[name] = string(plain)
		}
	}
	return set, sealed, err
}

// ChangeVariables stores what change makes of the variables of an application,
// by name. change may refuse by returning an error, which is returned as it is;
// then nothing has changed. Nobody else changes them meanwhile. A variable that cannot be
// read, because the key that seals it is not there, has a value of its own for change, and stays as
// it is unless change sets or removes it. It fails with app.NotFound.
func (s Apps) ChangeVariables(ctx context.Context, id app.ID, change func(set map[string]string) error) error {
	return s.db.write(ctx, "store the environment variables", func(t tx) error {
		if err := mustExist(t, id); err != nil {
			return err
		}
		set, sealed, err := variables(t, id)
		if err != nil {
			return err
		}
		for name := range sealed {
			set[name] = unreadable
		}
		if err := change(set); err != nil {
			return err
		}
		return replaceVariables(t, id, set)
	})
}

// unreadable stands for the value of a variable that stays as it is stored. No value of a
// variable holds a NUL.
const unreadable = "\x00"

// storeVariables is replaceVariables of a list.
func storeVariables(t tx, id app.ID, variables []app.Variable) error {
	set := map[string]string{}
	for _, v := range variables {
		set[v.Name] = v.Value
	}
	return replaceVariables(t, id, set)
}

// replaceVariables makes these the only variables of an application.
func replaceVariables(t tx, id app.ID, variables map[string]string) error {
	before, err := allByKey[string, []byte](t, "SELECT name, value FROM env WHERE app = ?", id)
	if err == nil {
		err = t.exec("DELETE FROM env WHERE app = ?", id)
	}
	for name, value := range variables {
		stored := before[name]
		if err == nil && value != unreadable {
			stored, err = t.seal("env.value", rowOf(string(id), name), []byte(value))
		}
		if err == nil {
			err = t.exec("INSERT INTO env (app, name, value) VALUES (?, ?, ?)", id, name, stored)
		}
	}
	return err
}
