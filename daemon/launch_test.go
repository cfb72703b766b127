package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/app"
	"berth/cgroup"
	"berth/files"
	"berth/files/bundle"
	"berth/proc"
	"berth/proc/logs"
)

// A step of a build that cannot be started leaves no directory behind.
func TestABuildThatCannotBeStarted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: control groups are made")
	}
	host, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	groups, err := cgroup.Open(host, fmt.Sprintf("test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	store, err := files.Open(dir, bundle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	book := logs.NewBook(filepath.Join(dir, "logs"), logs.Options{}, log)
	s := &launcher{proc: &proc.Launcher{Tree: groups, Log: log, Init: []string{dir + "/nothing"}}, trees: store, logs: book}
	if _, err := s.launch(t.Context(), app.Program{App: "bot", Build: true, Argv: []string{"/bin/true"}, UID: 70000, RAM: 64}); err == nil {
		t.Error("it was started")
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, end := range []func() error{book.Close, store.Close, groups.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	p := app.Program{App: "bot", Port: 20001, Env: []string{"NODE_ENV=production"}}
	got := environment(p, "/usr/bin", "/data/apps/bot", "/data/tmp/bot")
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
	more := environment(p, "/usr/bin", "/data/apps/bot", "/data/tmp/bot.build")
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
		got := environment(p, "/usr/bin", "/home", "/temp")
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

// A start for which the host has nothing just now is no internal error.
func TestAStartWithoutAProcessToSpare(t *testing.T) {
	fork := fmt.Errorf("fork: %w", syscall.EAGAIN)
	got := scarce(fork)
	if app.KindOf(got) != app.Unavailable || !errors.Is(got, fork) || !strings.Contains(got.Error(), "this host has no process") {
		t.Errorf("without processes: %v", got)
	}
	for _, other := range []error{syscall.ENOENT, &app.Error{Kind: app.Unusable, Err: syscall.EAGAIN}} {
		if got := scarce(other); !errors.Is(got, other) || app.KindOf(got) == app.Unavailable {
			t.Errorf("%v became %v", other, got)
		}
	}
}

// A build gets what the setting says, or what a host of that size can spare.
func TestBuildRAM(t *testing.T) {
	for _, tt := range []struct{ ram, set, want app.MB }{
		{200, -1, 128}, {460, -1, 230}, {960, -1, 480}, {2000, -1, 512}, {64000, -1, 512}, {460, 512, 512}, {460, 16, 16},
	} {
		if got := BuildRAM(tt.ram, tt.set); got != tt.want {
			t.Errorf("with %d MB and build.ram %d: %d MB, want %d", tt.ram, tt.set, got, tt.want)
		}
	}
}
