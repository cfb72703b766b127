package host

import (
	"context"
	"time"

	"berth/app"
)

func (r *instance) live() {
	defer close(r.done)
	start := time.Now()
	var own <-chan time.Time
	if r.b.exit != nil {
		own = time.After(r.b.life)
	}
	select {
	case <-own:
		r.exit = *r.b.exit
		r.dead.Store(true)
		time.Sleep(r.b.late)
		start = start.Add(r.b.late) // it ran no longer
	case grace := <-r.stop:
		r.heed(grace)
	}
	r.exit.At, r.exit.Ran, r.exit.LimitMB = time.Now(), time.Since(start), app.MB(r.ram.Load())
}

// heed is the end that was asked for: by itself in time, or by force.
func (r *instance) heed(grace time.Duration) {
	r.exit = app.Exit{Code: 143, Signal: 15}
	if grace == 0 || r.b.onStop > grace {
		r.exit = app.Exit{Code: 137, Signal: 9}
	}
	timer := time.After(min(grace, r.b.onStop))
	for {
		select {
		case <-timer:
			return
		case again := <-r.stop:
			if again == 0 {
				r.exit = app.Exit{Code: 137, Signal: 9}
				return
			}
		}
	}
}

func (r *instance) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *instance) Ended() bool { return r.dead.Load() || r.ended() }

func (r *instance) Busy() bool {
	if time.Since(r.born) < r.b.busy {
		return true
	}
	time.Sleep(r.b.look)
	return false
}

func (r *instance) Wait() app.Exit {
	select {
	case <-r.left:
		return app.Exit{}
	case <-r.done:
	}
	r.w.awaitConsole(r)
	return r.exit
}

func (r *instance) Leave() bool {
	if r.ended() {
		return false
	}
	close(r.left)
	return true
}

func (r *instance) Stop(grace time.Duration) { r.stop <- grace }

func (r *instance) SetMemory(ram app.MB) error {
	if ram < r.b.uses {
		return app.Errorf(app.Exhausted, "the program uses %d MB, more than %d MB", r.b.uses, ram)
	}
	r.ram.Store(int64(ram))
	return nil
}

func (r *instance) Usage(context.Context) (app.Usage, error) {
	if err := r.w.failing("Usage"); err != nil {
		return app.Usage{}, err
	}
	return app.Usage{MemoryBytes: r.b.uses.Bytes(), LimitBytes: app.MB(r.ram.Load()).Bytes()}, nil
}

func (r *instance) Counts() (app.Counts, error) {
	if err := r.w.failing("Counts"); err != nil || r.ended() {
		return app.Counts{}, err
	}
	return app.Counts{MemoryBytes: r.b.uses.Bytes(), LimitBytes: app.MB(r.ram.Load()).Bytes(), CPU: time.Second}, nil
}

func (w *world) limitCPU(id app.ID, percent int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shares[id] = percent
	return w.fail["LimitCPU"]
}
