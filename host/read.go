package host

import (
	"context"
	"io"
	"time"

	"berth/app"
)

const (
	smallTail = 1800
	bigTail   = 64 << 10
	// diskAge is how old a measured size may be: measuring walks the tree.
	diskAge = time.Minute
	// usageAge is how old measured use may be: a panel that asks for a hundred
	// applications at once, many times a second, costs as much as one that asks
	// twice.
	usageAge = 500 * time.Millisecond
)

// Apps returns the account's applications, oldest first.
func (h *Host) Apps(owner app.AccountID) []app.Snapshot {
	h.mu.RLock()
	units := h.all()
	h.mu.RUnlock()
	positions := h.builds.positions()
	list := make([]app.Snapshot, 0, len(units))
	for _, u := range units {
		if u.owner == owner {
			s := u.view.Load().Snapshot
			s.Position = positions[s.ID]
			list = append(list, s)
		}
	}
	return list
}

// App returns one application of the account, or app.NotFound.
func (h *Host) App(owner app.AccountID, id app.ID) (app.Snapshot, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Snapshot{}, err
	}
	s := u.view.Load().Snapshot
	s.Position = h.builds.positions()[id]
	return s, nil
}

// Status returns what an application uses now, or app.NotFound; the figures
// may be half a second old, the state never is. It may block for a tenth of a
// second to measure, and longer the first time a large tree is measured.
func (h *Host) Status(ctx context.Context, owner app.AccountID, id app.ID) (app.Status, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Status{}, err
	}
	v := u.view.Load()
	m := u.measured.Load()
	if m == nil || m.of != v || time.Since(m.at) >= usageAge {
		m = &measured{of: v, at: time.Now()}
		if m.status, err = u.measure(ctx, v); err != nil {
			return app.Status{}, err
		}
		u.measured.Store(m)
	}
	s := m.status
	s.Position = h.builds.positions()[id]
	return s, nil
}

// measure asks the kernel and the disk about the run of a view.
func (u *unit) measure(ctx context.Context, v *view) (app.Status, error) {
	s := app.Status{Snapshot: v.Snapshot}
	var err error
	if v.Running && v.run != nil {
		if s.Usage, err = v.run.Usage(ctx); err != nil {
			// It may have ended since the snapshot; then that is the answer.
			if now := u.view.Load(); now.run == v.run {
				return app.Status{}, err
			}
			s = app.Status{Snapshot: u.view.Load().Snapshot}
		}
	}
	space, err := u.space(ctx)
	s.DiskBytes = space.Bytes
	return s, err
}

// space is what the application takes of the disk, or took a moment ago.
func (u *unit) space(ctx context.Context) (app.Space, error) {
	u.disk.mu.Lock() // one measures, the others wait for it
	defer u.disk.mu.Unlock()
	if time.Since(u.disk.at) < diskAge {
		return u.disk.space, nil
	}
	return u.walkDisk(ctx)
}

// walkDisk measures now. The caller holds the lock of u.disk.
func (u *unit) walkDisk(ctx context.Context) (app.Space, error) {
	space, err := u.h.Trees.Size(ctx, u.id)
	if err != nil {
		return app.Space{}, err
	}
	if v := u.view.Load(); v.Running && v.run != nil {
		held, err := v.run.Held(ctx)
		switch {
		case err == nil:
			space = space.Plus(held)
		case ctx.Err() != nil:
			return app.Space{}, err
		case u.view.Load().run == v.run: // it has not just ended
			u.log.Warn("cannot look for removed files that the program has open", "error", err)
		}
	}
	u.disk.space, u.disk.at = space, time.Now()
	return space, nil
}

// Terminal returns the end of an application's output, or app.NotFound.
func (h *Host) Terminal(owner app.AccountID, id app.ID) (app.Terminal, error) {
	if _, err := h.find(owner, id); err != nil {
		return app.Terminal{}, err
	}
	return app.Terminal{Small: h.Logs.Tail(id, false, smallTail), Big: h.Logs.Tail(id, false, bigTail)}, nil
}

// Backup writes a ZIP of an application's tree as it is now and returns its
// name; withVariables puts the environment variables into it, in plain. It fails
// with app.NotFound, and with app.Conflict while it is deployed for the first
// time. Expired ones are dropped first.
func (h *Host) Backup(ctx context.Context, owner app.AccountID, id app.ID, withVariables bool) (app.Backup, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Backup{}, err
	}
	if err := u.do(ctx, func(reply func(error)) { reply(u.refuse()) }); err != nil {
		return app.Backup{}, err
	}
	if err := h.DropBackups(); err != nil {
		h.Log.Error("cannot drop expired backups", "error", err)
	}
	give, err := h.backups.take(ctx)
	if err != nil {
		return app.Backup{}, err
	}
	defer give()
	var variables []app.Variable
	if withVariables {
		all, err := h.Variables(ctx, owner, id)
		if err != nil {
			return app.Backup{}, err
		}
		variables = append([]app.Variable{}, all...) // not nil: none is an answer too
	}
	file, err := h.Trees.Backup(ctx, id, variables)
	if err != nil {
		return app.Backup{}, err
	}
	// It may have waited long. What was deleted meanwhile left its name to others,
	// whose files these may be.
	if now, err := h.find(owner, id); err != nil || now != u {
		return app.Backup{}, noApp(id)
	}
	if withVariables {
		h.Log.Info("a backup holds the environment variables", "app", id, "account", owner)
	}
	return app.Backup{App: id, File: file, Expires: time.Now().Add(h.BackupTTL)}, nil
}

// DropBackups removes expired backups.
func (h *Host) DropBackups() error {
	_, err := h.Trees.DropBackups(time.Now().Add(-h.BackupTTL))
	return err
}

// OpenLog opens everything that is kept of a log: app.NotFound unless the id names the
// application with this uid, not a later one of the same name. The caller closes.
func (h *Host) OpenLog(id app.ID, uid int64) (io.ReadCloser, error) {
	h.mu.RLock()
	u := h.units[id]
	h.mu.RUnlock()
	if u == nil || int64(u.view.Load().UID) != uid {
		return nil, app.Errorf(app.NotFound, "this log is gone: its application was deleted")
	}
	return h.Logs.Open(id, false)
}

// Find returns an application, whoever has it: for those who bring requests to
// it, not for those who ask about it.
func (h *Host) Find(id app.ID) (app.Snapshot, bool) {
	h.mu.RLock()
	u := h.units[id]
	h.mu.RUnlock()
	if u == nil {
		return app.Snapshot{}, false
	}
	return u.view.Load().Snapshot, true
}
