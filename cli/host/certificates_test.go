package host

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"berth/app/exit"
	"berth/daemon"
	"berth/test/hosted"
)

func TestProxyCertificates(t *testing.T) {
	env, expires := hosted.Certified(t, true)
	code, stdout, stderr := start(t, env, "proxy", "certificates", "--json")
	var got []daemon.CertificateView
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exit.OK || stderr != "" {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	var lines []string
	for _, v := range got {
		line := v.Name + " " + filepath.Base(v.From) + " " + string(v.Status) + " " + v.Problem
		if v.Expires != nil {
			line += v.Expires.Sub(expires).String()
		}
		lines = append(lines, line)
	}
	want := []string{
		"*.files.example.org and 1 more pair.pem issued 0s",
		"blog.apps.example.org acme pending ", // nobody has looked yet
		"shop.apps.example.org acme issued 1h0m0s",
		"www.example.org acme failed the certificate authority refused: http-01: no address",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	code, stdout, stderr = start(t, env, "proxy", "certificates", "--proxy-mode", "behind")
	for _, says := range []string{"NAME ", "shop.apps.example.org", "refused: http-01: no address\n", " -\n"} {
		if !strings.Contains(stdout, says) {
			t.Errorf("exit %d: it does not say %q:\n%s", code, says, stdout)
		}
	}
	if !strings.Contains(stderr, `berth needs certificates when proxy.mode is "edge"; it is "behind" now.`) || strings.Contains(stdout, "secret") {
		t.Errorf("it says %s%s", stdout, stderr)
	}
	// Another authority's are its own.
	_, stdout, _ = start(t, env, "proxy", "certificates", "--proxy-acme-directory", "staging")
	if strings.Contains(stdout, "failed") || strings.Count(stdout, "pending") != 3 {
		t.Error(stdout)
	}
	code, _, stderr = start(t, env, "proxy", "certificates", "--proxy-cert", "/nowhere")
	if code != exit.Config || !strings.Contains(stderr, "cannot read the certificate") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
