package faults

import (
	"fmt"
	"math/rand/v2"
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
)

// TestFaultsSIGKILL kills the daemon again and again in the middle of uploads,
// commits, changes of RAM, restarts and deletions: no program that nobody touched
// is restarted or loses a line, and nothing that was acknowledged is lost.
func TestFaultsSIGKILL(t *testing.T) {
	t.Parallel()
	killAgainAndAgain(t, 20)
}

// storm is a load on a daemon that dies now and then. Every acknowledged change
// is remembered with what may have come of the one after it.
type storm struct {
	*harness.Client
	stop chan struct{}

	mu      sync.Mutex
	answers int
}

// numbering prints numbers without end, each line by one write: a stop may come between two.
const numbering = `import itertools, os, time
for n in itertools.count():
    os.write(1, b"line %d\n" % n)
    time.sleep(0.005)
`

func killAgainAndAgain(t *testing.T, kills int) {
	address := harness.Address(t) // the same for each daemon: clients know no other
	d := harness.Launch(t, "--listen", address, "--apps-ok-delay", "20ms")
	s := &storm{Client: d.NewAccount("ana", 4000).In(t), stop: make(chan struct{})}
	fixed := *d // d itself learns its address anew at each start
	s.Berth = &fixed
	var untouched []string
	pids := map[string]int{}
	for range 2 {
		id := s.Upload(harness.PythonBot(numbering, "RAM=64"))
		untouched = append(untouched, id)
		pids[id] = d.PID(id)
	}
	commits, ram, restarts := s.Upload(harness.ShellBot(numberedCode(0), "RAM=40")), s.Upload(harness.ShellBot(numberedCode(0), "RAM=40")), s.Upload(harness.ShellBot(numberedCode(0), "RAM=40"))
	var work sync.WaitGroup
	code, megabytes := &promise{}, &promise{last: 40}
	work.Go(func() { s.commits(commits, code) })
	work.Go(func() { s.changes(ram, megabytes) })
	work.Go(func() { s.restarts(restarts) })
	work.Go(s.comesAndGoes)
	for range kills {
		before := s.count()
		harness.Eventually(t, "the load goes on", func() bool { return s.count() > before })
		time.Sleep(rand.N(300 * time.Millisecond)) // a moment of chance
		d.End(syscall.SIGKILL)
		d.Serve()
		for _, id := range untouched {
			if pid := d.PID(id); pid != pids[id] {
				t.Fatalf("the program %d runs as %d", pids[id], pid)
			}
		}
	}
	close(s.stop)
	work.Wait()
	t.Logf("%d kills; %d answers; commits %+v, RAM %+v", kills, s.count(), code, megabytes)
	s.settled(untouched, commits, ram, code, megabytes)
}

func numberedCode(n int) string { return fmt.Sprintf("echo code %d\nexec sleep 100000\n", n) }

// settled compares what is there with what was acknowledged.
func (s *storm) settled(untouched []string, commits, ram string, code, megabytes *promise) {
	s.T.Helper()
	got, err := os.ReadFile(s.Berth.Path(commits, "start.sh"))
	if err != nil {
		s.T.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscanf(string(got), "echo code %d", &n); err != nil || !code.kept(n) {
		s.T.Errorf("the code is %q, promised was %+v", got, code)
	}
	// Every commit is exact: nothing is there of those before.
	if only, err := filepath.Glob(s.Berth.Path(commits, "only-*")); err != nil || len(only) != 1 || filepath.Base(only[0]) != fmt.Sprint("only-", n) {
		s.T.Errorf("beside the code %d there is %v, %v", n, only, err)
	}
	if n, err := strconv.Atoi(s.Info(ram).Text("apps.ram")); err != nil || !megabytes.kept(n) {
		s.T.Errorf("the RAM is %d, promised was %+v", n, megabytes)
	}
	for _, id := range untouched {
		s.Info(id).Want(200, "apps.online", true)
		s.Put("/app/"+id+"/stop", "").Want(200)
		next := 0
		for line := range strings.Lines(s.Log(id)) {
			_, number, ok := strings.Cut(line, "Z line ")
			if !ok {
				if !strings.Contains(line, "[berth] ") {
					s.T.Errorf("a line that nobody printed: %q", line)
				}
				continue
			}
			if n, err := strconv.Atoi(strings.TrimSpace(number)); err != nil || n != next {
				s.T.Fatalf("line %q follows %d", line, next-1)
			}
			next++
		}
		if next < 100 {
			s.T.Errorf("only %d lines", next)
		}
	}
}

// promise is what was acknowledged last, and what was asked for after that.
type promise struct{ last, asked int }

func (p *promise) kept(n int) bool { return n == p.last || n == p.asked }

// ask asks for n, and notes it when it is acknowledged.
func (s *storm) ask(p *promise, n int, r *http.Request) {
	p.asked = n
	if s.tries(r) == http.StatusOK {
		p.last = n
	}
}

// tries sends a request to whichever daemon there is, and returns the status, 0
// without an answer.
func (s *storm) tries(r *http.Request) int {
	a, err := s.Try(r)
	if err != nil {
		time.Sleep(harness.Pause) // the next one is on its way
		return 0
	}
	if a.Code >= 500 && a.Code != http.StatusServiceUnavailable {
		s.T.Errorf("%s %s: %d %s", r.Method, r.URL.Path, a.Code, a.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	return a.Code
}

func (s *storm) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers
}

func (s *storm) over() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

func (s *storm) commits(id string, p *promise) {
	for n := 1; !s.over(); n++ {
		code := harness.Files{"start.sh": numberedCode(n), fmt.Sprint("only-", n): "x"}
		s.ask(p, n, s.Form(http.MethodPut, "/v2/app/"+id+"/commit?exact=true", code.Zip()))
	}
}

func (s *storm) changes(id string, p *promise) {
	for n := 41; !s.over(); n++ {
		ram := 40 + n%20
		r := s.Request(http.MethodPut, "/v2/app/"+id+"/ram", strings.NewReader(fmt.Sprintf(`{"ramMB":%d}`, ram)))
		r.Header.Set("Content-Type", "application/json")
		s.ask(p, ram, r)
	}
}

func (s *storm) restarts(id string) {
	for !s.over() {
		s.tries(s.Request(http.MethodPut, "/v2/app/"+id+"/restart", http.NoBody))
	}
}

// comesAndGoes uploads applications and deletes what it finds of them.
func (s *storm) comesAndGoes() {
	for n := 0; !s.over(); n++ {
		name := fmt.Sprintf("NAME=guest %d", n)
		s.tries(s.Form(http.MethodPost, "/v2/upload", harness.ShellBot("exec sleep 100000", "RAM=32", name).Zip()))
		a, err := s.Try(s.Request(http.MethodGet, "/v2/app/all", http.NoBody))
		if err != nil || a.Code != http.StatusOK {
			continue
		}
		list, _ := a.At("apps").([]any)
		for _, one := range list {
			fields, _ := one.(map[string]any)
			if guest, _ := fields["name"].(string); strings.HasPrefix(guest, "guest ") {
				s.tries(s.Request(http.MethodDelete, "/v2/app/"+fmt.Sprint(fields["id"])+"/delete", http.NoBody))
			}
		}
	}
}
