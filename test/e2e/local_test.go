package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// overSocket sends requests to a Unix socket, each on a connection of its own.
func overSocket(path string) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}
}

func (d *daemon) socket() string { return filepath.Join(d.Runtime(), "berth.sock") }

// asOwner sends a request over the local socket, for an account unless that is "".
func (d *daemon) asOwner(method, path, account string) (harness.Answer, error) {
	r, err := http.NewRequestWithContext(context.Background(), method, "http://localhost"+path, http.NoBody)
	if err != nil {
		return harness.Answer{}, err
	}
	if account != "" {
		r.Header.Set("Berth-Account", account)
	}
	c := &harness.Client{T: d.T, Berth: d.Berth, By: &http.Client{Transport: overSocket(d.socket()), Timeout: harness.Patience}}
	return c.Try(r)
}

func (d *daemon) owner(method, path, account string) harness.Answer {
	d.T.Helper()
	a, err := d.asOwner(method, path, account)
	if err != nil {
		d.T.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// Root acts for every account without a token; nobody else does, whatever they send.
func TestLocalSocket(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	id := c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64"))
	listen := strings.TrimPrefix(d.Base, "http://")
	d.owner("GET", "/host", "").Want(200, "pid", d.Cmd.Process.Pid, "dataDir", d.Data, "listen", listen, "panel", true, "baseUrl", "", "sites", "[]")
	d.owner("GET", "/v2/user", "ana").Want(200, "user.username", "ana")
	d.owner("GET", "/v2/app/"+id, c.Account).Want(200, "apps.online", true)
	d.CLI("account", "disable", "ana")
	d.owner("PUT", "/v2/app/"+id+"/stop", "ana").Want(200)
	d.CLI("account", "enable", "ana")
	d.owner("GET", "/v2/user", "").Want(400)
	d.owner("GET", "/v2/user", "bob").Want(404)
	d.owner("GET", "/", "").Want(404)
	c.Until(id, "apps.online", false)

	// The network's listener reads none of it.
	c.Token = ""
	r := c.Request("PUT", "/v2/app/"+id+"/start", nil)
	r.Header.Set("Berth-Account", "ana")
	c.Send(r).Want(401)
	if a := c.Send(c.Request("GET", "/host", nil)); a.At("dataDir") != nil {
		t.Errorf("the network hears of the host: %s", a.Body)
	}
	c.Token = d.CLI("token", "create", "ana")

	var records []struct {
		Operation, Who, Refusal, From string
		Actor, Status, Token          int
		Account                       int64
	}
	harness.Eventually(t, "the stop is in the audit log", func() bool {
		records = nil
		if err := json.Unmarshal([]byte(d.CLI("audit", "--json")), &records); err != nil {
			t.Fatal(err)
		}
		for _, a := range records {
			if a.Operation != "app.stop" {
				continue
			}
			if a.Actor != 0 || a.Who != "owner (command line)" || fmt.Sprint(a.Account) != c.Account || a.Status != 200 || a.Token != 0 || a.From != "" {
				t.Errorf("the audit log has %+v", a)
			}
			return true
		}
		return false
	})

	// A command with another directory hears which one is served, and makes nothing there.
	other := filepath.Join(d.Root, "other")
	cmd := d.Command("account", "create", "bob", "--ram", "5", "--data-dir", other)
	cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR="+d.Runtime())
	out, _ := cmd.CombinedOutput()
	want := fmt.Sprintf("cannot use the data directory %s: the berth that runs here (pid %d) serves %s", other, d.Cmd.Process.Pid, d.Data)
	if cmd.ProcessState.ExitCode() != 78 || !strings.Contains(string(out), want) || harness.Exists(t, other) {
		t.Errorf("exit status %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}

// The socket answers through upgrades in place; a killed daemon's is replaced, a live one's
// is not; at the end it is gone.
func TestLocalSocketThroughLives(t *testing.T) {
	t.Parallel()
	d := upgradable(t)
	d.Serve()
	stop, problems := make(chan struct{}), make(chan error, 1)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				problems <- nil
				return
			default:
			}
			if a, err := d.asOwner("GET", "/host", ""); err != nil || a.Code != 200 {
				problems <- fmt.Errorf("request %d: %d, %w", n, a.Code, err)
				return
			}
		}
	}()
	for range 2 {
		d.Upgrade()
	}
	close(stop)
	if err := <-problems; err != nil {
		t.Errorf("during an upgrade: %v", err)
	}

	second := prepare(t)
	second.Env = append(second.Env, "BERTH_RUNTIME_DIR="+d.Runtime())
	second.Serve()
	says := fmt.Sprintf("the berth with the process id %d, which serves %s\" fix=\"give this daemon its own runtime_dir", d.Cmd.Process.Pid, d.Data)
	if !strings.Contains(second.Out.String(), says) {
		t.Errorf("a second daemon says %s", second.Out)
	}
	d.owner("GET", "/host", "").Want(200, "dataDir", d.Data)
	// Its commands find it by its lock.
	cmd := second.Command("account", "list", "--data-dir", second.Data)
	cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR="+d.Runtime())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a command of the second daemon: %v: %s", err, out)
	}
	second.End(syscall.SIGTERM)
	d.owner("GET", "/host", "").Want(200, "dataDir", d.Data)

	d.End(syscall.SIGKILL)
	if _, err := d.asOwner("GET", "/host", ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after SIGKILL: %v", err)
	}
	d.Serve()
	d.owner("GET", "/host", "").Want(200, "pid", d.Cmd.Process.Pid)
	if code := d.End(syscall.SIGTERM); code != 0 || harness.Exists(t, d.socket()) {
		t.Errorf("after a stop: exit status %d, and the socket is there: %v", code, harness.Exists(t, d.socket()))
	}
	d.Serve()
}

