package metrics

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"berth/app"
)

// MostApps is of how many applications there are figures, the oldest first.
const MostApps = 2000

// Buckets are the bounds of how long answers took; the last bucket has the others.
var Buckets = app.AnswerBounds

// Traffic is what was answered for a site.
type Traffic struct {
	Classes [5]uint64                // by the first digit of the status, less one
	Buckets [len(Buckets) + 1]uint64 // answers that took so long, each in one
	Took    time.Duration            // all of them
}

// Figures are those of the host and of berth.
type Figures struct {
	Version                string
	RAM, Capacity          app.MB // of what runs, and that may run
	Behind                 int
	Short                  bool
	Memory, Available      int64 // bytes of the host
	Disk, DiskFree         int64
	CPU                    time.Duration // of berth
	Resident               int64
	Files, MostFiles       int
	Began                  time.Time
	Waiting, Sent, Dropped int // messages
}

// Source is what is known. All of it MUST be safe for concurrent use.
type Source struct {
	// Apps calls each for every application, oldest first, with the disk space of its files, -1
	// where that was not measured. It reads no disk.
	Apps func(each func(s app.Snapshot, disk int64))
	// Measure calls each with the counters of what runs.
	Measure func(ctx context.Context, each func(app.Measured))
	// Traffic calls each for every site that has answered. It may be nil.
	Traffic func(each func(id app.ID, t Traffic))
	Figures func(ctx context.Context) Figures
	// Alive fails when berth cannot do its work.
	Alive func(ctx context.Context) error
}

// Meter counts what happens, and serves what is known.
type Meter struct {
	Source
	mu      sync.Mutex
	exits   map[app.ID]map[string]int
	deploys map[[2]string]int
	builds  int

	making sync.Mutex // one page is made at a time
	made   time.Time
	page   string

	asking sync.Mutex
	asked  time.Time
	alive  bool
}

// New returns a meter.
func New(s Source) *Meter {
	return &Meter{Source: s, exits: map[app.ID]map[string]int{}, deploys: map[[2]string]int{}}
}

// Observe counts an event. It does not block.
func (m *Meter) Observe(e app.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case e.Kind == app.RemovedEvent:
		delete(m.exits, e.App)
	case e.Kind == app.ExitEvent:
		if m.exits[e.App] == nil {
			m.exits[e.App] = map[string]int{}
		}
		m.exits[e.App][reason(*e.Exit)]++
	case e.Kind == app.DeployEvent && e.Deploy.Phase == app.DeployBuilding:
		m.builds++
	case e.Kind == app.DeployEvent && (e.Deploy.Phase == app.DeployDone || e.Deploy.Phase == app.DeployFailed):
		m.deploys[[2]string{string(e.Deploy.Kind), string(e.Deploy.Phase)}]++
	}
}

// reasons are those that a program ends for.
var reasons = []string{"asked", "ended", "crashed", "memory", "host_memory", "machine"}

func reason(e app.Exit) string {
	switch {
	case e.Asked:
		return "asked"
	case e.OOM, e.HeapFull != app.NoHeap:
		return "memory"
	case e.HostOOM:
		return "host_memory"
	case e.Disrupted:
		return "machine"
	case e.Code == 0:
		return "ended"
	}
	return "crashed"
}

// states are those of applications.
var states = []app.State{app.Stopped, app.Preparing, app.Starting, app.Online, app.Stopping, app.Waiting}

// write makes the page.
func (m *Meter) write(ctx context.Context) string {
	p := newPage()
	counts := map[app.ID]app.Measured{}
	m.Measure(ctx, func(c app.Measured) { counts[c.App] = c })
	apps, now := 0, time.Now()
	known := map[app.ID]bool{}
	m.mu.Lock()
	m.Apps(func(s app.Snapshot, disk int64) {
		if apps++; apps > MostApps {
			return
		}
		known[s.ID] = true
		m.app(p, s, disk, now)
		if c, ok := counts[s.ID]; ok {
			measured(p, c)
		}
	})
	for key, n := range m.deploys {
		p.add("berth_deploys_total", float64(n), key[0], key[1])
	}
	p.add("berth_builds_total", float64(m.builds))
	m.mu.Unlock()
	if m.Traffic != nil {
		m.Traffic(func(id app.ID, t Traffic) {
			if !known[id] {
				return
			}
			for class, n := range t.Classes {
				p.add("berth_site_requests_total", float64(n), string(id), string(rune('1'+class))+"xx")
			}
			p.histogram("berth_site_request_duration_seconds", t, string(id))
		})
	}
	p.add("berth_apps", float64(apps))
	figures(p, m.Figures(ctx))
	return p.String()
}

