package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/cgroup"
	"berth/host"
	"berth/systemd"
)

// What the units of berth install and the daemon know of each other.
const (
	// holderEnv names the group of the unit that holds the programs.
	holderEnv = "BERTH_HOLDER"
	holder252 = "/system.slice/" + appsUnit
	// apiSocket is what the socket unit calls the API's.
	apiSocket = "api"
)

// holderOf returns the directory of the unit that holds the programs, "" for
// none: the one the daemon's unit names, or that in which an earlier daemon of
// the same data was, so that one started by hand does not start programs anew
// that run there.
func holderOf(facts cgroup.Host, name string) (string, error) {
	if group := os.Getenv(holderEnv); group != "" {
		return cgroup.HolderOf(facts, group)
	}
	dir, err := cgroup.HolderOf(facts, holder252)
	if err != nil || !cgroup.Has(dir, name) {
		return "", nil // a host without the unit
	}
	return dir, nil
}

// openTree opens the programs' groups in the unit that holds them, if there is
// one.
func (d *daemon) openTree(facts cgroup.Host) (*cgroup.Tree, error) {
	name := groupName(d.settings.DataDir)
	holder, err := holderOf(facts, name)
	if err != nil {
		d.log.Warn("programs will end with this daemon", "why", err, "fix", "systemctl start "+appsUnit)
	}
	if holder == "" {
		return cgroup.Open(facts, name)
	}
	return cgroup.OpenIn(facts, name, holder)
}

// closeGroups leaves the watches of programs that run on to the kernel.
func (d *daemon) closeGroups() error {
	if d.leaving {
		return nil
	}
	return d.groups.Close()
}

// mayLeave reports whether programs run on when the daemon is stopped: the next
// one finds them, and who wants them ended too can say so to systemd.
func (d *daemon) mayLeave() bool { return systemd.Listens() && d.groups.Held() }

// end ends what the host does, and the programs unless they may run on.
func (d *daemon) end(hurry context.Context) {
	const room = 30 * time.Second // to kill, to write, to answer
	d.tell(func() error { return systemd.Extend(d.settings.Apps.StopTimeout + lastAnswers + room) })
	if !d.mayLeave() || stopping(hurry, appsUnit) {
		d.log.Info("stopping", "grace", d.settings.Apps.StopTimeout)
		d.host.Shutdown(hurry)
		return
	}
	d.log.Info("stopping; the programs run on")
	d.leaving = true
	d.host.Leave()
	d.handOver()
}

