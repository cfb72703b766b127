package settings

import (
	"os"
	"strings"
	"testing"

	"berth/app"
)

// What the panel changes is no path, no command, no address and no list of what is allowed.
func TestThePanelChangesNothingDangerous(t *testing.T) {
	n := 0
	for _, row := range settings {
		k := row.field(&Settings{})
		if !k.panel {
			continue
		}
		n++
		for _, text := range []string{"", "/etc/passwd", "127.0.0.1:80", ":80", "10.0.0.0/8", "example.org", "https://example.org", "sh -c id", "a,b"} {
			if row.field(&Settings{}).set(text) {
				t.Errorf("%s can be %q", row.key, text)
			}
		}
	}
	if n < 30 {
		t.Errorf("%d settings can be changed", n)
	}
}

func find(t *testing.T, all []app.HostSetting, key string) app.HostSetting {
	t.Helper()
	for _, h := range all {
		if h.Key == key {
			return h
		}
	}
	t.Fatalf("there is no %s", key)
	return app.HostSetting{}
}

// The panel sets what nothing else decides; what was set waits for the daemon.
func TestSetForPanel(t *testing.T) {
	p := newPlace(t, "[apps]\npids_max = 64\n")
	s, _, err := p.explain(map[string]string{"BERTH_RATE_LIMIT": "90", "BERTH_APPS_OOM_GROUP": "true"}, "--logs-keep=3")
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.ForPanel()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"apps.pids_max": p.file + " line 2", "rate_limit": "BERTH_RATE_LIMIT", "logs.keep": "--logs-keep", "apps.oom_group": "BERTH_APPS_OOM_GROUP", "apps.disk": ""} {
		if h := find(t, all, key); h.Fixed != want || h.Waits {
			t.Errorf("%s: %+v, want %q", key, h, want)
		}
	}
	for key, want := range map[string]string{"apps.pids_max": "64", "rate_limit": "90", "logs.keep": "3", "apps.oom_group": "true"} { // also one that says the default
		if h := find(t, all, key); h.Value != want {
			t.Errorf("%s is %s, want %s", key, h.Value, want)
		}
	}
	for key, tt := range map[string]struct {
		value, want string
		kind        app.Kind
	}{
		"apps.pids_max": {"65", "apps.pids_max is decided by berth.toml line 2", app.Forbidden},
		"rate_limit":    {"61", "rate_limit is decided by BERTH_RATE_LIMIT", app.Forbidden},
		"listen":        {"0.0.0.0:80", "the panel does not change listen", app.Forbidden},
		"nonsense":      {"1", "the panel does not change nonsense", app.Forbidden},
		"apps.disk":     {"much", `bad value "much" for apps.disk: expected a size`, app.Invalid},
		"upload.max":    {"5000", "upload.max_unpacked (1024) must not be below upload.max (5000)", app.Invalid},
	} {
		// What is good beside it is not stored either.
		_, err := s.SetForPanel(map[string]string{key: tt.value, "build.queue": "7"})
		if app.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", key, err)
		}
		if _, err := os.Stat(ManagedFile(p.file)); err == nil {
			t.Fatalf("%s: something is stored", key)
		}
	}
	changed, err := s.SetForPanel(map[string]string{"apps.disk": " 4GB ", "build.queue": "32", "apps.pids_max": "64"})
	if err != nil || len(changed) != 1 || changed[0].Value != "4GB" || changed[0].Default != "2048" {
		t.Fatalf("%+v, %v", changed, err)
	}
	if text := p.managed(); !strings.Contains(text, `disk = "4GB"`) || strings.Contains(text, "queue") {
		t.Errorf("the file is %s", text)
	}
	all, err = s.ForPanel()
	if h := find(t, all, "apps.disk"); err != nil || h.Value != "4GB" || !h.Waits {
		t.Errorf("%+v, %v", h, err)
	}
	next, _, err := p.explain(nil)
	if err != nil || next.Apps.Disk != 4096 {
		t.Errorf("the next daemon has %d, %v", next.Apps.Disk, err)
	}
	// The default is no line of the file.
	changed, err = next.SetForPanel(map[string]string{"apps.disk": "2GB"})
	if err != nil || len(changed) != 1 || strings.Contains(p.managed(), "disk") {
		t.Errorf("%+v, %v, %s", changed, err, p.managed())
	}
}
