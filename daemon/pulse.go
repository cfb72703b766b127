package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// pulse tells systemd that the daemon lives.
type pulse struct {
	path   string // where the daemon checks itself
	data   *data
	groups *cgroup.Tree
	host   *host.Host
	log    *slog.Logger
}

// run tells systemd that the daemon lives, and how it is, until ctx ends.
// Nothing is told by a clock: each time every part has answered before.
func (p *pulse) run(ctx context.Context, address string) {
	if !systemd.Listens() {
		return
	}
	every, within := 15*time.Second, 15*time.Second
	limit := systemd.Watchdog()
	if limit > 0 {
		every, within = limit/4, limit/2
	}
	before := ""
	beat := func() {
		text := statusText(p.host.Tally())
		if p.data.db.Moved() != nil {
			text += "; the database was removed, changes are refused"
		}
		if text != before {
			before = text
			tellManager(p.log, func() error { return systemd.Status(text) })
		}
		if limit > 0 && p.answers(ctx, address, within) && ctx.Err() == nil {
			tellManager(p.log, systemd.Alive)
		}
		mendHolder(p.groups, p.log)
	}
	beat()
	repeat(ctx, every, beat)
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
	if t.Short {
		text += "; the host is short of memory, builds and starts wait"
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

// answers checks the parts without which the daemon is of no use, all at once.
func (p *pulse) answers(ctx context.Context, address string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	parts := map[string]func(context.Context) error{
		theAPI:             func(ctx context.Context) error { return p.selfCheck(ctx, address) },
		"the database":     p.data.db.Alive,
		"the applications": p.host.Alive,
	}
	silent := make(chan string, len(parts))
	for name, check := range parts {
		go func() {
			// What has answered with an error has answered: a full disk is no
			// reason to be killed.
			if err := check(ctx); err != nil && ctx.Err() != nil {
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
	api := slices.ContainsFunc(mute, func(why string) bool { return strings.HasPrefix(why, theAPI) })
	// Whoever waits for the disk cannot be helped by an end, which would wait for
	// it too; and the next daemon would not even begin.
	if len(mute) > 0 && !api && p.data.disk.Hangs(time.Second) {
		p.log.Error("the disk does not answer; what waits for it goes on when it does", "waiting", mute)
		return true
	}
	for _, why := range mute {
		p.log.Error("a part of berth does not answer; systemd may end it", "part", why, "within", within)
	}
	return len(mute) == 0
}

// selfCheck makes a request on the listener. One that is refused for there are too
// many was taken, which is enough.
func (p *pulse) selfCheck(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+p.path, nil)
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

// tellManager lets send say something to systemd; that it cannot is no reason to stop.
func tellManager(log *slog.Logger, send func() error) {
	if err := send(); err != nil {
		log.Warn("cannot notify systemd", "error", err)
	}
}

// mendGroups makes control groups again that somebody else took away, and looks
// every so often, until ctx ends. What it cannot mend is told once, until it changes.
func mendGroups(ctx context.Context, groups *cgroup.Tree, pids int64, bound func(context.Context), every time.Duration, log *slog.Logger) {
	before := ""
	repeat(ctx, every, func() {
		missing, err := groups.Mend(pids)
		if len(missing) > 0 {
			bound(ctx)
		}
		text := ""
		switch {
		case err != nil:
			if text = fmt.Sprint(missing, err); text != before {
				log.Error("programs may run without limits: somebody else changed berth's control groups", "missing", missing, "error", err)
			}
		case len(missing) > 0:
			log.Warn("somebody else changed berth's control groups; they are as before", "missing", missing)
		}
		before = text
	})
}

// mendHolder gives the unit that holds the programs a process again. Its
// programs have not noticed: it is active without, too.
func mendHolder(groups *cgroup.Tree, log *slog.Logger) {
	if groups.HolderLives() {
		return
	}
	err := groups.Revive(func(group *os.File) error {
		sleep := exec.CommandContext(context.Background(), "/bin/sleep", "infinity")
		sleep.Dir = "/"
		sleep.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())}
		if err := sleep.Start(); err != nil {
			return err
		}
		go func() { _ = sleep.Wait() }() // it outlives the daemon, or is reaped
		return nil
	})
	log.Warn("the process of the programs' unit had ended; the programs run on", "unit", path.Base(systemd.AppsHolder), "another was started", err == nil, "error", err)
}
