package panel

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/host/account"
)

func TestRaiseTo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ fit, ram, most, want app.MB }{
		"what fits":                   {192, 100, 4000, 192},
		"no change is advised":        {100, 100, 4000, 0},
		"what the account has left":   {512, 300, 350, 320},
		"less than a step is left":    {512, 300, 319, 0},
		"nothing is left":             {512, 300, 300, 0},
		"less than it has":            {512, 300, 100, 0},
		"a host that is too full":     {512, 300, -50, 0},
		"the least that there can be": {32, 1, 40, 32},
	} {
		if got := raiseTo(app.RightSize{RAM: tt.ram, Fit: tt.fit}, tt.most); got != tt.want {
			t.Errorf("%s: %d MB, want %d", name, got, tt.want)
		}
	}
}

// ended makes the records know how a run ended.
func (w *world) ended(id app.ID, e app.Exit) {
	w.t.Helper()
	if e.At.IsZero() {
		e.At = time.Now()
	}
	must(w.t, w.db.Apps.RunEnded(w.t.Context(), id, e))
}

// change changes what the host shows of an application.
func (w *world) change(id app.ID, change func(*app.Snapshot)) {
	s, _ := w.host.Find(id)
	w.host.add(s.Account, id, func(to *app.Snapshot) { *to = s; change(to) })
}

func (w *world) killed(id app.ID, runs ...int) {
	w.t.Helper()
	e := app.Exit{Code: 137, Signal: 9, OOM: true, LimitMB: 100, PeakBytes: 100 << 20, Ran: 3 * time.Minute}
	for _, run := range runs {
		e.Run = run
		w.ended(id, e)
	}
	w.change(id, func(s *app.Snapshot) { s.State, s.Running, s.LastExit = app.Stopped, false, &e })
}

// One click gives what was killed more RAM, and starts it.
func TestRaise(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	b := w.as("ana")
	b.get("/apps/shop").lacks(t, "before", "for lack of memory")
	w.killed("shop", 1)
	p := b.get("/apps/shop")
	p.want(t, "once", http.StatusOK, "Killed 1 time in 24 h for lack of memory.", "Peak 100 MB of 100 MB.", "Raise RAM to 192 MB and start", `name="ram" value="192"`,
		"It needed more than its 100 MB of RAM. Its peak was 100 MB. It stays so until somebody starts it.")
	w.killed("shop", 2, 3)
	b.get("/apps/shop").want(t, "often", http.StatusOK, "Killed 3 times in 24 h for lack of memory.", "Raise RAM to 192 MB and start")
	next := b.post("/apps/shop/raise", "ram", "160").leads(t, "raise", "/apps/shop")
	if got := strings.Join(w.host.done, ", "); got != "ram 160 shop, start shop" {
		t.Errorf("done: %s", got)
	}
	if act := w.acts.last(); act.Operation != "app.ram" || act.Detail != "ram=160 and started" || act.App != "shop" {
		t.Errorf("the audit log has %+v", act)
	}
	p = b.get(next)
	p.want(t, "after", http.StatusOK, "The shop has 160 MB of RAM now, and was started.")
	p.lacks(t, "after", "for lack of memory")

	w.change("shop", func(s *app.Snapshot) { s.RAM, s.State, s.Running = 100, app.Online, true })
	b.post("/apps/shop/raise", "ram", "160").leads(t, "while it runs", "/apps/shop")
	w.change("shop", func(s *app.Snapshot) { s.RAM, s.State, s.Running = 100, app.Waiting, false })
	b.post("/apps/shop/raise", "ram", "160").leads(t, "while it waits", "/apps/shop")
	if got := strings.Join(w.host.done[2:], ", "); got != "ram 160 shop, ram 160 shop, restart shop" {
		t.Errorf("done: %s", got)
	}
}

func TestRaiseIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	w.killed("shop", 1)
	b := w.as("ana")
	b.post("/apps/shop/raise", "ram", "much", "back", "/apps/shop").want(t, "no number", http.StatusBadRequest, "The RAM must be a number of MB.", "for lack of memory")
	w.host.fail = app.Errorf(app.Exhausted, "the account has 2048 MB, 2048 MB are assigned; 128 MB more do not fit")
	b.post("/apps/shop/raise", "ram", "128", "back", "/apps/shop").want(t, "no room", http.StatusUnprocessableEntity, "128 MB more do not fit.", "for lack of memory")
	b.post("/apps/shop/start", "back", "/apps/shop").want(t, "a button of the page", http.StatusUnprocessableEntity, "do not fit.", "for lack of memory")
	w.host.fail = nil
	w.host.add(w.ana.ID, "rest", func(s *app.Snapshot) { s.RAM = 1948 })
	p := b.get("/apps/shop")
	p.want(t, "a full account", http.StatusOK, "There is no RAM left to give it")
	p.lacks(t, "a full account", "/raise")

	teams := account.NewTeams(w.db.Teams)
	must(t, onlyError(teams.AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"status_app"})))
	delete(w.host.all, "rest")
	bob := w.as("bob")
	p = bob.get("/apps/shop")
	p.want(t, "a member", http.StatusOK, "of ana", "192 MB might be enough; its owner can set that.")
	p.lacks(t, "a member", "/raise", `href="/apps/shop/logs"`, `href="/apps/shop/deploys"`, `href="/apps/shop/settings"`)
	bob.post("/apps/shop/raise", "ram", "128").want(t, "a member's", http.StatusForbidden, "edit_ram")
	must(t, onlyError(teams.SetMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"edit_ram"})))
	bob.get("/apps/shop").want(t, "without status_app", http.StatusForbidden, "status_app")
	bob.post("/apps/shop/raise", "ram", "128").leads(t, "with edit_ram", "/")
	if got := strings.Join(w.host.done, ", "); got != "ram 128 shop" { // not started: that is another permission
		t.Errorf("done: %s", got)
	}
}

// remember writes a history of days, hour by hour, in which a program used so much.
func (w *world) remember(id app.ID, days int, use, limit app.MB) {
	w.t.Helper()
	now := time.Now()
	for at := now.AddDate(0, 0, -days).Truncate(time.Hour).Add(time.Hour); at.Before(now.Add(-time.Hour)); at = at.Add(time.Hour) {
		point := app.Point{At: at, Ran: time.Minute, Memory: float64(use.Bytes()), MemoryMax: float64(use.Bytes()), Limit: float64(limit.Bytes())}
		must(w.t, w.past.Append(at.Add(time.Hour), []app.PointOf{{App: id, Point: point}}))
	}
}

// The overview says which RAM fits, and one click sets it.
func TestRightSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop", func(s *app.Snapshot) { s.RAM = 512 })
	add(t, w, "shop")
	b := w.as("ana")
	p := b.get("/apps/shop")
	p.want(t, "at first", http.StatusOK, "It was not measured with its 512 MB yet: berth can say which RAM fits after 7 days.")
	p.lacks(t, "at first", "Set RAM to")
	w.remember("shop", 9, 59, 512)
	p = b.get("/apps/shop")
	p.want(t, "too much", http.StatusOK, "It peaked at 59 of 512 MB in 9 days: 96 MB are enough.", "Set RAM to 96 MB", `action="/apps/shop/ram"`)

	teams := account.NewTeams(w.db.Teams)
	must(t, onlyError(teams.AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"status_app"})))
	p = w.as("bob").get("/apps/shop")
	p.want(t, "a member", http.StatusOK, "96 MB are enough.")
	p.lacks(t, "a member", "Set RAM to")

	next := b.post("/apps/shop/ram", "ram", "96", "back", "/apps/shop").leads(t, "the button", "/apps/shop")
	p = b.get(next)
	p.want(t, "after", http.StatusOK, "It peaked at 59 of 96 MB in 9 days: that is the right size.")
	p.lacks(t, "after", "Set RAM to")

	w.ended("shop", app.Exit{Run: 1, At: time.Now().Add(-48 * time.Hour), Code: 137, OOM: true, LimitMB: 96, Ran: time.Minute})
	b.get("/apps/shop").want(t, "killed, but not today", http.StatusOK,
		"It ran out of its RAM once in 7 days and needed more than 96 MB: give it 128 MB.", "Set RAM to 128 MB", `action="/apps/shop/raise"`)

	w.change("shop", func(s *app.Snapshot) { s.Code.Lang, s.Code.Start = app.StaticLang, "" })
	b.get("/apps/shop").lacks(t, "files alone", "Set RAM to", "needs no RAM")
}

