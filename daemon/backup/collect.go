package backup

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth/app"
	"berth/db"
	"berth/files"
	"berth/files/archive"
)

const (
	collectTries = 20 // rounds over what is deployed meanwhile
	collectPause = 500 * time.Millisecond
)

// Failure is why the files of an application are not in a backup.
type Failure struct {
	App app.ID
	Err error

	deploy int // the newest then; another one is tried again
}

// appError is an error of one application: the others can still be added.
type appError struct{ error }

// collector gets the files of every application, and then a copy of the database that tells of
// the same deploys: who was deployed meanwhile comes again. Nobody waits for it.
type collector struct {
	db *db.DB
	// add adds the files of an application, again perhaps. It fails with an appError or
	// files.ErrBusy when that application cannot be added; any other error ends everything.
	add func(ctx context.Context, a app.App) error
	// drop takes away what was added of an application.
	drop   func(id app.ID)
	done   map[app.ID]int // the deploy whose files were added
	failed map[app.ID]Failure
}

// collect calls add for every application, until a copy of the database, which it makes at
// path, tells of what was added.
func (c *collector) collect(ctx context.Context, path string) error {
	c.done, c.failed = map[app.ID]int{}, map[app.ID]Failure{}
	var behind []app.ID
	for try := range collectTries {
		if try > 0 {
			select {
			case <-time.After(collectPause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := c.addAll(ctx)
		if err == nil {
			err = errors.Join(os.RemoveAll(path), c.db.Copy(ctx, path))
		}
		if err == nil {
			behind, err = c.compare(ctx, path)
		}
		if err != nil || len(behind) == 0 {
			return err
		}
	}
	for _, id := range behind {
		c.remove(id)
		c.failed[id] = Failure{App: id, Err: errors.New("it is deployed again and again; try again when it is not")}
	}
	return nil
}

// addAll adds the applications whose newest deploy was not added. One that cannot be added
// keeps no other from it: programs own their files, and can make them unreadable.
func (c *collector) addAll(ctx context.Context) error {
	apps, err := c.db.Apps.Apps(ctx)
	if err != nil {
		return err
	}
	for _, a := range apps {
		before, err := newest(ctx, c.db, a.ID)
		if err != nil {
			return err
		}
		if c.tried(a.ID, before) {
			continue
		}
		delete(c.failed, a.ID)
		var its appError
		switch err := c.add(ctx, a); {
		case err == nil:
			c.done[a.ID] = before
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, files.ErrBusy): // it is deployed, and comes again
			c.remove(a.ID)
		case errors.As(err, &its):
			c.remove(a.ID)
			c.failed[a.ID] = Failure{a.ID, its.error, before}
		default:
			return err
		}
	}
	return nil
}

// tried reports whether everything was added that there is to add of a deploy.
func (c *collector) tried(id app.ID, deploy int) bool {
	done, is := c.done[id]
	failed, was := c.failed[id]
	return is && done == deploy || was && failed.deploy == deploy
}

func (c *collector) remove(id app.ID) {
	c.drop(id)
	delete(c.done, id)
}

// newest is the number of an application's newest deploy.
func newest(ctx context.Context, d *db.DB, id app.ID) (int, error) {
	all, err := d.History.Deploys(ctx, id)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[0].Number, nil
}

// compare returns the applications of which a copy of the database tells another deploy than
// was added. What was added of those that it does not know, which were deleted meanwhile, it
// removes.
func (c *collector) compare(ctx context.Context, path string) (behind []app.ID, err error) {
	d, err := db.Open(ctx, path, time.Now)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	apps, err := d.Apps.Apps(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range apps {
		number, err := newest(ctx, d, a.ID)
		if err != nil {
			return nil, err
		}
		if !c.tried(a.ID, number) {
			behind = append(behind, a.ID)
		}
	}
	for _, id := range slices.Concat(slices.Collect(maps.Keys(c.done)), slices.Collect(maps.Keys(c.failed))) {
		if !slices.ContainsFunc(apps, func(a app.App) bool { return a.ID == id }) {
			c.remove(id)
			delete(c.failed, id)
		}
	}
	return behind, nil
}

// failures are those of the applications, by their ids.
func (c *collector) failures() []Failure {
	var all []Failure
	for _, id := range slices.Sorted(maps.Keys(c.failed)) {
		all = append(all, c.failed[id])
	}
	return all
}

// addDatabase adds the copy at path, proved to be whole, and returns its schema.
func addDatabase(ctx context.Context, w *archive.Writer, path string) (int, error) {
	schema, err := db.Check(ctx, path)
	if err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	w.Begin(DatabasePart)
	return schema, w.Add(archive.Plain(0o600, info.Size()), f)
}

// stagingDir is where a backup may put a copy of the database: where there is room for it, and
// a boot removes what a crash leaves.
func stagingDir(dataDir string) (string, error) {
	return os.MkdirTemp(filepath.Join(dataDir, "staging"), "backup-")
}

// addFile adds a file of the host as a part of its own, if there is one.
func addFile(w *archive.Writer, part, path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return addBytes(w, part, content)
}

// addBytes adds a part of some bytes, unless they are nil.
func addBytes(w *archive.Writer, part string, content []byte) error {
	if content == nil {
		return nil
	}
	w.Begin(part)
	return w.Add(archive.Plain(0o600, int64(len(content))), bytes.NewReader(content))
}
