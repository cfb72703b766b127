package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"berth/daemon/settings"
	"berth/files"
	"berth/systemd"
)

// handoverEnv tells an image of the daemon what the one before it handed on, as
// "name=number,...".
const handoverEnv = "BERTH_BATON"

// handover is what one image of the daemon hands to the next: descriptors that must
// not be closed in between, or somebody else would get the data directory, and
// clients would be refused. They are its own, and daemons use duplicates. The
// zero value has nothing.
type handover struct {
	handed bool       // there was an image before this one
	mu     sync.Mutex // of files while the daemon serves
	files  map[string]*os.File
}

// The names of the descriptors. A listener's address is as in the settings.
const (
	lockName     = "lock"
	listenPrefix = "listen "
	localName    = listenPrefix + "unix" // an image that knows no local socket closes it as a listener (only)
)

// receiveHandover takes what the image before this one handed on, if there was one. No
// program that is started later gets it, or hears of it.
func receiveHandover() (*handover, error) {
	h := newHandover()
	text, handed := os.LookupEnv(handoverEnv)
	if !handed {
		return h, nil
	}
	h.handed = true
	if err := os.Unsetenv(handoverEnv); err != nil {
		return nil, fmt.Errorf("cannot take what was handed on: %w", err)
	}
	for part := range strings.SplitSeq(text, ",") {
		i := strings.LastIndexByte(part, '=')
		fd, err := strconv.Atoi(part[i+1:])
		if i <= 0 || err != nil || fd < 3 {
			return nil, errors.Join(fmt.Errorf("cannot take what was handed on: %s=%q", handoverEnv, text), h.close())
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot take what was handed on: %s: %w", part, err), h.close())
		}
		h.files[part[:i]] = os.NewFile(uintptr(fd), part[:i])
	}
	return h, nil
}

func newHandover() *handover { return &handover{files: map[string]*os.File{}} }

