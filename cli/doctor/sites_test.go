package doctor

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"berth/daemon"
	"berth/daemon/settings"
	"berth/test/hosted"
	"berth/web/certs"
)

func TestDoctorCertificates(t *testing.T) {
	look := func(env map[string]string, others ...string) finding {
		t.Helper()
		var got finding
		s, err := settings.Load(func(name string) string {
			if len(others) > 0 && name == others[0] {
				return others[1]
			}
			return env[name]
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range checkSites(t.Context(), s) {
			if f.Name == "certificates" {
				got = f
			} else if f.Verdict != good {
				t.Errorf("%+v", f)
			}
		}
		return got
	}
	env, expires := hosted.Certified(t, true)
	if f := look(env); f.Verdict != dubious || !strings.Contains(f.Text, "2 are valid, the first until "+expires.UTC().Format(time.DateOnly)+" (*.files.example.org and 1 more); 2 names have none: blog.apps.example.org: its turn comes") {
		t.Errorf("%+v", f)
	}
	if f := look(env, "BERTH_PROXY_TLS", "files"); f.Verdict != good || !strings.HasPrefix(f.Text, "1 are valid") {
		t.Errorf("%+v", f)
	}
	for says, args := range map[string][]string{
		"cannot read the certificate":    {"BERTH_PROXY_CERT", "/nowhere"},
		"cannot read proxy.acme_roots: ": {"BERTH_PROXY_ACME_ROOTS", "/nowhere"},
	} {
		if f := look(env, args...); f.Verdict != bad || !strings.Contains(f.Text, says) {
			t.Errorf("%+v", f)
		}
	}
	hosted.PairFile(t, env["BERTH_PROXY_CERT"], time.Now().Add(24*time.Hour), "a.example.org")
	if f := look(env, "BERTH_PROXY_TLS", "files"); f.Verdict != dubious || !strings.Contains(f.Fix, "put a new one") {
		t.Errorf("%+v", f)
	}
	hosted.PairFile(t, env["BERTH_PROXY_CERT"], time.Now().Add(-time.Minute), "a.example.org")
	if f := look(env, "BERTH_PROXY_TLS", "files"); f.Verdict != dubious || !strings.Contains(f.Text, "a.example.org: it has expired") {
		t.Errorf("%+v", f)
	}
	// Before the first start; and nothing is made by looking.
	env, _ = hosted.Certified(t, false)
	if f := look(env); f.Verdict != good || !strings.Contains(f.Text, "will come from "+certs.LetsEncrypt) {
		t.Errorf("%+v", f)
	}
	if _, err := os.Stat(env["BERTH_DATA_DIR"]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("doctor made a data directory: %v", err)
	}
	env["BERTH_PROXY_MODE"] = "off"
	s, err := settings.Load(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if list := checkSites(t.Context(), s); len(list) > 0 {
		t.Errorf("where there are no sites: %+v", list)
	}
}

func TestDoctorPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	f := checkPort(t.Context(), address)
	if f.Verdict != bad || !strings.Contains(f.Text, address+" is in use by ") || !strings.Contains(f.Text, "(pid ") || !strings.Contains(f.Fix, "behind") {
		t.Errorf("%+v", f)
	}
	for says, f := range map[string]finding{
		":80 is served by berth (pid 7)":                          portFinding(":80", daemon.Takers{{Pid: 7, Name: "berth"}}),
		":80 is kept for berth.service by systemd":                portFinding(":80", daemon.Takers{{Pid: 1, Name: "systemd", Unit: "berth.service"}}),
		":80 is in use by nginx (pid 8), nginx (pid 9)":           portFinding(":80", daemon.Takers{{Pid: 8, Name: "nginx"}, {Pid: 9, Name: "nginx"}}),
		":80 is in use by a process that cannot be seen":          portFinding(":80", nil),
		"127.0.0.1:0 is free for the sites":                       checkPort(t.Context(), "127.0.0.1:0"),
		"192.0.2.1:1 cannot be used: listen tcp4 192.0.2.1:1: bi": checkPort(t.Context(), "192.0.2.1:1"),
	} {
		if !strings.HasPrefix(f.Text, says) || (f.Verdict == good) != (f.Fix == "") {
			t.Errorf("%+v does not say %q", f, says)
		}
	}
}

func TestDoctorListen(t *testing.T) {
	for listen, want := range map[string]finding{
		"127.0.0.1:8400": {"listen", good, "only this host reaches the API and the panel at 127.0.0.1:8400, which has no encryption", ""},
		"0.0.0.0:8400": {
			"listen", dubious, "The API and the panel use HTTP without encryption at 0.0.0.0:8400: anyone on the way can read tokens and passwords.",
			`berth setup gives the panel HTTPS; then set listen = "127.0.0.1:8400", and run berth install --now`,
		},
	} {
		if got := checkListen(settings.Settings{Listen: listen}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