// More RAM is not offered to what climbs until it is killed, with any.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop", func(s *app.Snapshot) { s.RAM = 192 })
	add(t, w, "shop")
	now := time.Now()
	points := []app.PointOf{}
	for i := range 8 * 24 { // in the eight hours until an hour ago
		at, use := now.Add(-9*time.Hour+time.Duration(i)*150*time.Second), float64(100+i/3)*(1<<20)
		points = append(points, app.PointOf{App: "shop", Point: app.Point{At: at, Ran: time.Minute, Memory: use, MemoryMax: use, Limit: 192 << 20}})
	}
	must(t, w.past.Append(now, points))
	w.ended("shop", app.Exit{Run: 1, At: now.Add(-30 * time.Hour), Code: 137, OOM: true, LimitMB: 128, Ran: 5 * time.Hour})
	w.ended("shop", app.Exit{Run: 2, At: now.Add(-time.Hour), Code: 137, OOM: true, LimitMB: 192, PeakBytes: 192 << 20, Ran: 8 * time.Hour})
	p := w.as("ana").get("/apps/shop")
	p.want(t, "a leak", http.StatusOK, "Killed 1 time in 24 h for lack of memory.", "more RAM would put the next kill off.", "Look for what it keeps.")
	p.lacks(t, "a leak", "Raise RAM", "Set RAM to", "There is no RAM left")
}

// The overview says why an application is as it is, and what comes next.
func TestWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id, tt := range map[app.ID]struct {
		change func(*app.Snapshot)
		want   string
	}{
		"retries": {func(s *app.Snapshot) {
			s.State, s.Running, s.Attempt, s.RetryAt, s.LastExit = app.Waiting, false, 5, time.Now().Add(64500*time.Millisecond), &app.Exit{Code: 1}
		}, "It ended with code 1. It restarts in 1 min (attempt 5)."},
		"crashed": {func(s *app.Snapshot) {
			s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 139, Signal: 11, At: time.Now()}
		}, "It ended with code 139 (signal 11). It stays so until somebody starts it."},
		"through": {func(s *app.Snapshot) {
			s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{At: time.Now()}
		}, "It ended by itself, without an error. It stays so until somebody starts it."},
		"unseen": {func(s *app.Snapshot) {
			s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: app.UnknownCode, At: time.Now()}
		}, "It ended, and berth did not see how."},
		"stale": {func(s *app.Snapshot) {
			s.Stale = app.Textf("its machine does not answer")
		}, "It was online when this host heard of it last: its machine does not answer."},
		"queued": {func(s *app.Snapshot) { s.State, s.Running, s.Position = app.Preparing, false, 2 }, "it is number 2 in the queue."},
		"stopped": {func(s *app.Snapshot) {
			s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 143, Asked: true, At: time.Now()}
		}, "It was stopped by bob (laptop)."},
		"by-none": {func(s *app.Snapshot) {
			s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 143, Asked: true, At: time.Now()}
		}, "It was stopped."},
	} {
		w.host.add(w.ana.ID, id, tt.change)
		add(t, w, id)
		must(t, w.db.Audit.Record(t.Context(), app.AuditRecord{At: time.Now(), Actor: w.bob.ID, Name: "bob", Label: "laptop", Operation: "app.stop", App: "stopped", Status: 200},
			app.AuditRecord{At: time.Now(), Name: "eve", Operation: "app.stop", App: "stopped", Status: 403, Refusal: "You may not."}))
		w.as("ana").get("/apps/"+string(id)).want(t, string(id), http.StatusOK, tt.want)
	}
	p := w.as("bob").get("/apps/crashed")
	p.want(t, "another's", http.StatusNotFound)
}

