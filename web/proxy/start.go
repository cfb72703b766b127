package proxy

import (
	"context"
	"net/netip"
	"time"

	"berth/web"
)

const (
	// startTimeout is how long a request waits for a site that is starting, and
	// startInterval how often it looks.
	startTimeout  = 10 * time.Second
	startInterval = 20 * time.Millisecond
	// maxWaiting is how many requests wait for one site, and maxWaitingInAll for all.
	maxWaiting      = 64
	maxWaitingInAll = 512
	// drainInterval is how often Drain looks.
	drainInterval = 5 * time.Millisecond
)

// destination is where requests go. WebSockets are counted apart.
type destination struct {
	at        netip.AddrPort
	webSocket bool
}

// Release lets all requests that wait for a site go on, to the page that says
// that it is starting, and holds none from then on.
func (p *Proxy) Release() { p.release() }

// awaited reports whether a request for the site is worth a wait: it will be
// there in a moment, and nobody knows of a later one.
func (s Site) awaited() bool {
	return (s.State == Starting || s.State == Deploying) && !s.At.IsValid() && s.Retry == 0
}

// current is how a site is now. One that is gone is offline.
func (p *Proxy) current(id string) Site {
	if s, ok := p.Look(id); ok {
		return s
	}
	return Site{ID: id, State: Offline}
}

// await blocks while a site is starting, and returns it as it is then.
func (p *Proxy) await(ctx context.Context, s Site) Site {
	if !p.waiting.add(s.ID, maxWaiting, maxWaitingInAll) {
		return s
	}
	defer p.waiting.remove(s.ID)
	ctx, cancel := context.WithTimeout(ctx, p.startTimeout) // a visitor who goes ends it too
	defer cancel()
	stop := context.AfterFunc(p.released, cancel)
	defer stop()
	_ = web.Poll(ctx, startInterval, func() bool {
		s = p.current(s.ID)
		return !s.awaited()
	})
	return s
}

// admit waits until the site of a request is there, and counts the request for
// its program. The function it returns MUST be called when that is answered.
func (p *Proxy) admit(ctx context.Context, in *inbound, webSocket bool) (leave func()) {
	for range 8 { // a site does not move that often
		if in.site.awaited() {
			in.site = p.await(ctx, in.site)
		}
		if !in.site.At.IsValid() {
			break
		}
		to := destination{in.site.At, webSocket}
		p.underway.add(to, 0, 0)
		// Who moved the site to another address has told that before asking for
		// the requests that are under way: so it sees this one, or this sees that.
		now := p.current(in.site.ID)
		if now.At == to.at {
			return func() { p.underway.remove(to) }
		}
		p.underway.remove(to)
		in.site = now
	}
	return func() {}
}

// Drain blocks until no request is under way to an address, or ctx ends; with
// webSockets, until there is none of those either.
func (p *Proxy) Drain(ctx context.Context, at netip.AddrPort, webSockets bool) {
	_ = web.Poll(ctx, drainInterval, func() bool {
		return p.underway.count(destination{at, false}) == 0 && (!webSockets || p.underway.count(destination{at, true}) == 0)
	})
}
