package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// known is a source with so many applications that run; every second is a site.
func known(n int) Source {
	began := time.Now().Add(-time.Hour)
	var apps []app.Snapshot
	for i := range n {
		s := app.Snapshot{App: app.App{ID: app.ID(fmt.Sprint(1000 + i)), Name: "bot", RAM: 64, Wanted: app.WantOnline, LastRun: 3}, State: app.Online, Running: true}
		s.Code.Lang = "python"
		if i%2 == 1 {
			s.Type = app.Site
		}
		apps = append(apps, s)
	}
	return Source{
		Apps: func(each func(app.Snapshot, int64)) {
			for i, s := range apps {
				each(s, int64(i*1000-1))
			}
		},
		Measure: func(_ context.Context, each func(app.Measured)) {
			for _, s := range apps {
				each(app.Measured{App: s.ID, StartedAt: began, Counts: app.Counts{MemoryBytes: 5 << 20, CPU: 1500 * time.Millisecond, NetIn: 7, NetOut: 8}})
			}
		},
		Traffic: func(each func(app.ID, Traffic)) {
			for _, s := range apps {
				if s.Type == app.Site {
					each(s.ID, Traffic{Classes: [5]uint64{0, 9, 0, 1, 2}, Buckets: [len(Buckets) + 1]uint64{4, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 3}, Took: 3 * time.Second})
				}
			}
		},
		Figures: func(context.Context) Figures { return Figures{Version: "v1", Waiting: 2, Began: began} },
		Alive:   func(context.Context) error { return nil },
	}
}

