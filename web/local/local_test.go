package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/app"
)

// connectWord lets the test binary be a process of another user that connects to the
// socket in its second argument, and prints what it reads until the end.
const connectWord = "connect-to-the-local-socket"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == connectWord {
		c, err := net.DialTimeout("unix", os.Args[2], 10*time.Second)
		if err != nil {
			os.Stdout.WriteString(err.Error())
			return
		}
		_, _ = c.Write([]byte("GET /host HTTP/1.0\r\nHost: localhost\r\n\r\n"))
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, err := io.ReadAll(c)
		os.Stdout.WriteString("connected: " + string(answer))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			os.Stdout.WriteString(err.Error())
		}
		return
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && code == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			code = 1
		}
	}
	os.Exit(code)
}

// runtimeDir is a short path: a socket's has 107 bytes at most.
func runtimeDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "berth-local.") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "run")
}

// serve answers on the socket in dir as a daemon with a data directory.
func serve(t *testing.T, dir, data string) (l *Listener, refused *atomic.Int64) {
	t.Helper()
	socket, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	refused = &atomic.Int64{}
	l = NewListener(dir, func(uid uint32, _ int32) { refused.Store(int64(uid)) })
	l.Use(socket)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(Daemon{PID: os.Getpid(), DataDir: data, Listen: r.Host})
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l, refused
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: no other user is let in")
	}
}

func TestAsk(t *testing.T) {
	asRoot(t)
	dir := runtimeDir(t)
	if _, err := Ask(t.Context(), dir); !errors.Is(err, ErrNobody) {
		t.Errorf("without a directory: %v", err)
	}
	serve(t, dir, "/srv/berth")
	d, err := Ask(t.Context(), dir)
	if err != nil || d.DataDir != "/srv/berth" || d.PID != os.Getpid() || d.Listen != "localhost" {
		t.Errorf("got %+v, %v", d, err)
	}
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, Path(dir): fs.ModeSocket | 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %s", path, info.Mode(), err, want)
		}
	}
}

func TestAskWhatIsNoBerth(t *testing.T) {
	asRoot(t)
	for name, handler := range map[string]http.HandlerFunc{
		"another answer": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"hello": 1}`)) },
		"no JSON":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) },
		"an error":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a redirect":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := runtimeDir(t)
			socket, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{Handler: handler}
			done := make(chan error, 1)
			go func() { done <- server.Serve(socket) }()
			defer func() { _ = server.Close(); <-done }()
			if d, err := Ask(t.Context(), dir); err == nil || !strings.HasPrefix(err.Error(), "cannot ask the daemon at "+Path(dir)+": ") {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
}

func TestChanged(t *testing.T) {
	asRoot(t)
	dir := runtimeDir(t)
	if err := Changed(t.Context(), dir, 7); !errors.Is(err, ErrNobody) {
		t.Errorf("without a directory: %v", err)
	}
	socket, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "PUT /host/accounts/7/changed":
			_, _ = w.Write([]byte(`{"status": "ok"}`))
		case "GET /host/accounts/7":
			_, _ = w.Write([]byte(`{"files": {"bot": 5}, "backups": 1, "backupBytes": 2}`))
		case "PUT /host/accounts/8/changed":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"status": "error", "message": "There is no account 8."}`))
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(socket) }()
	defer func() { _ = server.Close(); <-done }()
	for id, want := range map[app.AccountID]string{7: "", 8: "There is no account 8.", 9: "500 Internal Server Error"} {
		if err := Changed(t.Context(), dir, id); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%d: %v, want %q", id, err, want)
		}
	}
	if use, err := DiskUseOf(t.Context(), dir, 7); err != nil || use.Files["bot"] != 5 || use.Backups != 1 || use.BackupBytes != 2 {
		t.Errorf("the disk: %+v, %v", use, err)
	}
	if err := Delete(t.Context(), dir, 7); err == nil || err.Error() != "500 Internal Server Error" {
		t.Errorf("delete: %v", err)
	}
}

