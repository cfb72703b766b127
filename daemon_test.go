package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/logs"
)

// testSettings are the defaults over a data directory that programs can reach.
func testSettings(t *testing.T) Settings {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the daemon makes control groups")
	}
	dir, err := os.MkdirTemp("", "berth-daemon-") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	c := &call{command: command{name: "serve"}}
	from := addSettingFlags(c.flags())
	from.fallback = ""
	s, err := from.load(func(name string) string {
		return map[string]string{"BERTH_DATA_DIR": filepath.Join(dir, "data"), "BERTH_LISTEN": "127.0.0.1:0"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDaemonOpensAndCloses(t *testing.T) {
	s := testSettings(t)
	d, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another berth is serving from it") {
		t.Errorf("a second daemon on the directory: %v", err)
	}
	root := d.groups.Root()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", s.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.serve(ctx, context.Background(), l) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/v2/user", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("GET /v2/user = %v, %v; want 401", resp, err)
	}
	_ = resp.Body.Close()
	showsRefusal(t, s)
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve() = %v", err)
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the control groups are still there: %v", err)
	}
	keepsRefusal(t, s)
}

func TestDaemonRefuses(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Settings)
		says string
	}{
		{"unreachable", func(s *Settings) {
			dir := filepath.Join(filepath.Dir(s.DataDir), "closed")
			if err := os.Mkdir(dir, 0o700); err != nil {
				panic(err)
			}
			s.DataDir = filepath.Join(dir, "data")
		}, "chmod o+x"},
		{"no directory", func(s *Settings) { s.DataDir = "/proc/nowhere/data" }, "cannot make the data directory"},
		{"a file", func(s *Settings) { s.DataDir = os.DevNull }, "not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := testSettings(t)
			tt.edit(&s)
			if _, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}

func TestGroupName(t *testing.T) {
	a, b := groupName("/var/lib/berth"), groupName("/tmp/other")
	if a == b || len(a) != 8 || a != groupName("/var/lib/berth") {
		t.Errorf("%q and %q", a, b)
	}
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if groupName(link) != groupName(dir) {
		t.Error("a link to the data directory has groups of its own")
	}
}

func TestSignals(t *testing.T) {
	s := signals(t.Context())
	defer s.stop()
	send := func(sig syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(ctx context.Context) {
		t.Helper()
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Second):
			t.Fatal("the signal did nothing")
		}
	}
	for range 2 {
		send(syscall.SIGHUP)
		select {
		case <-s.hangups:
		case <-time.After(30 * time.Second):
			t.Fatal("the hang-up did nothing")
		}
	}
	if s.first.Err() != nil {
		t.Fatal("a hang-up ends the daemon")
	}
	s.pause()()
	send(syscall.SIGTERM)
	ends(s.first)
	send(syscall.SIGHUP) // of the same end of a session
	<-s.hangups
	if s.second.Err() != nil {
		t.Fatal("a hang-up counts as the second signal")
	}
	send(syscall.SIGTERM)
	ends(s.second)
}

