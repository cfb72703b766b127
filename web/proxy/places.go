package proxy

import "sync"

// places are those that the requests of each site have. The zero value is ready;
// it is safe for concurrent use.
type places struct {
	mu    sync.Mutex
	taken map[string]int
}

// take takes a place, if fewer than most are taken; 0 is no bound.
func (p *places) take(id string, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == nil {
		p.taken = map[string]int{}
	}
	if most > 0 && p.taken[id] >= most {
		return false
	}
	p.taken[id]++
	return true
}

// give gives a place back.
func (p *places) give(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[id]--; p.taken[id] == 0 {
		delete(p.taken, id)
	}
}
