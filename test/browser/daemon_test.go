package browser

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"berth/test/harness"
)

// domain is below which a daemon's sites are.
const domain = "apps.example.org"

// daemon is a berth serve with an account that has a token.
type daemon struct {
	harness.Daemon
	t     *testing.T
	data  string
	token string
	args  []string // of serve
}

// each daemon has user ids of its own.
const each = 50

var daemons atomic.Int64

// launch starts a daemon that ends with the test, with the account ana. args are
// more flags of serve.
func launch(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := bare(t, args...)
	d.run("account", "create", "ana", "--ram", "4096")
	d.token = d.run("token", "create", "ana")
	return d
}

// bare is launch without any account.
func bare(t *testing.T, args ...string) *daemon {
	t.Helper()
	harness.Ready(t, unready)
	root, err := os.MkdirTemp("/tmp", "berth-browser.") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Chmod(root, 0o711); err != nil { //nolint:gosec // programs pass through
		t.Fatal(err)
	}
	n, port := int(daemons.Add(1))*each, harness.Ports(t, harness.PortCount)
	d := &daemon{t: t, data: filepath.Join(root, "data")}
	d.args = append([]string{
		"serve", "--data-dir", d.data, "--listen", "127.0.0.1:0", "--rate-limit", "10000", "--apps-ok-delay", "400ms", "--apps-stop-timeout", "5s",
		"--apps-uid-base", strconv.Itoa(450000 + n), "--apps-uid-count", strconv.Itoa(each),
		"--apps-port-first", strconv.Itoa(port), "--apps-port-last", strconv.Itoa(port + harness.PortCount - 1),
	}, args...)
	d.begin()
	t.Cleanup(func() {
		d.Fallen(d.data)
		http.DefaultClient.CloseIdleConnections()
		if code := d.End(syscall.SIGTERM); code != 0 {
			t.Errorf("the daemon's exit status is %d", code)
		}
		if t.Failed() {
			t.Logf("the daemon said:\n%s", d.Out)
		}
	})
	return d
}

// begin starts the daemon, for the first time or after it has ended.
func (d *daemon) begin() {
	d.t.Helper()
	cmd := exec.Command(berth, d.args...)
	cmd.Env = harness.CleanEnv()
	d.Start(d.t, cmd)
}

// launchSites is launch with a proxy for sites, which Chromium finds.
func launchSites(t *testing.T, args ...string) *daemon {
	t.Helper()
	return launch(t, append([]string{"--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", domain}, args...)...)
}

var sitesAt = regexp.MustCompile(`sites are served.* listen=([0-9.:]+)`)

// sites is the address at which the daemon serves sites, "" when it does not: by
// HTTPS in mode edge, else by HTTP.
func (d *daemon) sites() string {
	if m := sitesAt.FindStringSubmatch(d.Out.String()); m != nil {
		return m[1]
	}
	return ""
}

// run is berth with these arguments on the daemon's data.
func (d *daemon) run(args ...string) string {
	d.t.Helper()
	return d.runWith("", args...)
}

// runWith is run with a standard input.
func (d *daemon) runWith(input string, args ...string) string {
	d.t.Helper()
	cmd := exec.Command(berth, append(args, "--data-dir", d.data)...)
	cmd.Env, cmd.Stdin = harness.CleanEnv(), strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("berth %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// ask sends a request to the API with the token in it and returns the status and
// the body of the answer.
func (d *daemon) ask(method, path, kind string, body io.Reader) (int, string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.Base+"/v2"+path, body)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("api-token", d.token)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// put asks for a change, with a JSON body or "" for none; it must succeed.
func (d *daemon) put(path, body string) {
	d.t.Helper()
	kind := ""
	if body != "" {
		kind = "application/json"
	}
	if status, text := d.ask(http.MethodPut, path, kind, strings.NewReader(body)); status != http.StatusOK {
		d.t.Fatalf("PUT %s: %d %s", path, status, text)
	}
}

// upload makes an application of files and returns its ID; it must succeed.
func (d *daemon) upload(files map[string]string) string {
	d.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "app.zip")
	if err != nil {
		d.t.Fatal(err)
	}
	_, _ = part.Write(harness.Zip(files)) // a Buffer takes everything
	_ = w.Close()
	status, text := d.ask(http.MethodPost, "/upload", w.FormDataContentType(), &form)
	var answer struct{ App struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		d.t.Fatalf("the upload: %d %s", status, text)
	}
	return answer.App.ID
}

// config is a discloud.config for a site.
func config(id, main string, ram int, lines ...string) string {
	return strings.Join(append([]string{"ID=" + id, "TYPE=site", "MAIN=" + main, "RAM=" + strconv.Itoa(ram), "AUTORESTART=false"}, lines...), "\n") + "\n"
}
