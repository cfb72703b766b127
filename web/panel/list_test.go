package panel

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/host/account"
	"berth/host/watch/metrics"
)

// names are those of the applications of a page, in their order.
func namesOf(p page) string {
	var all []string
	for _, found := range regexp.MustCompile(`data-figures="([^"]+)"`).FindAllStringSubmatch(p.body, -1) {
		all = append(all, found[1])
	}
	return strings.Join(all, " ")
}

// linked are the addresses in a page that contain a text, as a browser follows them.
func linked(p page, part string) []string {
	var all []string
	for _, found := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(p.body, -1) {
		if to := strings.ReplaceAll(found[1], "&amp;", "&"); strings.Contains(to, part) {
			all = append(all, to)
		}
	}
	return all
}

// reached is where the program of a site that is reached listens.
var reached = netip.MustParseAddrPort("127.0.0.1:8080")

// many gives ana so many applications, each fifth a problem, with a history of a day.
func many(w *world, past *metrics.Store, n int) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	var minutes [][]app.PointOf
	for i := range n {
		id := app.ID(fmt.Sprintf("app-%04d-%08x", i, random.Uint32()))
		w.host.add(w.ana.ID, id, func(s *app.Snapshot) {
			s.Name = fmt.Sprintf("App %04d %x", i, random.Uint32())
			s.StartedAt = now.Add(-time.Duration(random.IntN(1e6)) * time.Second)
			if i%2 == 1 {
				s.Type, s.Reach = app.Site, reached
			}
			if i%5 == 4 {
				s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 1 + i%100}
			}
		})
		for m := range 24 * 6 {
			if len(minutes) <= m {
				minutes = append(minutes, nil)
			}
			minutes[m] = append(minutes[m], app.PointOf{App: id, Point: app.Point{
				At: now.Add(time.Duration(m-24*6+1) * 10 * time.Minute).Truncate(time.Minute), Step: time.Minute, Ran: time.Minute,
				Memory: float64(random.IntN(100 << 20)), MemoryMax: 100 << 20, Limit: 100 << 20, CPU: random.Float64() * 100,
			}})
		}
	}
	for m, points := range minutes {
		must(w.t, past.Append(now.Add(time.Duration(m-24*6+1)*10*time.Minute), points))
	}
}

// A table says the same as the cards, and the browser remembers which of them it wants.
func TestTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop", func(s *app.Snapshot) {
		s.Type, s.Reach, s.StartedAt, s.Starts = app.Site, reached, time.Now().Add(-time.Hour), []time.Time{time.Now(), time.Now()}
	})
	w.host.add(w.ana.ID, "evil", func(s *app.Snapshot) { s.Name = `<script>alert(1)</script>"'` })
	w.host.add(w.ana.ID, "files", func(s *app.Snapshot) { s.Type, s.Code.Lang = app.Site, app.StaticLang })
	w.host.add(w.ana.ID, "down", func(s *app.Snapshot) { s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 3} })
	w.host.add(w.bob.ID, "alien")
	add(t, w, "alien")
	must(t, onlyError(account.NewTeams(w.db.Teams).AddMember(t.Context(), w.bob.ID, "alien", w.ana.ID, []string{"logs_app"})))
	now := time.Now()
	for _, ago := range []time.Duration{3 * time.Hour, 2 * time.Hour, 90 * time.Minute} {
		must(t, w.past.Append(now.Add(-ago), []app.PointOf{{App: "shop", Point: app.Point{
			At: now.Add(-ago).Truncate(time.Minute), Step: time.Minute, Ran: time.Minute, Memory: 50 << 20, Limit: 100 << 20, CPU: 150,
		}}}))
	}
	b := w.as("ana")
	b.get("/").want(t, "the cards", http.StatusOK, `<ul class="apps"`, `name="view" value="table" aria-pressed="false"`)
	b.post("/view", "view", "table", "back", "/?show=online").leads(t, "the table", "/?show=online")
	for _, locale := range app.Locales {
		must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, locale))
		asPageShouldBe(t, "/", locale, b.get("/"))
	}
	must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, "en-US"))
	p := b.get("/")
	p.want(t, "the table", http.StatusOK, `<table role="table">`, `aria-pressed="true">Table`, "1.5 %", "50 MB", "100 MB", ">1 h</time>", "</span>2</td>",
		`href="https://shop.apps.example.org" rel="noreferrer"`, `<svg class="spark"`, `&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;`, "It ended with code 3.", "of bob")
	p.lacks(t, "the table", "<script>alert", `value="alien" form=`)
	if got := namesOf(p); got != "down evil alien files shop" {
		t.Errorf("the order is %s", got)
	}
	if curves := strings.Count(p.body, `<svg class="spark"`); curves != 2 {
		t.Errorf("%d curves", curves)
	}
	b.post("/view", "view", "<x>").leads(t, "no view", "/")
	b.get("/").want(t, "the default", http.StatusOK, `<ul class="apps"`)
}

