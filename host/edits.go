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

// Unzip implements app.FileEdits. The ZIP is unpacked while nobody waits for the application.
func (h *Host) Unzip(ctx context.Context, owner app.AccountID, id app.ID, name, file string, replace bool) (done app.Unzipped, err error) {
	defer h.DropSpool(file)
	u, err := h.find(owner, id)
	if err != nil {
		return done, err
	}
	if err := u.do(ctx, u.refuse); err != nil {
		return done, err
	}
	if err := h.unpacks.Acquire(ctx, 1); err != nil {
		return done, err
	}
	uid := u.view.Load().UID
	stage, space, err := h.Edits.Unzip(ctx, file, uid)
	h.unpacks.Release(1)
	if err != nil {
		return done, err
	}
	defer h.discard(stage)
	err = h.edit(ctx, owner, id, func(ctx context.Context, u *unit) error {
		if u.app.UID != uid {
			return noApp(id) // it was deleted meanwhile, and another one has its id
		}
		used, err := u.disk.recent(ctx)
		if err != nil {
			return err
		}
		if h.disk.over(used.Plus(space)) {
			return app.Errorf(app.NoSpace, "cannot unpack the ZIP: %s", app.DiskOwn)
		}
		if err := h.claimDisk(ctx, owner, id, used.Bytes, used.Plus(space).Bytes, app.Words("unpack the ZIP")); err != nil {
			return err
		}
		defer h.unclaim(id)
		if done, err = h.Edits.Lay(ctx, id, uid, name, stage, replace); done.Files > 0 {
			u.disk.add(space) // at once, as if nothing was replaced
			u.log.Info("a ZIP was unpacked by hand", "files", done.Files)
		}
		return err
	})
	return done, err
}
