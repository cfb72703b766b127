package host

import (
	"context"

	"berth/app"
)

// diskSpace is what the world knows of the disk: Quotas.
type diskSpace struct {
	space   app.MB             // what an application may have; 0 for no limit
	marked  map[int]app.ID     // whose files a user id has
	sizes   map[app.ID]int64   // of a tree, in bytes; "" is every tree's least
	files   map[app.ID]int64   // in a tree
	deep    map[app.ID]bool    // trees that cannot be measured
	held    map[app.ID]int64   // bytes that no name leads to, while it runs
	limits  map[app.ID][]int64 // that were set, in order
	after   map[app.ID]int64   // what a tree will take with a stage over it; "" for a new one
	room    map[string]error   // by what there is no room for
	written map[string]string  // files, by hand
}

func newDiskSpace() diskSpace {
	return diskSpace{marked: map[int]app.ID{}, sizes: map[app.ID]int64{}, limits: map[app.ID][]int64{}, files: map[app.ID]int64{}, deep: map[app.ID]bool{}, held: map[app.ID]int64{}, after: map[app.ID]int64{}, room: map[string]error{}, written: map[string]string{}}
}

func (w *world) WriteFile(id app.ID, uid int, name string, data []byte, _ app.Over) error {
	if err := w.failing("WriteFile"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if uid < 70000 {
		w.t.Errorf("a file of %s is written for user %d", id, uid)
	}
	w.written[name] = string(data)
	return nil
}

func (w *world) MakeDir(_ app.ID, _ int, name string) error { return w.edited("MakeDir", name, "dir") }

func (w *world) Move(_ app.ID, _ int, from, to string) error { return w.edited("Move", to, from) }

func (w *world) Delete(_ app.ID, _ int, name string) (func(context.Context) error, error) {
	return func(context.Context) error { return w.edited("finish", name, "finished") }, w.edited("Delete", name, "deleted")
}

func (w *world) Unzip(context.Context, string, int) (app.Stage, app.Space, error) {
	return "unzipped", app.Space{Bytes: 600 << 10, Entries: 1}, w.failing("Unzip")
}

func (w *world) Lay(_ context.Context, _ app.ID, _ int, name string, stage app.Stage, replace bool) (app.Unzipped, error) {
	if !replace {
		return app.Unzipped{Taken: 1, Names: []string{"a"}}, nil
	}
	return app.Unzipped{Files: 1}, w.edited("Lay", name, string(stage))
}

// edited keeps what was done by hand.
func (w *world) edited(what, name, how string) error {
	if err := w.failing(what); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[name] = how
	return nil
}

// worldQuotas gives Quotas a Mark beside the one of Logs.
type worldQuotas struct{ *world }

func (w worldQuotas) Mark(_ context.Context, id app.ID, uid int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uid < 70000 {
		w.t.Errorf("the limit of %s is set for user %d", id, uid)
	}
	w.marked[uid] = id
	return nil
}

func (w *world) SetLimit(uid int, bytes int64) error {
	if err := w.failing("Limit"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.marked[uid]
	w.limits[id] = append(w.limits[id], bytes>>20)
	return nil
}

func (w *world) After(_ context.Context, _ app.Stage, id app.ID) (app.Space, error) {
	w.mu.Lock()
	s := app.Space{Bytes: w.after[id], Entries: w.files[id], Deep: w.deep[id]}
	w.mu.Unlock()
	return s, w.failing("After")
}

func (w *world) Entries() int64 { return 1000 }

func (w *world) CheckFree(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.room[what]
}

// full makes the disk refuse what, or nothing more.
func (w *world) full(what string, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.room, what)
	if is {
		w.room[what] = app.Errorf(app.NoSpace, "cannot %s: the host's disk is nearly full", what)
	}
}

// takes sets the MB of an application's files, and of what will be its files
// after a deployment.
func (w *world) takes(id app.ID, now, then int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sizes[id], w.after[id] = now<<20, then<<20
}
