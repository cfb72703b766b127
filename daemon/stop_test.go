package daemon

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/systemd"
)

func TestHasStopJob(t *testing.T) {
	for list, want := range map[string]bool{
		"":                   false,
		"No jobs running.\n": false,
		"12 berth-apps.service stop running\n13 berth.service stop waiting\n": true,
		"12 berth-apps.service restart waiting\n":                             true,
		"12 berth.service restart running\n":                                  false,
		"12 berth-apps.service start running\n":                               false,
		"12 other-berth-apps.service stop running\n":                          false,
	} {
		if got := hasStopJob(list, systemd.AppsUnit); got != want {
			t.Errorf("%q: %t", list, got)
		}
	}
}

// What systemd forgets when the daemon is stopped, a keeper has for the next.
func TestMoveToStore(t *testing.T) {
	s := testSettings(t)
	m := newServiceManager(t)
	t.Setenv("FDSTORE", "100")
	d, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const name = "log-run-bot"
	_, pipe, err := d.data.logs.Pipe("bot", false, -1)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "systemd has it", func() bool { return m.heard("FDSTORE=1") == 1 })
	moveToStore(d.data.held, d.groups, d.log)
	socket := filepath.Join(s.DataDir, "keeper.sock")
	if err := d.undo.close(); err != nil {
		t.Error(err)
	}
	if _, err := pipe.WriteString("last words\n"); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Error(err)
	}
	next := &manager{dir: s.DataDir, held: map[string]*os.File{}}
	held, err := next.Held()
	if err != nil || len(held) != 1 || held[name] == nil {
		t.Fatalf("the next daemon has %v, %v", held, err)
	}
	b := make([]byte, 100)
	if n, err := held[name].Read(b); err != nil || string(b[:n]) != "last words\n" {
		t.Errorf("it reads %q, %v", b[:n], err)
	}
	eventually(t, "systemd has it again", func() bool { return m.heard("FDSTORE=1") == 2 })
	eventually(t, "the keeper has ended", func() bool {
		c, err := net.Dial("unixpacket", socket)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if err := errors.Join(held[name].Close(), next.Release(name), next.Close()); err != nil {
		t.Error(err)
	}
	// The daemon could not remove the keeper's group while it was in it; the next
	// can.
	root := d.groups.Root()
	eventually(t, "the keeper's group is empty", func() bool {
		text, err := os.ReadFile(filepath.Join(root, "keeper", "cgroup.events"))
		return err == nil && strings.Contains(string(text), "populated 0")
	})
	if d, err = openDaemon(t.Context(), s, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := d.undo.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the groups are left: %v", err)
	}
}
