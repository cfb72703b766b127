package browser

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"berth/test/harness"
)

// program is Debian's Chromium.
const program = "/usr/bin/chromium"

// quiet are the flags with which Chromium shows no window and asks nobody in the
// world for anything.
var quiet = []string{
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
	"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-breakpad", "--hide-scrollbars",
	"--remote-debugging-port=0", "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",
}

// browser is a Chromium.
type browser struct {
	t        *testing.T
	ctx      context.Context
	debugged string // where
}

var debugged = regexp.MustCompile(`DevTools listening on (ws://\S+)`)

// chromium starts a Chromium with an empty profile, which ends with the test.
// Names below example.org and example.com lead it to the address sites, of
// daemon.sites; "" is none. Beside them it finds 127.0.0.1 alone, and so the API.
// flags are more of Chromium's.
func chromium(t *testing.T, sites string, flags ...string) *browser {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "berth-chromium.") //nolint:usetesting // what Chromium still writes there would fail the test
	if err != nil {
		t.Fatal(err)
	}
	args := append(append([]string{}, quiet...), "--user-data-dir="+filepath.Join(home, "profile"))
	sites = cmp.Or(sites, "~NOTFOUND")
	args = append(args, "--host-resolver-rules=MAP *.example.org "+sites+", MAP *.example.com "+sites+", MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
	args = append(args, flags...)
	cmd := exec.Command(program, append(args, "about:blank")...) //nolint:gosec // the program is a constant
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR="+home, "TMPDIR="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &harness.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it keeps nothing
		_ = cmd.Wait()
		harness.Eventually(t, "Chromium's files are gone", func() bool { return os.RemoveAll(home) == nil })
		if t.Failed() {
			t.Logf("Chromium said:\n%s", out)
		}
	})
	at := ""
	harness.Eventually(t, "Chromium listens", func() bool {
		if m := debugged.FindStringSubmatch(out.String()); m != nil {
			at = strings.TrimSpace(m[1])
		}
		return at != ""
	})
	ctx, end := chromedp.NewRemoteAllocator(t.Context(), at, chromedp.NoModifyURL)
	t.Cleanup(end)
	return &browser{t, ctx, at}
}
