package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestDeployShowsNotices: what the server did otherwise than asked stands before the verdict, also of a program
// that came online, in words and as JSON.
func TestDeployShowsNotices(t *testing.T) {
	t.Parallel()
	d := launch(t)
	d.account("person", 600)
	dir, home := filepath.Join(t.TempDir(), "shop"), t.TempDir()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	deploy := func(files map[string]string, args ...string) (stdout, stderr string) {
		t.Helper()
		for name, text := range files {
			harness.Write(t, filepath.Join(dir, name), text)
		}
		cmd := d.Command(append([]string{"deploy", dir}, args...)...)
		cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR="+d.Runtime(), "BERTH_ACCOUNT=person", "HOME="+home, "XDG_CONFIG_HOME="+home)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s%s", err, &out, &errs)
		}
		return out.String(), errs.String()
	}
	before := func(text, first, second string) {
		t.Helper()
		if at := strings.Index(text, first); at < 0 || !strings.Contains(text[at:], second) || strings.Count(text, first) != 1 {
			t.Errorf("%q does not stand once, before %q, in %s", first, second, text)
		}
	}
	_, said := deploy(map[string]string{"index.js": harness.IdleNode})
	before(said, "notice: There is no discloud.config; MAIN=index.js is assumed.\n", "Your application was uploaded.\n")
	before(said, "Your application was uploaded.\n", "is online.\n")
	config := map[string]string{"discloud.config": harness.Config("MAIN=index.js", "RAM=300", "AUTORESTRAT=true")}
	_, said = deploy(config)
	before(said, "notice: discloud.config line 2: RAM=300", "Your application was updated.\n")
	before(said, "AUTORESTRAT is ", "Your application was updated.\n")
	lines, _ := deploy(config, "--json")
	var told []string
	for line := range strings.Lines(lines) {
		var l struct {
			Event, Text string
			Online      bool
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch l.Event {
		case "notice":
			told = append(told, l.Text)
		case "done":
			if said := strings.Join(told, " "); len(told) != 2 || !l.Online || !strings.Contains(said, "RAM=300") || !strings.Contains(said, "AUTORESTRAT") {
				t.Errorf("before the verdict there are %q", told)
			}
			return
		}
	}
	t.Errorf("no verdict in %s", lines)
}
