//go:build pictures

package browser

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"berth/app"
	"berth/host/watch/metrics"
)

// maxPicture is how large a picture of the documentation may be, in bytes.
const maxPicture = 100 << 10

// A program of the pictures: it answers customers, or so its log says.
const support = `const say = (s) => console.log(s);
say("\u001b[32msupport-bot 2.4.0\u001b[0m, Node.js " + process.version);
say("connected to the gateway, 12 servers");
const lines = ["answered #4812 in 240 ms", "\u001b[33mwarn\u001b[0m the knowledge base is slow: 1.8 s", "answered #4813 in 190 ms", "closed #4790: solved", "answered #4814 in 310 ms"];
let n = 0;
setInterval(() => say(lines[n++ % lines.length]), 700);
globalThis.kept = Buffer.alloc(60 << 20, 1);
process.on("SIGTERM", () => process.exit(0));`

const idle = `console.log("ready"); globalThis.kept = Buffer.alloc(%d << 20, 1); setInterval(() => {}, 1000); process.on("SIGTERM", () => process.exit(0));`

// furnished is a host as one might find it on a working day, and its support bot.
func furnished(t *testing.T) (*daemon, string) {
	t.Helper()
	d := launchSites(t)
	d.lookAfter()
	make := func(name, kind string, ram int, code string) string {
		about := fmt.Sprintf("NAME=%s\nTYPE=%s\nID=%s\nMAIN=index.js\nRAM=%d\nAUTORESTART=false\n", name, kind, name, ram)
		if kind == "bot" {
			about = strings.Replace(about, "ID="+name+"\n", "", 1)
		}
		return d.upload(map[string]string{
			"discloud.config": about, "index.js": code, "package.json": `{"name": "` + name + `", "version": "2.4.0"}` + "\n",
			"README.md": "# " + name + "\n", "lib/answers.js": "module.exports = [];\n", "lib/gateway.js": "module.exports = {};\n",
		})
	}
	bot := make("support-bot", "bot", 256, support)
	make("shop", "site", 256, `require("http").createServer((_, r) => r.end("hello")).listen(8080, "0.0.0.0");`+fmt.Sprintf(idle, 90))
	make("status-page", "site", 128, `require("http").createServer((_, r) => r.end("ok")).listen(8080, "0.0.0.0");`+fmt.Sprintf(idle, 20))
	off := make("newsletter", "bot", 128, fmt.Sprintf(idle, 10))
	hog := make("image-resizer", "bot", 256, load(t, "hog")["index.js"])
	d.killed(hog)
	d.put("/app/"+off+"/stop", "")
	d.run("account", "create", "bruno", "--ram", "2048")
	d.run("account", "create", "clara", "--ram", "1024")
	d.run("token", "create", "ana", "--label", "laptop")
	d.run("token", "create", "ana", "--label", "deploys of the shop")
	if status, text := d.ask(http.MethodGet, "/app/"+bot+"/backup", "", nil); status != http.StatusOK {
		t.Fatalf("the backup: %d %s", status, text)
	}
	d.remember(bot)
	return d, bot
}

