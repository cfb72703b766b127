package e2e

import (
	"bufio"
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// stream is a stream of events that is read as it comes.
type stream struct {
	t     *testing.T
	ended chan struct{}

	mu   sync.Mutex
	text strings.Builder
}

// stream opens one; last is the id of the last event, "" for a first look.
func (c *client) stream(path, last string) *stream {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := c.Request(http.MethodGet, path, nil).WithContext(ctx)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	transport := &http.Transport{}
	resp, err := transport.RoundTrip(r)
	if err != nil || resp.StatusCode != 200 {
		cancel()
		c.T.Fatalf("GET %s: %v, %v", path, resp, err)
	}
	s := &stream{t: c.T, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			s.mu.Lock()
			s.text.WriteString(lines.Text() + "\n")
			s.mu.Unlock()
		}
	}()
	c.T.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
		<-s.ended
		transport.CloseIdleConnections()
	})
	return s
}

func (s *stream) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// until waits for what matches.
func (s *stream) until(what string) {
	s.t.Helper()
	pattern := regexp.MustCompile(what)
	defer func() {
		if s.t.Failed() {
			s.t.Logf("heard:\n%s", harness.Tail(s.heard(), 3000))
		}
	}()
	harness.Eventually(s.t, "the stream tells "+what, func() bool { return pattern.MatchString(s.heard()) })
}

// untilEnd waits for the end and returns the id of the last event.
func (s *stream) untilEnd() string {
	s.t.Helper()
	harness.Eventually(s.t, "the stream ends", func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	})
	ids := regexp.MustCompile(`(?m)^id: (\d+)$`).FindAllStringSubmatch(s.heard(), -1)
	if len(ids) == 0 {
		s.t.Fatalf("no id in %s", s.heard())
	}
	return ids[len(ids)-1][1]
}

// TestEvents: what happens to an application is seen while it happens, no upgrade
// waits for who watches, and what it used is there after each end of the daemon.
func TestEvents(t *testing.T) {
	t.Parallel()
	d := upgradable(t)
	d.Serve()
	c, other := d.account("ana", 200), d.account("bob", 200)
	id := c.Upload(harness.ShellBot("while :; do echo tick; sleep 0.2; done", "RAM=64"))
	all := "/v2/events?app=" + id + "&types=state,exit,deploy,metric,log"
	s, strange := c.stream(all, ""), other.stream("/v2/events", "")
	s.until(`event: app.log\ndata: .*Z tick\\n`)
	s.until(`event: app.metrics\ndata: .*"memory":[1-9].*"limit":67108864`)
	c.Put("/app/"+id+"/restart", "").Want(200)
	s.until(`event: app.exit\ndata: .*"asked":true`)
	s.until(`"state":"starting"(.|\n)*"state":"online"`)
	c.Commit(id, harness.ShellBot("exit 3", "RAM=64")).Want(422)
	s.until(`"kind":"commit","phase":"started"(.|\n)*event: app.exit\ndata: .*"exitCode":3(.|\n)*"phase":"failed"`)
	c.Until(id, "apps.online", true)
	if a := other.Send(other.Request("GET", all[:len("/v2/events?app=")]+id, nil)); a.Code != 404 {
		t.Errorf("another's stream: %d", a.Code)
	}

	began := time.Now()
	d.Upgrade()
	if took := time.Since(began); took > 25*time.Second { // of thirty that requests get
		t.Errorf("the upgrade waited %s for the streams", took)
	}
	last := s.untilEnd()
	strange.untilEnd()
	if heard := strange.heard(); strings.Contains(heard, "event:") {
		t.Errorf("another account was told %s", heard)
	}
	s = c.stream(all, last)
	s.until(`event: reset`)
	s.until(`Z tick`)
	used := func(when string) {
		t.Helper()
		a := c.Get("/app/" + id + "/metrics").Want(200)
		if body := string(a.Body); !regexp.MustCompile(`"memory":[1-9]`).MatchString(body) || !regexp.MustCompile(`"starts":[1-9]`).MatchString(body) {
			t.Errorf("%s: %s", when, body)
		}
	}
	used("after an upgrade")
	d.End(syscall.SIGKILL)
	s.untilEnd()
	d.Serve()
	used("after a kill")
	a := c.Get("/app/" + id + "/events").Want(200)
	if body := string(a.Body); !strings.Contains(body, `"kind":"deploy_failed"`) || !strings.Contains(body, `"exitCode":3`) || !strings.Contains(body, `"kind":"deploy"`) {
		t.Errorf("what happened: %s", body)
	}

	s = c.stream(all, "")
	s.until(`event: app.metrics`)
	token := d.CLI("token", "create", "ana")
	for _, n := range regexp.MustCompile(`"id":\s*(\d+)`).FindAllStringSubmatch(d.CLI("token", "list", "ana", "--json"), 1) {
		d.CLI("token", "revoke", n[1])
	}
	s.untilEnd()
	c.Token = token
	s = c.stream("/v2/events", "")
	c.Delete(id).Want(200)
	s.until(`event: app.removed`)
}
