package attacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/harness"
)

// uids are the user ids of one daemon.
const uids = 100

var daemons atomic.Int64

// daemon is a berth serve with an account, whose token the methods use.
type daemon struct {
	harness.Daemon
	t          *testing.T
	root       string // open to programs
	uids       int    // the first of its user ids
	data       string
	runtimeDir string // its runtime directory, as /run/berth is
	token      string
}

var web = &http.Client{Timeout: 2 * time.Minute}

// launch starts a daemon that ends with the test, which fails unless nothing is
// left of its programs.
func launch(t *testing.T, args ...string) *daemon {
	t.Helper()
	return launchOn(t, "", args...)
}

// launchOn is launch on a disk of its own in memory, unless its options are "".
func launchOn(t *testing.T, disk string, args ...string) *daemon {
	t.Helper()
	harness.Ready(t, unready)
	root, err := os.MkdirTemp("/tmp", "berth-attacks.") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o711); err != nil {
		t.Fatal(err)
	}
	n, port := int(daemons.Add(1))*uids, harness.Ports(t, harness.PortCount)
	d := &daemon{t: t, root: root, data: filepath.Join(root, "data"), uids: 500000 + n} // beyond those of other tests
	if disk != "" {
		if err := errors.Join(os.Mkdir(d.data, 0o711), unix.Mount("tmpfs", d.data, "tmpfs", 0, disk)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(berth, append([]string{
		"serve", "--data-dir", d.data, "--listen", "127.0.0.1:0", "--rate-limit", "100000", "--apps-ok-delay", "400ms", "--apps-stop-timeout", "2s",
		"--apps-uid-base", strconv.Itoa(d.uids), "--apps-uid-count", strconv.Itoa(uids),
		"--apps-port-first", strconv.Itoa(port), "--apps-port-last", strconv.Itoa(port + harness.PortCount - 1),
	}, args...)...)
	if d.runtimeDir, err = os.MkdirTemp("/run", "berth-attacks."); err != nil { //nolint:usetesting // where the host's is
		t.Fatal(err)
	}
	cmd.Env = append(harness.CleanEnv(), "BERTH_ATTACKS_SECRET=leak", "BERTH_RUNTIME_DIR="+d.runtimeDir)
	// It inherits a descriptor that its programs would inherit in turn.
	leak, err := os.Open("/etc/shadow")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	cmd.ExtraFiles = []*os.File{leak}
	t.Cleanup(func() { d.finish() })
	d.Start(t, cmd)
	d.run("account", "create", "ana", "--ram", "4096")
	d.token = d.run("token", "create", "ana")
	return d
}

// in is the same daemon for a subtest.
func (d *daemon) in(t *testing.T) *daemon {
	copied := *d
	copied.t = t
	return &copied
}

// run is berth with these arguments on the daemon's data.
func (d *daemon) run(args ...string) string {
	d.t.Helper()
	cmd := exec.Command(berth, append(args, "--data-dir", d.data)...)
	cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR="+d.runtimeDir)
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("berth %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// finish deletes everything and looks for what is left.
func (d *daemon) finish() {
	d.Fallen(d.data)
	if d.Cmd != nil && !d.Ended() {
		for _, id := range d.ids() {
			d.send(d.request(http.MethodDelete, "/app/"+id+"/delete", nil)).want(200)
		}
		for _, dir := range []string{"apps", "logs", "staging", "rollback", "tmp"} {
			if left, _ := os.ReadDir(filepath.Join(d.data, dir)); len(left) > 0 {
				d.t.Errorf("left in %s: %v", dir, left)
			}
		}
		web.CloseIdleConnections()
		if code := d.End(syscall.SIGTERM); code != 0 {
			d.t.Errorf("the daemon's exit status is %d", code)
		}
		if left := processes(d.uids, uids); len(left) > 0 {
			d.t.Errorf("left running: %v", left)
		}
	}
	if d.t.Failed() && d.Out != nil {
		d.t.Logf("the daemon said:\n%s", d.Out)
	}
	_ = unix.Unmount(d.data, unix.MNT_DETACH) // if it is a disk of its own
	if err := errors.Join(os.RemoveAll(d.root), os.RemoveAll(d.runtimeDir)); err != nil {
		d.t.Error(err)
	}
}

// processes are those of some user ids, without those that have ended.
func processes(first, count int) (pids []int) {
	list, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range list {
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil || strings.Contains(string(status), "\nState:\tZ") {
			continue
		}
		_, rest, _ := strings.Cut(string(status), "\nUid:")
		words := strings.Fields(rest)
		if len(words) == 0 {
			continue
		}
		if uid, err := strconv.Atoi(words[0]); err == nil && uid >= first && uid < first+count {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

// uid is an application's user.
func (d *daemon) uid(id string) int {
	info, err := os.Stat(d.path(id))
	if err != nil {
		d.t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

// path is a file of an application.
func (d *daemon) path(id string, name ...string) string {
	return filepath.Join(append([]string{d.data, "apps", id}, name...)...)
}

// answer is what the API said.
type answer struct {
	t     *testing.T
	code  int
	body  []byte
	value any
}

func (d *daemon) request(method, path string, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, d.Base+"/v2"+path, body)
	if err != nil {
		panic(err)
	}
	r.Header.Set("api-token", d.token)
	return r
}

func (d *daemon) send(r *http.Request) answer {
	d.t.Helper()
	resp, err := web.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	a := answer{t: d.t, code: resp.StatusCode, body: body}
	_ = json.Unmarshal(body, &a.value) // what is no JSON has no value
	return a
}

func (d *daemon) get(path string) answer {
	d.t.Helper()
	return d.send(d.request(http.MethodGet, path, nil))
}

func (d *daemon) put(path string) answer {
	d.t.Helper()
	return d.send(d.request(http.MethodPut, path, nil))
}

func (d *daemon) form(method, path string, zip []byte) answer {
	d.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, _ := w.CreateFormFile("file", "app.zip") // a Buffer takes everything
	_, _ = part.Write(zip)
	_ = w.Close()
	r := d.request(method, path, &b)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return d.send(r)
}

// upload makes an application and returns its id.
func (d *daemon) upload(files map[string]string) string {
	d.t.Helper()
	a := d.form(http.MethodPost, "/upload", harness.Zip(files)).want(200)
	if a.code != 200 {
		d.t.FailNow()
	}
	return a.text("app.id")
}

func (d *daemon) console(id, command string) answer {
	d.t.Helper()
	body, _ := json.Marshal(map[string]string{"command": command}) // a text can be written
	r := d.request(http.MethodPut, "/app/"+id+"/console", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return d.send(r)
}

// download fetches a link as a browser would.
func (d *daemon) download(link string) []byte {
	d.t.Helper()
	resp, err := web.Get(link)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		d.t.Fatalf("GET %s: %d %v %s", link, resp.StatusCode, err, body)
	}
	return body
}

func (d *daemon) log(id string) string {
	d.t.Helper()
	return string(d.download(d.get("/app/" + id + "/logs").text("apps.terminal.url")))
}

// untilLog polls the log until it holds a text, and returns it.
func (d *daemon) untilLog(id, text string) (log string) {
	d.t.Helper()
	defer func() {
		if !strings.Contains(log, text) {
			d.t.Logf("the log is:\n%s", log[max(0, len(log)-4000):])
		}
	}()
	harness.Eventually(d.t, fmt.Sprintf("the log says %q", text), func() bool {
		log = d.log(id)
		return strings.Contains(log, text)
	})
	return log
}

func (d *daemon) ids() (ids []string) {
	list, _ := d.get("/user").at("user.apps").([]any)
	for _, id := range list {
		ids = append(ids, fmt.Sprint(id))
	}
	return ids
}

// at is the value under a dotted path, nil when there is none.
func (a answer) at(path string) any {
	v := a.value
	for key := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[key]
	}
	return v
}

func (a answer) text(path string) string { return fmt.Sprint(a.at(path)) }

// want checks the HTTP status and pairs of path and value.
func (a answer) want(code int, pairs ...any) answer {
	a.t.Helper()
	if a.code != code {
		a.t.Errorf("the status is %d, want %d: %s", a.code, code, a.body)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if got, want := a.text(pairs[i].(string)), fmt.Sprint(pairs[i+1]); got != want {
			a.t.Errorf("%s is %s, want %s: %s", pairs[i], got, want, a.body)
		}
	}
	return a
}

// bot is an application of some files and settings.
func bot(main string, files map[string]string, lines ...string) map[string]string {
	all := map[string]string{"discloud.config": strings.Join(append([]string{"TYPE=bot", "MAIN=" + main, "AUTORESTART=false"}, lines...), "\n") + "\n"}
	for name, text := range files {
		all[name] = text
	}
	return all
}

// source is a file of testdata.
func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// owner is who a file belongs to.
func owner(info os.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(st.Uid, ":", st.Gid)
}
