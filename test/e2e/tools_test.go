//go:build soak

package e2e

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/test/ca"
	"berth/test/harness"
)

// tool skips the test when the machine lacks what a Debian package has.
func tool(t *testing.T, name, pack string) {
	t.Helper()
	why := ""
	if _, err := exec.LookPath(name); err != nil {
		why = "needs " + name + ": apt-get install " + pack
	}
	harness.Ready(t, why)
}

const (
	panelName = "panel.example.org"
	otherName = "other.apps.example.org"
)

// panelAtTheEdge serves the panel by HTTPS, and a site.
func panelAtTheEdge(t *testing.T) (e *edge, site string) {
	t.Helper()
	const shop = "shop.apps.example.org"
	e = atTheEdge(t, nil, "--base-url", "https://"+panelName)
	e.leads(panelName, shop)
	e.trust()
	e.Serve()
	ana := e.account("ana", 300)
	ana.Upload(harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"), "index.js": siteNode})
	e.untilCurl(panelName, "")
	e.untilCurl(shop, "shop for "+shop)
	return e, shop
}

// Not of berth: what testssl.sh has against every certificate of the test's authority, which
// has no lists on the internet, and what it cannot ask with today's OpenSSL.
var notOfBerth = map[string]string{
	"cert_revocation": "HIGH", // pebble names no list of revoked certificates
	"secure_renego":   "WARN", // its OpenSSL fails in the attempt: Go's server never renegotiates
}

// TestEdgeTLS: testssl.sh has nothing against the edge that is more than LOW.
func TestEdgeTLS(t *testing.T) {
	tool(t, "testssl", "testssl.sh")
	e, _ := panelAtTheEdge(t)
	report := filepath.Join(e.Root, "testssl.json")
	began := time.Now()
	out, err := exec.CommandContext(t.Context(), "testssl", "--quiet", "--color", "0", "--warnings", "off", "--openssl-timeout", "10", "--nodns", "none", //nolint:gosec // the test's own words
		"--ip", "127.0.0.1", "--add-ca", e.given, "--jsonfile", report, "https://"+net.JoinHostPort(panelName, strconv.Itoa(ca.Port(t, e.https)))+"/login").CombinedOutput()
	text, read := os.ReadFile(report)
	var found []struct{ ID, Severity, Finding string }
	if read = errors.Join(read, json.Unmarshal(text, &found)); read != nil || len(found) < 100 {
		t.Fatalf("testssl.sh: %v, %v, %d findings: %s", err, read, len(found), out)
	}
	t.Logf("%d findings in %s", len(found), time.Since(began).Round(time.Second))
	for _, f := range found {
		switch {
		case slices.Contains([]string{"OK", "INFO"}, f.Severity):
		case f.Severity == "LOW", notOfBerth[f.ID] == f.Severity:
			t.Logf("%s: %s: %s", f.Severity, f.ID, f.Finding)
		default:
			t.Errorf("%s: %s: %s", f.Severity, f.ID, f.Finding)
		}
	}
}

// notHeld are the cases of h2spec that Go's server does not hold, with the reason.
var notHeld = map[string]string{
	"http2/6.5.3: Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE":                                          "Go hangs up on a setting that is there twice: no client sends that, and it costs an attacker nothing",
	"http2/8.1.2.2: Sends a HEADERS frame that contains the connection-specific header field":                     "Go answers 400, which RFC 9113, 8.1.1, permits; no handler gets the request",
	`http2/8.1.2.2: Sends a HEADERS frame that contains the TE header field with any value other than "trailers"`: "as the one before",
}

// h2spec runs it against a name, and returns whether it holds each case.
func h2spec(t *testing.T, e *edge, hosts, name, path string) map[string]bool {
	t.Helper()
	built, err := exec.CommandContext(t.Context(), "../scripts/h2spec").Output()
	if err != nil {
		harness.Ready(t, fmt.Sprintf("h2spec cannot be built: %v", err))
	}
	report := filepath.Join(e.Root, name+".xml")
	out, err := named(t, hosts, strings.TrimSpace(string(built)), "--tls", "--insecure", "--host", name, "--port", strconv.Itoa(ca.Port(t, e.https)),
		"--path", path, "--timeout", "5", "--junit-report", report).CombinedOutput()
	text, read := os.ReadFile(report)
	var result struct {
		Suites []struct {
			Cases []struct {
				Name    string  `xml:"classname,attr"`
				Package string  `xml:"package,attr"`
				Failure *string `xml:"failure"`
				Error   *string `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if read = errors.Join(read, xml.Unmarshal(text, &result)); read != nil {
		t.Fatalf("h2spec: %v, %v: %s", err, read, out)
	}
	held := map[string]bool{}
	for _, suite := range result.Suites {
		for _, c := range suite.Cases {
			held[c.Package+": "+c.Name] = c.Failure == nil && c.Error == nil
		}
	}
	return held
}

// named prepares a command that finds the names in a file of hosts, which nobody else sees.
func named(t *testing.T, hosts, name string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{"--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts, name}, args...)
	return exec.CommandContext(t.Context(), "unshare", args...) //nolint:gosec // the test's own words
}

// TestEdgeHTTP2: h2spec, at the panel and at a site. In mode behind berth speaks HTTP/1.1, and
// the preface of HTTP/2 is a bad request (TestAttacksOnTheWire). h2spec sends some of what is wrong
// after a whole request, and an answer may be quicker than that: a case is held if it is in one of three runs.
func TestEdgeHTTP2(t *testing.T) {
	e, site := panelAtTheEdge(t)
	hosts := filepath.Join(e.Root, "hosts")
	harness.Write(t, hosts, "127.0.0.1 "+panelName+" "+site+"\n")
	for name, path := range map[string]string{panelName: "/login", site: "/"} {
		held := map[string]bool{}
		var lacks []string
		for range 3 {
			lacks = nil
			for c, now := range h2spec(t, e, hosts, name, path) {
				if held[c] = held[c] || now; !held[c] && notHeld[c] == "" {
					lacks = append(lacks, c)
				}
			}
			if lacks == nil {
				break
			}
		}
		count := 0
		for _, is := range held {
			if is {
				count++
			}
		}
		t.Logf("%s holds %d of %d", name, count, len(held))
		if lacks != nil || len(held) < 140 {
			t.Errorf("%s does not hold %q", name, lacks)
		}
	}
}

// TestEdgeSlowClients: while slowhttptest holds as many connections to a site as it can, by
// slow headers, slow bodies and slow reading, another site answers each request. How much
// slower it is the test says, and judges nothing: the machine may be busy.
func TestEdgeSlowClients(t *testing.T) {
	tool(t, "slowhttptest", "slowhttptest")
	const site = "shop.apps.example.org"
	harness.Ready(t, harness.Unready)
	e := &edge{http: harness.Address(t), https: harness.Address(t), given: filepath.Join(t.TempDir(), "pair.pem")}
	ca.Pair(t, e.given, site, otherName, panelName) // slowhttptest names no site in its handshake: a file has a certificate all the same
	e.daemon = upgradable(t, "--proxy-mode", "edge", "--proxy-http", e.http, "--proxy-https", e.https, "--proxy-cert", e.given, "--proxy-key", e.given+".key", "--proxy-domain", "apps.example.org", "--base-url", "https://"+panelName)
	e.Serve()
	ana := e.account("ana", 300)
	ana.Upload(htmlSite("other", "the other"))
	ana.Upload(htmlSite("shop", strings.Repeat("the shop ", 100_000)))
	e.untilCurl(otherName, "the other")
	e.untilCurl(site, "the shop")
	hosts := filepath.Join(e.Root, "hosts")
	harness.Write(t, hosts, "127.0.0.1 "+site+" "+panelName+"\n")
	d, err := e.dialer(otherName)
	if err != nil {
		t.Fatal(err)
	}
	visit := func() time.Duration { // with a handshake, as a new visitor
		began := time.Now()
		c := http.Client{Timeout: harness.Patience, Transport: &http.Transport{DisableKeepAlives: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", e.https)
		}}}
		resp, err := c.Get("https://" + otherName + "/")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("the other site does not answer: %v, %v", resp, err)
		}
		_ = resp.Body.Close()
		return time.Since(began)
	}
	port := strconv.Itoa(ca.Port(t, e.https))
	median := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)/2]
	}
	round := func() time.Duration {
		var all []time.Duration
		for range 100 {
			all = append(all, visit())
		}
		return median(all)
	}
	for _, mode := range []struct{ name, at, args string }{
		{"slow headers", site + ":" + port + "/", "-H -i 2"},
		{"slow bodies", panelName + ":" + port + "/login", "-B -i 2 -s 60000"},
		{"slow reading", site + ":" + port + "/", "-X -w 64 -y 512 -n 2 -z 32 -k 5"},
	} {
		var quiet, busy []time.Duration
		for range 5 {
			quiet = append(quiet, round())
			attack := named(t, hosts, "slowhttptest", append(strings.Fields(mode.args), "-c", "400", "-r", "400", "-l", "30", "-u", "https://"+mode.at)...)
			if err := attack.Start(); err != nil {
				t.Fatal(err)
			}
			harness.Eventually(t, "slowhttptest holds its connections", func() bool { return holds(t, e.https) >= 390 })
			busy = append(busy, round())
			t.Logf("%s: quiet %v, busy %v, %d connections", mode.name, quiet[len(quiet)-1], busy[len(busy)-1], holds(t, e.https))
			_ = attack.Process.Kill()
			_ = attack.Wait()
		}
		q, b := median(quiet), median(busy)
		t.Logf("%s: the other site takes %v, and %v meanwhile: %.2f", mode.name, q, b, float64(b)/float64(q))
	}
}

// holds is how many connections an address of this machine has.
func holds(t *testing.T, address string) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ss", "-Htn", "state", "established", "dst", address).Output() //nolint:gosec // the test's own words
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(out), "\n")
}
