package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/app"
	"berth/daemon/settings"
	"berth/httpapi"
	"berth/systemd"
	"berth/systemd/fdstore"
	"berth/web"
)

const (
	// goodbye is how long clients that keep connections open are told to close
	// them before they are closed.
	goodbye = time.Second
	// young is how old the oldest request may be when no more are taken: its
	// answer comes within lastAnswers, while others wait.
	young = time.Second
)

// errUpgrade is the end of a daemon that another binary is to follow. Nothing of
// it is open any more, and its programs run.
var errUpgrade = errors.New("another binary takes over")

// upgraded is what the requests hear that an upgrade interrupts.
var upgraded = app.Errorf(app.Unavailable, "The server is being upgraded. Send it again in a minute.")

// serving is the HTTP server of a daemon.
type serving struct {
	server   *http.Server
	handlers *web.Inflight
	gate     *httpapi.Gate
	closing  atomic.Bool             // it ends because it is to
	leaving  atomic.Bool             // every answer closes its connection
	end      context.CancelCauseFunc // of all requests
	ended    context.Context         // when nothing is accepted any more
	work     errgroup.Group
}

// begin answers on l.
func (d *daemon) begin(ctx context.Context, l net.Listener) *serving {
	v := &serving{handlers: web.NewInflight(release)}
	d.serving.Store(v)
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	v.end = end
	v.server = d.server(life, v)
	v.gate = httpapi.NewGate(l, d.settings.Connections, d.settings.TrustedProxies()...)
	v.gate.Guard(v.server)
	ended, over := context.WithCancel(context.Background())
	v.ended = ended
	v.work.Go(func() error {
		defer over()
		if err := v.server.Serve(v.gate); !errors.Is(err, http.ErrServerClosed) && !v.closing.Load() {
			return fmt.Errorf("cannot serve: %w", err)
		}
		return nil
	})
	v.work.Go(func() error { return d.sweep(ended) })
	v.work.Go(func() error { d.host.Patrol(ended); return nil })
	v.work.Go(func() error { d.sampler.Run(ended); return nil })
	v.work.Go(func() error { d.mendGroups(ended, lookEvery); return nil })
	v.work.Go(func() error { d.watchDatabase(ended, lookEvery); return nil })
	d.sites.serve(&v.work, over)
	v.work.Go(func() error { return d.pulse(ended, l.Addr().String()) })
	return v
}

// answer lets h answer a request, unless it is too late. The end waits for it, and
// so does an upgrade, but for streams.
func (v *serving) answer(w http.ResponseWriter, r *http.Request, h http.Handler) {
	if v.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	enter := v.handlers.Enter
	if endless(r.URL.Path) {
		enter = v.handlers.EnterEndless
	}
	leave, ok := enter()
	if !ok {
		return // its connection is cut already
	}
	defer leave()
	h.ServeHTTP(w, r)
}

// await returns when the daemon is to stop, nil, or to be followed by a binary
// that has proved itself, errUpgrade. Until then it serves.
func (d *daemon) await(ctx context.Context, v *serving) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.ended.Done():
			return nil
		case <-d.hangups:
		}
		err := d.prepare(ctx, v)
		if err == nil {
			return errUpgrade
		}
		v.leaving.Store(false)
		d.host.Hold(false)
		d.baton.only(d.settings.Listens()...)
		if ctx.Err() != nil {
			return nil
		}
		d.log.Error("not upgraded, serving as before", "binary", d.next.path, "error", err)
		d.tell(func() error { return systemd.Serving("not upgraded, serving as before: " + err.Error()) })
	}
}

// prepare lets the next binary prove itself and waits for what should not be
// interrupted. Connections are accepted and answered meanwhile.
func (d *daemon) prepare(ctx context.Context, v *serving) error {
	d.tell(func() error { return systemd.Reloading("checking the binary that takes over") })
	p, err := d.prove(ctx)
	if err != nil {
		return err
	}
	patience := d.settings.Upgrade.Patience
	d.log.Info("upgrading", "from", settings.Version(), "to", p.Version, "patience", patience)
	d.tell(func() error { return systemd.Reloading("waiting for uploads and deployments under way") })
	d.host.Hold(true)
	v.leaving.Store(true)
	d.quiet = v.settle(ctx, patience)
	for range 3 {
		now, err := d.next.look()
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if now == p.file && len(d.hangups) == 0 {
			return d.mayHandOver()
		}
		select { // it is answered by what follows
		case <-d.hangups:
		default:
		}
		if p, err = d.prove(ctx); err != nil { // it, or the settings, may be others now
			return err
		}
	}
	return errors.New("it changes all the time")
}

// prove lets the next binary check itself, and opens what it needs and this
// daemon does not have: it must not fail later.
func (d *daemon) prove(ctx context.Context) (proof, error) {
	if err := d.mayHandOver(); err != nil {
		return proof{}, err
	}
	p, err := d.next.prove(ctx)
	if err != nil {
		return proof{}, err
	}
	if p.DataDir != d.settings.DataDir {
		return proof{}, fmt.Errorf("data_dir is %s now, which needs a restart", p.DataDir)
	}
	return p, d.baton.open(ctx, p.Listen)
}

// mayHandOver refuses an upgrade while the next binary would not find the database that is
// open: for it the directory is empty, or another one, and it could not serve.
func (d *daemon) mayHandOver() error {
	if err := d.db.Moved(); err != nil {
		return fmt.Errorf("cannot hand over the database in %s: %w; put it back, or stop berth and start it where the database is", d.settings.DataDir, err)
	}
	return nil
}

// settle waits until no request is old, patience at most, and reports whether
// that is so.
func (v *serving) settle(ctx context.Context, patience time.Duration) bool {
	until, said := time.After(patience), time.After(goodbye)
	ticker := time.NewTicker(young / 50)
	defer ticker.Stop()
	for {
		select {
		case <-said:
			said = nil
		case <-ticker.C:
		case <-until:
			return false
		case <-ctx.Done():
			return false
		}
		if said == nil && v.handlers.Oldest() < young {
			return true
		}
	}
}

// shutdown stops accepting, leaves the socket open, and waits until every
// request has its answer. The server's own Shutdown drops those that come on a
// connection which was accepted before, so it only closes idle ones.
func (v *serving) shutdown(ctx context.Context) error {
	v.closing.Store(true)
	_ = v.gate.Close() // a duplicate
	<-v.ended.Done()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for v.gate.Busy() > 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return v.server.Shutdown(ctx)
}

// depart ends the daemon and nothing else: programs run on, and connections
// wait. What takes longer than it may is refused.
func (d *daemon) depart(hurry context.Context, v *serving) error {
	last, cancel := context.WithTimeout(hurry, lastAnswers)
	defer cancel()
	d.hub.Close() // those who watch come again, to the next image
	closed := make(chan error, 1)
	go func() { closed <- v.shutdown(last) }()
	rest := time.After(lastAnswers)
	if !d.quiet {
		rest = time.After(young)
	}
	var err error
	select {
	case err = <-closed:
	case <-rest:
		v.end(upgraded)
		d.host.Leave() // those who wait for a deployment are answered
		err = <-closed
	}
	if err != nil {
		_ = v.server.Close()
	}
	d.host.Leave()
	v.end(upgraded)
	d.sites.shutdown(last)
	v.handlers.Close()
	return v.work.Wait()
}

// release gives the kernel what a burst of work needed. The collector keeps it
// for the next one, which may be days away; what pools hold goes with the
// second collection. Most of the binary's pages are of the start and of requests.
func release() {
	runtime.GC()
	fdstore.Shrink()
}
