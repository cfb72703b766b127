package cluster

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/kube"
	"berth/proc/logs"
)

const (
	// batchSize is how many bytes of lines are written to a log at once, and batchTime how long the first of them waits.
	batchSize = 48 << 10
	batchTime = 50 * time.Millisecond
)

// quietTime is the longest pause before a stream is opened again that ended, and had nothing: of thousands of programs that
// would keep a cluster busy.
const quietTime = 10 * time.Second

// readLog copies what the program prints into the application's log until the program has ended, which ended tells, or the run
// is left. A stream may end early, without an error, so it goes on where that ended, and once more after the end.
func (r *run) readLog(ended <-chan struct{}) {
	missing, pause := 0, againTime/4
	for r.life.Err() == nil {
		p, gone := r.now()
		last := gone || over(p) // all is printed
		before := r.out.Taken(r.uid)
		err := r.read(!last)
		switch {
		case r.life.Err() != nil, last && err == nil:
			return
		case last && kube.CodeOf(err) == http.StatusNotFound:
			// Also a machine that does not know the pod yet says so, and one that has just removed it.
			if missing++; gone || missing > 5 {
				r.mu.Lock()
				hurry := r.hurry
				r.mu.Unlock()
				if !hurry {
					r.out.Note("what the program printed last is lost: its pod was removed from the cluster")
				}
				return
			}
		}
		switch {
		case last:
			sleep(r.life, againTime/4)
			continue
		case r.out.Taken(r.uid) != before:
			pause = againTime / 4
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ended:
		case <-r.life.Done():
		}
		timer.Stop()
		pause = min(2*pause, quietTime)
	}
}

// read copies from the place on where the log has it.
func (r *run) read(follow bool) error {
	ctx, cancel := context.WithCancel(r.life)
	defer cancel()
	b := &batch{log: r.out, run: r.uid, place: placeOf(r.out.Taken(r.uid))}
	defer b.begin()()
	_, err := r.engine.kube.Log(ctx, r.name, box, b.place, follow, b.add)
	return errors.Join(err, b.flush())
}

// batch is lines that are not in the log yet. It is safe for concurrent use.
type batch struct {
	log *logs.Log
	run string

	mu    sync.Mutex
	lines []logs.Line
	size  int
	place kube.Place // behind the last of them
	err   error      // of the last write
}

// begin writes lines that have waited for long enough, until the function that it returns is called.
func (b *batch) begin() (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(batchTime)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = b.flush() // add returns it
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// add takes a line.
func (b *batch) add(l kube.Line) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.Gap {
		b.log.Note("some of what the program printed while berth was away is lost: its machine keeps no more")
	}
	b.lines = append(b.lines, logs.Line{At: l.At, Text: bytes.Clone(l.Text)})
	b.size += len(l.Text)
	b.place = l.Behind
	if b.size >= batchSize {
		b.write()
	}
	return b.err
}

// flush writes what there is.
func (b *batch) flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write()
	return b.err
}

func (b *batch) write() {
	if len(b.lines) == 0 || b.err != nil { // read goes on from the place that the log has
		return
	}
	b.err = b.log.Take(b.run, b.lines, textOf(b.place))
	b.lines, b.size = nil, 0
}

// textOf writes a place, and placeOf reads it. Any other text is the beginning.
func textOf(p kube.Place) string {
	return p.At.UTC().Format(time.RFC3339Nano) + " " + strconv.Itoa(p.Lines)
}

func placeOf(text string) (p kube.Place) {
	at, lines, _ := strings.Cut(text, " ")
	when, err := time.Parse(time.RFC3339Nano, at)
	n, wrong := strconv.Atoi(lines)
	if err != nil || wrong != nil {
		return kube.Place{}
	}
	return kube.Place{At: when, Lines: n}
}
