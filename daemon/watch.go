package daemon

import (
	"errors"

	"berth/app"
	"berth/host/watch/metrics"
	"berth/proc/logs"
	"berth/web/proxy"
)

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
