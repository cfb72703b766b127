package host

import (
	"context"
	"sync"

	"berth/app"
)

// capacity keeps what runs within the memory that there is for it. It is safe for
// concurrent use.
type capacity struct {
	mu      sync.Mutex
	total   func() app.MB // at this moment: machines come and go
	running map[app.ID]app.MB
	builds  map[app.ID]app.MB // the RAM of applications that are built, which no build takes
	changed func(id app.ID)   // called after each change, unless it is nil
}

func newCapacity(total func() app.MB) *capacity {
	return &capacity{total: total, running: map[app.ID]app.MB{}, builds: map[app.ID]app.MB{}}
}

// reserve counts ram for the application in place of what it had, or refuses
// with app.Exhausted and the numbers. A console command of the same application
// is not in its way: it ends when that starts.
func (c *capacity) reserve(id app.ID, ram app.MB) error {
	err := c.tryReserve(id, ram)
	if err == nil {
		c.report(id)
	}
	return err
}

func (c *capacity) tryReserve(id app.ID, ram app.MB) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	others := c.others(id)
	// Less than before always fits: the host may have lost memory meanwhile.
	if total := c.total(); others+ram > total && ram > c.running[id] {
		return app.Errorf(app.Exhausted,
			"this host has %d MB for applications and %d MB of them run already; %d MB more do not fit: stop something, or give it less RAM",
			total, others, ram)
	}
	c.running[id] = ram
	return nil
}

// available is how much RAM the application could have with what else runs now.
func (c *capacity) available(id app.ID) app.MB {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.total()-c.others(id), 0)
}

// others is what else runs. The caller holds mu.
func (c *capacity) others(id app.ID) (sum app.MB) {
	for other, mb := range c.running {
		if other != id && other != consoleOf(id) {
			sum += mb
		}
	}
	return sum
}

// use returns what runs, and what may.
func (c *capacity) use() (running, total app.MB) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, mb := range c.running {
		running += mb
	}
	return running, c.total()
}

// release returns what the application had.
func (c *capacity) release(id app.ID) {
	c.mu.Lock()
	delete(c.running, id)
	c.mu.Unlock()
	c.report(id)
}

// force counts ram without asking: it ran with it before.
func (c *capacity) force(id app.ID, ram app.MB) {
	c.mu.Lock()
	c.running[id] = ram
	c.mu.Unlock()
	c.report(id)
}

// build notes that an application of ram is built, until the function is called.
func (c *capacity) build(id app.ID, ram app.MB) (done func()) {
	c.mu.Lock()
	c.builds[id] = ram
	c.mu.Unlock()
	c.report(id)
	return func() {
		c.mu.Lock()
		delete(c.builds, id)
		c.mu.Unlock()
		c.report(id)
	}
}

func (c *capacity) report(id app.ID) {
	if c.changed != nil {
		c.changed(id)
	}
}

// of is the RAM of an application that something runs in, 0 when nothing does.
func (c *capacity) of(id app.ID) app.MB {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.running[id], c.running[secondOf(id)], c.running[consoleOf(id)], c.builds[id])
}

// setRAM changes the limit of the running program between two records, so
// that each refusal leaves all three as they were.
func (u *unit) setRAM(ram app.MB) error {
	if u.second.is(candidate) {
		return u.busy("being deployed")
	}
	before := u.app.RAM
	admit := func(total, used app.MB) error { return u.h.admit(total, used, ram, u.app.Code) }
	write := func(ctx context.Context) error { return u.h.Records.SetRAM(ctx, u.id, ram, admit) }
	return u.records.store("store the RAM", write, func() error {
		if err := u.applyRAM(ram); err != nil {
			always := func(app.MB, app.MB) error { return nil }
			back := func(ctx context.Context) error { return u.h.Records.SetRAM(ctx, u.id, before, always) }
			if back := u.records.store("put the recorded RAM back", back, func() error { return nil }); back != nil {
				u.log.Error("cannot put the recorded RAM back", "error", back)
			}
			return err
		}
		u.app.RAM = ram
		return nil
	})
}

func (u *unit) applyRAM(ram app.MB) error {
	if u.run == nil {
		return nil
	}
	if err := u.h.capacity.reserve(u.id, u.app.Code.Charge(ram)); err != nil {
		return err
	}
	if err := u.run.SetMemory(ram); err != nil {
		u.h.capacity.force(u.id, u.app.Charged())
		return err
	}
	return nil
}
