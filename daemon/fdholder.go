package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"berth/cgroup"
	"berth/proc/logs"
	"berth/systemd"
	"berth/systemd/fdstore"
)

// manager is systemd as a holder. What it keeps comes back to a daemon that was
// restarted, or ended by itself; for one that is stopped see moveToStore. It is
// safe for concurrent use.
type manager struct {
	dir string // of the data

	mu     sync.Mutex
	handed map[string]*os.File
	held   map[string]*os.File // copies of what systemd keeps
}

// Hold implements logs.Holder.
func (m *manager) Hold(name string, f *os.File) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return false, m.hold(name, f)
}

// hold is Hold for a caller with the lock.
func (m *manager) hold(name string, f *os.File) error {
	own, err := duplicate(f)
	if err != nil {
		return fmt.Errorf("cannot keep a descriptor: %w", err)
	}
	if err := systemd.Hold(name, f); err != nil {
		return errors.Join(err, own.Close())
	}
	if before := m.held[name]; before != nil {
		_ = before.Close()
	}
	m.held[name] = own
	return nil
}

// Release implements logs.Holder.
func (m *manager) Release(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.held[name]; f != nil {
		_ = f.Close()
		delete(m.held, name)
	}
	return systemd.Release(name)
}

// Held implements logs.Holder. What a daemon that was stopped gave to fdstore goes
// to systemd before fdstore gives it up.
func (m *manager) Held() (map[string]*os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.handed
	m.handed = nil
	if all == nil {
		all = map[string]*os.File{}
	}
	store, err := fdstore.Open(m.dir, "/proc/self/exe")
	if err != nil {
		return all, err
	}
	kept, err := store.Held()
	for name, f := range kept {
		if all[name] != nil || !logs.IsHeld(name) {
			err = errors.Join(err, f.Close())
		} else if failed := m.hold(name, f); failed != nil {
			all[name], err = f, errors.Join(err, failed)
			continue // it stays there too
		} else {
			all[name] = f
		}
		err = errors.Join(err, store.Release(name))
	}
	return all, errors.Join(err, store.Close())
}

// move gives everything to a process in a control group (fdstore), because systemd is
// about to forget it.
func (m *manager) move(group *os.File) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) == 0 {
		return nil
	}
	store, err := fdstore.Open(m.dir, "/proc/self/exe")
	if err != nil {
		return err
	}
	store.Place(group)
	for name, f := range m.held {
		_, failed := store.Hold(name, f)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, store.Close())
}

// Close implements logs.Holder.
func (m *manager) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, files := range []map[string]*os.File{m.handed, m.held} {
		for _, f := range files {
			errs = append(errs, f.Close())
		}
	}
	m.handed, m.held = nil, map[string]*os.File{}
	return errors.Join(errs...)
}

// duplicate opens what f has open once more, whatever it is.
func duplicate(f *os.File) (*os.File, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	if err := conn.Control(func(from uintptr) { fd, failed = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// sockets are those that systemd handed over: its own, and those that it kept.
type sockets struct {
	api, local *os.File            // nil: it has none
	sites      map[string]*os.File // by address, as in the settings of before
}

// openHolder is systemd where it keeps descriptors, else the fdstore of the data
// directory. It returns the sockets that systemd handed over too; other descriptors are
// closed.
func openHolder(dir string, log *slog.Logger) (h logs.Holder, handed sockets, err error) {
	all, err := systemd.Handed()
	if err != nil {
		log.Warn("cannot take what systemd kept", "error", err)
	}
	mine := map[string]*os.File{}
	handed.sites = map[string]*os.File{}
	for name, files := range all {
		address, ofSites := keptAddress(name)
		for i, f := range files {
			switch {
			case logs.IsHeld(name) && i == 0 && systemd.Keeps():
				mine[name] = f
			case name == systemd.APISocket && i == 0:
				handed.api = f
			case name == systemd.LocalSocket && i == 0:
				handed.local = f
			case ofSites && i == 0:
				handed.sites[address] = f
			default:
				_ = f.Close()
			}
		}
	}
	if systemd.Keeps() {
		return &manager{dir: dir, handed: mine, held: map[string]*os.File{}}, handed, nil
	}
	h, err = fdstore.Open(dir, "/proc/self/exe")
	return h, handed, err
}

// keptName is the name by which systemd keeps the sites' socket at an address: a name has
// no colon, and an address no slash.
func keptName(address string) string {
	return systemd.SitesSocket + strings.ReplaceAll(address, ":", "/")
}

// keptAddress is the address in such a name.
func keptAddress(name string) (address string, is bool) {
	address, is = strings.CutPrefix(name, systemd.SitesSocket)
	return strings.ReplaceAll(address, "/", ":"), is
}

// moveToStore gives what systemd keeps to a process beside the programs: unlike a
// daemon that is restarted, one that is stopped loses it (systemd.service(5)
// before version 254). Without, what a program prints last would be lost if it
// ended before the next start.
func moveToStore(held logs.Holder, groups *cgroup.Tree, log *slog.Logger) {
	m, is := held.(*manager)
	if !is {
		return
	}
	group, err := groups.Keeper()
	if err == nil {
		err = m.move(group)
		_ = group.Close()
	}
	if err != nil {
		log.Warn("what programs print last is lost if they end while berth is down", "error", err)
	}
}
