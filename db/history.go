package db

import (
	"context"

	"berth/app"
)

// History remembers how the code of applications came to be, and what else happened to
// them.
type History struct{ db *DB }

const deployColumns = `number, at, by, kind, bytes, main, lang, version, start_command, build_command,
	packages, auto_restart, note, journal, kept, health, memory_signal, stdin, exact, removed, brought`

// AddDeploy records a successful deployment of an application that exists, and
// with it, in the same transaction, what it decided: from here on its journal
// is good, and d.Run, if there is one, the run that goes on: an exit from before
// it is no longer shown. d.Number is given to it; the time is now unless d has one.
// Unless variables is nil they become the application's only ones.
//
// wanted is asked within the transaction what the owner wants from here on: what
// SetWanted stores after the answer comes after the deploy. When it is nil that
// stays. admit is asked like that of SetRAM when the code is charged its RAM and that of
// before was not (app.App.Charged). It may be nil. retain gets the history, newest first, and returns what there is to remember
// of it: those it leaves out are forgotten. It returns the deploy as it is
// recorded, or fails with app.NotFound.
func (s History) AddDeploy(
	ctx context.Context, id app.ID, d app.Deploy, variables []app.Variable,
	wanted func() app.Wanted, admit func(total, usedByOthers app.MB) error, retain func([]app.Deploy) []app.Deploy,
) (app.Deploy, error) {
	if d.At.IsZero() {
		d.At = s.db.now()
	}
	d.At = stored(d.At)
	return put(ctx, s.db, "record the deployment", func(t tx) (app.Deploy, error) {
		if admit != nil && !d.Code.Static() {
			if err := admitCharge(t, id, admit); err != nil {
				return d, err
			}
		}
		if err := t.change(noApp(id), `UPDATE app SET main = ?2, lang = ?3, version = ?4,
			start_command = ?5, build_command = ?6, packages = ?7, auto_restart = ?8, health = ?9, memory_signal = ?10, stdin = ?11 WHERE id = ?1`,
			id, d.Code.Main, d.Code.Lang, d.Code.Version, d.Code.Start, d.Code.Build, d.Code.Packages, d.Auto,
			d.Code.Health, d.Code.MemorySignal, d.Code.Stdin); err != nil {
			return d, err
		}
		if d.Run > 0 {
			if err := setRun(t, id, d.Run, d.Started); err != nil {
				return d, err
			}
			if err := t.exec("UPDATE app SET last_exit = NULL WHERE id = ? AND last_exit < ?", id, d.Run); err != nil {
				return d, err
			}
		}
		if wanted != nil {
			if err := t.exec("UPDATE app SET wanted = ? WHERE id = ?", wanted(), id); err != nil {
				return d, err
			}
		}
		if variables != nil {
			if err := storeVariables(t, id, variables); err != nil {
				return d, err
			}
		}
		return addDeploy(t, id, d, retain)
	})
}

// admitCharge asks for the RAM of an application that was charged none.
func admitCharge(t tx, id app.ID, admit func(total, usedByOthers app.MB) error) error {
	free, err := number(t, "SELECT count(*) FROM app WHERE id = ? AND "+uncharged, id)
	if err != nil || free == 0 {
		return err
	}
	total, others, err := ramOfOthers(t, id)
	if err != nil {
		return err
	}
	return admit(total, others)
}

// addDeploy numbers a deploy and writes the history with it anew.
func addDeploy(t tx, id app.ID, d app.Deploy, retain func([]app.Deploy) []app.Deploy) (app.Deploy, error) {
	history, err := deploysOf(t, id)
	if err != nil {
		return d, err
	}
	d.Number = 1
	if len(history) > 0 {
		d.Number = history[0].Number + 1
	}
	if err := t.exec("DELETE FROM deploy WHERE app = ?", id); err != nil {
		return d, err
	}
	for _, d := range retain(append([]app.Deploy{d}, history...)) {
		if err := insertDeploy(t, id, d); err != nil {
			return d, err
		}
	}
	return d, deployed(t, id, d)
}

// deployed adds a deploy to what happened.
func deployed(t tx, id app.ID, d app.Deploy) error {
	return addHistoryEvent(t, id, app.HistoryEvent{At: d.At, Kind: app.HistoryDeploy, Deploy: d.Kind, By: d.By, Text: d.Note})
}

func insertDeploy(t tx, id app.ID, d app.Deploy) error {
	c := d.Code
	return t.exec("INSERT INTO deploy (app, "+deployColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		id, d.Number, stamp(d.At), d.By, d.Kind, d.Bytes, c.Main, c.Lang, c.Version, c.Start, c.Build, c.Packages,
		d.Auto, d.Note, d.Journal, d.Kept, c.Health, c.MemorySignal, c.Stdin, d.Exact, d.Removed, d.Brought)
}

// Deploys returns the history of an application, newest first, or fails with
// app.NotFound.
func (s History) Deploys(ctx context.Context, id app.ID) ([]app.Deploy, error) {
	return get(ctx, s.db, "list the deployments", func(t tx) ([]app.Deploy, error) {
		if err := mustExist(t, id); err != nil {
			return nil, err
		}
		return deploysOf(t, id)
	})
}