// Columns sort all there is, both ways; what has no value comes last.
func TestSorting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := time.Now().Add(-time.Hour)
	w.host.add(w.ana.ID, "aa", func(s *app.Snapshot) { s.StartedAt, s.Starts = at, []time.Time{time.Now()} })
	w.host.add(w.ana.ID, "bb", func(s *app.Snapshot) {
		s.Type, s.Reach, s.StartedAt = app.Site, reached, at.Add(-time.Hour)
	})
	w.host.add(w.ana.ID, "cc", func(s *app.Snapshot) { s.State, s.Running = app.Stopped, false })
	b := w.as("ana")
	b.post("/view", "view", "table")
	for sort, want := range map[string]string{
		"": "aa bb cc", "name": "aa bb cc", "-name": "cc bb aa", "state": "aa bb cc", "-state": "cc aa bb", "cpu": "aa bb cc", "-ram": "aa bb cc",
		"-restarts": "aa bb cc", "restarts": "bb cc aa", "uptime": "aa bb cc", "-uptime": "bb aa cc", "address": "bb aa cc", "-address": "bb aa cc",
		"nothing": "aa bb cc", "--name": "aa bb cc",
	} {
		if got := namesOf(b.get("/?sort=" + sort)); got != want {
			t.Errorf("by %q: %s, want %s", sort, got, want)
		}
	}
	for sort, next := range map[string]string{"name": "/?sort=-name", "-name": "/?sort=name", "-cpu": "/?sort=cpu", "cpu": "/?sort=-cpu"} {
		p := b.get("/?sort=" + sort)
		sorted := map[bool]string{true: "descending", false: "ascending"}[sort[0] == '-']
		if !strings.Contains(p.body, `aria-sort="`+sorted+`"><a href="`+next+`">`) || strings.Count(p.body, `aria-sort="none"`) != 6 {
			t.Errorf("the header of %s does not lead on", sort)
		}
	}
	if got := linked(b.get("/?sort=-name&q=The&show=online"), "show=problem"); len(got) != 1 || got[0] != "/?q=The&show=problem&sort=-name" {
		t.Errorf("a tab leads to %q", got)
	}
}