// Events are told in words, with who sent what.
func TestHappenings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	for _, h := range []app.HistoryEvent{
		{Kind: app.HistoryDeploy, Deploy: app.DeployCommit, By: w.bob.ID, Text: "package-lock.json is missing"},
		{Kind: app.HistoryDeploy, Deploy: app.DeployRollback, By: w.ana.ID},
		{Kind: app.HistoryFailure, Deploy: app.DeployCommit, By: 77, Text: "npm ci failed <b>"},
		{Kind: app.HistoryRefusal, Text: "the host has no node"},
		{Kind: app.HistoryMemory, Memory: &app.MemoryWarning{Run: 1, Level: 80, HeldBytes: 52 << 20, LimitBytes: 64 << 20}},
		{Kind: app.HistoryMemory, Memory: &app.MemoryWarning{Run: 1, Level: 90, HeldBytes: 58 << 20, LimitBytes: 64 << 20, FullIn: 4 * time.Minute}},
	} {
		must(t, w.db.History.AddHistoryEvent(t.Context(), "shop", h))
	}
	w.ended("shop", app.Exit{Run: 1, Code: 3, Ran: 90 * time.Second})
	w.ended("shop", app.Exit{Run: 2, Code: 143, Signal: 15, Asked: true, Ran: time.Hour})
	w.ended("shop", app.Exit{Run: 3, Code: 137, OOM: true, LimitMB: 64, PeakBytes: 64 << 20, Ran: 2 * time.Second})
	b := w.as("ana")
	b.get("/apps/shop").want(t, "events", http.StatusOK, "It was uploaded", "New code was deployed", "by bob", "package-lock.json is missing",
		"Earlier code was brought back", "by ana", "New code could not be deployed; the application keeps its code", "by account 77", "npm ci failed &lt;b&gt;",
		"It could not be started", "the host has no node", "Its RAM was 80 % full", "it needed 52 MB of 64 MB",
		"Its RAM was 90 % full", "it needed 58 MB of 64 MB, and would have needed all in 4 min", "It ended with code 3", "after 1 min", "It was stopped", "after 1 h",
		"It needed more than its 64 MB of RAM", "peak 64 MB, after 2 s")
}

func TestHappeningWords(t *testing.T) {
	t.Parallel()
	for _, locale := range app.Locales {
		l := text.In(locale)
		seen := map[string]bool{}
		for _, k := range []app.DeployKind{app.DeployUpload, app.DeployCommit, app.DeployRestore, app.DeployRollback} {
			seen[deployWord(l, k)] = true
			seen[failureWord(l, k)] = true
		}
		if len(seen) != 7 { // an upload that failed leaves no application
			t.Errorf("in %s there are %d sentences: %v", locale, len(seen), seen)
		}
	}
}