// lasting is ctx for what must be done once it was begun: what an earlier image
// left is taken over, also to be stopped.
func (h *handover) lasting(ctx context.Context) context.Context {
	if h.handed {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// ready says that the daemon serves.
func (h *handover) ready() error {
	if h.handed {
		return systemd.Serving("") // ends what was said of the upgrade
	}
	return systemd.Ready()
}

// close gives everything up.
func (h *handover) close() error {
	var errs []error
	for name, f := range h.files {
		errs = append(errs, f.Close())
		delete(h.files, name)
	}
	return errors.Join(errs...)
}

// pass lets the descriptors go through execve(2) and returns the value of
// handoverEnv.
func (h *handover) pass() (string, error) {
	var parts []string
	err := h.flag(0, func(name string, fd uintptr) { parts = append(parts, fmt.Sprintf("%s=%d", name, fd)) })
	slices.Sort(parts)
	return strings.Join(parts, ","), err
}

// keep undoes pass.
func (h *handover) keep() error { return h.flag(unix.FD_CLOEXEC, func(string, uintptr) {}) }

func (h *handover) flag(flags int, each func(name string, fd uintptr)) error {
	var errs []error
	for name, f := range h.files {
		conn, err := f.SyscallConn() // Fd would make a listener block
		if err == nil {
			err = conn.Control(func(fd uintptr) {
				each(name, fd)
				_, err := unix.FcntlInt(fd, unix.F_SETFD, flags)
				errs = append(errs, err)
			})
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot hand on what is open: %w", err)
	}
	return nil
}

// lock makes sure that one daemon uses a data directory, through all images of
// it. The lock goes with the process, however it ends.
func (h *handover) lock(dir string) error {
	if f := h.files[lockName]; f != nil {
		mine, err := f.Stat()
		there, gone := os.Stat(filepath.Join(dir, files.LockName))
		if err == nil && gone == nil && os.SameFile(mine, there) {
			return nil
		}
		delete(h.files, lockName)
		_ = f.Close() // of another directory
	}
	f, err := files.Lock(dir)
	if err == nil {
		h.files[lockName] = f
	}
	return err
}

// listener returns a listener on an address. The socket stays open when it is
// closed, and connections wait there.
func (h *handover) listener(ctx context.Context, address string) (net.Listener, error) {
	if err := h.open(ctx, address); err != nil {
		return nil, err
	}
	l, err := net.FileListener(h.files[listenPrefix+address])
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return l, nil
}

// use takes the sockets that systemd handed over.
func (h *handover) use(s settings.Settings, handed sockets, log *slog.Logger) {
	if handed.api != nil {
		h.useSocket(s.Listen, handed.api, log)
	}
	if handed.local != nil {
		h.useLocalSocket(handed.local)
	}
	h.useSites(s.Listens()[1:], handed.sites, log)
}

// useSites takes the sockets of sites that systemd has kept over a restart. It gives up those
// at addresses of no use any more, before another one with the same port is opened.
func (h *handover) useSites(addresses []string, kept map[string]*os.File, log *slog.Logger) {
	given := false
	for address, f := range kept {
		l, err := net.FileListener(f)
		if err == nil {
			err = l.Close() // a duplicate
		}
		if err == nil && slices.Contains(addresses, address) && sameAddress(l.Addr().String(), address) {
			h.files[listenPrefix+address] = f
			continue
		}
		_ = f.Close()
		tellManager(log, func() error { return systemd.Release(keptName(address)) })
		given = true
	}
	if given {
		tellManager(log, systemd.Settle)
	}
}

// lend lets systemd keep the sockets at these addresses over a restart, so that visitors wait
// in them meanwhile. It closes them when the service is stopped.
func (h *handover) lend(addresses []string, log *slog.Logger) {
	if !systemd.Keeps() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, address := range addresses {
		if f := h.files[listenPrefix+address]; f != nil {
			tellManager(log, func() error { return systemd.Hold(keptName(address), f) })
		}
	}
}

// useSocket makes the handover's listener on an address of the socket that systemd
// listens on for the daemon.
func (h *handover) useSocket(address string, f *os.File, log *slog.Logger) {
	if l, err := net.FileListener(f); err == nil {
		if !sameAddress(l.Addr().String(), address) {
			log.Warn("the socket unit listens elsewhere than the setting says", "socket", l.Addr(), "listen", address, "fix", "berth install")
		}
		_ = l.Close() // a duplicate
	}
	if before := h.files[listenPrefix+address]; before != nil {
		_ = before.Close()
	}
	h.files[listenPrefix+address] = f
}

// open listens on an address, if it does not yet.
func (h *handover) open(ctx context.Context, address string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.files[listenPrefix+address] != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, NetworkOf(address), address)
	if err != nil {
		return listenProblem(ctx, address, err)
	}
	defer func() { _ = l.Close() }() // its duplicate stays
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	h.files[listenPrefix+address] = f
	return nil
}

// only closes listeners on other addresses than those: what settings of before
// named, or those of a binary that was not executed after all. When it returns, others can
// have their ports.
func (h *handover) only(addresses ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	given := false
	for name, f := range h.files {
		if address, is := strings.CutPrefix(name, listenPrefix); is && name != localName && !slices.Contains(addresses, address) {
			_ = f.Close()
			_ = systemd.Release(keptName(address)) // which may have it
			delete(h.files, name)
			given = true
		}
	}
	if given {
		_ = systemd.Settle()
	}
}

// sameAddress compares what a socket says with what a person wrote.
func sameAddress(is, wanted string) bool {
	a, err := net.ResolveTCPAddr("tcp", is)
	b, errB := net.ResolveTCPAddr("tcp", wanted)
	if err != nil || errB != nil {
		return false
	}
	anywhere := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	return a.Port == b.Port && (a.IP.Equal(b.IP) || anywhere(a.IP) && anywhere(b.IP))
}
