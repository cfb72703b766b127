package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/host"
	"berth/systemd"
)

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
		text := statusText(d.host.Tally())
		if d.db.Moved() != nil {
			text += "; the database was removed, changes are refused"
		}
		if text != said {
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
	api := slices.ContainsFunc(mute, func(why string) bool { return strings.HasPrefix(why, theAPI) })
	// Whoever waits for the disk cannot be helped by an end, which would wait for
	// it too; and the next daemon would not even begin.
	if len(mute) > 0 && !api && d.disk.Hangs(time.Second) {
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
