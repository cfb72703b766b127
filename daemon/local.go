package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/app/build"
	"berth/daemon/settings"
	"berth/httpapi"
	"berth/systemd"
	"berth/web"
	"berth/web/local"
)

// ownerSocket is the local socket of a daemon (web/local). A daemon that cannot have one
// says so in its log, and serves without it. open is called before run, and remove after it.
type ownerSocket struct {
	dir      string
	handover *handover
	log      *slog.Logger
	listener *local.Listener

	there   os.FileInfo // the socket in the directory; nil while there is none
	problem string      // why there is none, as the log has it
	taken   bool        // another daemon has the directory
}

func newOwnerSocket(s settings.Settings, h *handover, log *slog.Logger) *ownerSocket {
	said := false
	return &ownerSocket{
		dir: s.RuntimeDir, handover: h, log: log,
		listener: local.NewListener(s.RuntimeDir, func(uid uint32, pid int32) {
			if !said { // once, for who can connect can do so again and again
				log.Warn("a user who is not root connected to the local socket, and was refused", "uid", uid, "pid", pid, "socket", local.Path(s.RuntimeDir))
			}
			said = true
		}),
	}
}

// open lets clients connect, who wait until the daemon serves.
func (o *ownerSocket) open(ctx context.Context) {
	l, err := o.handover.localSocket(o.dir)
	if err != nil {
		o.lacks(ctx, err)
		return
	}
	o.there, _ = os.Lstat(local.Path(o.dir)) // one that is removed already is made again
	o.listener.Use(l)
	if o.problem != "" {
		o.problem = ""
		o.log.Info("the local socket is open", "socket", local.Path(o.dir))
	}
}

// lacks says, once, why there is no socket.
func (o *ownerSocket) lacks(ctx context.Context, err error) {
	if errors.Is(err, local.ErrTaken) {
		o.taken = true
		err = o.takenBy(ctx, err)
	}
	if o.problem == err.Error() {
		return
	}
	o.problem = err.Error()
	fix := "the daemon tries again"
	switch {
	case o.taken:
		fix = "give this daemon its own runtime_dir"
	case errors.Is(err, unix.EROFS) && systemd.Listens(): // a unit from before there was such a socket
		fix = "berth install --now"
	}
	o.log.Warn("there is no local socket, and berth serves without it", "error", err, "fix", fix)
}

// takenBy says which daemon has the socket, if it answers soon.
func (o *ownerSocket) takenBy(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	other, failed := local.Ask(ctx, o.dir)
	if failed != nil {
		return err
	}
	return fmt.Errorf("%w: the berth with the process id %d, which serves %s", err, other.PID, other.DataDir)
}

// run makes the socket again when it was removed, or could not be made before, until ctx
// ends.
func (o *ownerSocket) run(ctx context.Context) {
	repeat(ctx, mendEvery, func() { o.mend(ctx) })
}

func (o *ownerSocket) mend(ctx context.Context) {
	if o.taken || o.isThere() {
		return
	}
	if o.there != nil {
		o.there, o.problem = nil, "it was removed"
		o.log.Warn("the local socket was removed; making it again", "socket", local.Path(o.dir))
		o.handover.dropLocalSocket()
	}
	o.open(ctx)
}

// isThere reports whether clients find the socket that the daemon has.
func (o *ownerSocket) isThere() bool {
	if o.there == nil {
		return false
	}
	info, err := os.Lstat(local.Path(o.dir))
	return err == nil && os.SameFile(info, o.there) || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// remove removes the socket at the end, unless systemd keeps it for the next daemon.
func (o *ownerSocket) remove() {
	_ = o.listener.Close()
	if !systemd.Keeps() && o.there != nil && o.isThere() {
		_ = os.Remove(local.Path(o.dir)) // who finds it hears that nobody listens
	}
}

// localSocket returns a listener on the local socket, which stays open when it is closed:
// the one of the image or the daemon before, or else a new one.
func (h *handover) localSocket(dir string) (*net.UnixListener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.localBefore(dir); l != nil {
		return l, nil
	}
	l, err := local.Open(dir)
	if err != nil {
		return nil, err
	}
	f, err := l.File()
	if err == nil {
		h.files[localName] = f
		if systemd.Keeps() { // a restart refuses nobody
			err = systemd.Hold(systemd.LocalSocket, f)
		}
	}
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("cannot open the local socket: %w", err)
	}
	return l, nil
}

// localBefore returns a listener on the local socket of before, nil if there is none that
// clients find in dir.
func (h *handover) localBefore(dir string) *net.UnixListener {
	f := h.files[localName]
	if f == nil {
		return nil
	}
	l, err := net.FileListener(f)
	if err == nil {
		_, gone := os.Lstat(local.Path(dir))
		if socket, is := l.(*net.UnixListener); is && gone == nil && l.Addr().String() == local.Path(dir) {
			return socket
		}
		_ = l.Close()
	}
	_ = f.Close()
	delete(h.files, localName)
	return nil
}

// useLocalSocket takes the local socket that systemd has kept for the daemon.
func (h *handover) useLocalSocket(f *os.File) {
	if before := h.files[localName]; before != nil {
		_ = before.Close()
	}
	h.files[localName] = f
}

// dropLocalSocket closes a socket that nobody finds any more.
func (h *handover) dropLocalSocket() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.files[localName]; f != nil {
		_ = f.Close()
		delete(h.files, localName)
	}
}

// serveOwner answers on the local socket. It counts its connections apart from those of the
// network: nobody there can keep the owner out. Without it the daemon goes on.
func (d *daemon) serveOwner(life context.Context, v *serving) {
	server := newServer(life, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.monitor.serves(w, r, true) {
			v.answer(w, r, d.owner)
		}
	}), d.log)
	l := web.LimitListener(d.local.listener, web.Limits{All: d.settings.Connections, Refuse: httpapi.RefuseConnection})
	v.serve(server, l, func(err error) error {
		if err != nil {
			d.log.Error("the local socket does not answer any more; restart berth", "error", err)
		}
		return nil
	})
}

// describe is what the daemon says of itself to its owner.
func (d *daemon) describe() local.Daemon {
	s := d.settings
	return local.Daemon{
		Version: build.Version(), PID: os.Getpid(), DataDir: s.DataDir,
		Listen: d.listens, Panel: s.Panel.Enabled, BaseURL: s.BaseURL, Sites: d.sites.addresses(),
		Held: d.host.Held().Text().String(), Engine: s.Engine,
	}
}
