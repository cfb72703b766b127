//go:build soak

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
	"berth/test/services"
)

// soakUIDs are the user ids of the daemon of TestSoakManyCrashes.
const soakUIDs = 600

// TestSoakManyCrashes kills 500 programs at once: all are told, in five messages at most.
func TestSoakManyCrashes(t *testing.T) {
	const programs = 500
	s := services.NewPlain(t)
	d := launch(t, "--notify-allow", s.Listener.Addr().String(), "--host-overcommit", "16", "--rate-limit", "1000000",
		"--apps-uid-count", strconv.Itoa(soakUIDs), "--apps-port-first", "40000", "--apps-port-last", "40999") // nothing else runs in a soak
	c := d.account("ana", 60000)
	d.CLI("account", "set", "ana", "--admin", "true")
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range programs / 4 {
				c.Upload(harness.ShellBot(harness.IdleShell, "RAM=100", "AUTORESTART=false"))
			}
		})
	}
	work.Wait()
	pids := sleepers(d.UID)
	if len(pids) != programs {
		t.Fatalf("%d programs run", len(pids))
	}
	c.ask(http.MethodPost, "/channel", fmt.Sprintf(`{"service":"discord","name":"ops","target":%q}`, s.Discord)).Want(200)
	began := time.Now()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	killed := time.Since(began)
	told := func() (n int) {
		for _, m := range s.Messages() {
			first, _, _ := strings.Cut(m.Title, " ")
			count, err := strconv.Atoi(first)
			if err != nil || !strings.Contains(m.Title, " events, the first") {
				count = 1
			}
			n += count
		}
		return n
	}
	harness.Eventually(t, "all are told", func() bool { return told() >= programs })
	all := s.Messages()
	if len(all) > 5 || told() != programs {
		t.Errorf("%d messages tell of %d crashes", len(all), told())
	}
	t.Logf("killed within %v", killed)
	for _, m := range all {
		t.Logf("after %v: %s", m.At.Sub(began).Round(time.Millisecond), m.Title)
	}
}

// sleepers are the processes of the programs whose users begin at a uid.
func sleepers(uid int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range all {
		status, _ := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if is, _ := strconv.Atoi(harness.Field(string(status), "Uid:")); is >= uid && is < uid+soakUIDs {
			pids = append(pids, pid)
		}
	}
	return pids
}
