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

// take counts ram for the application in place of what it had, or refuses
// with app.Exhausted and the numbers. A console command of the same application
// is not in its way: it ends when that starts.
func (c *capacity) take(id app.ID, ram app.MB) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	others := app.MB(0)
	for other, mb := range c.running {
		if other != id && other != besides(id) {
			others += mb
		}
	}
	// Less than before always fits: the host may have lost memory meanwhile.
	if others+ram > c.total && ram > c.running[id] {
		return app.Errorf(app.Exhausted,
			"this host has %d MB for applications and %d MB of them run already; %d MB more do not fit: stop something, or give it less RAM",
			c.total, others, ram)
	}
	c.running[id] = ram
	return nil
}

// room is how much RAM the application could have with what else runs now.
func (c *capacity) room(id app.ID) app.MB {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.total
	for other, mb := range c.running {
		if other != id && other != besides(id) {
			left -= mb
		}
	}
	return max(left, 0)
}

// give returns what the application had.
func (c *capacity) give(id app.ID) {
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
