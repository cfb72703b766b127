package proxy

import "sync"

// counter counts requests by a key. The zero value is ready; it is safe for concurrent
// use.
type counter[K comparable] struct {
	mu  sync.Mutex
	all int
	of  map[K]int
}

// add counts one more, unless there are most of its key, or mostInAll; 0 is no limit.
func (c *counter[K]) add(key K, most, mostInAll int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most > 0 && c.of[key] >= most || mostInAll > 0 && c.all >= mostInAll {
		return false
	}
	if c.of == nil {
		c.of = map[K]int{}
	}
	c.of[key]++
	c.all++
	return true
}

// remove counts one less.
func (c *counter[K]) remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[key]--; c.of[key] == 0 {
		delete(c.of, key)
	}
}

// count returns how many there are of a key.
func (c *counter[K]) count(key K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[key]
}
