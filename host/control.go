package host

import (
	"context"
	"time"

	"berth/app"
)

// Start starts an application and returns it once its program runs. It fails
// with app.NotFound, app.Already, app.Conflict, app.Exhausted when the host
// has no memory left for it, and app.Unusable when it cannot be started.
func (h *Host) Start(ctx context.Context, owner app.AccountID, id app.ID) (app.Snapshot, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Snapshot{}, err
	}
	if err := u.do(ctx, u.start); err != nil {
		return app.Snapshot{}, err
	}
	return u.view.Load().Snapshot, nil
}

// Restart ends the program and starts it again, with Start's errors; it fails
// with app.Already when it is offline.
func (h *Host) Restart(ctx context.Context, owner app.AccountID, id app.ID) error {
	return h.ask(ctx, owner, id, (*unit).restart)
}

// Stop ends the program, or calls off a restart that waits or a deployment
// under way, and returns when nothing of it runs; after a first deployment
// nothing of the application is left either. It fails with app.Already when
// it is offline, and with app.Unavailable when that takes far longer than a
// program may, as while the disk does not take its last words: it ends all the
// same.
func (h *Host) Stop(ctx context.Context, owner app.AccountID, id app.ID) error {
	const more = 15 * time.Second
	bound, cancel := context.WithTimeout(ctx, h.StopGrace+more)
	defer cancel()
	err := h.ask(bound, owner, id, (*unit).stop)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		return app.Errorf(app.Unavailable, "the application is being stopped; that takes longer than it should, for the host or its disk is busy")
	}
	return err
}

// Delete ends the program and removes everything of the application.
func (h *Host) Delete(ctx context.Context, owner app.AccountID, id app.ID) error {
	return h.ask(ctx, owner, id, (*unit).remove)
}

func (h *Host) ask(ctx context.Context, owner app.AccountID, id app.ID, event func(*unit, func(error))) error {
	u, err := h.find(owner, id)
	if err != nil {
		return err
	}
	return u.do(ctx, func(reply func(error)) { event(u, reply) })
}

// SetProfile changes an application's name or avatar.
func (h *Host) SetProfile(ctx context.Context, owner app.AccountID, id app.ID, p app.Profile) error {
	return h.ask(ctx, owner, id, func(u *unit, reply func(error)) {
		if err := u.refuse(); err != nil {
			reply(err)
			return
		}
		write := func(ctx context.Context) error { return h.Records.SetProfile(ctx, id, p) }
		reply(u.store("store the profile", write, func() error {
			if p.Name != nil {
				u.app.Name = *p.Name
			}
			if p.AvatarURL != nil {
				u.app.AvatarURL = *p.AvatarURL
			}
			return nil
		}))
	})
}

// SetAutoRestart sets whether the program is started again when it fails, until a
// deployment says otherwise; what waits for a restart goes on waiting.
func (h *Host) SetAutoRestart(ctx context.Context, owner app.AccountID, id app.ID, on bool) error {
	return h.change(ctx, owner, id, func(ctx context.Context, u *unit) error {
		if err := u.h.Records.SetAutoRestart(ctx, id, on); err != nil {
			return err
		}
		u.app.AutoRestart = on
		return nil
	})
}

// SetRAM changes an application's RAM, at once if its program runs. It fails
// with app.Exhausted when the account, the host, or what the program uses now
// does not allow it, and with app.Unusable below the least an application may
// have; then nothing has changed.
func (h *Host) SetRAM(ctx context.Context, owner app.AccountID, id app.ID, ram app.MB) error {
	return h.ask(ctx, owner, id, func(u *unit, reply func(error)) { reply(u.setRAM(ram)) })
}

// RoomOf returns the most RAM that an application can have beside what else runs now.
// It reserves nothing.
func (h *Host) RoomOf(id app.ID) app.MB { return h.capacity.room(id) }

// setRAM changes the limit of the running program between two records, so
// that each refusal leaves all three as they were.
func (u *unit) setRAM(ram app.MB) error {
	if err := u.refuse(); err != nil {
		return err
	}
	if u.twin.trial() {
		return u.busy("being deployed")
	}
	before := u.app.RAM
	admit := func(total, used app.MB) error { return u.h.CheckRAM(total, used, ram) }
	write := func(ctx context.Context) error { return u.h.Records.SetRAM(ctx, u.id, ram, admit) }
	return u.store("store the RAM", write, func() error {
		if err := u.applyRAM(before, ram); err != nil {
			always := func(app.MB, app.MB) error { return nil }
			back := func(ctx context.Context) error { return u.h.Records.SetRAM(ctx, u.id, before, always) }
			if back := u.store("put the recorded RAM back", back, func() error { return nil }); back != nil {
				u.log.Error("cannot put the recorded RAM back", "error", back)
			}
			return err
		}
		u.app.RAM = ram
		return nil
	})
}

func (u *unit) applyRAM(before, ram app.MB) error {
	if u.run == nil {
		return nil
	}
	if err := u.h.capacity.take(u.id, ram); err != nil {
		return err
	}
	if err := u.run.SetMemory(ram); err != nil {
		u.h.capacity.force(u.id, before)
		return err
	}
	return nil
}
