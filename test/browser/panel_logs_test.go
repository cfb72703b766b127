package browser

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"berth/app"
	"berth/host/watch/metrics"
)

// talker is a program that prints a line of each level, hostile ones among them, again and again.
const talker = `let n = 0;
setInterval(() => {
  n++;
  console.log("plain", n);
  console.log(JSON.stringify({ level: 30, msg: "of pino", n }));
  console.log("WARN slow", n);
  console.log("[ERROR] it failed <img src=x onerror=alert(1)>", n);
  console.log("    at its trace", n);
  console.log("[berth] I am not berth", n);
}, 300);
`

// rows counts lines of the log that match a selector.
func rows(p *tab, selector string) int {
	return eval[int](p, `document.querySelectorAll("#log > `+selector+`").length`)
}

// A log is filtered by level and time, by mouse and by keyboard, while it goes on; what happens
// appears between the lines.
func TestPanelFiltersALog(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	id := d.upload(map[string]string{"discloud.config": bot("Greeter", 100), "index.js": talker})
	at := d.Base + "/apps/" + id + "/logs"
	p := d.visitor()
	p.open(at, 200)
	p.until(`document.querySelectorAll("#log > .error").length > 1 && document.querySelector("#log > .day") && document.querySelector("#log > .warn .level").innerText.includes("W")`)
	p.looked(axe, "logs-levels")
	if got := eval[string](p, `[...document.querySelectorAll("#log > .own")].map((e) => e.innerText).join()`); strings.Contains(got, "I am not berth") {
		t.Errorf("a program speaks as berth: %s", got)
	}

	p.choose("#level", "error")
	p.follow(func() { p.press(".log-filter button", "Show") })
	if got := p.address(); !strings.HasSuffix(got, "?of=program&level=error") {
		t.Errorf("the address is %s", got)
	}
	p.streaming()
	before := rows(p, ".error")
	p.until(`document.querySelectorAll("#log > .error").length > ` + strconv.Itoa(before+2))
	if n := rows(p, ":is(.warn, .info, .own)"); n != 0 {
		t.Errorf("%d other lines are among the errors", n)
	}
	if got := eval[string](p, `document.querySelector("#log").innerText`); !strings.Contains(got, "at its trace") || strings.Contains(got, "plain") {
		t.Errorf("the log shows %.400s", got)
	}
	d.put("/app/"+id+"/restart", "")
	p.until(`document.querySelector("#log > .mark")`)

	// What the filter has found stays when a stream begins anew with other lines, as in a tab that was hidden for long.
	found := rows(p, ".error")
	anew := `document.dispatchEvent(new CustomEvent("live:lines", {detail: {fresh: true, html: '<div><time datetime="2026-01-01T00:00:00Z"></time> <span>of the stream</span></div>'}}))`
	eval[bool](p, `(performance.now = () => 1000, `+anew+`)`)
	if got := rows(p, ".error"); got < found {
		t.Errorf("%d lines are left of %d", got, found)
	}
	p.follow(func() { // it loads the page again, which an answer must not wait for
		eval[bool](p, `(setTimeout(() => { performance.now = () => 1e6; `+strings.Replace(anew, "of the stream", "of a later one", 1)+` }), true)`)
	})
	p.streaming()
	if got := rows(p, ".error"); got < found {
		t.Errorf("%d lines are found anew, and there were %d", got, found)
	}
	p.sound()

	p.open(at, 200)
	p.tabTo("select", "level")
	p.do(chromedp.KeyEvent("berth"))
	p.tabTo("summary", "Stretch of time")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.tabTo("button", "Show")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.until(`document.querySelectorAll("#log > .own").length > 0`)
	if n := rows(p, ":is(.error, .warn, .info)"); n != 0 {
		t.Errorf("%d lines of the program are among berth's own", n)
	}
	p.open(at+"?from=2000-01-01T00:00&to=2000-01-02T00:00", 200)
	p.says("No line matches.")
	p.sound()

	p.scripts(false)
	p.open(at+"?level=warn", 200)
	p.says("WARN slow")
	p.scripts(true)
	p.sound()
}

// served gives a site and the host a history of 30 days.
func (d *daemon) served(id string) {
	d.t.Helper()
	if code := d.End(syscall.SIGTERM); code != 0 {
		d.t.Fatalf("the daemon's exit status is %d", code)
	}
	past, err := metrics.Open(filepath.Join(d.data, "metrics"))
	if err != nil {
		d.t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Hour)
	for at := now.Add(-30 * 24 * time.Hour); at.Before(now); at = at.Add(time.Hour) {
		p := app.Point{At: at, Ran: time.Minute, Memory: 40 << 20, MemoryMax: 50 << 20, Limit: 100 << 20, CPU: 3, CPUMax: 9, NetIn: 6e4, NetOut: 6e5, Disk: 7 << 20}
		p.Answers = app.Answers{Classes: [5]uint64{1: 100, 3: 5, 4: 1}, Took: [12]uint64{0: 50, 4: 56}}
		p.Starts = 1
		if err := past.Append(at.Add(time.Hour), []app.PointOf{{App: app.ID(id), Point: p}, {App: app.HostHistory, Point: p}}); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := past.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.begin()
}

// Thirty days of an application and of the host are drawn, and stand in a table.
func TestPanelCharts(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	d.lookAfter()
	id := d.ticker(t, "Greeter")
	p := d.visitor()
	p.open(d.Base+"/apps/"+id, 200) // mostly before its first minute is over
	p.until(`document.querySelectorAll(".plot canvas").length >= 2`)
	if high := eval[int](p, `(() => { const e = document.querySelector(".plot"); e.hidden = true; const high = e.offsetHeight; e.hidden = false; return high })()`); high != 170 {
		t.Errorf("what follows a chart moves when it is drawn: its place is %d high", high)
	}
	p.sound()
	p.open(d.Base+"/account", 200) // which asks for nothing while the daemon is away
	d.served(id)
	p.open(d.Base+"/apps/"+id, 200)
	p.tabTo("a", "30 days")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.until(`document.querySelectorAll(".plot canvas").length == 7`)
	p.says("95 % came within")
	p.says("mean of 1 h")
	p.looked(axe, "charts")
	p.tabTo("summary", "Show as a table")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`document.querySelectorAll("tbody[data-part=rows] tr").length >= 29`)
	p.sound()
	p.open(d.Base+"/host", 200)
	p.follow(func() { p.press("#use nav a", "7 days") })
	p.until(`document.querySelectorAll(".plot canvas").length == 4`)
	p.looked(axe, "charts-host")
	p.sound()
}
