package tree

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"berth/app"
)

// The names in rollback/<id>. A journal without a plan stands for a commit
// that had not begun.
const (
	planName  = "plan"
	oldName   = "old"   // originals, by the number of their op
	trashName = "trash" // what Undo moved out of the way
)

// journal is the open directory rollback/<id>.
type journal struct {
	top, old dir
}

func (j journal) close() {
	j.old.close()
	j.top.close()
}

// newJournal begins the journal of a commit.
func (s *Store) newJournal(ctx context.Context, id app.ID) (journal, error) {
	if s.Pending(id) {
		return journal{}, app.Errorf(app.Conflict, "the previous commit of %s is not finished", id)
	}
	if err := s.discard(ctx, s.rollback, string(id)); err != nil {
		return journal{}, err
	}
	top, err := s.rollback.mkdir(string(id), 0o700, os.Geteuid())
	if err != nil {
		return journal{}, cannot("begin a journal", err)
	}
	old, err := top.mkdir(oldName, 0o700, os.Geteuid())
	if err != nil {
		top.close()
		return journal{}, cannot("begin a journal", err)
	}
	return journal{top, old}, nil
}

// write puts the plan on disk, whole or not at all.
func (j journal) write(s *Store, ops []op) (err error) {
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
	if err := j.top.sync(); err != nil {
		return err
	}
	return s.rollback.sync()
}

// openJournal opens the journal of id and reads its plan. Both are missing
// with fs.ErrNotExist.
func (s *Store) openJournal(id app.ID) (journal, []op, error) {
	top, err := s.rollback.sub(string(id))
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
	return journal{top, old}, ops, nil
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

// Pending reports whether a commit of id was begun and neither settled nor
// undone: it crashed. Undo it before the program starts.
func (s *Store) Pending(id app.ID) bool {
	if checkID(id) != nil {
		return false
	}
	top, err := s.rollback.sub(string(id))
	if err != nil {
		return false
	}
	defer top.close()
	_, err = top.stat(planName)
	return err == nil
}

// PendingAll returns the applications Pending is true of.
func (s *Store) PendingAll() []app.ID {
	var ids []app.ID
	// A rollback directory that cannot be read fails every later call aloud.
	_ = s.rollback.list(func(name string) error {
		if s.Pending(app.ID(name)) {
			ids = append(ids, app.ID(name))
		}
		return nil
	})
	return ids
}

// Settle drops the journal of id: the commit is good. It is idempotent.
func (s *Store) Settle(ctx context.Context, id app.ID) error {
	if err := checkID(id); err != nil {
		return err
	}
	return s.discard(ctx, s.rollback, string(id))
}

// syncAll makes everything written so far durable, contents and names.
func (s *Store) syncAll() error { return unix.Syncfs(int(s.staging)) }