// handOver gives what systemd keeps to a keeper beside the programs: unlike a
// daemon that is restarted, one that is stopped loses it (systemd.service(5)
// before version 254). Without, what a program prints last would be lost if it
// ended before the next start.
func (d *daemon) handOver() {
	m, is := d.logs.holding.holder.(*manager)
	if !is {
		return
	}
	group, err := d.groups.Keeper()
	if err == nil {
		err = m.handOver(group)
		_ = group.Close()
	}
	if err != nil {
		d.log.Warn("what programs print last is lost if they end while berth is down", "error", err)
	}
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

// listen takes the socket that systemd listens on for the daemon, or makes one.
func (d *daemon) listen(ctx context.Context) (net.Listener, error) {
	d.takeSocket()
	return d.baton.listener(ctx, d.settings.Listen)
}

// takeSocket gives the socket that systemd listens on for the daemon to the
// baton, for this image and those that follow.
func (d *daemon) takeSocket() {
	f, wanted := d.socket, d.settings.Listen
	if f == nil {
		return
	}
	d.socket = nil
	if l, err := net.FileListener(f); err == nil {
		if !sameAddress(l.Addr().String(), wanted) {
			d.log.Warn("the socket unit listens elsewhere than the setting says", "socket", l.Addr(), "listen", wanted, "fix", "berth install")
		}
		_ = l.Close() // a duplicate
	}
	d.baton.give(wanted, f)
}

// closeSocket closes a socket that was never used.
func (d *daemon) closeSocket() error {
	if d.socket == nil {
		return nil
	}
	return d.socket.Close()
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

// pulse tells systemd that the daemon lives, and how it is, until ctx ends.
// Nothing is told by a clock: each time every part has answered before.
func (d *daemon) pulse(ctx context.Context, address string) error {
	if !systemd.Listens() {
		return nil
	}
	every, within := 15*time.Second, 15*time.Second
	limit := systemd.Watchdog()
	if limit > 0 {
		every, within = limit/4, limit/2
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	said := ""
	for {
		if text := statusText(d.host.Tally()); text != said {
			said = text
			d.tell(func() error { return systemd.Status(text) })
		}
		if limit > 0 && d.answers(ctx, address, within) && ctx.Err() == nil {
			d.tell(systemd.Alive)
		}
		d.mendHolder()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func statusText(t host.Tally) string {
	text := fmt.Sprintf("%d %s online", t.Online, plural(t.Online, "app", "apps"))
	for _, more := range []struct {
		n    int
		what string
	}{{t.Waiting, "waiting for a restart"}, {t.Busy, "being prepared"}, {t.Offline, "offline"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d %s", more.n, more.what)
		}
	}
	text += fmt.Sprintf("; %d of %d MB in use", t.RAM, t.Total)
	if t.Behind > 0 {
		text += "; the disk does not answer"
	}
	return text
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

const theAPI = "the API"

// answers asks the parts without which the daemon is of no use, all at once.
func (d *daemon) answers(ctx context.Context, address string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	parts := map[string]func(context.Context) error{
		theAPI:             func(ctx context.Context) error { return d.knock(ctx, address) },
		"the database":     d.db.Alive,
		"the applications": d.host.Alive,
	}
	silent := make(chan string, len(parts))
	for name, ask := range parts {
		go func() {
			// What has answered with an error has answered: a full disk is no
			// reason to be killed.
			if err := ask(ctx); err != nil && ctx.Err() != nil {
				silent <- fmt.Sprintf("%s: %v", name, err)
				return
			}
			silent <- ""
		}()
	}
	var mute []string
	for range parts {
		if why := <-silent; why != "" {
			mute = append(mute, why)
		}
	}
	// Whoever waits for the disk cannot be helped by an end, which would wait for
	// it too; and the next daemon would not even begin.
	if len(mute) > 0 && !slices.ContainsFunc(mute, func(why string) bool { return strings.HasPrefix(why, theAPI) }) && d.disk.hangs(time.Second) {
		d.log.Error("the disk does not answer; what waits for it goes on when it does", "waiting", mute)
		return true
	}
	for _, why := range mute {
		d.log.Error("a part of berth does not answer; systemd may end it", "part", why, "within", within)
	}
	return len(mute) == 0
}

// knock makes a request on the listener. One that is refused for there are too
// many was taken, which is enough.
func (d *daemon) knock(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+d.pulsePath, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// knocked answers the daemon's own question.
func (d *daemon) knocked(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != d.pulsePath {
		return false
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// tell says something to systemd; that it cannot is no reason to stop.
func (d *daemon) tell(say func() error) {
	if err := say(); err != nil {
		d.log.Warn("cannot notify systemd", "error", err)
	}
}

// mendHolder gives the unit that holds the programs a process again. Its
// programs have not noticed: it is active without, too.
func (d *daemon) mendHolder() {
	if d.groups.HolderLives() {
		return
	}
	err := d.groups.Revive(func(group *os.File) error {
		sleep := exec.CommandContext(context.WithoutCancel(context.Background()), "/bin/sleep", "infinity")
		sleep.Dir = "/"
		sleep.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())}
		if err := sleep.Start(); err != nil {
			return err
		}
		go func() { _ = sleep.Wait() }() // it outlives the daemon, or is reaped
		return nil
	})
	d.log.Warn("the process of the programs' unit had ended; the programs run on", "unit", path.Base(holder252), "another was started", err == nil, "error", err)
}
