package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// What the world remembers: Records and Registry.

func (w *world) Apps(context.Context) ([]app.App, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []app.App
	for _, a := range w.apps {
		list = append(list, *a)
	}
	slices.SortFunc(list, func(a, b app.App) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list, w.fail["Apps"]
}

func (w *world) change(id app.ID, f func(a *app.App)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[id]
	if a == nil {
		return noApp(id)
	}
	f(a)
	return nil
}

func (w *world) SetWanted(_ context.Context, id app.ID, wanted app.Wanted) error {
	if err := w.failing("SetWanted"); err != nil {
		return err
	}
	return w.change(id, func(a *app.App) { a.Wanted = wanted })
}

func (w *world) Starts(_ context.Context, since time.Time) (map[app.ID][]time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[app.ID][]time.Time{}
	for id, times := range w.starts {
		for _, at := range times {
			if !at.Before(since) {
				all[id] = append(all[id], at)
			}
		}
	}
	return all, w.fail["Starts"]
}

func (w *world) RunStarted(_ context.Context, id app.ID, run int, at time.Time, auto bool) error {
	if auto {
		w.mu.Lock()
		w.starts[id] = append(w.starts[id], at)
		w.mu.Unlock()
	}
	return w.change(id, func(a *app.App) { a.LastRun, a.StartedAt = run, at })
}

func (w *world) RunEnded(_ context.Context, id app.ID, e app.Exit) error {
	if err := w.failing("RunEnded"); err != nil {
		return err
	}
	return w.change(id, func(a *app.App) { a.LastExit = &e; w.exits = append(w.exits, e) })
}

func (w *world) ClearExit(_ context.Context, id app.ID) error {
	return w.change(id, func(a *app.App) { a.LastExit = nil })
}

func (w *world) used(not app.ID) (n app.MB) {
	for id, a := range w.apps {
		if id != not {
			n += a.Charged()
		}
	}
	for _, a := range w.reserved {
		n += a.Charged()
	}
	return n
}

// account is that of every application, and of none.
func (w *world) account(_ context.Context, id app.AccountID) (app.Account, error) {
	if err := w.failing("Account"); err != nil {
		return app.Account{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return app.Account{ID: id, TotalRAM: w.total, Limits: w.may[id], Suspended: w.suspended[id]}, nil
}

func (w *world) readHold(context.Context) (app.Hold, bool, error) {
	if err := w.failing("ReadHold"); err != nil {
		return app.Hold{}, false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.onHold, w.onHold.Why != "", nil
}

func (w *world) Reserve(ctx context.Context, a app.App, admit func(app.Account, app.Use) error) (app.App, error) {
	owner, _ := w.account(ctx, a.Account)
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.reserved)
	for _, other := range w.apps {
		if other.Account == a.Account {
			n++
		}
	}
	if err := admit(owner, app.Use{RAM: w.used(""), Apps: n}); err != nil {
		return a, err
	}
	if _, taken := w.reserved[a.ID]; taken || w.apps[a.ID] != nil {
		return a, app.Errorf(app.Conflict, "taken")
	}
	w.nextUID++
	a.UID, a.Port, a.CreatedAt = w.nextUID, w.nextUID-50000, time.Now()
	w.reserved[a.ID] = a
	return a, nil
}

func (w *world) Release(_ context.Context, id app.ID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reserved, id)
	return nil
}

func (w *world) CreateApp(_ context.Context, a app.App, d app.Deploy, variables ...app.Variable) (app.App, error) {
	if err := w.failing("CreateApp"); err != nil {
		return a, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reserved, a.ID)
	w.apps[a.ID] = &a
	if len(variables) > 0 {
		w.env[a.ID] = map[string]string{}
		for _, v := range variables {
			w.env[a.ID][v.Name] = v.Value
		}
	}
	d.Number, d.At, d.Code, d.Auto = 1, time.Now(), a.Code, a.AutoRestart
	w.history[a.ID] = []app.Deploy{d}
	return a, nil
}

func (w *world) DeleteApp(_ context.Context, id app.ID) error {
	if err := w.failing("DeleteApp"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[id]
	if a == nil {
		return noApp(id)
	}
	w.reserved[id] = *a
	delete(w.apps, id)
	delete(w.env, id)
	return nil
}

func (w *world) DropReservations(context.Context) (int, error) {
	if err := w.failing("DropReservations"); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.reserved)
	clear(w.reserved)
	return n, nil
}

func (w *world) SetRAM(_ context.Context, id app.ID, ram app.MB, admit Admit) error {
	w.mu.Lock()
	err := admit(w.total, w.used(id))
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return w.change(id, func(a *app.App) { a.RAM = ram })
}

func (w *world) SetProfile(_ context.Context, id app.ID, p app.Profile) error {
	if err := w.failing("SetProfile"); err != nil {
		return err
	}
	return w.change(id, func(a *app.App) {
		if p.Name != nil {
			a.Name = *p.Name
		}
	})
}

func (w *world) SetAutoRestart(_ context.Context, id app.ID, on bool) error {
	if err := w.failing("SetAutoRestart"); err != nil {
		return err
	}
	return w.change(id, func(a *app.App) { a.AutoRestart = on })
}

func (w *world) AddDeploy(_ context.Context, id app.ID, d app.Deploy, variables []app.Variable, wanted func() app.Wanted, admit Admit, retain func([]app.Deploy) []app.Deploy) (app.Deploy, error) {
	if err := w.failing("AddDeploy"); err != nil {
		return d, err
	}
	w.mu.Lock()
	var refused error
	if a := w.apps[id]; a != nil && a.Code.Static() && !d.Code.Static() {
		refused = admit(w.total, w.used(id))
	}
	w.mu.Unlock()
	if refused != nil {
		return d, refused
	}
	err := w.change(id, func(a *app.App) {
		a.Code, a.AutoRestart = d.Code, d.Auto
		a.Wanted = wanted()
		if d.Run > 0 {
			a.LastRun, a.StartedAt = d.Run, d.Started
			if a.LastExit != nil && a.LastExit.Run < d.Run {
				a.LastExit = nil
			}
		}
		all := w.history[id]
		d.Number, d.At = all[0].Number+1, time.Now()
		w.history[id] = retain(append([]app.Deploy{d}, all...))
		if variables != nil {
			w.env[id] = map[string]string{}
			for _, v := range variables {
				w.env[id][v.Name] = v.Value
			}
		}
	})
	return d, errors.Join(err, w.failing("AddDeploy after"))
}

func (w *world) DropJournal(_ context.Context, id app.ID, journal string) error {
	return w.change(id, func(*app.App) {
		for i := range w.history[id] {
			if w.history[id][i].Journal == journal {
				w.history[id][i].Journal = ""
			}
		}
	})
}

func (w *world) Deploys(_ context.Context, id app.ID) ([]app.Deploy, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.history[id]), w.fail["Deploys"]
}

func (w *world) Journals(_ context.Context, id app.ID) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, d := range w.history[id] {
		if d.Journal != "" {
			names = append(names, d.Journal)
		}
	}
	return names, w.fail["Journals"]
}

// breaks makes every such call fail, until mends.
func (w *world) breaks(call string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[call] = err
}

func (w *world) mends(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.fail, call)
}

func (w *world) AddHistoryEvent(_ context.Context, id app.ID, p app.HistoryEvent) error {
	if err := w.failing("AddHistoryEvent"); err != nil {
		return err
	}
	return w.change(id, func(*app.App) { w.happened[id] = append([]app.HistoryEvent{p}, w.happened[id]...) })
}

func (w *world) EventLog(_ context.Context, id app.ID) ([]app.HistoryEvent, error) {
	if err := w.failing("EventLog"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.happened[id]), nil
}

func (w *world) tell(e app.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, e)
}
