package panel

import (
	"crypto/rand"
	"net/url"
	"sync"
	"time"
)

// flash is shown once, on the page that a form leads to.
type flash struct {
	Text   string
	Secret string // a new token or link, which is shown nowhere else
	Link   string // an address of this server, and Word, what it is called
	Word   string

	session int64
	until   time.Time
}

const (
	flashTime  = 2 * time.Minute // a redirect is followed at once, or never
	maxFlashes = 1024
	// ownFlashes bounds those of one session, so that nobody pushes out what is
	// another's.
	ownFlashes = 16
	// onceParam is the parameter of an address that names what its page shows once.
	onceParam = "once"
)

// flashes are kept in memory: a secret must be in no address, and in no database. The
// address that a form leads to has a key instead, which is of use once, to the session
// that sent the form. So the page that is being left, whose script may fetch it again
// before the browser follows the redirect, and a second tab take nothing away. It is
// safe for concurrent use, and bounded.
type flashes struct {
	now func() time.Time

	mu sync.Mutex
	of map[string]flash
}

func newFlashes(now func() time.Time) *flashes { return &flashes{now: now, of: map[string]flash{}} }

// put keeps what the page at an address is to show once to a session, and returns the
// address to lead to.
func (f *flashes) put(session int64, what flash, to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return to // no address of this panel: it leads nowhere
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for key, old := range f.of {
		if now.After(old.until) {
			delete(f.of, key)
		}
	}
	f.keep(ownFlashes-1, func(old flash) bool { return old.session == session })
	f.keep(maxFlashes-1, func(flash) bool { return true })
	key := rand.Text()
	what.session, what.until = session, now.Add(flashTime)
	f.of[key] = what
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += onceParam + "=" + key
	return u.String()
}

// keep drops the oldest of some until there are at most that many.
func (f *flashes) keep(most int, some func(flash) bool) {
	for {
		count, oldest := 0, ""
		for key, what := range f.of {
			if !some(what) {
				continue
			}
			if count++; oldest == "" || what.until.Before(f.of[oldest].until) {
				oldest = key
			}
		}
		if count <= most {
			return
		}
		delete(f.of, oldest)
	}
}

// take returns what the page with a key is to show, nil for nothing.
func (f *flashes) take(session int64, key string) *flash {
	f.mu.Lock()
	defer f.mu.Unlock()
	what, ok := f.of[key]
	if !ok || what.session != session {
		return nil
	}
	delete(f.of, key)
	if f.now().After(what.until) {
		return nil
	}
	return &what
}