// Charts have a summary and a table, and columns for the script.
func TestCharts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	b := w.as("ana")
	w.change("shop", func(s *app.Snapshot) { s.State, s.Running = app.Stopped, false })
	b.get("/apps/shop").want(t, "nothing known", http.StatusOK, "Nothing is known of this time.")
	w.change("shop", func(s *app.Snapshot) { s.State, s.Running = app.Online, true })
	p := b.get("/apps/shop") // before its first minute is over: the stream of the page draws them
	p.want(t, "fresh", http.StatusOK, `data-plot="ram"`, `data-plot="cpu"`)
	p.lacks(t, "fresh", `data-plot="net"`, "Nothing is known of this time.")
	const mb = 1 << 20
	now := time.Now().UTC().Truncate(time.Minute)
	point := func(ago time.Duration, ram, cpu float64, m app.Marks) app.PointOf {
		return app.PointOf{App: "shop", Point: app.Point{At: now.Add(-ago), Step: time.Minute, Ran: time.Minute, Memory: ram * mb, MemoryMax: (ram + 1) * mb, Limit: 100 * mb, CPU: cpu, CPUMax: cpu + 1, Marks: m}}
	}
	must(t, w.past.Append(time.Now(), []app.PointOf{
		point(20*time.Minute, 90, 5, app.Marks{OOMs: 1, Exits: 1}), point(19*time.Minute, 40, 30, app.Marks{Starts: 1}), point(10*time.Minute, 45, 8, app.Marks{Deploys: 1}),
	}))
	p = b.get("/apps/shop")
	p.want(t, "the hour", http.StatusOK, `now <span data-word="ram-now">50 MB</span>`, "<span>91 MB</span>", now.Add(-20*time.Minute).Format("15:04")+" UTC", "limit 100 MB", "killed 1 time",
		"<span>31.0 %</span>", "<details>", "<td>45 MB</td>", "out of memory", "new code", `data-plot="ram"`, `data-url="/apps/shop/plot?range=1h"`)
	b.get("/apps/shop?range=7d").want(t, "the week", http.StatusOK, `data-url="/apps/shop/plot?range=7d"`, `href="/apps/shop?range=7d" aria-current="true"`)
	b.get("/apps/shop?range=9y").want(t, "no such stretch", http.StatusOK, `range=1h" aria-current="true"`)

	got := b.get("/apps/shop/plot?range=1h")
	var columns plot
	must(t, json.Unmarshal([]byte(got.body), &columns))
	n := len(columns.At)
	if got.Header.Get("Content-Type") != "application/json" || n != 5 {
		t.Fatalf("%v %s", got.Header, got.body)
	}
	for i, column := range columns.columns() {
		if len(*column) != n {
			t.Errorf("column %d has %d values", i, len(*column))
		}
	}
	if *columns.RAM[0] != 90 || *columns.Most[0] != 91 || *columns.Limit[0] != 100 || *columns.CPU[1] != 30 || columns.RAM[2] != nil || columns.RAM[3] != nil || *columns.RAM[4] != 45 {
		t.Errorf("the columns are %s", got.body)
	}
	if len(columns.Kills) != 1 || columns.Kills[0] != now.Add(-20*time.Minute).Unix() || columns.To-columns.From != 3600 {
		t.Errorf("marks and bounds are %s", got.body)
	}
	if head := b.ask(http.MethodHead, "/apps/shop/plot", nil); head.StatusCode != http.StatusOK || head.body != "" {
		t.Errorf("HEAD: %d %q", head.StatusCode, head.body)
	}
	w.as("bob").get("/apps/shop/plot").want(t, "another's", http.StatusNotFound)
}

// Charts of a site tell what it answered; also of one that has no program.
func TestChartsOfASite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	w.change("shop", func(s *app.Snapshot) { s.State, s.Running = app.Stopped, false })
	now := time.Now().UTC().Truncate(time.Minute)
	answers := app.Answers{Classes: [5]uint64{1, 89, 20, 8, 2}, Took: [12]uint64{0: 60, 3: 58, 11: 1}}
	must(t, w.past.Append(time.Now(), []app.PointOf{{App: "shop", Point: app.Point{At: now.Add(-9 * time.Minute), Step: time.Minute, Answers: answers}}}))
	b := w.as("ana")
	p := b.get("/apps/shop?range=30d")
	p.want(t, "a site of files", http.StatusOK, `data-plot="answers"`, `data-plot="p95"`, "120: ", `2xx</span> 90`, `5xx</span> 2`, "95 % came within", "2 a minute", `range=30d" aria-current="true"`, "<td>90</td><td>20</td><td>8</td><td>2</td>")
	p.lacks(t, "a site of files", `data-plot="ram"`, `data-plot="starts"`)
	var columns plot
	must(t, json.Unmarshal([]byte(b.get("/apps/shop/plot").body), &columns))
	if n := len(columns.At); n != 1 || *columns.Groups[0][0] != 90 || *columns.Groups[3][0] != 2 || columns.RAM[0] != nil || *columns.P95[0] < 25 || *columns.P95[0] > 50 {
		t.Errorf("%+v", columns)
	}
	for d, want := range map[time.Duration]string{time.Microsecond: "1 ms", 120 * time.Millisecond: "120 ms", 1500 * time.Millisecond: "1.5 s", 10 * time.Second: "more than 10 s"} {
		if got := lasting(text.Language{}, d); got != want {
			t.Errorf("%s is %q", d, got)
		}
	}
}

