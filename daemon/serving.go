package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/app"
	"berth/app/build"
	"berth/daemon/settings"
	"berth/files"
	"berth/httpapi"
	"berth/systemd"
	"berth/systemd/fdstore"
	"berth/web"
)

const (
	// idleGrace is how long clients that keep connections open are told to close
	// them before they are closed.
	idleGrace = time.Second
	// oldRequest is how old the oldest request may be when no more are taken: its
	// answer comes within lastAnswers, while others wait.
	oldRequest = time.Second
	// lastAnswers is how long requests under way may take once nothing runs.
	lastAnswers = 5 * time.Second
	// sweepEvery is how often expired backups are removed.
	sweepEvery = 10 * time.Minute
	// mendEvery is how often the daemon looks whether its control groups are as it made
	// them, and its database where it was.
	mendEvery = 30 * time.Second
)

// upgraded is what the requests hear that an upgrade interrupts.
var upgraded = app.Errorf(app.Unavailable, "The server is being upgraded. Send it again in a minute.")

// serving is the HTTP servers of a daemon: of the API's address, and of the local socket.
type serving struct {
	servers   []*http.Server
	handlers  *web.Inflight
	listen    []*web.LimitedListener  // of each server
	accepting sync.WaitGroup          // servers that take connections
	closing   atomic.Bool             // it ends because it is to
	leaving   atomic.Bool             // every answer closes its connection
	quiet     bool                    // no request has to be interrupted for an upgrade
	end       context.CancelCauseFunc // of all requests
	ended     context.Context         // when the API's address takes no connections any more
	work      errgroup.Group
}

// serve answers on l until ctx ends, then stops everything; hurry makes it
// stop at once. It returns when nothing of berth runs any more. A hang-up lets
// the next binary take over: then it is errUpgrade, and programs run on.
func (d *daemon) serve(ctx, hurry context.Context, l net.Listener, u *upgrader) error {
	d.survivors.endStrangers(min(d.settings.Apps.StopTimeout, strangersGrace))
	if err := d.host.Boot(d.handover.lasting(ctx)); err != nil {
		_ = l.Close()
		return err
	}
	d.engine.booted(d.handover.lasting(ctx))
	v := d.begin(ctx, l)
	d.log.Info("listening on http://"+l.Addr().String(), "data", d.settings.DataDir, "groups", d.groups.Root(), "version", build.Version())
	if t := d.settings.Exposure(); !t.IsZero() {
		d.log.Warn(t.String(), "fix", settings.ExposureFix)
	}
	tellManager(d.log, d.handover.ready)
	if u.await(ctx, v) {
		return cmp.Or(d.detach(hurry, v), errUpgrade)
	}
	tellManager(d.log, systemd.Stopping)
	// Deployments under way are called off, then their requests get an answer.
	d.end(hurry)
	d.hub.Close() // streams have told the end of the programs
	last, cancel := context.WithTimeout(hurry, lastAnswers)
	defer cancel()
	if err := v.shutdown(last); err != nil {
		v.cut() // those who do not take their answer or end their upload
	}
	d.sites.shutdown(hurry)
	v.end(nil) // Shutdown knows nothing of WebSockets
	v.handlers.Close()
	return v.work.Wait()
}

// begin answers on l.
func (d *daemon) begin(ctx context.Context, l net.Listener) *serving {
	v := &serving{handlers: web.NewInflight(release)}
	d.serving.Store(v)
	d.listens = l.Addr().String()
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	v.end = end
	server := newServer(life, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == d.pulse.path {
			w.WriteHeader(http.StatusNoContent) // the daemon's own request
			return
		}
		if !d.monitor.serves(w, r, false) {
			v.answer(w, r, d.handler)
		}
	}), d.log)
	limited := web.LimitListener(l, web.Limits{
		All: d.settings.Connections, Trusted: d.settings.TrustedProxies(), Refuse: httpapi.RefuseConnection,
	})
	ended, over := context.WithCancel(context.Background())
	v.ended = ended
	v.serve(server, limited, func(err error) error {
		over()
		if err != nil {
			return fmt.Errorf("cannot serve: %w", err)
		}
		return nil
	})
	d.serveOwner(life, v)
	for _, run := range []func(context.Context){
		d.sweep,
		d.host.Patrol,
		d.sampler.Run,
		d.host.WatchMemory,
		func(ctx context.Context) {
			mendGroups(ctx, d.groups, int64(d.settings.Apps.PidsMax), d.host.Bound, mendEvery, d.log)
		},
		func(ctx context.Context) { d.data.watch.run(ctx, mendEvery) },
		d.local.run,
		d.notices.Run,
		d.notices.watchHost,
		d.backups.run,
		func(ctx context.Context) { d.pulse.run(ctx, l.Addr().String()) },
	} {
		v.work.Go(func() error { run(ended); return nil })
	}
	d.sites.serve(&v.work, over)
	return v
}

// serve answers on l in the background. over gets why that ended, nil at the end of all, and
// returns what ends the daemon.
func (v *serving) serve(server *http.Server, l *web.LimitedListener, over func(error) error) {
	l.Guard(server)
	v.servers, v.listen = append(v.servers, server), append(v.listen, l)
	v.accepting.Add(1)
	v.work.Go(func() error {
		err := server.Serve(l)
		v.accepting.Done()
		if errors.Is(err, http.ErrServerClosed) || v.closing.Load() {
			err = nil
		}
		return over(err)
	})
}

