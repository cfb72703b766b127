package host

import (
	"context"

	"berth/app"
)

// maxDeletes is how many files one call of DeleteFiles takes.
const maxDeletes = 2000

// edit changes files of an application by hand, with the errors of app.FileEdits.
func (h *Host) edit(ctx context.Context, owner app.AccountID, id app.ID, f func(context.Context, *unit) error) error {
	return h.change(ctx, owner, id, func(ctx context.Context, u *unit) error {
		if u.deploy != nil {
			return u.busy("being deployed")
		}
		return f(ctx, u)
	})
}

// WriteFile implements app.FileEdits.
func (h *Host) WriteFile(ctx context.Context, owner app.AccountID, id app.ID, name string, data []byte, over app.Over) error {
	return h.edit(ctx, owner, id, func(ctx context.Context, u *unit) error {
		used, err := u.disk.recent(ctx)
		if err != nil {
			return err
		}
		file := app.Space{Bytes: int64(len(data)), Entries: 1}
		if h.disk.over(used.Plus(file)) {
			return app.Errorf(app.NoSpace, "cannot write the file: %s", app.DiskOwn)
		}
		if err := h.claimDisk(ctx, owner, id, used.Bytes, used.Plus(file).Bytes, app.Words("write the file")); err != nil {
			return err
		}
		defer h.unclaim(id)
		if err := h.Edits.WriteFile(id, u.app.UID, name, data, over); err != nil {
			return err
		}
		u.disk.add(file) // at once, as if nothing was replaced
		u.log.Info("a file was written by hand", "bytes", len(data))
		return nil
	})
}

// MakeDir implements app.FileEdits.
func (h *Host) MakeDir(ctx context.Context, owner app.AccountID, id app.ID, name string) error {
	return h.edit(ctx, owner, id, func(ctx context.Context, u *unit) error {
		used, err := u.disk.recent(ctx)
		if err != nil {
			return err
		}
		made := app.Space{Entries: 1}
		if h.disk.over(used.Plus(made)) {
			return app.Errorf(app.NoSpace, "cannot make the directory: %s", app.DiskOwn)
		}
		if err := h.Edits.MakeDir(id, u.app.UID, name); err != nil {
			return err
		}
		u.disk.add(made)
		u.log.Info("a directory was made by hand")
		return nil
	})
}

// MoveFile implements app.FileEdits.
func (h *Host) MoveFile(ctx context.Context, owner app.AccountID, id app.ID, from, to string) error {
	return h.edit(ctx, owner, id, func(_ context.Context, u *unit) error {
		if err := h.Edits.Move(id, u.app.UID, from, to); err != nil {
			return err
		}
		u.log.Info("a file was moved by hand")
		return nil
	})
}

// DeleteFiles implements app.FileEdits. The files themselves go while nobody waits for the application.
func (h *Host) DeleteFiles(ctx context.Context, owner app.AccountID, id app.ID, names []string) error {
	if len(names) > maxDeletes {
		return app.Errorf(app.Invalid, "at most %d files can be deleted at once", maxDeletes)
	}
	var finish []func(context.Context) error
	err := h.edit(ctx, owner, id, func(_ context.Context, u *unit) error {
		for _, name := range names {
			gone, err := h.Edits.Delete(id, u.app.UID, name)
			if err != nil {
				return err
			}
			finish = append(finish, gone)
		}
		u.log.Info("files were deleted by hand", "count", len(names))
		return nil
	})
	for _, gone := range finish {
		if problem := gone(ctx); problem != nil && ctx.Err() == nil {
			h.Log.Error("cannot remove files that were deleted by hand; the next start of berth does", "app", id, "error", problem)
		}
	}
	return err
}
