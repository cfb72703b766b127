package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

const scrapeToken = "scrape-token-of-the-tests-0123456789"

// page asks an address for a path, and returns the status and the body.
func page(t *testing.T, c *http.Client, address, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// /metrics is for who has its token, and for root at the local socket; the token opens nothing
// else, an API token does not open it, and no listener of sites has it.
func TestMonitor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(scrapeToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sites := harness.Address(t)
	d := launch(t, "--metrics-token", file, "--proxy-mode", "behind", "--proxy-listen", sites, "--proxy-domain", "sites.example.org")
	c := d.account("ana", 1024)
	bot := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	ends := c.Upload(harness.ShellBot("exit 3", "RAM=32", "AUTORESTART=false"))
	c.Until(ends, "apps.online", false)
	local := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(d.Runtime(), "berth.sock"))
	}}}
	for what, ask := range map[string]func() (int, string){
		"with the token": func() (int, string) { return page(t, http.DefaultClient, d.Base+"/metrics", scrapeToken) },
		"as root":        func() (int, string) { return page(t, local, "http://berth/metrics", "") },
	} {
		var code int
		var text string
		harness.Eventually(t, what+" the crash is counted", func() bool {
			code, text = ask()
			return strings.Contains(text, fmt.Sprintf("berth_app_exits_total{app=%q,reason=\"crashed\"} 1\n", ends))
		})
		for _, want := range []string{
			fmt.Sprintf("berth_app_state{app=%q,state=\"online\"} 1\n", bot), fmt.Sprintf("berth_app_memory_limit_bytes{app=%q} 6.7108864e+07\n", bot),
			fmt.Sprintf("berth_app_memory_bytes{app=%q} ", bot), "\nberth_apps 2\n", "\nberth_host_memory_bytes ", "\nprocess_resident_memory_bytes ",
			fmt.Sprintf("berth_app_cpu_seconds_total{app=%q} ", bot), "\nberth_deploys_total{kind=\"upload\",result=\"done\"} ",
		} {
			if code != 200 || !strings.Contains(text, want) {
				t.Errorf("%s: %d, without %s", what, code, want)
			}
		}
	}
	for what, ask := range map[string]struct {
		address, token string
		want           int
	}{
		"nobody":                 {d.Base + "/metrics", "", 401},
		"an account's token":     {d.Base + "/metrics", c.Token, 401},
		"the API with the token": {d.Base + "/v2/user", scrapeToken, 401},
		"a site's listener":      {"http://" + sites + "/metrics", scrapeToken, 404},
		"another path":           {d.Base + "/metrics/", scrapeToken, 404},
	} {
		if code, text := page(t, http.DefaultClient, ask.address, ask.token); code != ask.want || strings.Contains(text, "berth_app") {
			t.Errorf("%s: %d", what, code)
		}
	}
	r := c.Request(http.MethodGet, "/v2/user", nil)
	r.Header.Set("Api-Token", scrapeToken)
	if a, err := c.Try(r); err != nil || a.Code != 401 {
		t.Errorf("the token as an API token: %+v, %v", a, err)
	}
	if code, text := page(t, http.DefaultClient, d.Base+"/healthz", ""); code != 200 || text != "ok\n" {
		t.Errorf("healthz: %d %s", code, text)
	}
	if strings.Contains(d.Out.String(), scrapeToken) {
		t.Error("the token is in the log")
	}
}

// Without a token of its own a daemon has no such page for anybody but root.
func TestMonitorWithoutToken(t *testing.T) {
	t.Parallel()
	d := launch(t)
	if code, text := page(t, http.DefaultClient, d.Base+"/metrics", ""); code != 404 || strings.Contains(text, "berth_app") {
		t.Errorf("%d", code)
	}
}
