package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/files"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) until(t *testing.T, text string, times int) string {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		said := l.b.String()
		l.mu.Unlock()
		if strings.Count(said, text) >= times {
			return said
		}
		if time.Now().After(deadline) {
			t.Fatalf("want %d times %q in:\n%s", times, text, said)
		}
	}
}

// A binary that cannot be executed at the last moment, when all is closed for
// it, leaves a daemon that serves on the same address, from the same directory.
func TestUpgradeThatCannotBeExecuted(t *testing.T) {
	s := testSettings(t)
	dir := t.TempDir()
	answer := fmt.Sprintf(`{"version":"9","dataDir":%q,"listen":"127.0.0.1:0"}`, s.DataDir)
	if err := os.WriteFile(filepath.Join(dir, "next"), []byte("#!/bin/sh\necho '"+answer+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	locked := false
	next := &nextBinary{path: filepath.Join(dir, "next"), exec: func(string, []string, []string) error {
		_, err := files.Lock(s.DataDir)
		locked = err != nil && strings.Contains(err.Error(), "another berth is serving from it")
		return unix.ENOEXEC
	}}
	sig := NewSignals(t.Context())
	defer sig.Stop()
	b, log := newHandover(), &lockedBuffer{}
	served := make(chan error, 1)
	go func() {
		served <- serveOn(sig, Options{Settings: s, Log: slog.New(slog.NewTextHandler(log, nil))}, b, next)
	}()
	address := regexp.MustCompile(`http://[0-9.:]+`).FindString(log.until(t, "listening on", 1))
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	said := log.until(t, "listening on", 2)
	if !strings.Contains(said, "serving as before") || !strings.Contains(said, unix.ENOEXEC.Error()) || strings.Count(said, address) != 2 || !locked {
		t.Errorf("locked: %t; it said:\n%s", locked, said)
	}
	for name, f := range b.files {
		conn, err := f.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Control(func(fd uintptr) {
			if flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != nil || flags != unix.FD_CLOEXEC {
				t.Errorf("%s: flags %d, %v", name, flags, err)
			}
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/v2/user", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-served, b.close()); err != nil {
		t.Error(err)
	}
}

func TestHandover(t *testing.T) {
	b := newHandover()
	dir := t.TempDir()
	if err := b.lock(dir); err != nil {
		t.Fatal(err)
	}
	l, err := b.listener(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	handed, err := b.pass()
	if err != nil || !strings.Contains(handed, "listen 127.0.0.1:0=") || !strings.Contains(handed, "lock=") {
		t.Fatalf("%q, %v", handed, err)
	}
	_ = l.Close()
	// An exec forgets who had the descriptors. Here each is one that nobody has.
	handed = regexp.MustCompile(`=\d+`).ReplaceAllStringFunc(handed, func(number string) string {
		fd, _ := strconv.Atoi(number[1:])
		same, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 0)
		if err != nil {
			t.Fatal(err)
		}
		return "=" + strconv.Itoa(same)
	})
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(handoverEnv, handed)
	again, err := receiveHandover()
	if err != nil || !again.handed || os.Getenv(handoverEnv) != "" {
		t.Fatal(again, err)
	}
	if err := again.lock(dir); err != nil {
		t.Errorf("the lock was not kept: %v", err)
	}
	l, err = again.listener(t.Context(), "127.0.0.1:0")
	if err != nil || l.Addr().String() != address {
		t.Errorf("it listens on %v, %v, want %s", l.Addr(), err, address)
	}
	_ = l.Close()
	if again.only("127.0.0.1:1"); len(again.files) != 1 {
		t.Errorf("left: %v", again.files)
	}
	if err := again.lock(t.TempDir()); err != nil { // of another directory
		t.Error(err)
	}
	if err := again.close(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "lock", "lock=x", "=5", "lock=1", "lock=987654"} {
		t.Setenv(handoverEnv, bad)
		if _, err := receiveHandover(); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestProve(t *testing.T) {
	for script, says := range map[string]string{
		"echo '{\"version\":\"2\",\"dataDir\":\"/d\"}'": "",
		"echo berth: cannot x: y >&2; exit 1":           "its self check failed: cannot x: y",
		"exit 3":                                        "its self check failed: exit status 3",
		"kill -9 $$":                                    "its self check failed: signal: killed",
		"head -c 100000 /dev/zero":                      "does not answer as berth does",
		"echo '{}'":                                     "does not answer as berth does",
	} {
		path := filepath.Join(t.TempDir(), "next")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		p, err := (&nextBinary{path: path}).prove(t.Context())
		if says == "" && (err != nil || p.Version != "2" || p.DataDir != "/d") || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %+v, %v", script, p, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nsleep 1000 & wait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := (&nextBinary{path: path}).prove(ctx); err == nil {
		t.Error("a check that was called off succeeded")
	}
}
