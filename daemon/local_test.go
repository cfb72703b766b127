package daemon

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/daemon/settings"
	"berth/web/local"
)

// ownerAt is the local socket of a daemon whose runtime directory is dir, and its log.
func ownerAt(t *testing.T, dir string, h *handover) (*ownerSocket, *strings.Builder) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: no other user is let in")
	}
	log := &strings.Builder{}
	o := newOwnerSocket(settings.Settings{RuntimeDir: dir}, h, slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { _ = o.listener.Close(); _ = h.close() })
	return o, log
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "berth-local.") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "run")
}

// answers serves what a daemon says of itself, until the test ends.
func answers(t *testing.T, o *ownerSocket, data string) {
	t.Helper()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"pid": 1, "dataDir": "` + data + `"}`))
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(o.listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
}

func wantServed(t *testing.T, dir, data string) {
	t.Helper()
	if d, err := local.Ask(t.Context(), dir); err != nil || d.DataDir != data {
		t.Errorf("%s answers %+v, %v, want %s", dir, d, err, data)
	}
}

// What was removed while the daemon runs is made again, at the next look.
func TestLocalSocketIsMended(t *testing.T) {
	dir := shortDir(t)
	o, log := ownerAt(t, dir, newHandover())
	o.open(t.Context())
	answers(t, o, "/one")
	wantServed(t, dir, "/one")
	o.mend(t.Context())
	if log.Len() > 0 {
		t.Errorf("it said %s", log)
	}
	for _, path := range []string{local.Path(dir), dir} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if _, err := local.Ask(t.Context(), dir); !errors.Is(err, local.ErrNobody) {
			t.Errorf("without %s: %v", path, err)
		}
		log.Reset()
		o.mend(t.Context())
		wantServed(t, dir, "/one")
		if !strings.Contains(log.String(), `msg="the local socket was removed; making it again"`) || !strings.Contains(log.String(), `msg="the local socket is open"`) {
			t.Errorf("it said %s", log)
		}
	}
	o.remove()
	if _, err := os.Lstat(local.Path(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}

// A daemon that cannot make the socket says why, once, and has it once it can.
func TestLocalSocketWaitsForItsDirectory(t *testing.T) {
	dir := shortDir(t)
	parent := filepath.Dir(dir)
	if err := os.RemoveAll(parent); err != nil {
		t.Fatal(err)
	}
	o, log := ownerAt(t, dir, newHandover())
	o.open(t.Context())
	o.mend(t.Context())
	if n := strings.Count(log.String(), "there is no local socket, and berth serves without it"); n != 1 || !strings.Contains(log.String(), "no such file or directory") {
		t.Errorf("it said %s", log)
	}
	answers(t, o, "/one")
	if err := os.Mkdir(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	o.mend(t.Context())
	wantServed(t, dir, "/one")
}

// The socket of a live daemon is its own, also when that daemon has gone: commands would
// otherwise change the other's data without anybody's wish.
func TestLocalSocketOfAnotherDaemon(t *testing.T) {
	dir := shortDir(t)
	first, _ := ownerAt(t, dir, newHandover())
	first.open(t.Context())
	answers(t, first, "/one")
	second, log := ownerAt(t, dir, newHandover())
	second.open(t.Context())
	answers(t, second, "/two")
	if want := "the berth with the process id 1, which serves /one\" fix=\"give this daemon its own runtime_dir"; !strings.Contains(log.String(), want) {
		t.Errorf("it said %s, want %q", log, want)
	}
	second.remove()
	wantServed(t, dir, "/one")
	first.remove()
	second.mend(t.Context())
	if _, err := local.Ask(t.Context(), dir); !errors.Is(err, local.ErrNobody) {
		t.Errorf("the second has it: %v", err)
	}
}

// The next image of the daemon has the same socket: who connects meanwhile waits.
func TestLocalSocketIsHandedOn(t *testing.T) {
	dir := shortDir(t)
	h := newHandover()
	before, _ := ownerAt(t, dir, h)
	before.open(t.Context())
	inode := before.there
	_ = before.listener.Close()
	h.only("127.0.0.1:1") // which is for those of the network
	waits, err := net.Dial("unix", local.Path(dir))
	if err != nil {
		t.Fatal("between two images: ", err)
	}
	defer waits.Close()

	after, log := ownerAt(t, dir, h)
	after.open(t.Context())
	answers(t, after, "/one")
	if log.Len() > 0 || !os.SameFile(inode, after.there) {
		t.Errorf("it said %s", log)
	}
	_ = waits.SetDeadline(time.Now().Add(time.Minute))
	if _, err := waits.Write([]byte("GET /host HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := waits.Read(make([]byte, 100)); n == 0 {
		t.Errorf("who waited got %v", err)
	}
	_ = after.listener.Close()

	// An image with another directory has another socket.
	moved := shortDir(t)
	elsewhere, _ := ownerAt(t, moved, h)
	elsewhere.open(t.Context())
	answers(t, elsewhere, "/one")
	wantServed(t, moved, "/one")
	if _, err := local.Ask(t.Context(), dir); !errors.Is(err, local.ErrNobody) {
		t.Errorf("at the directory of before: %v", err)
	}
}
