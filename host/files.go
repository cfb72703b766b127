package host

import (
	"context"

	"berth/app"
)

// WriteFile makes a file of an application hold data. It fails with app.NotFound
// where there is no directory for it, with app.Conflict while the application is
// deployed, and with app.NoSpace when it would take more disk space than it may.
func (h *Host) WriteFile(ctx context.Context, owner app.AccountID, id app.ID, name string, data []byte) error {
	return h.change(ctx, owner, id, func(ctx context.Context, u *unit) error {
		if u.deploy != nil {
			return u.busy("being deployed")
		}
		used, err := u.space(ctx)
		if err != nil {
			return err
		}
		if h.over(used.Plus(app.Space{Bytes: int64(len(data)), Entries: 1})) {
			return app.Errorf(app.NoSpace, "cannot write the file: %s", app.DiskOwn)
		}
		if err := h.Trees.WriteFile(id, u.app.UID, name, data); err != nil {
			return err
		}
		u.disk.mu.Lock() // it counts at once, as if nothing was replaced
		u.disk.space = u.disk.space.Plus(app.Space{Bytes: int64(len(data)), Entries: 1})
		u.disk.mu.Unlock()
		u.log.Info("a file was written by hand", "bytes", len(data))
		return nil
	})
}