// app writes what is known of an application. The mutex is held.
func (m *Meter) app(p *page, s app.Snapshot, disk int64, now time.Time) {
	id := string(s.ID)
	p.add("berth_app_info", 1, id, s.Name, s.Type.String(), s.Code.Lang)
	for _, state := range states {
		p.flag("berth_app_state", s.State == state, id, string(state))
	}
	p.flag("berth_app_wanted", s.Wanted == app.WantOnline, id)
	p.add("berth_app_starts_total", float64(s.LastRun), id)
	p.add("berth_app_automatic_starts", float64(s.StartsByItself(now)), id)
	for _, why := range reasons {
		p.add("berth_app_exits_total", float64(m.exits[s.ID][why]), id, why)
	}
	p.add("berth_app_memory_limit_bytes", float64(s.RAM.Bytes()), id)
	if disk >= 0 {
		p.add("berth_app_disk_bytes", float64(disk), id)
	}
}

func measured(p *page, c app.Measured) {
	id := string(c.App)
	p.add("berth_app_start_time_seconds", seconds(c.StartedAt), id)
	p.add("berth_app_memory_bytes", float64(c.MemoryBytes), id)
	p.add("berth_app_cpu_seconds_total", c.CPU.Seconds(), id)
	p.add("berth_app_network_receive_bytes_total", float64(c.NetIn), id)
	p.add("berth_app_network_transmit_bytes_total", float64(c.NetOut), id)
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func figures(p *page, f Figures) {
	p.add("berth_info", 1, f.Version)
	for state, n := range map[string]int{"waiting": f.Waiting, "sent": f.Sent, "failed": f.Dropped} {
		p.add("berth_notifications", float64(n), state)
	}
	p.add("berth_apps_memory_limit_bytes", float64(f.RAM.Bytes()))
	p.add("berth_apps_memory_capacity_bytes", float64(f.Capacity.Bytes()))
	p.add("berth_disk_records_behind", float64(f.Behind))
	p.add("berth_host_memory_bytes", float64(f.Memory))
	p.add("berth_host_memory_available_bytes", float64(f.Available))
	p.flag("berth_host_memory_short", f.Short)
	p.add("berth_host_disk_bytes", float64(f.Disk))
	p.add("berth_host_disk_available_bytes", float64(f.DiskFree))
	p.add("process_cpu_seconds_total", f.CPU.Seconds())
	p.add("process_resident_memory_bytes", float64(f.Resident))
	p.add("process_open_fds", float64(f.Files))
	p.add("process_max_fds", float64(f.MostFiles))
	p.add("process_start_time_seconds", seconds(f.Began))
	p.add("go_goroutines", float64(runtime.NumGoroutine()))
}

// fresh is how old a page, or the answer of Alive, may be: who asks more often gets it again.
const fresh = time.Second

// ServeMetrics answers with the page whoever has the token; everybody, if that is "". The page
// is at most a second old, so that nobody loads the host with it.
func (m *Meter) ServeMetrics(token string) http.Handler {
	wanted := sha256.Sum256([]byte(token))
	return get(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		sum := sha256.Sum256([]byte(given))
		if token != "" && subtle.ConstantTimeCompare(sum[:], wanted[:]) == 0 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
			http.Error(w, "The scrape token is missing or wrong.", http.StatusUnauthorized)
			return
		}
		m.making.Lock()
		if time.Since(m.made) >= fresh {
			m.page, m.made = m.write(context.WithoutCancel(r.Context())), time.Now()
		}
		page := m.page
		m.making.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(w, page)
	})
}

// ServeHealth answers 200 while berth can do its work, else 503, and says nothing more.
func (m *Meter) ServeHealth() http.Handler {
	return get(func(w http.ResponseWriter, r *http.Request) {
		m.asking.Lock()
		if time.Since(m.asked) >= fresh {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 2*time.Second)
			m.alive, m.asked = m.Alive(ctx) == nil, time.Now()
			cancel()
		}
		alive := m.alive
		m.asking.Unlock()
		w.Header().Set("Cache-Control", "no-store")
		if !alive {
			http.Error(w, "unavailable", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
}

// get refuses what does not only read.
func get(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "Only GET and HEAD are served here.", http.StatusMethodNotAllowed)
			return
		}
		next(w, r)
	})
}
