package daemon

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/app"
	"berth/app/build"
	"berth/proc"
	"berth/web/metrics"
	"berth/web/proxy"
)

// monitor answers those who watch berth: /metrics and /healthz, on the API's address and the
// local socket, never where sites are served.
type monitor struct {
	*metrics.Meter
	d       *daemon
	began   time.Time
	traffic *proxy.Traffic
	health  http.Handler
	scrape  http.Handler // for who has the token; nil without one
	open    http.Handler // for root, at the local socket
}

// newMonitor returns one that answers once the daemon is open.
func newMonitor(d *daemon) (*monitor, error) {
	m := &monitor{d: d, began: time.Now(), traffic: &proxy.Traffic{Bounds: metrics.Buckets[:]}}
	m.Meter = metrics.New(metrics.Source{
		Apps:    func(each func(app.Snapshot, int64)) { d.host.Each(each) },
		Measure: func(ctx context.Context, each func(app.Measured)) { d.host.Measure(ctx, nil, each) },
		Traffic: m.sites, Figures: m.figures, Alive: m.alive,
	})
	m.health, m.open = m.ServeHealth(), m.ServeMetrics("")
	token, err := d.settings.MetricsToken()
	if err != nil {
		return nil, err
	}
	if token != "" {
		m.scrape = m.ServeMetrics(token)
	}
	return m, nil
}

// serves reports whether it has answered a request of the API's address, or of the local socket.
func (m *monitor) serves(w http.ResponseWriter, r *http.Request, local bool) bool {
	switch {
	case r.URL.Path == "/healthz":
		m.health.ServeHTTP(w, r)
	case r.URL.Path == "/metrics" && local:
		m.open.ServeHTTP(w, r)
	case r.URL.Path == "/metrics" && m.scrape != nil:
		m.scrape.ServeHTTP(w, r)
	default:
		return false
	}
	return true
}

// alive fails when the database or the applications do not answer, and once berth ends.
func (m *monitor) alive(ctx context.Context) error {
	if v := m.d.serving.Load(); v != nil && v.closing.Load() {
		return context.Canceled
	}
	if err := m.d.data.db.Alive(ctx); err != nil {
		return err
	}
	return m.d.host.Alive(ctx)
}

// answers is what the sampler counts of sites.
func (m *monitor) answers(each func(app.ID, app.Answers)) {
	m.traffic.Rest()
	m.traffic.Each(func(id string, s proxy.SiteTraffic) {
		if _, there := m.d.host.Find(app.ID(id)); !there { // an answer ended after its site was deleted
			m.traffic.Forget(id)
			return
		}
		a := app.Answers{Classes: s.Classes}
		copy(a.Took[:], s.Took)
		each(app.ID(id), a)
	})
}

func (m *monitor) sites(each func(app.ID, metrics.Traffic)) {
	m.traffic.Each(func(id string, s proxy.SiteTraffic) {
		t := metrics.Traffic{Classes: s.Classes, Took: s.Sum}
		copy(t.Buckets[:], s.Took)
		each(app.ID(id), t)
	})
}

func (m *monitor) figures(ctx context.Context) metrics.Figures {
	t := m.d.host.Tally()
	f := metrics.Figures{
		Version: build.Version(), Began: m.began, RAM: t.RAM, Capacity: t.Total, Behind: t.Behind, Short: t.Short,
	}
	if free, err := proc.FreeMemory(); err == nil {
		f.Memory, f.Available = free.RAM, free.Available
	}
	if disk, err := proc.Disk(m.d.settings.DataDir); err == nil {
		f.Disk, f.DiskFree = disk.Total, disk.Free
	}
	if counts, err := m.d.data.db.Notices.Counts(ctx); err == nil {
		f.Waiting, f.Sent, f.Dropped = counts[app.DeliveryWaiting], counts[app.DeliverySent], counts[app.DeliveryFailed]
	}
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) == nil {
		f.CPU = time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	f.Resident = resident()
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.Files = len(open)
	}
	var most syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) == nil {
		f.MostFiles = int(most.Cur)
	}
	return f
}

// resident is the memory of this process, in bytes (proc_pid_statm(5)).
func resident() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	words := strings.Fields(string(text))
	if len(words) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(words[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
