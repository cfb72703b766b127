package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"

	"berth/test/harness"
)

// What a page may weigh, as it comes over the wire to a browser that has nothing of
// it, and how many requests it may take.
const (
	maxWeight   = 60 << 10
	maxRequests = 8
)

// weight tells what the page took: requests, bytes, and milliseconds until something
// was to be seen.
const weight = `(() => {
	const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource").filter((e) => !e.name.includes("/events") && !e.name.includes("/plot"))];
	return [all.length, all.reduce((sum, e) => sum + e.transferSize, 0), performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0];
})()`

// A page is light, and there at once. With BERTH_MEASURE, a number of seconds, what
// watchers cost the daemon is measured for so long too. Lines that begin with
// "measured" are for make bench.
func TestPanelCosts(t *testing.T) {
	d := launch(t)
	id := d.ticker(t, "Greeter")
	p := d.visitor()
	p.do(network.SetCacheDisabled(true))
	for _, page := range []struct{ name, path string }{
		{"the list of applications", "/"}, {"an application", "/apps/" + id}, {"its log", "/apps/" + id + "/logs"}, {"the account", "/account"},
	} {
		var paints []string
		var last []float64
		for range 5 {
			p.open(d.Base+page.path, http.StatusOK)
			p.until(weight + `[2] > 0 && document.readyState == "complete"`)
			last = eval[[]float64](p, weight)
			paints = append(paints, fmt.Sprintf("%.1f", last[2]))
		}
		if last[0] > maxRequests || last[1] > maxWeight {
			t.Errorf("%s takes %.0f requests and %.0f bytes", page.name, last[0], last[1])
		}
		fmt.Printf("measured\tpanel, %s: requests\t%.0f\n", page.name, last[0])
		fmt.Printf("measured\tpanel, %s: KB\t%.1f\n", page.name, last[1]/1e3)
		fmt.Printf("measured\tpanel, %s: first paint in ms\t%s\n", page.name, strings.Join(paints, " "))
	}
	p.sound()
	seconds, _ := strconv.Atoi(os.Getenv("BERTH_MEASURE"))
	if seconds == 0 {
		return
	}
	key, agent := p.session(), eval[string](p, "navigator.userAgent") // a session stays in its browser
	p.do(chromedp.Navigate("about:blank"))
	for _, w := range []struct {
		what, path string
		count      int
	}{{"nobody", "", 0}, {"20 watchers of the list", "/", 20}, {"20 watchers of one log", "/apps/" + id + "/logs", 20}} {
		p.open(d.Base+w.path, http.StatusOK)
		stream := eval[string](p, `document.querySelector("#live")?.dataset.stream ?? ""`)
		p.do(chromedp.Navigate("about:blank"))
		used := d.watchedBy(t, key, agent, stream, w.count, time.Duration(seconds)*time.Second)
		fmt.Printf("measured\tpanel, %s: CPU in %d s in ms\t%d\n", w.what, seconds, used.Milliseconds())
	}
}

// session is what the cookie of the panel holds.
func (p *tab) session() string {
	p.t.Helper()
	var key string
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		all, err := storage.GetCookies().Do(ctx)
		for _, c := range all {
			if c.Name == "__Host-berth" || c.Name == "berth" {
				key = c.Name + "=" + c.Value
			}
		}
		return err
	}))
	if key == "" {
		p.t.Fatal("there is no cookie of a session")
	}
	return key
}

// watchedBy is the processor time that the daemon uses while so many streams are
// open.
func (d *daemon) watchedBy(t *testing.T, cookie, agent, stream string, count int, long time.Duration) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	for range count {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.Base+stream, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Cookie", cookie)
		r.Header.Set("User-Agent", agent)
		resp, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			_ = resp.Body.Close()
			t.Fatalf("the stream is refused: %s", resp.Status)
		}
		reading.Go(func() {
			defer func() { _ = resp.Body.Close() }()
			_, _ = io.Copy(io.Discard, resp.Body) // until it is cancelled
		})
	}
	began, before := time.Now(), d.used(t)
	harness.Eventually(t, "the time is over", func() bool { return time.Since(began) > long })
	return d.used(t) - before
}

// used is the processor time of the daemon.
func (d *daemon) used(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		t.Fatal(err)
	}
	system, err := strconv.Atoi(fields[12])
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // proc(5): 100 ticks a second on all Linuxes of berth
}
