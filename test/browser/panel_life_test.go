package browser

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	whole "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"berth/test/harness"
)

// zipped writes a ZIP of files for the browser to send.
func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app.zip")
	if err := os.WriteFile(file, harness.Zip(files), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// attach chooses a file in a form.
func (p *tab) attach(selector, file string) {
	p.t.Helper()
	p.do(chromedp.SetUploadFiles(selector, []string{file}, chromedp.ByQuery))
}

// version is the number that the last start of a ticker has printed into its log.
const version = `[...document.querySelectorAll("#log > *")].map((e) => e.textContent.match(/version (\d+)/)?.[1]).filter(Boolean).at(-1)`

// runs waits until the log of an application tells of a version.
func (d *daemon) runs(p *tab, id, want string) {
	d.t.Helper()
	p.open(d.Base+"/apps/"+id+"/logs", 200)
	p.until(version + ` == "` + want + `"`)
}

// From an upload to the end of an application: sent with a bar that fills, built in
// a page that can be loaded again, restarted, replaced, backed up, rolled back,
// restored and deleted.
func TestPanelLife(t *testing.T) {
	t.Parallel()
	d := launch(t)
	p := d.visitor()
	id := d.sends(t, p)
	base := d.Base + "/apps/" + id
	d.runs(p, id, "1")
	p.follow(func() { p.press("[data-part=buttons] button", "Restart") })
	p.says("was restarted")
	p.sound()
	d.runs(p, id, "1")
	p.until(`[...document.querySelectorAll("#log > *")].filter((e) => e.textContent.includes("version 1")).length >= 2`)
	p.sound()

	p.follow(func() { p.press("[data-part=buttons] a", "New version") })
	second := strings.Replace(load(t, "ticker")["index.js"], "VERSION = 1", "VERSION = 2", 1)
	p.attach("#file", zipped(t, map[string]string{"index.js": second}))
	p.follow(func() { p.press("form[data-upload] button", "Deploy it") })
	p.says("Greeter is online")
	p.sound()
	d.runs(p, id, "2")

	p.open(base+"/backups", 200)
	p.follow(func() { p.press("section[aria-labelledby=make] button", "Create a backup") })
	if got := d.downloaded(t, p); got["index.js"] != second {
		t.Errorf("the backup holds %q", got)
	}
	p.open(base+"/deploys", 200)
	p.follow(func() { p.press("#deploy-1 button", "Roll back to #1") })
	p.sound()
	d.runs(p, id, "1")
	p.open(base+"/backups", 200)
	p.press("summary", "Restore this one")
	p.press("details[open] label", "replace the files")
	p.follow(func() { p.press("details[open] button", "Restore") })
	p.says("Greeter is online")
	p.sound()
	d.runs(p, id, "2")

	p.open(base+"/settings", 200)
	p.fill("#sure", "Greeting")
	p.follow(func() { p.press("section[aria-labelledby=delete] button", "Delete") })
	p.until(`document.querySelector("main > [role=alert]")`)
	d.runs(p, id, "2")
	p.open(base+"/settings", 200)
	p.fill("#sure", "Greeter")
	p.follow(func() { p.press("section[aria-labelledby=delete] button", "Delete") })
	p.says("No applications yet")
	p.sound()
	p.open(base, 404)
}

// sends uploads an application that has to be built, in a browser whose connection
// is slow, and returns its ID.
func (d *daemon) sends(t *testing.T, p *tab) string {
	t.Helper()
	files := load(t, "ticker")
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	files["noise.bin"] = string(noise)
	files["discloud.config"] = bot("Greeter", 100, "BUILD=node build.js")
	p.open(d.Base+"/upload", 200)
	p.attach("#file", zipped(t, files))
	slow := network.EmulateNetworkConditions(false, 0, -1, 512<<10)
	p.do(slow)
	// The page goes once all is sent: what its bar has shown is kept elsewhere.
	eval[bool](p, `setInterval(() => { const bar = document.querySelector("form[data-drop] progress"); if (bar.checkVisibility()) sessionStorage.bar = (sessionStorage.bar ?? "") + " " + bar.value }, 20) > 0`)
	p.follow(func() { p.press("form[data-drop] button", "Upload") })
	p.do(network.EmulateNetworkConditions(false, 0, -1, -1))
	between := map[string]bool{}
	for _, share := range strings.Fields(eval[string](p, "sessionStorage.bar")) {
		if share != "0" && share != "100" {
			between[share] = true
		}
	}
	if len(between) < 3 {
		t.Errorf("the bar has shown only %v", between)
	}
	p.until(`location.pathname.startsWith("/uploads/")`)
	p.says("build step 1")
	p.reload()
	p.says("build step 6")
	p.says("Greeter is online")
	p.sound()
	p.follow(func() { p.press("main a", "To the application") })
	p.until(`document.querySelector("[data-part=state]").innerText.includes("Online")`)
	return strings.TrimPrefix(eval[string](p, "location.pathname"), "/apps/")
}

// downloaded presses the link to a backup and returns the files in what comes.
func (d *daemon) downloaded(t *testing.T, p *tab) map[string]string {
	t.Helper()
	dir := t.TempDir()
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		c := chromedp.FromContext(ctx)
		return whole.SetDownloadBehavior(whole.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(dir).Do(cdp.WithExecutor(ctx, c.Browser))
	}))
	p.press("a[download]", "Download")
	files := map[string]string{}
	harness.Eventually(t, "the backup is there", func() bool {
		list, err := filepath.Glob(filepath.Join(dir, "*.zip"))
		if err != nil || len(list) == 0 {
			return false
		}
		text, err := os.ReadFile(list[0])
		if err != nil {
			return false
		}
		r, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			return false
		}
		for _, f := range r.File {
			in, err := r.Open(f.Name)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			_, _ = b.ReadFrom(in) // a part of a file is noticed below
			_ = in.Close()
			files[f.Name] = b.String()
		}
		return true
	})
	return files
}

// A program that was killed for its RAM gets more of it by one click, and runs.
func TestPanelRaisesRAM(t *testing.T) {
	t.Parallel()
	d := launch(t)
	files := load(t, "hog")
	files["discloud.config"] = bot("Hog", 256)
	id := d.upload(files)
	p := d.visitor()
	p.open(d.Base+"/apps/"+id, 200)
	p.streaming()
	p.says("Killed 1 time in 24 h") // which the page tells while it is open
	p.follow(func() { p.press("[data-part=kills] button", "Raise RAM to 512 MB and start") })
	p.says("Hog has 512 MB of RAM now, and was started.")
	if p.until(`document.querySelector("[data-part=state]").innerText.includes("Online")`); eval[bool](p, `document.querySelector("[data-part=kills] .notice")`+" != null") {
		t.Error("what was mended is still complained of")
	}
	p.sound()
	p.open(d.Base+"/apps/"+id+"/logs", 200)
	p.says("has all it needs")
	if _, text := d.ask("GET", "/app/"+id, "", nil); !strings.Contains(text, `"ram":512`) {
		t.Errorf("the API says %s", text)
	}
	p.open(fmt.Sprintf("%s/apps/%s", d.Base, id), 200)
	p.until(`document.querySelector("[data-part=state]").innerText.includes("Online")`)
	p.sound()
}
