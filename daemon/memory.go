package daemon

import (
	"context"
	"fmt"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/host"
	"berth/proc"
)

// hostMemory is a host.Memory.
type hostMemory struct {
	groups   *cgroup.Tree
	pressure *proc.Pressure // nil where the kernel does not tell
	why      error          // that it does not
}

// openMemory lets the kernel tell when programs wait for memory, if it does.
func openMemory(groups *cgroup.Tree, undo *closers) *hostMemory {
	m := &hostMemory{groups: groups}
	if m.pressure, m.why = proc.OpenPressure(); m.why == nil {
		undo.add(m.pressure.Close)
	}
	return m
}

// Wait implements host.Memory.
func (m *hostMemory) Wait(ctx context.Context, d time.Duration) (waited bool, err error) {
	if m.why != nil {
		return false, m.why
	}
	return m.pressure.Wait(ctx, d)
}

// Free implements host.Memory.
func (m *hostMemory) Free() (host.HostMemory, error) {
	free, err := proc.FreeMemory()
	return host.HostMemory{Available: free.Available, RAM: free.RAM, All: free.RAM + free.Swap}, err
}

// Keep implements host.Memory.
func (m *hostMemory) Keep(keep bool) error {
	if keep {
		return proc.Lock()
	}
	return proc.Unlock()
}

// Rank implements host.Memory.
func (m *hostMemory) Rank(id app.ID, run int, score func(largest int64) int) error {
	return m.groups.Rank(fmt.Sprintf("apps/%s/%d", id, run), score)
}

// measure is a watch.Measure. At each look at all programs it sets the order in which the
// kernel ends them.
func (d *daemon) measure(ctx context.Context, only func(app.AccountID, app.ID) bool, each func(app.Measured)) {
	if only != nil {
		d.host.Measure(ctx, only, each)
		return
	}
	var all []app.Measured
	d.host.Measure(ctx, nil, func(m app.Measured) {
		all = append(all, m)
		each(m)
	})
	d.host.OrderKills(all)
}

// lastDay is host.Config.History.
func (d *data) lastDay(id app.ID) ([]app.Point, error) {
	now := time.Now()
	return d.history.Range(id, now, now.Add(-24*time.Hour), now, 10*time.Minute)
}