func TestNatural(t *testing.T) {
	t.Parallel()
	ordered := []string{"", "1", "2", "10", "a", "a1", "a2b", "a10", "a10b", "ab", "b", "b99999999999999999999", "b100000000000000000000", "é"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := natural(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
	if natural("a01", "a1") != 0 {
		t.Error("01 is not 1")
	}
}

// packedSize is how many bytes a browser receives of a page.
func packedSize(t testing.TB, body string) int {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(body))
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

// Of many there are pages, found, sorted and with problems first over all of them, and each is small.
func TestManyApplications(t *testing.T) {
	t.Parallel()
	const most = 100_000 // bytes, compressed
	w := newWorld(t)
	many(w, w.past, 1000)
	b := w.as("ana")
	for _, view := range views {
		b.post("/view", "view", view)
		first := b.get("/")
		first.want(t, view, http.StatusOK, "1000 applications", "800 online", "200 problems", "1 to 200 of 1000", `aria-current="page">1<`)
		if rows := len(strings.Fields(namesOf(first))); rows != pageRows || strings.Count(first.body, ">Crashed<") != pageRows {
			t.Errorf("%s: %d rows, %d problems", view, rows, strings.Count(first.body, ">Crashed<"))
		}
		first.lacks(t, view, "data-sieve=")
		for _, path := range []string{"/", "/?page=2", "/?page=5", "/?page=99", "/?sort=-cpu"} {
			p := b.get(path)
			if n := packedSize(t, p.body); n > most || len(strings.Fields(namesOf(p))) != pageRows {
				t.Errorf("%s of the %s is %d bytes packed, %d not, and has %d rows", path, view, n, len(p.body), len(strings.Fields(namesOf(p))))
			} else {
				t.Logf("%s of the %s: %d bytes packed, %d not", path, view, n, len(p.body))
			}
		}
	}
	if got := linked(b.get("/?page=2&show=online"), "page="); strings.Join(got, " ") != "/?page=2&show=online /?page=3&show=online /?page=4&show=online" {
		t.Errorf("the pages are at %q", got)
	}
	found := b.get("/?q=app+0999")
	found.want(t, "one of all", http.StatusOK, "App 0999", `value="app 0999"`)
	if rows := len(strings.Fields(namesOf(found))); rows != 1 {
		t.Errorf("found %d", rows)
	}
	asked := b.get("/palette")
	if n := packedSize(t, asked.body); n > most {
		t.Errorf("what the palette finds is %d bytes packed", n)
	}
}

// A stream sends the figures of those that the page shows, and says which changes are elsewhere.
func TestLiveListOfMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many(w, w.past, pageRows+2)
	b := w.as("ana")
	p := b.get("/")
	last := strings.Fields(namesOf(b.get("/?page=2")))
	if len(last) != 2 {
		t.Fatalf("the second page has %v", last)
	}
	to := strings.ReplaceAll(streamOf(t, p), "&amp;", "&")
	if !strings.Contains(to, "shown=") || len(to) > 1500 {
		t.Errorf("the stream is at %d bytes: %.200s", len(to), to)
	}
	l := w.listen(b, to)
	l.next("begun")
	usage := &app.Usage{LimitBytes: 1}
	shown := app.ID(strings.Fields(namesOf(p))[0])
	w.publish(app.ID(last[0]), app.Event{Kind: app.MetricEvent, Usage: usage})
	w.publish(shown, app.Event{Kind: app.MetricEvent, Usage: usage})
	if f := l.next("figures"); !strings.Contains(f.data, string(shown)) {
		t.Errorf("told %s", f.data)
	}
	w.publish(app.ID(last[1]), app.Event{Kind: app.StateEvent})
	if f := l.next("elsewhere"); f.id == "" {
		t.Errorf("told %+v", f)
	}
	w.publish(shown, app.Event{Kind: app.StateEvent})
	l.next("changed")
	l.close()
	for _, wrong := range []string{"%20", "AAA", strings.Repeat("AAAA", 4*pageRows)} {
		b.get("/events?what=figures&last=0&shown="+wrong).want(t, "not so", http.StatusBadRequest)
	}
	w.host.add(w.ana.ID, "one")
	if got := shownOf([]appRow{{Snapshot: w.host.all["one"]}}); len(got) > 6 {
		t.Errorf("one is %q", got)
	}
}

// Curves are broken where the program did not run, and stay in their box.
func TestSpark(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first := now.Add(-sparkSpan)
	point := func(hour int, ran time.Duration, cpu float64) app.Point {
		return app.Point{At: first.Add(time.Duration(hour) * time.Hour), Step: time.Hour, Ran: ran, CPU: cpu}
	}
	cpu := func(p app.Point) (float64, float64) { return p.CPU, 100 }
	for name, tt := range map[string]struct {
		points []app.Point
		want   string
	}{
		"nothing":          {nil, ""},
		"one":              {[]app.Point{point(1, time.Hour, 5)}, ""},
		"two":              {[]app.Point{point(0, time.Hour, 0), point(1, time.Hour, 10)}, "M0 19L4 1"},
		"a gap":            {[]app.Point{point(0, time.Hour, 0), point(5, time.Hour, 10), point(6, 0, 0), point(7, time.Hour, 5)}, "M0 19M20 1M28 10"},
		"more than a core": {[]app.Point{point(0, time.Hour, 200), point(1, time.Hour, 100)}, "M0 1L4 10"},
		"out of the box":   {[]app.Point{point(-1, time.Hour, 1), point(30, time.Hour, 1)}, "M0 17M96 17"},
	} {
		if got := sparkOf(tt.points, first, cpu, true); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// The palette finds what the person may open and do, in their language.
func TestPalette(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	w.host.add(w.ana.ID, "evil", func(s *app.Snapshot) { s.Name = "</script><script>\u2028" })
	read := func(b *browser) (f paletteFrame) {
		t.Helper()
		p := b.get("/palette")
		if kind := p.Header.Get("Content-Type"); p.StatusCode != http.StatusOK || kind != "application/json" || strings.ContainsAny(p.body, "<>\u2028") {
			t.Errorf("%d %s: %s", p.StatusCode, kind, p.body)
		}
		must(t, json.Unmarshal([]byte(p.body), &f))
		return f
	}
	ana := read(w.as("ana"))
	if len(ana.Apps) != 3 || ana.More || len(ana.Apps[0].Tabs) != len(ana.Tabs) || len(ana.Apps[0].Deeds) != 2 || ana.Pages[len(ana.Pages)-1].URL != "/host/audit" {
		t.Errorf("ana finds %+v", ana)
	}
	must(t, w.config.Accounts.SetLocale(t.Context(), w.bob.ID, "pt-BR"))
	bob := read(w.as("bob"))
	if len(bob.Apps) != 1 || bob.Apps[0].Owner != "ana" || bob.Apps[0].Word != "Iniciando" {
		t.Fatalf("bob finds %+v", bob.Apps)
	}
	var words []string
	for _, i := range bob.Apps[0].Tabs {
		words = append(words, bob.Tabs[i].Word)
	}
	if got := strings.Join(words, " "); got != "Arquivos Backups" || len(bob.Apps[0].Deeds) != 0 || bob.Pages[len(bob.Pages)-1].URL == "/host/audit" {
		t.Errorf("bob finds %s, %+v", got, bob)
	}
	b := w.as("ana")
	for _, item := range ana.Pages {
		b.get(strings.Split(item.URL, "#")[0]).want(t, item.URL, http.StatusOK)
	}
	w.browser().get("/palette").leads(t, "a stranger", "/login?next=%2Fpalette")
}

// The single keys can be switched off, and pages of strangers have neither.
func TestKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	b.get("/account").want(t, "on", http.StatusOK, `<dialog id="palette"`, `data-keys="on"`, "Switch / and ? off")
	b.post("/keys", "keys", "off", "back", "/account").leads(t, "off", "/account")
	b.get("/account").want(t, "off", http.StatusOK, `data-keys="off"`, "Switch / and ? on")
	w.browser().get("/login").lacks(t, "a stranger", "<dialog", "palette")
}

// New sign-ins from one address are one box, which hides no other browser, and goes with what it showed.
func TestNewSignInsFromOneAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	come := func(agent, peer string) {
		other := w.browser()
		other.header["User-Agent"] = agent
		if peer != "" {
			other.base, other.peer = "http://panel.example.org", "10.0.0.1:5"
			other.header["X-Forwarded-Proto"], other.header["X-Forwarded-For"] = "https", peer
		}
		other.post("/login", "name", "ana", "password", password)
	}
	chrome := "Mozilla/5.0 (Windows NT 10.0) Chrome/120"
	come("Mozilla/5.0 (X11; Linux x86_64) Firefox/130 <b>", "")
	come(chrome, "")
	come(chrome, "")
	come(chrome, "198.51.100.9")
	p := b.get("/account")
	p.want(t, "two boxes", http.StatusOK, "3 new sign-ins from 127.0.0.1", "the newest: Chrome on Windows", "Before that, also: Firefox on Linux", "New sign-in: Chrome on Windows, from 198.51.100.9",
		`action="/account/notices/4/dismiss"`, `name="also" value="3"><input type="hidden" name="also" value="2">`)
	if n := strings.Count(p.body, `class="notice bad"`); n != 2 {
		t.Errorf("%d boxes", n)
	}
	come(chrome, "") // after the page was made
	b.post("/account/notices/4/dismiss", "also", "3", "also", "2", "also", "99", "also", "x", "back", "/account").leads(t, "dismissed", "/account")
	if act := w.acts.last(); act.Operation != "notice.dismiss" || !strings.HasPrefix(act.Detail, "notice=4 notice=3 notice=2") {
		t.Errorf("the audit log has %+v", act)
	}
	p = b.get("/account")
	p.want(t, "what came later", http.StatusOK, "New sign-in: Chrome on Windows, from 127.0.0.1", "/account/notices/6/dismiss")
	p.lacks(t, "what came later", "new sign-ins from")
}

// BenchmarkList is a page of a list of 1,000 applications, of which 800 run.
func BenchmarkList(b *testing.B) {
	w := newWorld(b)
	many(w, w.past, 1000)
	who := w.as("ana")
	for _, view := range views {
		who.post("/view", "view", view)
		for _, path := range []string{"/", "/?sort=-cpu&page=3", "/palette"} {
			b.Run(view+path, func(b *testing.B) {
				for b.Loop() {
					if p := who.get(path); p.StatusCode != http.StatusOK {
						b.Fatal(p.StatusCode)
					}
				}
			})
		}
	}
}
