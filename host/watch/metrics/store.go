package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"berth/app"
)

const (
	recentName = ".recent" // no id begins with a dot
	olderName  = ".recent.old"

	// mostUnsaved bounds what waits for a disk that takes nothing.
	mostUnsaved = 1 << 20
	// mostPending is how many points of an application wait for its ring.
	mostPending = int(3 * time.Hour / Fine)
)

// Store is the history of all applications. It is safe for concurrent use, by
// one Store per directory at a time.
type Store struct {
	dir string

	mu      sync.Mutex
	recent  *os.File
	size    int64             // of recent, up to where it is whole
	unsaved []byte            // what could not be appended yet
	pending map[app.ID][]slot // sorted, not in the rings yet
}

// Open returns the history in dir, which is made (0700) if it is not there. What
// a daemon before has left, however it ended, is there; the torn end of a file
// is cut off.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, pending: map[app.ID][]slot{}}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("cannot open the metric history: %w", err)
	}
	return s, nil
}

func (s *Store) open() error {
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	recent, err := read(s.path(recentName))
	if err != nil {
		return err
	}
	older, err := read(s.path(olderName))
	if err != nil {
		return err
	}
	// What recent begins with, a rotation has copied from the one before: it would count twice.
	first := map[app.ID]time.Time{}
	parse(recent, func(id app.ID, kind byte, p app.Point) {
		if at, there := first[id]; kind == isPoint && (!there || p.At.Before(at)) {
			first[id] = p.At
		}
	})
	s.load(older, first)
	whole := s.load(recent, nil)
	f, err := os.OpenFile(s.path(recentName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Truncate(whole); err != nil {
		return errors.Join(err, f.Close())
	}
	s.recent, s.size = f, whole
	return nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// Append adds fine points. Of two of the same minute both count: they are joined.
// Points that could not be written are shown all the same and tried again at the
// next call; when even the rings cannot be written, the oldest are lost.
func (s *Store) Append(now time.Time, points []app.PointOf) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	hour := now.UTC().Truncate(time.Hour)
	// What is of this hour comes behind the fold: else it stood in two files, and counted twice.
	err := s.take(points, func(at time.Time) bool { return at.Before(hour) })
	if s.due(hour) {
		err = errors.Join(err, s.fold(hour))
	}
	err = errors.Join(err, s.take(points, func(at time.Time) bool { return !at.Before(hour) }))
	if err != nil {
		return fmt.Errorf("cannot write the metric history: %w", reason(err))
	}
	return nil
}

// take adds and saves those points whose time is meant. The caller holds mu.
func (s *Store) take(points []app.PointOf, meant func(at time.Time) bool) error {
	for _, r := range points {
		if r.At = r.At.UTC().Truncate(Fine); meant(r.At) {
			s.unsaved = appendRecord(s.unsaved, r.App, isPoint, r.Point)
			s.add(r.App, r.Point)
		}
	}
	return s.save()
}

// find tells where the first slot of a moment or later stands.
func find(list []slot, at time.Time) (int, bool) {
	return slices.BinarySearchFunc(list, at, func(s slot, t time.Time) int { return s.at().Compare(t) })
}

// add joins a point with what is pending. The caller holds mu, or owns s.
func (s *Store) add(id app.ID, p app.Point) {
	list := s.pending[id]
	at, there := find(list, p.At)
	if there {
		list[at] = slotOf(list[at].point().With(p))
		return
	}
	s.pending[id] = slices.Insert(list, at, slotOf(p))
}

// save appends what is unsaved. The caller holds mu.
func (s *Store) save() error {
	if len(s.unsaved) == 0 {
		return nil
	}
	n, err := s.recent.WriteAt(s.unsaved, s.size)
	if err == nil {
		s.size += int64(n)
		s.unsaved = s.unsaved[:0]
		return nil
	}
	if len(s.unsaved) > mostUnsaved {
		s.unsaved = nil
	}
	return err
}

// due reports whether anything pending is of an hour before. The caller holds mu.
func (s *Store) due(hour time.Time) bool {
	for _, list := range s.pending {
		if len(list) > 0 && list[0].at().Before(hour) {
			return true
		}
	}
	return false
}

// fold writes what is pending of hours before into the rings, and begins a new
// recent with the rest. The caller holds mu.
func (s *Store) fold(hour time.Time) error {
	var errs []error
	var rest []byte
	for id, list := range s.pending {
		n, _ := find(list, hour)
		if n > 0 {
			if err := writeRing(s.path(string(id)), list[:n]); err != nil {
				errs = append(errs, err)
				n = max(0, len(list)-mostPending) // it is tried again; what is older is given up
			}
		}
		if list = slices.Clone(list[n:]); len(list) == 0 {
			delete(s.pending, id)
			continue
		}
		s.pending[id] = list
		for i := range list {
			rest = appendRecord(rest, id, isPoint, list[i].point())
		}
	}
	return errors.Join(append(errs, s.rotate(rest))...)
}

// rotate begins a new recent with these records. The caller holds mu.
func (s *Store) rotate(records []byte) error {
	next := s.path(recentName + ".new")
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(records)
	if err == nil {
		err = errors.Join(os.Rename(s.path(recentName), s.path(olderName)), os.Rename(next, s.path(recentName)))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	err = s.recent.Close()
	s.recent, s.size, s.unsaved = f, int64(len(records)), nil
	return err
}

// known reports whether there can be a history of that name.
func known(id app.ID) bool { return app.ValidID(string(id)) || id == app.HostHistory }

// Most is how many points Range returns at most.
const Most = 2000

// late is by how much a question for the last day may begin before the points of
// minutes do: 24 hours before its own clock, which is not this one, and the oldest
// minute of the day is being replaced by the newest.
const late = 2 * Fine

// Range returns the points from one moment up to another, oldest first, as
// stretches of step: a multiple of Fine, of Coarse where the fine ones are kept
// no more; what is asked for otherwise is rounded up, and so that there are at
// most Most. Stretches of which nothing is known are left out. now is the moment
// of the question.
func (s *Store) Range(id app.ID, now, from, to time.Time, step time.Duration) ([]app.Point, error) {
	if !known(id) || !from.Before(to) {
		return nil, nil
	}
	now = now.UTC()
	oldest := now.Add(-time.Duration(coarseSlots-1) * Coarse)
	from, to = later(from.UTC(), oldest), earlier(to.UTC(), now.Add(Coarse))
	base := Fine
	switch oldest := now.Add(-time.Duration(fineSlots-1) * Fine); {
	case step >= Coarse || from.Before(oldest.Add(-Fine-late)):
		base = Coarse
	default:
		from = later(from, oldest)
	}
	step = max(min(step, time.Duration(coarseSlots)*Coarse), base, to.Sub(from)/(Most-2)) // either end may add one
	step = (step + base - 1) / base * base
	from = later(from.Truncate(step), oldest).Truncate(base)
	points, err := s.read(id, base, from, to.Add(base-1).Truncate(base))
	if err != nil {
		return nil, fmt.Errorf("cannot read the metric history: %w", reason(err))
	}
	return coarsen(points, step), nil
}

// read returns stretches of Fine or Coarse: of the ring, and over them what is
// pending.
func (s *Store) read(id app.ID, base time.Duration, from, to time.Time) ([]app.Point, error) {
	if !from.Before(to) {
		return nil, nil
	}
	s.mu.Lock() // so that nothing is folded between the two
	defer s.mu.Unlock()
	points, err := readRing(s.path(string(id)), base, from, to)
	if err != nil {
		return nil, err
	}
	var newer []app.Point
	first, _ := find(s.pending[id], from)
	end, _ := find(s.pending[id], to)
	for _, one := range s.pending[id][first:end] {
		newer = append(newer, one.point())
	}
	newer = coarsen(newer, base)
	known := make(map[int64]bool, len(newer))
	for _, p := range newer {
		known[p.At.Unix()] = true
	}
	// Hours are folded whole, so a coarse stretch is in the ring or pending, and
	// in both after a crash, when it is the same.
	points = slices.DeleteFunc(points, func(p app.Point) bool { return known[p.At.Unix()] })
	points = append(points, newer...)
	slices.SortFunc(points, func(a, b app.Point) int { return cmp.Compare(a.At.Unix(), b.At.Unix()) })
	return points, nil
}

// coarsen joins sorted points to stretches of step.
func coarsen(points []app.Point, step time.Duration) []app.Point {
	var all []app.Point
	for len(points) > 0 {
		at, n := points[0].At.Truncate(step), 1
		for n < len(points) && points[n].At.Truncate(step).Equal(at) {
			n++
		}
		all = append(all, join(at, step, points[:n]))
		points = points[n:]
	}
	return all
}

// Remove forgets an application.
func (s *Store) Remove(id app.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
	s.unsaved = appendRecord(s.unsaved, id, isGone, app.Point{})
	err := errors.Join(s.save(), os.Remove(s.path(string(id))))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the metric history: %w", reason(err))
	}
	return nil
}

// Sweep removes what belongs to no application that is known. Of those that are lost,
// whose files were moved aside, it brings everything into one file each, by the id in the
// Store's directory, which lose takes away.
func (s *Store) Sweep(known, lost map[app.ID]bool, lose func(name string) error) error {
	list, err := os.ReadDir(s.dir)
	there := map[app.ID]bool{}
	for _, e := range list {
		there[app.ID(e.Name())] = app.ValidID(e.Name())
	}
	s.mu.Lock()
	for id := range s.pending {
		there[id] = id != app.HostHistory
	}
	s.mu.Unlock()
	errs := []error{err}
	for id, is := range there {
		if !is || known[id] {
			continue
		}
		if lost[id] {
			if err := errors.Join(s.settle(id), lose(string(id))); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		errs = append(errs, s.Remove(id))
	}
	return errors.Join(errs...)
}

// settle writes what is pending of one application into its ring.
func (s *Store) settle(id app.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending[id]) == 0 {
		return nil
	}
	if err := writeRing(s.path(string(id)), s.pending[id]); err != nil {
		return fmt.Errorf("cannot write the metric history: %w", reason(err))
	}
	return nil
}

// Close closes the files. Everything that was appended is in them.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.save(), s.recent.Close())
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