func scrape(t *testing.T, h http.Handler, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// promtool runs Debian's, with an input.
func promtool(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.Command("../../test/scripts/promtool").Output()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("cannot get promtool: %v", err)
		}
		t.Skip("there is no promtool here")
	}
	cmd := exec.Command(strings.TrimSpace(string(path)), args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Every family is on the page of a host with a bot and a site, as Prometheus wants it.
func TestPage(t *testing.T) {
	m := New(known(2))
	m.Observe(app.Event{Kind: app.DeployEvent, App: "1000", Deploy: &app.DeployStep{Kind: app.DeployCommit, Phase: app.DeployBuilding}})
	m.Observe(app.Event{Kind: app.DeployEvent, App: "1000", Deploy: &app.DeployStep{Kind: app.DeployCommit, Phase: app.DeployFailed}})
	for _, e := range []app.Exit{{Code: 1}, {Code: 1}, {OOM: true}, {HostOOM: true}, {Asked: true, Code: 143}, {}, {HeapFull: app.PHPHeap, Code: 255}} {
		m.Observe(app.Event{Kind: app.ExitEvent, App: "1000", Exit: &e})
	}
	w := scrape(t, m.ServeMetrics(""), nil)
	page := w.Body.String()
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%d, %v", w.Code, w.Header())
	}
	if out, err := promtool(t, page, "check", "metrics"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	for _, f := range Families {
		if !strings.Contains(page, "\n# TYPE "+f.Name+" "+f.Type+"\n"+f.Name) && !strings.HasPrefix(page, "# HELP "+f.Name) {
			t.Errorf("the page has no %s", f.Name)
		}
	}
	for _, want := range []string{
		`berth_app_info{app="1000",name="bot",type="bot",lang="python"} 1`, `berth_app_state{app="1000",state="online"} 1`, `berth_app_state{app="1000",state="stopped"} 0`,
		`berth_app_exits_total{app="1000",reason="crashed"} 2`, `berth_app_exits_total{app="1000",reason="memory"} 2`, `berth_app_exits_total{app="1000",reason="host_memory"} 1`,
		`berth_app_exits_total{app="1000",reason="asked"} 1`, `berth_app_exits_total{app="1000",reason="ended"} 1`, `berth_app_starts_total{app="1000"} 3`,
		`berth_app_memory_limit_bytes{app="1000"} 6.7108864e+07`, `berth_app_cpu_seconds_total{app="1000"} 1.5`, `berth_app_disk_bytes{app="1001"} 999`,
		`berth_site_requests_total{app="1001",class="5xx"} 2`, `berth_site_request_duration_seconds_bucket{app="1001",le="0.005"} 4`,
		`berth_site_request_duration_seconds_bucket{app="1001",le="0.025"} 9`, `berth_site_request_duration_seconds_bucket{app="1001",le="+Inf"} 12`,
		`berth_site_request_duration_seconds_sum{app="1001"} 3`, `berth_site_request_duration_seconds_count{app="1001"} 12`,
		`berth_deploys_total{kind="commit",result="failed"} 1`, `berth_builds_total 1`, `berth_notifications{state="waiting"} 2`, `berth_apps 2`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, `berth_app_disk_bytes{app="1000"}`) {
		t.Error("a size that nobody knows")
	}
	m.Observe(app.Event{Kind: app.RemovedEvent, App: "1000"})
	if len(m.exits) != 0 {
		t.Errorf("left: %v", m.exits)
	}
}

// A name that an owner chose ends no line and no label.
func TestHostileNames(t *testing.T) {
	s := known(1)
	s.Apps = func(each func(app.Snapshot, int64)) {
		for n, name := range []string{"a\"} 1\nberth_apps 99\n", `back\slash`, "\xff\xfe", "# HELP x", "é 🔴"} {
			each(app.Snapshot{App: app.App{ID: app.ID(fmt.Sprint(n)), Name: name}}, 0)
		}
	}
	page := scrape(t, New(s).ServeMetrics(""), nil).Body.String()
	if out, err := promtool(t, page, "check", "metrics"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	for _, want := range []string{`name="a\"} 1\nberth_apps 99\n"`, `name="back\\slash"`, "name=\"�\"", `name="é 🔴"`, "\nberth_apps 5\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// There are figures of so many applications, and no more.
func TestPageIsBounded(t *testing.T) {
	page := scrape(t, New(known(MostApps+7)).ServeMetrics(""), nil).Body.String()
	if n := strings.Count(page, "\nberth_app_wanted{"); n != MostApps {
		t.Errorf("%d applications", n)
	}
	if n := strings.Count(page, "\nberth_app_cpu_seconds_total{"); n != MostApps || !strings.Contains(page, fmt.Sprintf("\nberth_apps %d\n", MostApps+7)) {
		t.Errorf("%d measured", n)
	}
	if strings.Contains(page, `app="3001"`) {
		t.Error("traffic of an application without other figures")
	}
}

// Without the token nobody reads anything, and with it nobody changes anything.
func TestScrapeToken(t *testing.T) {
	h := New(known(1)).ServeMetrics("a-token-that-nobody-guesses")
	for what, c := range map[string]struct {
		header, method string
		want           int
	}{
		"without one":  {"", "GET", 401},
		"a wrong one":  {"Bearer a-token-that-nobody-guesseS", "GET", 401},
		"a part of it": {"Bearer a-token", "GET", 401},
		"as a user":    {"Basic YS10b2tlbg==", "GET", 401},
		"the right":    {"Bearer a-token-that-nobody-guesses", "GET", 200},
		"to write":     {"Bearer a-token-that-nobody-guesses", "POST", 405},
	} {
		w := scrape(t, h, func(r *http.Request) { r.Method = c.method; r.Header.Set("Authorization", c.header) })
		if w.Code != c.want || (c.want == 401) != (w.Header().Get("WWW-Authenticate") != "") || c.want != 200 && strings.Contains(w.Body.String(), "berth_") {
			t.Errorf("%s: %d %v", what, w.Code, w.Header())
		}
	}
}

// Whether berth works is asked once a second at most, and answered without a detail.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, err := 0, error(nil)
		s := known(1)
		s.Alive = func(context.Context) error { asked++; return err }
		h := New(s).ServeHealth()
		for range 5 {
			if w := scrape(t, h, nil); w.Code != 200 || w.Body.String() != "ok\n" {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		err = errors.New("the secret of the database")
		time.Sleep(fresh)
		for range 5 {
			if w := scrape(t, h, nil); w.Code != 503 || w.Body.String() != "unavailable\n" {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// The alerts fire when they should, and no alert and no picture asks for what there is not.
func TestAlertsAndDashboard(t *testing.T) {
	if out, err := promtool(t, "", "check", "rules", "../../deploy/alerts.yml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := promtool(t, "", "test", "rules", filepath.Join("testdata", "alerts_test.yml")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	tried, err := os.ReadFile(filepath.Join("testdata", "alerts_test.yml"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../../deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(rules, -1) {
		if !strings.Contains(string(tried), "alertname: "+string(found[1])) {
			t.Errorf("nobody tries %s", found[1])
		}
	}
	dashboard, err := os.ReadFile("../../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var panels struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(dashboard, &panels); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\b(berth|process|go)_[a-z_]+\b`)
	asked := name.FindAllString(string(rules), -1)
	for _, p := range panels.Panels {
		for _, target := range p.Targets {
			asked = append(asked, name.FindAllString(target.Expr, -1)...)
			// As Grafana asks it, with its variables filled in.
			expr := strings.NewReplacer("$__rate_interval", "5m", "$app", ".*").Replace(target.Expr)
			rule := "groups: [{name: x, rules: [{record: x, expr: " + string(quoted(t, expr)) + "}]}]\n"
			file := filepath.Join(t.TempDir(), "rule.yml")
			if err := os.WriteFile(file, []byte(rule), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := promtool(t, "", "check", "rules", file); err != nil {
				t.Errorf("%s: %s\n%s", p.Title, target.Expr, out)
			}
		}
	}
	if len(panels.Panels) < 8 || len(asked) < 20 {
		t.Errorf("%d pictures, %d metrics asked for", len(panels.Panels), len(asked))
	}
	for _, metric := range asked {
		if !slices.ContainsFunc(Families, func(f Family) bool {
			return metric == f.Name || f.Type == "histogram" && slices.Contains([]string{"_bucket", "_sum", "_count"}, strings.TrimPrefix(metric, f.Name))
		}) {
			t.Errorf("there is no metric %s", metric)
		}
	}
}

func quoted(t *testing.T, s string) []byte {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// BenchmarkScrape200 makes the page of 200 programs that run, without what the kernel is asked for.
func BenchmarkScrape200(b *testing.B) {
	m := New(known(200))
	for b.Loop() {
		if len(m.write(b.Context())) < 100000 {
			b.Fatal("the page is short")
		}
	}
}