// Clients that send nothing, end half-way or are many keep neither the owner out nor the
// network. Without a directory for its socket the daemon serves.
func TestLocalSocketFaults(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	dial := func() *net.UnixConn {
		t.Helper()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", d.socket())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn.(*net.UnixConn)
	}
	half := dial()
	fmt.Fprint(half, "GET /host HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(half), nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("who closed half of the connection: %v", err)
	}
	broken := dial()
	fmt.Fprint(broken, "PUT /v2/app/all/stop HTTP/1.1\r\nHost: localhost\r\nBerth-Acc")
	_ = broken.Close()
	silent := dial()
	for range 1100 { // more than connections
		dial()
	}
	d.owner("GET", "/host", "").Want(200)
	c.Get("/user").Want(200)
	_ = silent.SetReadDeadline(time.Now().Add(harness.Patience))
	if _, err := io.ReadAll(silent); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("who sends nothing is not cut off: %v", err)
	}

	// The directory is removed, and made again.
	if err := os.RemoveAll(d.Runtime()); err != nil {
		t.Fatal(err)
	}
	c.Get("/user").Want(200)
	harness.Eventually(t, "the daemon notices", func() bool {
		return strings.Contains(d.Out.String(), "the local socket was removed; making it again")
	})
	harness.Eventually(t, "the socket is there again", func() bool {
		a, err := d.asOwner("GET", "/host", "")
		return err == nil && a.Code == 200
	})

	// A read-only file system, as /run is for a unit of before.
	k := harness.NewDisk(t, d.Root, 8, "rw")
	k.Command("mount", "-o", "remount,ro", k.Dir)
	blind := prepare(t)
	blind.Env = append(blind.Env, "BERTH_RUNTIME_DIR="+filepath.Join(k.Dir, "run"))
	blind.Serve()
	if said := blind.Out.String(); !strings.Contains(said, "there is no local socket, and berth serves without it") || !strings.Contains(said, "read-only file system") {
		t.Errorf("the daemon said %s", said)
	}
	blind.account("ana", 100).Get("/user").Want(200)
	if code := blind.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// asking is a program that asks by the local socket, at a path and by the roots of the
// daemon and of the first process, and prints what comes of it.
const asking = `import errno, socket
def ask(path):
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(path)
            s.sendall(b"GET /host HTTP/1.0\r\nHost: a\r\n\r\n")
            return s.recv(12).decode() or "closed"
    except OSError as e:
        return "closed" if e.errno in (errno.EPIPE, errno.ECONNRESET) else errno.errorcode.get(e.errno, str(e))
print("ASKED", ask(PATH), ask("/proc/PID/root" + PATH), ask("/proc/1/root" + PATH), "END", flush=True)
`

// TestLocalSocketIsClosedToPrograms: with every wall, without those that need mounts, and
// without eBPF. Modes that somebody loosened change nothing.
func TestLocalSocketIsClosedToPrograms(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, under := range map[string][]string{
		"every wall": nil, "without mounts": {"setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"}, "without eBPF": {self, withoutBPF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(under) > 0 {
				if _, err := exec.LookPath(under[0]); err != nil {
					t.Skip(err)
				}
			}
			d := prepare(t)
			d.Under = under
			d.Serve()
			c := d.account("ana", 400)
			script := strings.NewReplacer("PATH", fmt.Sprintf("%q", d.socket()), "PID", fmt.Sprint(d.Cmd.Process.Pid)).Replace(asking)
			id := c.Upload(harness.PythonBot(script+"import signal; signal.pause()\n", "RAM=64").With("ask.py", script))
			asked := func(text string) []string {
				t.Helper()
				_, rest, _ := strings.Cut(text, "ASKED ")
				words, _, _ := strings.Cut(rest, " END")
				return strings.Fields(words)
			}
			want := func(got []string, what string, ok ...string) {
				t.Helper()
				for _, word := range got {
					if !strings.Contains(" "+strings.Join(ok, " ")+" ", " "+word+" ") {
						t.Errorf("%s: the program got %v", what, got)
					}
				}
				if len(got) != 3 {
					t.Errorf("%s: the program got %v", what, got)
				}
			}
			want(asked(c.UntilLog(id, " END\n")), "at first", "ENOENT", "EACCES")
			for path, mode := range map[string]os.FileMode{d.Runtime(): 0o711, d.socket(): 0o666} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			got := asked(c.console(id, "python3 ask.py").Want(200).Text("apps.shell.stdout"))
			want(got, "with other modes", "ENOENT", "EACCES", "closed")
			if open := strings.Contains(d.Out.String(), "wall=mounts"); open != (len(got) > 0 && got[0] == "closed") {
				t.Errorf("with other modes, a program without the wall mounts (%v) got %v", open, got)
			}
			refused := func() bool {
				return strings.Contains(d.Out.String(), "a user who is not root connected to the local socket")
			}
			if slices.Contains(got, "closed") {
				harness.Eventually(t, "the daemon says that it refused a user", refused) // its output is a pipe
			} else if refused() {
				t.Error("the daemon says that it refused a user")
			}
			d.owner("GET", "/host", "").Want(200)
		})
	}
}
