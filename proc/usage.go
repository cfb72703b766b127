package proc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"berth/app"
)

// sample is one reading of the group's cpu time, and the rate it gave.
type sample struct {
	at      time.Time
	used    time.Duration
	percent float64
}

const (
	// sampleMin and sampleMax bound the age of the earlier of the two samples
	// a cpu percentage is made from; a stale one is renewed over sampleNow.
	sampleMin = 500 * time.Millisecond
	sampleMax = 10 * time.Second
	sampleNow = 100 * time.Millisecond
)

// Usage returns what the run's processes use now. When the last cpu sample is
// old it takes a fresh one, which blocks for a tenth of a second.
func (r *Run) Usage(ctx context.Context) (app.Usage, error) {
	u, err := r.usage(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone && (err != nil || !r.left) {
		return app.Usage{}, nil // it ended meanwhile
	}
	return u, err
}

func (r *Run) usage(ctx context.Context) (app.Usage, error) {
	percent, err := r.cpuPercent(ctx)
	if err != nil {
		return app.Usage{}, err
	}
	m, err := r.group.Memory()
	if err != nil {
		return app.Usage{}, err
	}
	in, out, err := r.traffic.Read()
	if err != nil {
		return app.Usage{}, err
	}
	return app.Usage{MemoryBytes: m.Used, LimitBytes: m.Limit, CPUPercent: percent, NetIn: in, NetOut: out}, nil
}

// Counts returns what the run's processes have used up to now, nothing once they
// have ended. It does not wait.
func (r *Run) Counts() (app.Counts, error) {
	c, err := r.counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone && (err != nil || !r.left) {
		return app.Counts{}, nil // it ended meanwhile
	}
	return c, err
}

func (r *Run) counts() (app.Counts, error) {
	u, err := r.group.Use()
	if err != nil {
		return app.Counts{}, err
	}
	r.reportRefused()
	in, out, err := r.traffic.Read()
	return app.Counts{MemoryBytes: u.Memory, LimitBytes: u.Limit, CPU: u.CPU, NetIn: in, NetOut: out}, err
}

func (r *Run) cpuPercent(ctx context.Context) (float64, error) {
	r.mu.Lock()
	last := r.cpu
	r.mu.Unlock()
	if last.at.IsZero() {
		last = sample{at: r.started} // the first answer is the average since the start
	}
	age := time.Since(last.at)
	if age < sampleMin && !last.at.Equal(r.started) {
		return last.percent, nil
	}
	if age > sampleMax {
		used, err := r.group.CPU()
		if err != nil {
			return 0, err
		}
		last = sample{at: time.Now(), used: used}
		select {
		case <-time.After(sampleNow):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	used, err := r.group.CPU()
	if err != nil {
		return 0, err
	}
	now := sample{at: time.Now(), used: used}
	if d := now.at.Sub(last.at); d > 0 {
		now.percent = 100 * float64(now.used-last.used) / float64(d)
	}
	r.mu.Lock()
	r.cpu = now
	r.mu.Unlock()
	return now.percent, nil
}

// Held returns what the processes of the run, and the console commands beside it,
// hold of disks in files that have no name any more: by a descriptor, or mapped.
// Nothing else shows them, and they go with the last of their holders. What is in
// memory counts in the run's memory, and not here. A descriptor that is on its way
// in a message is nobody's, and not seen. It reads as much of /proc as the
// processes make there is, until ctx ends.
func (r *Run) Held(ctx context.Context) (app.Space, error) {
	pids, err := r.group.All()
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.gone {
			return app.Space{}, nil // it has ended meanwhile
		}
		return app.Space{}, err
	}
	h := holdings{ctx: ctx, uid: uint32(r.spec.UID), seen: map[inode]bool{}} //nolint:gosec // an id of a user
	for _, pid := range pids {
		if err := h.process(pid); err != nil {
			return app.Space{}, fmt.Errorf("cannot look for files that were removed: %w", err)
		}
	}
	return h.space, nil
}

// Listens tells where the program takes connections now. Behind the network policy its
// own port answers, and one connection is made to see. Else the listening sockets of the
// processes in its group are looked up: its own port comes first, then that of sites, then
// the only one there is that asked for all addresses. Behind the policy a port that the
// kernel chose by the program's wish is the program's alone, and not among them.
func (r *Run) Listens() (app.Listening, error) {
	if r.spec.Port == 0 {
		return app.Listening{}, nil
	}
	if r.private {
		if at := answers(r.spec.Port); at.IsValid() {
			return app.Listening{At: at, Port: r.spec.Port, Own: true}, nil
		}
	}
	l, err := r.lookForDoors()
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.gone {
			return app.Listening{}, nil // it has ended meanwhile
		}
		return app.Listening{}, fmt.Errorf("cannot tell where the program listens: %w", err)
	}
	return l, nil
}

// lookForDoors is Listens by the sockets of the run's group.
func (r *Run) lookForDoors() (app.Listening, error) {
	pids, err := r.group.Procs()
	if err != nil {
		return app.Listening{}, err
	}
	doors, err := doorsOf(pids)
	if err != nil {
		return app.Listening{}, err
	}
	if !r.private {
		l := choose(doors, r.spec.Port, false)
		if l.At.IsValid() { // which of the two loopback addresses it serves
			l.At = answers(int(l.At.Port()))
		}
		return l, nil
	}
	if r.network == nil { // nobody knows what it asked for
		return app.Listening{}, nil
	}
	var asked []door
	for _, d := range doors {
		port, open, err := r.network.Asked(d.at)
		if err != nil {
			return app.Listening{}, err
		}
		if port > 0 && int(d.at.Port()) != r.spec.Port {
			asked = append(asked, door{int(port), d.at, open})
		}
	}
	return choose(asked, r.spec.Port, true), nil
}

const (
	// busyLooks is how often Busy looks, and busyPause the time between two looks: a
	// task that is met between two steps looks idle.
	busyLooks = 5
	busyPause = 10 * time.Millisecond
)

// Busy reports whether a task of the program runs now, or waits for a processor or
// the disk. The processor time that it uses would say nothing: a program that the
// machine starves uses none.
func (r *Run) Busy() bool {
	for look := range busyLooks {
		if look > 0 {
			time.Sleep(busyPause)
		}
		if r.runnable() {
			return true
		}
	}
	return false
}

// runnable looks once. What has ended meanwhile is not.
func (r *Run) runnable() bool {
	pids, err := r.group.Procs()
	if err != nil {
		return false
	}
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/task"
		tasks, _ := os.ReadDir(dir)
		for _, task := range tasks {
			if s := taskState(dir + "/" + task.Name() + "/stat"); s == 'R' || s == 'D' {
				return true
			}
		}
	}
	return false
}

// taskState reads the state of a task, the letter behind its name
// (proc_pid_stat(5)); 0 when there is none any more.
func taskState(path string) byte {
	b, err := os.ReadFile(path)
	if _, rest, found := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" ")); err == nil && found && len(rest) > 0 {
		return rest[0]
	}
	return 0
}
