package proxy

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Traffic counts the answers of sites. The zero value is ready, and safe for concurrent use.
type Traffic struct {
	sites sync.Map // of *siteTraffic, by the id of the site
	// Bounds are those of how long answers took, in rising order; at most 15.
	Bounds []time.Duration
	// Begins is called at the first answer, and at the first after each Rest. It MUST NOT block, and
	// may be nil.
	Begins func()
	begun  atomic.Bool
}

// SiteTraffic is what was answered for a site.
type SiteTraffic struct {
	Classes [5]uint64     // by the first digit of the status, less one
	Took    []uint64      // how many took up to each bound, and more than all; without WebSockets
	Sum     time.Duration // of these
}

type siteTraffic struct {
	classes [5]atomic.Uint64
	took    [16]atomic.Uint64
	sum     atomic.Int64
}

// Rest lets the next answer call Begins. What was answered before is in the next Each.
func (t *Traffic) Rest() { t.begun.Store(false) }

// count notes an answer. A visitor who went before it is the visitor's mistake.
func (t *Traffic) count(id string, status int, took time.Duration) {
	found, ok := t.sites.Load(id)
	if !ok {
		found, _ = t.sites.LoadOrStore(id, &siteTraffic{})
	}
	s := found.(*siteTraffic)
	if status == 0 {
		status = http.StatusBadRequest
	}
	s.classes[min(max(status/100, 1), 5)-1].Add(1)
	defer t.begin()
	if status == http.StatusSwitchingProtocols {
		return
	}
	at := 0
	for at < len(t.Bounds) && took > t.Bounds[at] {
		at++
	}
	s.took[at].Add(1)
	s.sum.Add(int64(took))
}

// begin calls Begins unless it was called since the last Rest.
func (t *Traffic) begin() {
	if !t.begun.Load() && !t.begun.Swap(true) && t.Begins != nil {
		t.Begins()
	}
}

// Each calls f for every site that has answered.
func (t *Traffic) Each(f func(id string, s SiteTraffic)) {
	t.sites.Range(func(id, found any) bool {
		from := found.(*siteTraffic)
		s := SiteTraffic{Took: make([]uint64, len(t.Bounds)+1), Sum: time.Duration(from.sum.Load())}
		for i := range s.Classes {
			s.Classes[i] = from.classes[i].Load()
		}
		for i := range s.Took {
			s.Took[i] = from.took[i].Load()
		}
		f(id.(string), s)
		return true
	})
}

// Forget forgets a site.
func (t *Traffic) Forget(id string) { t.sites.Delete(id) }
