package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/files"
	"berth/systemd"
)

// batonEnv tells an image of the daemon what the one before it handed on, as
// "name=number,...".
const batonEnv = "BERTH_BATON"

// baton is what one image of the daemon hands to the next: descriptors that must
// not be closed in between, or somebody else would get the data directory, and
// clients would be refused. They are its own, and daemons use duplicates. The
// zero value has nothing.
type baton struct {
	handed bool // there was an image before this one
	files  map[string]*os.File
}

// The names of the descriptors. A listener's address is as in the settings.
const (
	batonLock   = "lock"
	batonListen = "listen "
)

// takeBaton takes what the image before this one handed on, if there was one. No
// program that is started later gets it, or hears of it.
func takeBaton() (*baton, error) {
	b := newBaton()
	text, handed := os.LookupEnv(batonEnv)
	if !handed {
		return b, nil
	}
	b.handed = true
	if err := os.Unsetenv(batonEnv); err != nil {
		return nil, fmt.Errorf("cannot take what was handed on: %w", err)
	}
	for part := range strings.SplitSeq(text, ",") {
		i := strings.LastIndexByte(part, '=')
		fd, err := strconv.Atoi(part[i+1:])
		if i <= 0 || err != nil || fd < 3 {
			return nil, errors.Join(fmt.Errorf("cannot take what was handed on: %s=%q", batonEnv, text), b.close())
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot take what was handed on: %s: %w", part, err), b.close())
		}
		b.files[part[:i]] = os.NewFile(uintptr(fd), part[:i])
	}
	return b, nil
}

func newBaton() *baton { return &baton{files: map[string]*os.File{}} }

// lasting is ctx for what must be done once it was begun: what an earlier image
// left is taken over, also to be stopped.
func (b *baton) lasting(ctx context.Context) context.Context {
	if b.handed {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// ready says that the daemon serves.
func (b *baton) ready() error {
	if b.handed {
		return systemd.Serving("") // ends what was said of the upgrade
	}
	return systemd.Ready()
}

// close gives everything up.
func (b *baton) close() error {
	var errs []error
	for name, f := range b.files {
		errs = append(errs, f.Close())
		delete(b.files, name)
	}
	return errors.Join(errs...)
}

// pass lets the descriptors go through execve(2) and returns the value of
// batonEnv.
func (b *baton) pass() (string, error) {
	var parts []string
	err := b.flag(0, func(name string, fd uintptr) { parts = append(parts, fmt.Sprintf("%s=%d", name, fd)) })
	slices.Sort(parts)
	return strings.Join(parts, ","), err
}

// keep undoes pass.
func (b *baton) keep() error { return b.flag(unix.FD_CLOEXEC, func(string, uintptr) {}) }

func (b *baton) flag(flags int, each func(name string, fd uintptr)) error {
	var errs []error
	for name, f := range b.files {
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
func (b *baton) lock(dir string) error {
	if f := b.files[batonLock]; f != nil {
		mine, err := f.Stat()
		there, gone := os.Stat(filepath.Join(dir, files.LockName))
		if err == nil && gone == nil && os.SameFile(mine, there) {
			return nil
		}
		delete(b.files, batonLock)
		_ = f.Close() // of another directory
	}
	f, err := files.Lock(dir)
	if err == nil {
		b.files[batonLock] = f
	}
	return err
}

// listener returns a listener on an address. The socket stays open when it is
// closed, and connections wait there.
func (b *baton) listener(ctx context.Context, address string) (net.Listener, error) {
	if err := b.open(ctx, address); err != nil {
		return nil, err
	}
	l, err := net.FileListener(b.files[batonListen+address])
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return l, nil
}

// give makes the baton's listener on an address of a socket that is open.
func (b *baton) give(address string, f *os.File) {
	if before := b.files[batonListen+address]; before != nil {
		_ = before.Close()
	}
	b.files[batonListen+address] = f
}

// open listens on an address, if it does not yet.
func (b *baton) open(ctx context.Context, address string) error {
	if b.files[batonListen+address] != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, NetworkOf(address), address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	defer func() { _ = l.Close() }() // its duplicate stays
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	b.files[batonListen+address] = f
	return nil
}

// only closes listeners on other addresses than those: what settings of before
// named, or those of a binary that was not executed after all.
func (b *baton) only(addresses ...string) {
	for name, f := range b.files {
		if address, is := strings.CutPrefix(name, batonListen); is && !slices.Contains(addresses, address) {
			_ = f.Close()
			delete(b.files, name)
		}
	}
}
