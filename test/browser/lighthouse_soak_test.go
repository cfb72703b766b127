//go:build soak

package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/test/harness"
)

// least is what each page of the panel has to reach in a category of Lighthouse, of 100.
var least = map[string]float64{"accessibility": 100, "best-practices": 100, "performance": 95}

// lighthouse is the command of Lighthouse. The test is skipped where it cannot be fetched.
func lighthouse(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("../../test/scripts/lighthouse").Output()
	if err != nil {
		harness.Ready(t, "needs Lighthouse, which test/scripts/lighthouse fetches from npm: "+err.Error())
	}
	return strings.TrimSpace(string(out))
}

// judgement is what Lighthouse writes of a page, as far as it is read here.
type judgement struct {
	RuntimeError struct{ Message string }
	FinalURL     string `json:"finalDisplayedUrl"`
	Categories   map[string]struct {
		Score     *float64 // of 1; null when it could not be found out
		AuditRefs []struct{ ID string }
	}
	Audits map[string]struct {
		Score        *float64
		DisplayValue string
	}
}

// short tells which audits of a category did not have everything.
func (j judgement) short(category string) (all []string) {
	for _, ref := range j.Categories[category].AuditRefs {
		if a := j.Audits[ref.ID]; a.Score != nil && *a.Score < 1 {
			all = append(all, strings.TrimSpace(ref.ID+" "+a.DisplayValue))
		}
	}
	return all
}

// TestSoakLighthouse: Lighthouse judges each page, as a phone has it and as a desktop has it. The
// performance is what its model says of a slow network and a slow processor; the best of three
// counts, for the machine has other things to do. BERTH_LIGHTHOUSE is a pattern of paths that are judged alone.
func TestSoakLighthouse(t *testing.T) {
	command, only := lighthouse(t), regexp.MustCompile(os.Getenv("BERTH_LIGHTHOUSE"))
	d := launchSites(t)
	d.lookAfter()
	id := d.ticker(t, "Greeter")
	d.channels()
	signedIn, stranger := chromium(t, ""), chromium(t, "")
	p := signedIn.tab()
	d.person(p, "ana")
	in := map[string]*browser{}
	for _, path := range d.pages(p, id) {
		in[path] = signedIn
	}
	for path, status := range d.public() {
		if status == http.StatusOK && !strings.Contains(path, "?") { // pages that Lighthouse can load
			in[path] = stranger
		}
	}
	for _, form := range []string{"mobile", "desktop"} {
		dir := t.TempDir()
		config := filepath.Join(dir, "config.json")
		// A session belongs to its browser, so the name of the browser stays.
		settings := map[string]any{"onlyCategories": []string{"accessibility", "best-practices", "performance"}, "formFactor": form, "emulatedUserAgent": false, "disableStorageReset": true}
		if form == "desktop" {
			settings["screenEmulation"] = map[string]any{"mobile": false, "width": 1350, "height": 940, "deviceScaleFactor": 1}
			settings["throttling"] = map[string]any{"rttMs": 40, "throughputKbps": 10240, "cpuSlowdownMultiplier": 1}
		}
		text, err := json.Marshal(map[string]any{"extends": "lighthouse:default", "settings": settings})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for path, b := range in {
			if !only.MatchString(path) {
				continue
			}
			at, err := url.Parse(b.debugged)
			if err != nil {
				t.Fatal(err)
			}
			var best map[string]float64
			var last judgement
			for try := 0; try < 3 && short(best); try++ {
				if last, err = judged(command, at.Port(), config, d.Base+path); err == nil {
					best = last.better(best)
				}
			}
			t.Logf("%s %s: %v, %v", form, path, best, err)
			for category, want := range least {
				if best[category] < want {
					t.Errorf("%s, %s: %s is %.0f, want %.0f: %q", form, path, category, best[category], want, last.short(category))
				}
			}
		}
	}
}

// short reports whether a page has not reached everything yet.
func short(best map[string]float64) bool {
	for category, want := range least {
		if best[category] < want {
			return true
		}
	}
	return false
}

// better is best, with what is higher now.
func (j judgement) better(best map[string]float64) map[string]float64 {
	now := map[string]float64{}
	for category := range least {
		now[category] = best[category]
		if s := j.Categories[category].Score; s != nil {
			now[category] = max(now[category], *s*100)
		}
	}
	return now
}

// judged has Lighthouse look at a page in a Chromium that is there. It fails now and then on a
// busy machine, and says that one should try again.
func judged(command, port, config, address string) (j judgement, err error) {
	cmd := exec.Command("node", command, address, "--port="+port, "--config-path="+config, "--output=json", "--quiet") //nolint:gosec // a test's own
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &j)
	}
	if err == nil && (j.RuntimeError.Message != "" || j.FinalURL != address) {
		err = fmt.Errorf("it saw %s: %s", j.FinalURL, j.RuntimeError.Message)
	}
	if err != nil {
		return j, fmt.Errorf("%w: %s", err, &said)
	}
	return j, nil
}