func TestEnvironment(t *testing.T) {
	s := &starter{path: "/usr/bin"}
	p := app.Program{App: "bot", Port: 20001, Env: []string{"NODE_ENV=production"}}
	got := s.environment(p, "/data/apps/bot", "/data/tmp/bot")
	var names []string
	for _, v := range got {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	want := []string{"PATH", "LANG", "NODE_ENV", "HOME", "TMPDIR", "PORT", "BERTH_APP_ID"}
	if !slices.Equal(names, want) || !slices.Contains(got, "PORT=20001") || !slices.Contains(got, "HOME=/data/apps/bot") {
		t.Errorf("got %v", got)
	}
	// What a build has more is below its temporary directory.
	p.Build = true
	more := s.environment(p, "/data/apps/bot", "/data/tmp/bot.build")
	if len(more) != len(got)+len(caches) {
		t.Errorf("a build gets %v", more)
	}
	for _, v := range more[len(got):] {
		if _, dir, _ := strings.Cut(v, "="); !strings.HasPrefix(dir, "/data/tmp/bot.build/") {
			t.Errorf("a build gets %s", v)
		}
	}
}

// An owner's variables beat every default, and nothing that is true of the
// place a program runs in.
func TestVariablesInTheEnvironment(t *testing.T) {
	s := &starter{path: "/usr/bin"}
	p := app.Program{App: "bot", Port: 20001, Env: []string{"NODE_ENV=production", "GEMS=here", "npm_config_cache=x"}, Variables: []app.Variable{
		{Name: "PATH", Value: "/own"},
		{Name: "NODE_ENV", Value: "test"},
		{Name: "TOKEN", Value: "a=b\nc"},
		{Name: "EMPTY"},
		{Name: "HOME", Value: "/"},
		{Name: "PORT", Value: "1"},
		{Name: "TMPDIR", Value: "/"},
		{Name: "BERTH_APP_ID", Value: "x"},
		{Name: "GOPATH", Value: "/"},
	}}
	place := []string{"HOME=/home", "TMPDIR=/temp", "PORT=20001", "BERTH_APP_ID=bot"}
	for _, build := range []bool{false, true} {
		p.Build = build
		got := s.environment(p, "/home", "/temp")
		want := append([]string{"PATH=/own", "LANG=C.UTF-8", "NODE_ENV=test", "GEMS=here", "TOKEN=a=b\nc", "EMPTY="}, place...)
		if !build {
			want = append(want, "npm_config_cache=x", "GOPATH=/")
		}
		for _, c := range caches {
			if build {
				want = append(want, c.variable+"=/temp/"+c.dir)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("build %v:\ngot  %q\nwant %q", build, got, want)
		}
	}
}

func TestHostCapacity(t *testing.T) {
	for _, tt := range []struct {
		ram, reserve app.MB
		factor       float64
		want         app.MB
	}{{1024, 256, 1, 768}, {1024, 256, 2, 1536}, {200, 256, 1, 0}} {
		if got := hostCapacity(tt.ram, tt.reserve, tt.factor); got != tt.want {
			t.Errorf("hostCapacity(%d, %d, %g) = %d, want %d", tt.ram, tt.reserve, tt.factor, got, tt.want)
		}
	}
}

func TestLogbook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	b := newLogbook(dir, logs.Options{}, slog.New(slog.DiscardHandler))
	b.Note("a", "hello")
	if err := b.BeginBuild("a"); err != nil {
		t.Fatal(err)
	}
	if got := b.Tail("a", false, 100); !strings.Contains(got, "[berth] hello") {
		t.Errorf("the run log is %q", got)
	}
	if got := b.Tail("a", true, 100); got != "" {
		t.Errorf("the build log is %q", got)
	}
	r, err := b.reader("a")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || !strings.Contains(string(text), "hello") {
		t.Errorf("the whole log is %q, %v", text, err)
	}
	b.Note("gone", "x")
	if err := errors.Join(b.close(), b.sweep(map[app.ID]bool{"a": true})); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "a" {
		t.Errorf("after the sweep: %v, %v", list, err)
	}
	b.Note("a", "again")
	if err := b.Remove("a"); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("after Remove: %v, %v", list, err)
	}
	if err := newLogbook(filepath.Join(dir, "none"), logs.Options{}, nil).sweep(nil); err != nil {
		t.Errorf("a first start has nothing to sweep: %v", err)
	}
}

// A log that cannot be opened fails no operation but the build that needs it.
func TestLogbookWithoutDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newLogbook(file, logs.Options{}, slog.New(slog.DiscardHandler))
	b.Note("a", "hello")
	if got := b.Tail("a", false, 100); got != "" {
		t.Errorf("Tail() = %q", got)
	}
	if err := b.BeginBuild("a"); err == nil || !strings.Contains(err.Error(), "cannot open the application's log") {
		t.Errorf("BeginBuild() = %v", err)
	}
	if _, err := b.reader("a"); err == nil {
		t.Error("reader() gave no error")
	}
}

func TestStrangeVariables(t *testing.T) {
	got := strangeVariables([]string{"BERTH_LISTN=x", "BERTH_LISTEN=y", "BERTH_CONFIG=z", "BERTH_APPS_RAM_MNI=1", "PATH=/bin", "BERTH=1"})
	if want := []string{"BERTH_LISTN", "BERTH_APPS_RAM_MNI"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNetwork(t *testing.T) {
	for listen, want := range map[string]string{"0.0.0.0:80": "tcp4", "127.0.0.1:0": "tcp4", "[::]:80": "tcp", "localhost:80": "tcp", ":80": "tcp"} {
		if got := network(listen); got != want {
			t.Errorf("network(%q) = %s, want %s", listen, got, want)
		}
	}
}

func TestStartOf(t *testing.T) {
	if a, b := startOf("/var/lib/berth"), startOf("/srv/other"); a == b || a < 0 || b < 0 {
		t.Errorf("%d and %d", a, b)
	}
}

func TestDiskProblems(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		err  error
		code int
		want string
	}{
		{syscall.ENOSPC, exitFailure, "its disk is full, and a start needs about 100 KB"},
		{syscall.EDQUOT, exitFailure, "its disk quota is used up, and a start needs about 100 KB"},
		{syscall.EROFS, exitConfig, "its disk is read-only"}, // which no start mends
		{syscall.EIO, 0, ""},
		{nil, 0, ""},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("cannot open the database: %w", err)
		}
		var p *problem
		if got := diskProblem(dir, err); tc.code == 0 {
			if got != nil {
				t.Errorf("%v is told as %v", tc.err, got)
			}
		} else if !errors.As(got, &p) || p.code != tc.code || p.Error() != "cannot use the data directory "+dir+": "+tc.want || p.hint == "" {
			t.Errorf("%v is told as %v (%+v)", tc.err, got, p)
		}
	}
}
