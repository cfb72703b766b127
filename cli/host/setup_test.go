package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/daemon/settings"
)

func TestOnThisHost(t *testing.T) {
	for text, want := range map[string]bool{
		"http://127.0.0.1:8400": true, "http://localhost:8400": true, "http://[::1]:8400": true, "http://127.9.9.9": true,
		"https://apps.example.org": false, "http://192.0.2.1:8400": false, "https://localhost.example.org": false, ":": false,
	} {
		if got := onThisHost(text); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestTunnel(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for listen, want := range map[string]string{
		"127.0.0.1:8400": "ssh -L 8400:127.0.0.1:8400 ana@", ":8400": "ssh -L 8400:127.0.0.1:8400 ana@",
		"0.0.0.0:9000": "ssh -L 9000:127.0.0.1:9000 ana@", "[::1]:8400": "ssh -L 8400:[::1]:8400 ana@",
	} {
		if got := tunnel(settings.Settings{Listen: listen}, func(string) string { return "ana" }); got != want+name {
			t.Errorf("%s: %s", listen, got)
		}
	}
}

func TestRecordsOfADomain(t *testing.T) {
	var s settings.Settings
	p := &publishing{setup: &setup{settings: s}, name: "apps.example.org", sites: true}
	p.settings.Names.Addresses = "192.0.2.7,2001:db8::7"
	want := "apps.example.org A 192.0.2.7; apps.example.org AAAA 2001:db8::7; *.apps.example.org A 192.0.2.7; *.apps.example.org AAAA 2001:db8::7"
	if got := strings.Join(p.records(), "; "); got != want {
		t.Errorf("%s", got)
	}
}

func TestHintsForAuthorities(t *testing.T) {
	for why, want := range map[string]string{
		"the certificate authority refused: CAA record for example.org prevents issuance": "a CAA record",
		"the certificate authority refused: too many certificates already issued":         "run berth setup again later",
		"the certificate authority does not work, or cannot be reached":                   "over the internet",
		"the certificate authority refused: http-01: Timeout during connect":              "ports 80 and 443",
		"the daemon does not take the settings":                                           "journalctl",
		"interrupted":                                                                     "run berth setup again",
	} {
		if got := hintFor(why); !strings.Contains(got, want) {
			t.Errorf("%s: %s", why, got)
		}
	}
}

// What a trial remembers is what was set before the first of those that were cut short.
func TestATrialRemembers(t *testing.T) {
	dir := t.TempDir()
	tr := &trial{path: filepath.Join(dir, "berth.toml")}
	if _, open, err := tr.read(); open || err != nil {
		t.Fatalf("at first: %t, %v", open, err)
	}
	if _, err := settings.Manage(tr.path, map[string]string{"base_url": "https://old.example.org"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first.example.org", "second.example.org"} { // the first is cut short
		if err := tr.begin(t.Context(), map[string]string{"base_url": "https://" + name, "names.domain": name}); err != nil {
			t.Fatal(err)
		}
	}
	b, open, err := tr.read()
	if err != nil || !open || len(b) != 2 || b["names.domain"] != nil || b["base_url"] == nil || *b["base_url"] != "https://old.example.org" {
		t.Errorf("it remembers %v, %t, %v", b, open, err)
	}
	if now, err := settings.Managed(tr.path); err != nil || now["base_url"] != "https://second.example.org" {
		t.Errorf("set are %v, %v", now, err)
	}
	if err := tr.keep(); err != nil {
		t.Fatal(err)
	}
	if _, open, err := tr.read(); open || err != nil {
		t.Errorf("after its end: %t, %v", open, err)
	}
	// What the settings file overrides is refused, and no trial begins.
	if err := os.WriteFile(tr.path, []byte("base_url = \"https://mine.example.org\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tr.begin(t.Context(), map[string]string{"base_url": "https://x.example.org"}); err == nil || !strings.Contains(err.Error(), "that file wins") {
		t.Errorf("overridden: %v", err)
	}
	if _, open, err := tr.read(); open || err != nil {
		t.Errorf("after the refusal: %t, %v", open, err)
	}
	if err := os.WriteFile(tr.journal(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tr.read(); err == nil || !strings.Contains(err.Error(), "cannot read what an earlier setup has left") {
		t.Errorf("broken: %v", err)
	}
}