// cut closes all connections.
func (v *serving) cut() {
	for _, server := range v.servers {
		_ = server.Close()
	}
}

// sweep removes expired backups and copies of the database that hold secrets in plain now and
// then, and keeps room for the next start.
func (d *daemon) sweep(ctx context.Context) {
	sweep := func() {
		if err := d.host.DropBackups(); err != nil {
			d.log.Error("cannot remove expired backups", "error", err)
		}
		if err := files.KeepReserve(d.settings.DataDir); err != nil {
			d.log.Warn("a start on a full disk may fail", "error", err)
		}
		dropPlainCopies(ctx, d.settings.DataDir, plainCopyTime, d.log)
	}
	sweep()
	repeat(ctx, sweepEvery, sweep)
}

// repeat calls do every so often until ctx ends, for the first time after a while.
func repeat(ctx context.Context, every time.Duration, do func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// newServer bounds what strangers can hold: 10 seconds for the headers of a request,
// 64 KB of them, and two minutes between requests. The handler bounds the rest.
func newServer(life context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext:                  func(net.Listener) context.Context { return life },
		DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// answer lets h answer a request, unless it is too late. The end waits for it, and
// so does an upgrade, but for streams.
func (v *serving) answer(w http.ResponseWriter, r *http.Request, h http.Handler) {
	if v.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	leave, ok := v.handlers.Enter(endless(r.URL.Path))
	if !ok {
		return // its connection is cut already
	}
	defer leave()
	h.ServeHTTP(w, r)
}

// endless reports whether a request is for a stream that ends when berth does,
// or when its client goes: an upgrade waits for no such request, and ends it.
func endless(path string) bool { return path == "/v2/events" || path == "/events" }

// settle waits until no request is old, patience at most, and notes whether that is so.
func (v *serving) settle(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(oldRequest / 50)
	defer ticker.Stop()
	v.quiet = false
	for began := time.Now(); time.Since(began) < idleGrace || v.handlers.Oldest() >= oldRequest; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	v.quiet = true
}

// shutdown stops accepting, leaves the socket open, and waits until every
// request has its answer. The server's own Shutdown drops those that come on a
// connection which was accepted before, so it only closes idle ones.
func (v *serving) shutdown(ctx context.Context) error {
	v.closing.Store(true)
	for _, l := range v.listen {
		_ = l.Close() // a duplicate
	}
	v.accepting.Wait() // one may just have taken a connection, which then counts
	for _, l := range v.listen {
		if err := l.Wait(ctx, true); err != nil {
			return err
		}
	}
	for _, server := range v.servers {
		if err := server.Shutdown(ctx); err != nil {
			return err
		}
	}
	return nil
}

// beside runs f beside the request that asks for it, as if it were one itself: an
// upgrade waits for it, and so does the end.
func (v *serving) beside(f func()) bool {
	if v == nil {
		return false
	}
	leave, ok := v.handlers.Join()
	if !ok {
		return false
	}
	go func() {
		defer leave()
		f()
	}()
	return true
}

// detach ends the daemon and nothing else: programs run on, and connections
// wait. What takes longer than it may is refused.
func (d *daemon) detach(hurry context.Context, v *serving) error {
	last, cancel := context.WithTimeout(hurry, lastAnswers)
	defer cancel()
	d.hub.Close() // those who watch come again, to the next image
	closed := make(chan error, 1)
	go func() { closed <- v.shutdown(last) }()
	patience := oldRequest
	if v.quiet {
		patience = lastAnswers
	}
	var err error
	select {
	case err = <-closed:
	case <-time.After(patience):
		v.end(upgraded)
		d.host.Leave() // those who wait for a deployment are answered
		err = <-closed
	}
	if err != nil {
		v.cut()
	}
	d.host.Leave()
	v.end(upgraded)
	d.sites.shutdown(hurry)
	v.handlers.Close()
	return v.work.Wait()
}

// end ends what the host does, and the programs unless they may run on: the next daemon
// finds them, and who wants them ended too can say so to systemd.
func (d *daemon) end(hurry context.Context) {
	const reserve = 30 * time.Second // to kill, to write, to answer
	tellManager(d.log, func() error { return systemd.Extend(d.settings.Apps.StopTimeout + lastAnswers + reserve) })
	if !systemd.Listens() || !d.groups.Held() || stopping(hurry, systemd.AppsUnit) {
		d.log.Info("stopping", "grace", d.settings.Apps.StopTimeout)
		d.host.Shutdown(hurry)
		return
	}
	d.log.Info("stopping; the programs run on")
	d.leaving = true
	d.host.Leave()
	moveToStore(d.data.held, d.groups, d.log)
}

// stopping reports whether systemd is about to stop a unit, as it is when the
// machine goes down. Programs in it had better be stopped by their daemon, which
// gets their last words.
func stopping(ctx context.Context, unit string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", "list-jobs", "--no-legend", "--plain", "--full").Output()
	return err == nil && hasStopJob(string(out), unit)
}

// hasStopJob looks in the lines of systemctl list-jobs: JOB UNIT TYPE STATE.
func hasStopJob(list, unit string) bool {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[1] == unit && (f[2] == "stop" || f[2] == "restart") {
			return true
		}
	}
	return false
}

// release gives the kernel what a burst of work needed. The collector keeps it
// for the next one, which may be days away; what pools hold goes with the
// second collection. Most of the binary's pages are of the start and of requests.
func release() {
	runtime.GC()
	fdstore.Shrink()
}