// What listens and says nothing is waited for only so long.
func TestAskWaitsNoLongerThanItsContext(t *testing.T) {
	asRoot(t)
	dir := runtimeDir(t)
	socket, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Ask(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A socket that a killed daemon left is replaced; that of a live one, and what is no
// socket, are not.
func TestOpen(t *testing.T) {
	dir := runtimeDir(t)
	first, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrTaken) {
		t.Errorf("where somebody listens: %v", err)
	}
	_ = first.Close()
	if _, err := os.Lstat(Path(dir)); err != nil {
		t.Errorf("the socket is gone with its listener: %v", err)
	}
	second, err := Open(dir)
	if err != nil {
		t.Fatal("where a socket is left over: ", err)
	}
	_ = second.Close()

	if err := errors.Join(os.Remove(Path(dir)), os.WriteFile(Path(dir), []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "a file that is no socket is in its place") {
		t.Errorf("where a file is: %v", err)
	}
	if text, _ := os.ReadFile(Path(dir)); string(text) != "mine" {
		t.Errorf("the file holds %q", text)
	}
	if err := errors.Join(os.Remove(Path(dir)), os.Symlink("/etc/passwd", Path(dir))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a link was replaced")
	}
}

func TestOpenRefusesDirectories(t *testing.T) {
	writable, file, foreign := runtimeDir(t), runtimeDir(t), runtimeDir(t)
	err := errors.Join(os.Mkdir(writable, 0o700), os.Chmod(writable, 0o777), os.WriteFile(file, nil, 0o600), os.Mkdir(foreign, 0o700))
	if os.Geteuid() == 0 {
		err = errors.Join(err, os.Chown(foreign, 4711, 4711))
	} else {
		foreign = "/tmp"
	}
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		writable:                           "other users may change the directory " + writable,
		foreign:                            "other users may change the directory " + foreign,
		file:                               file + " is no directory",
		filepath.Join(writable, "a", "b"):  "no such file or directory",
		"/proc/berth":                      "no such file or directory",
		"/tmp/" + strings.Repeat("x", 107): "its path has more than 107 bytes; name a shorter directory with runtime_dir",
	} {
		l, err := Open(dir)
		if err == nil {
			_ = l.Close()
			t.Errorf("%s: it was opened", dir)
		} else if !strings.HasPrefix(err.Error(), "cannot open the local socket "+Path(dir)+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
	if info, err := os.Stat(writable); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("its mode is %v now, %v", info.Mode(), err)
	}
}

// Two daemons that start at once do not take the socket from each other.
func TestOpenAtOnce(t *testing.T) {
	dir := runtimeDir(t)
	left, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = left.Close()
	const many = 20
	all := make(chan *net.UnixListener, many)
	for range many {
		go func() {
			l, err := Open(dir)
			if err != nil && !errors.Is(err, ErrTaken) {
				t.Error(err)
			}
			all <- l
		}()
	}
	got := 0
	for range many {
		if l := <-all; l != nil {
			got++
			defer l.Close()
		}
	}
	if got != 1 {
		t.Errorf("%d have it", got)
	}
}

// The mode of the socket is not what keeps others out: the kernel says who they are.
func TestOtherUsersAreRefused(t *testing.T) {
	asRoot(t)
	dir := runtimeDir(t)
	_, refused := serve(t, dir, "/srv/berth")
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(filepath.Dir(dir), "test") // where others may read
	text, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(exe, text, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), exe, connectWord, Path(dir))
		cmd.Dir, cmd.Env = "/", []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if got := as(4711); !strings.HasSuffix(got, "connect: permission denied") {
		t.Errorf("by its modes: %q", got)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(Path(dir), 0o666)); err != nil {
		t.Fatal(err)
	}
	if got := as(4711); got != "connected: " || refused.Load() != 4711 {
		t.Errorf("by its credentials: %q, and the user %d was told of", got, refused.Load())
	}
	if got := as(0); !strings.Contains(got, `"dataDir":"/srv/berth"`) {
		t.Errorf("root got %q", got)
	}
}

// A client does not speak with what another user has put in the socket's place.
func TestImpostor(t *testing.T) {
	asRoot(t)
	dir := runtimeDir(t)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: Path(dir)}); err != nil {
		t.Fatal(err)
	}
	// The kernel remembers who called listen(2), by the thread's user.
	listened := make(chan error)
	go func() {
		// The thread ends with its goroutine, for it is another user's.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, 4711, 4711, 4711); errno != 0 {
			listened <- errno
			return
		}
		listened <- syscall.Listen(fd, 1)
	}()
	if err := <-listened; err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(t.Context(), dir); !errors.Is(err, ErrImpostor) {
		t.Errorf("got %v", err)
	}
}

// A listener goes on with another socket, and ends while it has none.
func TestListenerChangesItsSocket(t *testing.T) {
	asRoot(t)
	dir := runtimeDir(t)
	l, _ := serve(t, dir, "/srv/berth")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(t.Context(), dir); !errors.Is(err, ErrNobody) {
		t.Errorf("without the socket: %v", err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.Use(again)
	if _, err := Ask(t.Context(), dir); err != nil {
		t.Error(err)
	}

	idle := NewListener(dir, nil)
	ended := make(chan error, 1)
	go func() { _, err := idle.Accept(); ended <- err }()
	if err := errors.Join(idle.Close(), idle.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("at the end: %v", err)
	}
	late, err := Open(runtimeDir(t))
	if err != nil {
		t.Fatal(err)
	}
	idle.Use(late) // which is closed
	if err := late.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("what comes too late: %v", err)
	}
}
