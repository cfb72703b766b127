package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/files"
	"berth/test/harness"
)

// Who waits for the disk, and no other, is excused while the disk hangs.
func TestAnswersWhileTheDiskHangs(t *testing.T) {
	s := testSettings(t)
	var log strings.Builder
	d, err := openDaemon(t.Context(), s, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer d.undo.close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer server.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	// Another process has the database, for as long as its input is open.
	python := exec.Command("/usr/bin/python3", "-c", `import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("BEGIN IMMEDIATE")
print("has it", flush=True)
sys.stdin.read()`, filepath.Join(s.DataDir, DatabaseName))
	hold, err := python.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := python.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := python.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		hold.Close()
		if err := python.Wait(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := said.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	ask := func(address string) bool { return d.pulse.answers(t.Context(), address, 300*time.Millisecond) }
	if ask(server.Listener.Addr().String()) {
		t.Error("the database hangs, the disk does not, and all is well")
	}
	thaw := make(chan struct{})
	d.data.disk = files.NewProber(func() { <-thaw })
	if !ask(server.Listener.Addr().String()) {
		t.Errorf("the disk hangs, and the daemon is ended for it: %s", &log)
	}
	if ask(silent.Addr().String()) {
		t.Error("the API hangs, which needs no disk, and all is well")
	}
	close(thaw)
	if err := d.data.disk.Wait(); err != nil {
		t.Error(err)
	}
	if ask(server.Listener.Addr().String()) {
		t.Error("the disk answers again, the database does not, and all is well")
	}
	if !strings.Contains(log.String(), "the disk does not answer; what waits for it goes on when it does") {
		t.Errorf("it logged %s", &log)
	}
}

// Control groups that somebody removes are there again a moment later, and the
// log says so, once.
func TestMendGroups(t *testing.T) {
	var log harness.Output
	d, err := openDaemon(t.Context(), testSettings(t), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer d.undo.close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); mendGroups(ctx, d.groups, 64, d.host.Bound, 5*time.Millisecond, d.log) }()
	defer func() { cancel(); <-done }()
	for n := range 2 {
		if err := os.Remove(filepath.Join(d.groups.Root(), "apps")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is there again", func() bool { _, err := os.Stat(filepath.Join(d.groups.Root(), "apps")); return err == nil })
		eventually(t, "it says so", func() bool {
			return strings.Count(log.String(), "somebody else changed berth's control groups; they are as before") == n+1
		})
	}
}
