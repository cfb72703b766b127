package metrics

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"berth/app"
)

const (
	// Fine is the length of the short stretches, of which a day is kept.
	Fine = time.Minute
	// Coarse is the length of the long ones, of which thirty days are.
	Coarse = 10 * time.Minute

	fineSlots   = int64(24 * time.Hour / Fine)
	coarseSlots = int64(30 * 24 * time.Hour / Coarse)
	// half is the size of a ring of berth 1.0. A ring begins with such a one; behind it
	// stand the second halves of the points, in the same order.
	half = (fineSlots + coarseSlots) * slotSize
	// RingSize is how many bytes the history of an application takes at most.
	RingSize = 2 * half
)

// offset is where the first half of the point of a stretch stands in a ring.
func offset(step time.Duration, at time.Time) int64 {
	n := at.Unix() / int64(step/time.Second)
	if step == Fine {
		return n % fineSlots * slotSize
	}
	return (fineSlots + n%coarseSlots) * slotSize
}

// readRing returns the points of a ring from one stretch up to another, which is
// not included, oldest first; none when there is no ring. Both are multiples of
// step, and the ring has room for what lies between.
func readRing(path string, step time.Duration, from, to time.Time) ([]app.Point, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return readSlots(f, step, from, to)
}

func readSlots(f io.ReaderAt, step time.Duration, from, to time.Time) ([]app.Point, error) {
	var points []app.Point
	for from.Before(to) {
		// Up to where the array begins anew, in one read.
		start, end := offset(step, from), fineSlots*slotSize
		if step == Coarse {
			end = half
		}
		n := min(int64(to.Sub(from)/step), (end-start)/slotSize)
		buf := make([]byte, 2*n*slotSize)
		base, more := buf[:n*slotSize], buf[n*slotSize:]
		for i, part := range [][]byte{base, more} {
			if _, err := f.ReadAt(part, start+int64(i)*half); err != nil && !errors.Is(err, io.EOF) { // what is not there yet is zeros
				return nil, err
			}
		}
		for at := 0; at < len(base); at += slotSize {
			if p, ok := decode(base[at : at+slotSize]); ok && p.At.Equal(from) {
				decodeMore(more[at:at+slotSize], &p)
				p.Step = step
				points = append(points, p)
			}
			from = from.Add(step)
		}
	}
	return points, nil
}

// writeRing puts fine points into a ring, which is made if need be, and the
// coarse ones that they belong to. points are sorted. Writing the same again
// changes nothing.
func writeRing(path string, points []slot) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = putFine(f, points)
	var last time.Time
	for i := range points {
		if at := points[i].at().Truncate(Coarse); err == nil && !at.Equal(last) {
			err, last = putCoarse(f, at), at
		}
	}
	return errors.Join(err, f.Close())
}

// putFine writes slots that are neighbours with one call.
func putFine(f *os.File, points []slot) error {
	for len(points) > 0 {
		start, n := offset(Fine, points[0].at()), 1
		for n < len(points) && offset(Fine, points[n].at()) == start+int64(n)*slotSize {
			n++
		}
		if err := putSlots(f, start, points[:n]); err != nil {
			return err
		}
		points = points[n:]
	}
	return nil
}

// putSlots writes both halves of slots that are neighbours. Where there are no second halves
// the file does not grow by them.
func putSlots(f *os.File, start int64, slots []slot) error {
	base, more, any := make([]byte, 0, len(slots)*slotSize), make([]byte, 0, len(slots)*slotSize), false
	for i := range slots {
		base, more = append(base, slots[i].base[:]...), append(more, slots[i].more[:]...)
		any = any || slots[i].hasMore()
	}
	_, err := f.WriteAt(base, start)
	if any && err == nil {
		_, err = f.WriteAt(more, half+start)
	}
	return err
}

// putCoarse makes a coarse point of the fine ones that are in the ring.
func putCoarse(f *os.File, at time.Time) error {
	fine, err := readSlots(f, Fine, at, at.Add(Coarse))
	if err != nil || len(fine) == 0 {
		return err
	}
	return putSlots(f, offset(Coarse, at), []slot{slotOf(join(at, Coarse, fine))})
}

// join makes one point of those of a stretch.
func join(at time.Time, step time.Duration, points []app.Point) app.Point {
	whole := app.Point{At: at, Step: step}
	for _, p := range points {
		whole = whole.With(p)
	}
	return whole
}

// reason is why a file could not be used, without its path.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	return err
}