// The page of the host has charts of the host, for administrators alone.
func TestChartsOfTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Admin = true; return nil })))
	b := w.as("ana")
	b.get("/host").want(t, "nothing known", http.StatusOK, "Nothing is known of this time. berth measures the host")
	now := time.Now().UTC().Truncate(time.Minute)
	must(t, w.past.Append(time.Now(), []app.PointOf{{App: app.HostHistory, Point: app.Point{
		At: now.Add(-9 * time.Minute), Step: time.Minute, Ran: time.Minute, Memory: 3 << 30, MemoryMax: 3 << 30, Limit: 8 << 30, CPU: 12.5, CPUMax: 12.5,
		NetIn: 60 << 10, NetOut: 120 << 10, Disk: 7 << 30,
	}}}))
	b.get("/host?range=24h").want(t, "known", http.StatusOK, `data-url="/host/plot?range=24h"`, `data-plot="net"`, "12.5 %", "3 GB", "7 GB", "received: peak 1 KB a second", "sent: peak 2 KB a second")
	b.get("/host/plot").want(t, "its points", http.StatusOK, `"ram":[3072]`, `"disk":[7168]`, `"in":[1024]`)
	w.as("bob").get("/host/plot").want(t, "another's", http.StatusNotFound)
}

// Where nothing was measured between two points there is no line, and nobody was answered.
func TestPlotOfAPause(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000000020, 0)
	point := func(minute int) app.Point {
		return app.Point{At: at.Add(time.Duration(minute) * time.Minute), Step: time.Minute, Ran: time.Minute, Memory: 1, Disk: 1 << 20, Answers: app.Answers{Classes: [5]uint64{1: 3}}}
	}
	p := plotOf([]app.Point{point(0), point(1), point(3), point(9)}, at, at.Add(time.Hour))
	shown := ""
	for i := range p.At {
		switch {
		case p.CPU[i] == nil && *p.Groups[0][i] == 0 && p.Disk[i] == nil:
			shown += "."
		case p.CPU[i] != nil && *p.Groups[0][i] == 3 && *p.Disk[i] == 1:
			shown += "-"
		default:
			shown += "?"
		}
	}
	if shown != "--.-..-" {
		t.Errorf("%s at %v", shown, p.At)
	}
}

// A run between two samples has a peak all the same: it was killed.
func TestPlotOfAKillBetweenSamples(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000000020, 0)
	p := plotOf([]app.Point{{At: at, Step: time.Minute, MemoryMax: 64 << 20, Limit: 64 << 20, Marks: app.Marks{OOMs: 1}}}, at.Add(-time.Hour), at)
	if p.RAM[0] != nil || p.Most[0] == nil || *p.Most[0] != 64 || *p.Limit[0] != 64 || len(p.Kills) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestDeploysAndRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	keep := func(all []app.Deploy) []app.Deploy { return all }
	must(t, onlyError(w.db.History.AddDeploy(t.Context(), "shop", app.Deploy{By: w.bob.ID, Kind: app.DeployCommit, Bytes: 2048, Note: "left out: .git", Code: app.Code{Main: "x.js"}, Journal: "j"}, nil, nil, nil, keep)))
	b := w.as("ana")
	p := b.get("/apps/shop/deploys")
	p.want(t, "the list", http.StatusOK, "#2 New code was deployed", "current</span>", "by bob", "2 KB of ZIP", "left out: .git", "x.js", "#1 It was uploaded", "Roll back to #1", "/apps/shop/deploys/1/rollback")
	p.lacks(t, "the list", "/deploys/2/rollback")
	next := b.post("/apps/shop/deploys/1/rollback").leads(t, "back", "/apps/shop/deploys")
	b.get(next).want(t, "after", http.StatusOK, "The code of deploy 1 is back.")
	if act := w.acts.last(); len(w.host.done) != 1 || w.host.done[0] != "rollback 1 by 1 shop" || act.Operation != "app.rollback" || act.Detail != "deploy=1" {
		t.Errorf("done %v, audit %+v", w.host.done, act)
	}
	for _, number := range []string{"0", "-1", "x", "99999999999"} {
		b.post("/apps/shop/deploys/"+number+"/rollback").want(t, number, http.StatusNotFound, "There is no such deploy.", "#1 It was uploaded")
	}
	w.host.fail = app.Errorf(app.Already, "deploy 2 is the one that the application has now")
	b.post("/apps/shop/deploys/2/rollback").want(t, "the newest", http.StatusConflict, "Deploy 2 is the one that the application has now.", "#1 It was uploaded")
	must(t, onlyError(account.NewTeams(w.db.Teams).AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, app.AllPermissions.Names())))
	bob := w.as("bob")
	bob.get("/apps/shop/deploys").want(t, "a member", http.StatusNotFound)
	bob.post("/apps/shop/deploys/1/rollback").want(t, "a member", http.StatusNotFound)
}