func deploysOf(t tx, id app.ID) ([]app.Deploy, error) {
	return all(t, func(row scanner) (d app.Deploy, err error) {
		c := &d.Code
		err = row.Scan(&d.Number, asTime(&d.At), &d.By, &d.Kind, &d.Bytes, &c.Main, &c.Lang, &c.Version, &c.Start, &c.Build, &c.Packages,
			&d.Auto, &d.Note, &d.Journal, &d.Kept, &c.Health, &c.MemorySignal, &c.Stdin, &d.Exact, &d.Removed, &d.Brought)
		return d, err
	}, "SELECT "+deployColumns+" FROM deploy WHERE app = ? ORDER BY number DESC", id)
}

// Journals returns the names of the good journals of an application, and of the lists
// of what its deploys brought; none for one that does not exist.
func (s History) Journals(ctx context.Context, id app.ID) ([]string, error) {
	return getAll(ctx, s.db, "list the journals", value[string], `SELECT journal FROM deploy WHERE app = ?1 AND journal <> ''
		UNION SELECT brought FROM deploy WHERE app = ?1 AND brought <> ''`, id)
}

// DropJournal forgets a journal of an application, not its deploy, which can
// then not be taken back any more. It fails with app.NotFound.
func (s History) DropJournal(ctx context.Context, id app.ID, journal string) error {
	return s.db.update(ctx, "forget a journal", noApp(id), "UPDATE deploy SET journal = '', kept = 0 WHERE app = ? AND journal = ?", id, journal)
}

// eventsKept is how many events of one application are remembered.
const eventsKept = 50

// AddHistoryEvent remembers what happened to an application, and forgets all but
// the last 50. The number is given to it; the time is now unless it has one. Exits
// and successful deploys are remembered with their records: RunEnded, CreateApp,
// AddDeploy. It fails with app.NotFound.
func (s History) AddHistoryEvent(ctx context.Context, id app.ID, p app.HistoryEvent) error {
	if p.At.IsZero() {
		p.At = s.db.now()
	}
	return s.db.write(ctx, "remember what happened", func(t tx) error {
		if err := mustExist(t, id); err != nil {
			return err
		}
		return addHistoryEvent(t, id, p)
	})
}

func addHistoryEvent(t tx, id app.ID, p app.HistoryEvent) error {
	var run, ran, code, signal, oom, peak, limit, asked, short, heap, had any
	if e := p.Exit; e != nil {
		run, ran, code, signal, oom = e.Run, e.Ran.Milliseconds(), e.Code, e.Signal, e.OOM
		peak, limit, asked, short = e.PeakBytes, e.LimitMB, e.Asked, e.HostOOM
		heap, had = e.HeapFull, e.HeapMB
	}
	var level, held, ram, full, squeezed, sent any
	wanted := ""
	if w := p.Memory; w != nil {
		run, wanted = w.Run, w.Signal
		level, held, ram, full, squeezed, sent = w.Level, w.HeldBytes, w.LimitBytes, w.FullIn.Milliseconds(), w.Squeezed, w.Sent
	}
	if err := t.exec(`INSERT INTO event
		(app, number, at, kind, run, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, host_oom, heap_full, heap_mb, deploy, by, text,
			level, held_bytes, limit_bytes, full_in_ms, squeezed, memory_signal, sent)
		VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM event WHERE app = ?1), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
			?, ?, ?, ?, ?, ?, ?)`,
		id, stamp(p.At), p.Kind, run, ran, code, signal, oom, peak, limit, asked, short, heap, had, p.Deploy, p.By, p.Text,
		level, held, ram, full, squeezed, wanted, sent); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM event WHERE app = ?1 AND number <= (SELECT max(number) FROM event WHERE app = ?1) - ?2", id, eventsKept); err != nil {
		return err
	}
	return noticeEvent(t, id, p)
}

// EventLog returns what happened to an application, newest first; nothing for
// one that does not exist.
func (s History) EventLog(ctx context.Context, id app.ID) ([]app.HistoryEvent, error) {
	scan := func(row scanner) (p app.HistoryEvent, err error) {
		var e app.Exit
		var w app.MemoryWarning
		err = row.Scan(append([]any{
			&p.Number, asTime(&p.At), &p.Kind, &p.Deploy, &p.By, &p.Text, asNumber(&w.Level), asNumber(&w.HeldBytes), asNumber(&w.LimitBytes),
			asDuration(&w.FullIn), asNumber(&w.Squeezed), &w.Signal, asBool(&w.Sent),
		}, exitInto(&e)...)...)
		switch p.Kind {
		case app.HistoryExit:
			p.Exit = &e
		case app.HistoryMemory:
			w.Run, w.At = e.Run, p.At
			p.Memory = &w
		case app.HistoryDeploy, app.HistoryFailure, app.HistoryRefusal,
			app.HistorySpent, app.HistorySilent, app.HistoryUnwell, app.HistoryDisk:
		}
		return p, err
	}
	return getAll(ctx, s.db, "list what happened", scan, `SELECT number, at, kind, deploy, by, text,
		level, held_bytes, limit_bytes, full_in_ms, squeezed, memory_signal, sent,
		run, at, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, host_oom, heap_full, heap_mb FROM event WHERE app = ? ORDER BY number DESC`, id)
}
