package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"berth/app"
	"berth/host"
	"berth/host/account"
	"berth/host/watch"
	"berth/host/watch/metrics"
	"berth/httpapi"
	"berth/proc/logs"
	"berth/web/proxy"
)

// openHistory opens what applications used.
func (d *daemon) openHistory() (err error) {
	if d.history, err = metrics.Open(filepath.Join(d.settings.DataDir, "metrics")); err != nil {
		return err
	}
	d.undo = append(d.undo, func() error {
		if err := d.history.Close(); err != nil { // a full disk, which is told, and makes no stop fail
			d.log.Error("the metric history has a gap", "error", err)
		}
		return nil
	})
	return nil
}

// openHub makes the hub of events; the host that it asks comes after it.
func (d *daemon) openHub(teams *account.Teams) {
	d.hub = watch.NewHub(watch.Access{
		Find:      func(id app.ID) (app.Snapshot, bool) { return d.host.Find(id) },
		Authorize: teams.Authorize, Memberships: teams.Memberships,
	}, func(id app.ID, build bool, back int) (watch.Follower, error) {
		l, err := d.logs.Existing(id, build)
		if err != nil {
			return nil, err
		}
		return l.Follow(back), nil
	})
}

// keepsakes are what an application leaves when it goes: its logs and its
// history.
type keepsakes struct {
	*logs.Book
	accesses *proxy.AccessLogs
	past     *metrics.Store
}

// Remove implements host.Logs.
func (k keepsakes) Remove(id app.ID) error {
	defer k.accesses.Remove(id)()
	return errors.Join(k.Book.Remove(id), k.past.Remove(id))
}

// feed is the hub as the API sees it.
type feed struct{ *watch.Hub }

// Watch implements httpapi.Feed.
func (f feed) Watch(ctx context.Context, w app.Watch) (httpapi.Stream, error) {
	s, err := f.Hub.Watch(ctx, w)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// figures are what applications used, for those who have them.
type figures struct {
	host *host.Host
	past *metrics.Store
}

// Metrics implements httpapi.Metrics.
func (f figures) Metrics(_ context.Context, owner app.AccountID, id app.ID, from, to time.Time, step time.Duration) ([]app.Point, error) {
	if _, err := f.host.App(owner, id); err != nil {
		return nil, err
	}
	return f.past.Range(id, time.Now(), from, to, step)
}

// endless reports whether a request is for a stream that ends when berth does,
// or when its client goes: an upgrade waits for no such request, and ends it.
func endless(path string) bool { return path == "/v2/events" || path == "/events" }