// remember gives an application a day of history.
func (d *daemon) remember(id string) {
	d.t.Helper()
	if code := d.End(syscall.SIGTERM); code != 0 {
		d.t.Fatalf("the daemon's exit status is %d", code)
	}
	past, err := metrics.Open(filepath.Join(d.data, "metrics"))
	if err != nil {
		d.t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Minute)
	for at := now.Add(-24 * time.Hour); at.Before(now); at = at.Add(time.Minute) {
		minute := at.Sub(now).Minutes()
		used := (95 + 45*math.Sin(minute/170) + 12*math.Sin(minute/13) + 7*math.Sin(minute*1.7)) * (1 << 20)
		busy := math.Max(0.3, 6+5*math.Sin(minute/120)+3*math.Sin(minute/7)+2*math.Sin(minute*2.3))
		p := app.Point{At: at, Step: time.Minute, Ran: time.Minute, Memory: used, MemoryMax: used * 1.04, Limit: 256 << 20, CPU: busy, CPUMax: busy * 1.5, NetIn: 4e5, NetOut: 9e5}
		if err := past.Append(at.Add(time.Minute), []app.PointOf{{App: app.ID(id), Point: p}}); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := past.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.begin()
}

// Pictures of each page, light and dark, are written to the directory of
// BERTH_PICTURES.
func TestPanelPictures(t *testing.T) {
	dir := os.Getenv("BERTH_PICTURES")
	if dir == "" {
		t.Fatal("BERTH_PICTURES names no directory: use make screenshots")
	}
	d, id := furnished(t)
	stranger := chromium(t, "").tab()
	p := stranger.another()
	d.person(p, "ana")
	files := load(t, "ticker")
	files["discloud.config"] = bot("greeter", 100, "BUILD=node build.js")
	p.open(d.Base+"/upload", 200)
	p.attach("#file", zipped(t, files))
	p.follow(func() { p.press("form[data-drop] button", "Upload") })
	p.says("greeter is online")
	job := strings.TrimPrefix(p.address(), d.Base)
	base := "/apps/" + id
	for _, env := range []string{"API_KEY", "QUEUE", "LOG_LEVEL"} {
		p.open(d.Base+base+"/env", 200)
		p.fill("#name", env)
		p.fill("#new", "a value of "+env)
		p.follow(func() { p.press("section[aria-labelledby=variables] button", "Set") })
	}
	stranger.shots(dir, d.Base+"/login", "login")
	for name, path := range map[string]string{
		"apps": "/", "app": base + "?range=24h", "logs": base + "/logs", "env": base + "/env", "files": base + "/files", "domains": "/apps/shop/domains",
		"backups": base + "/backups", "deploys": base + "/deploys", "settings": base + "/settings", "commit": base + "/commit",
		"upload": job, "account": "/account", "host": "/host", "audit": "/host/audit",
	} {
		p.shots(dir, d.Base+path, name)
	}
	p.clean()
}

// shots takes the two pictures of a page.
func (p *tab) shots(dir, address, name string) {
	p.t.Helper()
	p.size(1280, 800, false)
	for _, scheme := range []string{"light", "dark"} {
		p.prefer("prefers-color-scheme", scheme, "prefers-reduced-motion", "reduce")
		p.open(address, http.StatusOK)
		p.until(`document.readyState == "complete" && !document.querySelector("[data-poll]") && (!document.querySelector("#live") || window.streams > 0) && [...document.querySelectorAll(".plot")].every((e) => e.querySelector("canvas"))`)
		var text []byte
		p.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			text, err = page.CaptureScreenshot().Do(ctx)
			return err
		}))
		small := fewer(p.t, text)
		if len(small) > maxPicture {
			p.t.Errorf("the picture %s-%s has %d bytes", name, scheme, len(small))
		}
		if err := os.WriteFile(filepath.Join(dir, name+"-"+scheme+".png"), small, 0o644); err != nil { //nolint:gosec // for everybody
			p.t.Fatal(err)
		}
	}
}

// fewer writes a picture with 256 colours.
func fewer(t *testing.T, text []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.RGBA]int{}
	b := full.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(full.At(x, y)).(color.RGBA) }
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	palette := mostly(count)
	nearest := map[color.RGBA]uint8{}
	out := image.NewPaletted(b, palette)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := at(x, y)
			n, known := nearest[c]
			if !known {
				n = uint8(palette.Index(c))
				nearest[c] = n
			}
			out.SetColorIndex(x, y, n)
		}
	}
	var w bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&w, out); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

// mostly are 256 of many colours: half are those that there is most of, half those
// that are like none of these.
func mostly(count map[color.RGBA]int) color.Palette {
	var all []color.RGBA
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	like := map[color.RGBA]bool{}
	for _, c := range all {
		about := color.RGBA{c.R >> 4, c.G >> 4, c.B >> 4, 0}
		if len(palette) < 128 || len(palette) < 256 && !like[about] {
			palette = append(palette, c)
			like[about] = true
		}
	}
	return palette
}
