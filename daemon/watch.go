package daemon

import (
	"errors"
	"path/filepath"

	"berth/app"
	"berth/host/account"
	"berth/host/watch"
	"berth/host/watch/metrics"
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
	}, d.logs.Follow)
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

// endless reports whether a request is for a stream that ends when berth does,
// or when its client goes: an upgrade waits for no such request, and ends it.
func endless(path string) bool { return path == "/v2/events" || path == "/events" }
