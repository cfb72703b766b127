package files

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
)

// Journals of an application lie in rollback/<id>, each in a directory of its
// own. One whose name ends in openExt belongs to a commit that was begun;
// whether that is good is for the records to say: see Settle.
const (
	openExt   = ".open"
	planName  = "plan"  // a journal without one stands for a commit that had not begun
	oldName   = "old"   // originals, by the number of their op
	trashName = "trash" // what an undo moved out of the way
)

// journal is an open directory rollback/<id>/<name>.
type journal struct {
	name     string // without openExt
	top, old dir
}

func (j journal) close() {
	j.old.close()
	j.top.close()
}

// journals opens the directory with the journals of id, unix.ENOENT when there
// is none. What an older berth left in it itself becomes an open journal.
func (s *commits) journals(id app.ID) (dir, error) {
	all, err := s.rollback.sub(string(id))
	if err != nil {
		return noDir, err
	}
	if err := adoptOld(all); err != nil {
		all.close()
		return noDir, err
	}
	return all, nil
}

// adoptOld moves a journal that lies in rollback/<id> itself, as before there
// was more than one, into a directory of its own. The plan goes last: until
// then the next look begins again.
func adoptOld(all dir) error {
	_, planned := all.stat(planName)
	if _, err := all.stat(oldName); err != nil && planned != nil {
		return nil
	}
	const name = "00000000000000000000000000000000" + openExt
	if err := unix.Mkdirat(int(all), name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	to, err := all.sub(name)
	if err != nil {
		return err
	}
	defer to.close()
	for _, part := range []string{oldName, trashName, planName} {
		if err := ignoreMissing(move(all, part, to, part)); err != nil {
			return err
		}
	}
	return errors.Join(to.sync(), all.sync())
}

// newJournal begins the journal of a commit.
func (s *commits) newJournal(ctx context.Context, id app.ID) (journal, error) {
	if err := unix.Mkdirat(int(s.rollback), string(id), 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return journal{}, cannot("begin a journal", err)
	}
	all, err := s.journals(id)
	if err != nil {
		return journal{}, cannot("begin a journal", err)
	}
	defer all.close()
	err = all.list(func(name string) error {
		if !strings.HasSuffix(name, openExt) {
			return nil
		}
		if hasPlan(all, name) {
			return app.Errorf(app.Conflict, "the previous commit of %s is not finished", id)
		}
		return s.discard(ctx, all, name)
	})
	if err != nil {
		return journal{}, err
	}
	name := randName()
	j := journal{name: name, top: noDir, old: noDir}
	if j.top, err = all.mkdir(name+openExt, 0o700, os.Geteuid()); err == nil {
		j.old, err = j.top.mkdir(oldName, 0o700, os.Geteuid())
	}
	if err == nil {
		err = all.sync()
	}
	if err != nil {
		j.close()
		return journal{}, cannot("begin a journal", err)
	}
	return j, nil
}

// write puts the plan on disk, whole or not at all.
func (j journal) write(s *disk, ops []op) (err error) {
	f, err := j.top.create(planName + ".new")
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, o := range ops {
		if err = enc.Encode(o); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.Flush()); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := s.at("plan"); err != nil {
		return err
	}
	if err := move(j.top, planName+".new", j.top, planName); err != nil {
		return err
	}
	return errors.Join(j.top.sync(), s.rollback.sync())
}

// openJournal opens a journal, with openExt in its name if it has that, and
// reads its plan. Both are missing with fs.ErrNotExist.
func openJournal(all dir, name string) (journal, []op, error) {
	top, err := all.sub(name)
	if err != nil {
		return journal{}, nil, err
	}
	ops, err := readPlan(top)
	if err != nil {
		top.close()
		return journal{}, nil, err
	}
	old, err := top.sub(oldName)
	if err != nil {
		top.close()
		return journal{}, nil, fmt.Errorf("cannot open the originals: %w", err)
	}
	return journal{strings.TrimSuffix(name, openExt), top, old}, ops, nil
}

// readPlan reads the plan.
func readPlan(top dir) ([]op, error) {
	f, _, err := top.file(planName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var ops []op
	dec := json.NewDecoder(bufio.NewReader(f))
	for {
		var o op
		err := dec.Decode(&o)
		if errors.Is(err, io.EOF) {
			return ops, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the plan is damaged: %w", err)
		}
		ops = append(ops, o)
	}
}

// hasPlan reports whether a journal got as far as its plan.
func hasPlan(all dir, name string) bool {
	_, err := all.at(name + "/" + planName)
	return err == nil
}

// Pending reports whether a commit of id was begun that is not among good, the
// journals that the records name: Settle will undo it.
func (s *commits) Pending(id app.ID, good []string) bool { return len(s.Undone(id, good)) > 0 }

// Undone names the journals of such commits.
func (s *commits) Undone(id app.ID, good []string) []string {
	if checkID(id) != nil {
		return nil
	}
	all, err := s.journals(id)
	if err != nil {
		return nil
	}
	defer all.close()
	var undone []string
	// A rollback directory that cannot be read fails every later call aloud.
	_ = all.list(func(name string) error {
		base, open := strings.CutSuffix(name, openExt)
		if open && !slices.Contains(good, base) && hasPlan(all, name) {
			undone = append(undone, base)
		}
		return nil
	})
	return undone
}

// Settle brings the journals of id, and the lists of what deploys brought, in line
// with good, those that the records name. A commit that was begun and is named is done: its journal is kept, for
// rollbacks. One that is not named is undone: the live tree is what it was
// before Apply, however far that came; a program that runs as uid then is as under
// Apply, and nothing of the commit's code may. Files the
// program made since stay, unless an original needs their place. Kept journals
// and lists that are not named are removed. It is idempotent: after an error, an
// early end of ctx or a crash it is simply called again.
func (s *commits) Settle(ctx context.Context, id app.ID, uid int, good []string) error {
	if err := checkID(id); err != nil {
		return err
	}
	all, err := s.journals(id)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return cannot("read the journals", err)
	}
	defer all.close()
	var names []string
	if err := all.list(func(name string) error { names = append(names, name); return nil }); err != nil {
		return cannot("read the journals", err)
	}
	// Open ones first: what there is to drop can wait, half a commit cannot.
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(strings.Compare(path.Ext(b), path.Ext(a)), strings.Compare(a, b))
	})
	left := len(names)
	for _, name := range names {
		base, open := strings.CutSuffix(name, openExt)
		named := slices.Contains(good, strings.TrimSuffix(base, listExt))
		switch {
		case open && named:
			err = s.keep(all, name, base)
		case open:
			err = s.undo(ctx, id, uid, all, name)
			left--
		case !named: // a list or a kept journal
			if err = s.at("drop-journal"); err == nil {
				err = s.discard(ctx, all, name)
			}
			left--
		}
		if err != nil {
			return err
		}
	}
	if left > 0 {
		return nil
	}
	return s.discard(ctx, s.rollback, string(id))
}

// keep makes the journal of a good commit one for rollbacks.
func (s *commits) keep(all dir, name, base string) error {
	if err := s.at("keep-journal"); err != nil {
		return err
	}
	err := move(all, name, all, base)
	if err == nil {
		err = all.sync()
	}
	if err != nil {
		return cannot("keep the journal", err)
	}
	return nil
}
