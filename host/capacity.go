package host

import (
	"sync"

	"berth/app"
)

// capacity keeps what runs within the host's memory. It is safe for
// concurrent use.
type capacity struct {
	mu      sync.Mutex
	total   app.MB
	running map[app.ID]app.MB
}

func newCapacity(total app.MB) *capacity {
	return &capacity{total: total, running: map[app.ID]app.MB{}}
}

// reserve counts ram for the application in place of what it had, or refuses
// with app.Exhausted and the numbers. A console command of the same application
// is not in its way: it ends when that starts.
func (c *capacity) reserve(id app.ID, ram app.MB) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	others := c.others(id)
	// Less than before always fits: the host may have lost memory meanwhile.
	if others+ram > c.total && ram > c.running[id] {
		return app.Errorf(app.Exhausted,
			"this host has %d MB for applications and %d MB of them run already; %d MB more do not fit: stop something, or give it less RAM",
			c.total, others, ram)
	}
	c.running[id] = ram
	return nil
}

// available is how much RAM the application could have with what else runs now.
func (c *capacity) available(id app.ID) app.MB {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.total-c.others(id), 0)
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
	return running, c.total
}

// release returns what the application had.
func (c *capacity) release(id app.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, id)
}

// force counts ram without asking: it ran with it before.
func (c *capacity) force(id app.ID, ram app.MB) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[id] = ram
}
