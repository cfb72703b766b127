package browser

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/host/watch/metrics"
)

// remembered gives an application a history of 30 days, in which it used so many MB.
func (d *daemon) remembered(id string, mb, ram int) {
	d.t.Helper()
	if code := d.End(syscall.SIGTERM); code != 0 {
		d.t.Fatalf("the daemon's exit status is %d", code)
	}
	past, err := metrics.Open(filepath.Join(d.data, "metrics"))
	if err != nil {
		d.t.Fatal(err)
	}
	now := time.Now()
	for at := now.Add(-30 * 24 * time.Hour); at.Before(now.Add(-time.Hour)); at = at.Add(time.Hour) {
		p := app.Point{At: at, Ran: time.Minute, Memory: float64(mb<<20) / 2, MemoryMax: float64(mb << 20), Limit: float64(ram << 20)}
		if err := past.Append(at.Add(time.Hour), []app.PointOf{{App: app.ID(id), Point: p}}); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := past.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.begin()
}

// The right size of an application is one button, and the page Host says what can be sold.
func TestPanelRightSize(t *testing.T) {
	t.Parallel()
	d := launch(t, "--host-overcommit", "1.2")
	axe := axe(t)
	d.lookAfter()
	files := load(t, "ticker")
	files["discloud.config"] = bot("Greeter", 512)
	id := d.upload(files)
	p := d.visitor()
	p.open(d.Base+"/apps/"+id, 200)
	// On a slow machine its first minute is over.
	p.until(`/It was (not measured with its 512 MB yet|measured on one day)/.test(document.body.innerText)`)
	p.open(d.Base+"/host", 200)
	p.until(`/Nothing was measured yet|Programs were measured on 1 /.test(document.body.innerText)`)
	p.looked(axe, "plan-new")

	p.open(d.Base+"/account", 200) // which asks for nothing while the daemon is away
	d.remembered(id, 77, 512)
	p.open(d.Base+"/apps/"+id, 200)
	p.says("It peaked at 77 of 512 MB in 30 days: 128 MB are enough.")
	p.looked(axe, "size-less")
	p.follow(func() { p.press("[data-part=size] button", "Set RAM to 128 MB") })
	p.says("It peaked at 77 of 128 MB in 30 days: that is the right size.")
	p.looked(axe, "size-right")

	p.open(d.Base+"/host", 200)
	p.says("with host.overcommit 3 that would still fit")
	p.press("section[aria-labelledby=capacity] summary", "What more can be sold")
	p.until(`document.querySelector("section[aria-labelledby=capacity] details").open`)
	p.looked(axe, "plan")
	d.speaks(p, "pt-BR", "Save")
	p.open(d.Base+"/host", 200)
	p.says("Em uso agora")
	p.press("section[aria-labelledby=capacity] summary", "Quanto mais pode ser vendido")
	p.until(`document.querySelector("section[aria-labelledby=capacity] details").open`)
	p.looked(axe, "plan-pt")
	for _, width := range []int64{360, 1280} {
		p.size(width, 800, false)
		p.sound()
		if tall := eval[int](p, `[...document.querySelectorAll("section[aria-labelledby=capacity] p")].reduce((most, e) => Math.max(most, e.offsetHeight), 0)`); tall > 300 {
			t.Errorf("a paragraph is %d pixels tall on a screen %d wide: its column is too narrow", tall, width)
		}
	}
}