// The list shows what the address asks for.
func TestListOfSome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	w.host.add(w.ana.ID, "blog", func(s *app.Snapshot) {
		s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 1}
	})
	w.host.add(w.ana.ID, "rest", func(s *app.Snapshot) { s.State, s.Running = app.Stopped, false })
	b := w.as("ana")
	for query, want := range map[string]string{
		"": "blog shop rest", "?show=online": "shop", "?show=problem": "blog", "?show=nonsense": "blog shop rest",
		"?q=THE+S": "shop", "?q=o&show=problem": "blog", "?q=%25": "",
	} {
		p := b.get("/" + query)
		p.want(t, query, http.StatusOK, "3 applications", "1 online", "1 problem")
		for _, id := range []string{"shop", "blog", "rest"} {
			if strings.Contains(p.body, `href="/apps/`+id+`"`) != strings.Contains(want, id) {
				t.Errorf("%q: shows %s: %v", query, id, !strings.Contains(want, id))
			}
		}
		if want == "" {
			p.want(t, query, http.StatusOK, "None of your applications is one of these.")
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 14, 2, 0, 0, time.UTC)
	for since, want := range map[time.Duration][]string{time.Hour: {"14:02", "14:02", "14:02"}, 30 * time.Hour: {"2026-11-20 14:02", "20/11/2026 14:02", "20/11/2026 14:02"}} {
		for i, locale := range app.Locales {
			if got := clock(text.In(locale), at, since); got != want[i] {
				t.Errorf("after %v in %s: %q, want %q", since, locale, got, want[i])
			}
		}
	}
}

// Where visitors find a site, and one that listens nowhere is no good sight.
func TestSiteOfItsVisitors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	site := func(change ...func(*app.Snapshot)) []func(*app.Snapshot) {
		return append([]func(*app.Snapshot){func(s *app.Snapshot) { s.Type = app.Site }}, change...)
	}
	reached := func(s *app.Snapshot) { s.Reach = netip.MustParseAddrPort("127.0.0.1:20001") }
	w.host.add(w.ana.ID, "shop", site(reached)...)
	w.host.add(w.ana.ID, "else", site(reached, func(s *app.Snapshot) { s.Elsewhere = 3000 })...)
	w.host.add(w.ana.ID, "early", site()...)
	w.host.add(w.ana.ID, "quiet", site(func(s *app.Snapshot) {
		s.Silent, s.Why = true, app.Textf("its program has opened no port: listen on process.env.PORT, or on 8080, at all addresses (0.0.0.0)")
	})...)
	w.host.add(w.ana.ID, "lost", site(reached)...)
	w.host.add(w.ana.ID, "bot")
	for _, id := range []string{"shop", "else", "early", "quiet", "lost", "bot"} {
		add(t, w, app.ID(id))
	}
	b := w.as("ana")
	const link = `<a href="https://shop.apps.example.org" rel="noreferrer">https://shop.apps.example.org</a>`
	for id, says := range map[string][]string{
		"shop":  {"Online", link, `<a href="https://www.example.org"`},
		"else":  {"Online", "<dt>Port</dt><dd>3000</dd>"},
		"early": {"Starting", "It runs, and has opened no port for visitors yet."},
		"quiet": {"Not listening", "Its program has opened no port: listen on process.env.PORT, or on 8080, at all addresses (0.0.0.0)."},
		"lost":  {"Online", "This host serves no sites: its administrator sets proxy.mode and proxy.domain, or leads another web server to the program"},
		"bot":   {"Online"},
	} {
		b.get("/apps/"+id).want(t, id, http.StatusOK, says...)
	}
	b.get("/apps/bot").lacks(t, "a bot", "apps.example.org", "<dt>Port</dt>")
	b.get("/apps/shop").lacks(t, "on its own port", "<dt>Port</dt>")
	b.get("/").want(t, "the list", http.StatusOK, link, "4 online", "1 problem", "Its program has opened no port")
	b.get("/?show=problem").lacks(t, "the problems", "The shop", "The early")
}
