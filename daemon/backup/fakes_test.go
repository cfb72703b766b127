package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"berth/files/repository"
)

// memory is a repository that can be made to fail at each of its calls. The real ones are
// tested in package repository.
type memory struct {
	there   bool
	streams map[string][]byte
	all     []repository.Snapshot
	n       int
	calls   int
	failAt  int // the call that fails, 0 for none
	dropped []string
	pruned  int
	checked [][2]int // the parts of Check, and of how many
}

var errPlace = errors.New("the place is gone")

func (m *memory) call() error {
	if m.calls++; m.calls == m.failAt {
		return errPlace
	}
	return nil
}

func (m *memory) Where() string { return "memory" }

func (m *memory) Open(_ context.Context, create bool) error {
	if err := m.call(); err != nil {
		return err
	}
	if !m.there && !create {
		return repository.ErrNone
	}
	m.there = true
	return nil
}

func (m *memory) Save(_ context.Context, name string, labels map[string]string, write func(io.Writer) error) (repository.Snapshot, error) {
	if err := m.call(); err != nil {
		return repository.Snapshot{}, err
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return repository.Snapshot{}, fmt.Errorf("not saved: %w", err)
	}
	m.n++
	s := repository.Snapshot{ID: fmt.Sprint(m.n), Name: name, Labels: labels, At: time.Now()}
	if m.streams == nil {
		m.streams = map[string][]byte{}
	}
	m.streams[s.ID] = b.Bytes()
	m.all = append([]repository.Snapshot{s}, m.all...)
	return s, nil
}

func (m *memory) Commit(_ context.Context, run string, head repository.Snapshot, others []repository.Snapshot) (int64, error) {
	for _, s := range append(slices.Clone(others), head) {
		if err := m.call(); err != nil {
			return 0, err
		}
		at := slices.IndexFunc(m.all, func(is repository.Snapshot) bool { return is.ID == s.ID })
		m.all[at].Runs = append(slices.Clone(m.all[at].Runs), run)
	}
	return int64(len(m.streams[head.ID])), nil
}

func (m *memory) List(context.Context) ([]repository.Snapshot, error) {
	return slices.Clone(m.all), m.call()
}

func (m *memory) Load(_ context.Context, s repository.Snapshot, read func(io.Reader) error) error {
	if err := m.call(); err != nil {
		return err
	}
	return read(bytes.NewReader(m.streams[s.ID]))
}

func (m *memory) Drop(_ context.Context, runs []string) error {
	if err := m.call(); err != nil {
		return err
	}
	m.dropped = append(m.dropped, runs...)
	for i := range m.all {
		m.all[i].Runs = slices.DeleteFunc(slices.Clone(m.all[i].Runs), func(r string) bool { return slices.Contains(runs, r) })
	}
	return nil
}

func (m *memory) Prune(context.Context) error {
	m.pruned++
	m.all = slices.DeleteFunc(m.all, func(s repository.Snapshot) bool { return len(s.Runs) == 0 })
	return m.call()
}

func (m *memory) Check(_ context.Context, part, parts int) error {
	m.checked = append(m.checked, [2]int{part, parts})
	return m.call()
}
