package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
	"berth/test/services"
)

// A program dies, and its owner reads in Discord and Slack of what, with the last lines and
// without the value of a variable; a receiver that fails gets it again, over a crash of
// berth.
func TestNotices(t *testing.T) {
	t.Parallel()
	s := services.NewPlain(t)
	var down atomic.Bool
	s.Fail = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if down.Load() && strings.HasPrefix(r.URL.Path, "/services/") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	down.Store(true)
	d := launch(t, "--notify-allow", s.Listener.Addr().String())
	c := d.account("ana", 1024)
	d.CLI("account", "set", "ana", "--admin", "true")
	for name, target := range map[string]string{"discord": s.Discord, "slack": s.Slack} {
		c.ask(http.MethodPost, "/channel", fmt.Sprintf(`{"service":%q,"name":%q,"target":%q,"least":"warning"}`, name, name, target)).Want(200, "channel.service", name)
	}
	id := c.Upload(harness.PythonBot("import os, time\ndie = os.path.exists('die')\nprint('login with', os.environ.get('KEY'), flush=True)\nprint('```@everyone', flush=True)\nif die: raise SystemExit(7)\ntime.sleep(100000)\n", "RAM=64"))
	c.UntilLog(id, "login with None")
	c.setEnv(id, map[string]any{"KEY": "hunter2hunter2"}).Want(200)
	c.console(id, "touch die")
	c.Put("/app/"+id+"/restart", "")
	taken := func(service string) (all []services.Message) {
		for _, m := range s.Messages() {
			if m.Service == service {
				all = append(all, m)
			}
		}
		return all
	}
	harness.Eventually(t, "it is told in Discord", func() bool { return len(taken("discord")) > 0 })
	m := taken("discord")[0]
	for _, want := range []string{"crashed with code 7", "login with [hidden]", "everyone", "AUTORESTART is off"} {
		if !strings.Contains(m.Title+m.Text, want) {
			t.Errorf("without %q: %s\n%s", want, m.Title, m.Text)
		}
	}
	if strings.Contains(m.Text, "hunter2") || m.Rings > 0 {
		t.Errorf("it rings %d times: %s", m.Rings, m.Text)
	}
	d.End(syscall.SIGKILL)
	down.Store(false)
	d.Serve()
	harness.Eventually(t, "it is told in Slack", func() bool { return len(taken("slack")) > 0 })
	harness.Eventually(t, "the host's owner reads of the crash of berth", func() bool {
		return strings.Contains(fmt.Sprint(taken("discord")), "berth ended unexpectedly and runs again")
	})
	for _, again := range taken("discord") { // berth was killed, perhaps before it had stored that the first was sent
		if again.Title+again.Text != m.Title+m.Text && !strings.Contains(again.Title+again.Text, "berth ended unexpectedly") {
			t.Errorf("Discord got %s\n%s", again.Title, again.Text)
		}
	}
	if refused := s.Refused(); len(refused) > 0 {
		t.Errorf("the services refused %v", refused)
	}
}

// A program that is killed for its RAM is told of as that, with its peak.
func TestNoticeOfMemory(t *testing.T) {
	t.Parallel()
	s := services.NewPlain(t)
	d := launch(t, "--notify-allow", s.Listener.Addr().String())
	c := d.account("ana", 1024)
	d.CLI("account", "set", "ana", "--admin", "true")
	c.ask(http.MethodPost, "/channel", fmt.Sprintf(`{"service":"discord","name":"ops","target":%q,"kinds":["out_of_memory"]}`, s.Discord)).Want(200)
	id := c.Upload(harness.PythonBot(sized, "RAM=64", "AUTORESTART=false"))
	c.UntilLog(id, "up")
	began := time.Now()
	c.console(id, "echo 200 > size.new && mv size.new size")
	harness.Eventually(t, "it is told", func() bool { return len(s.Messages()) > 0 })
	m := s.Messages()[0]
	if all := m.Title + "\n" + m.Text; !strings.Contains(all, "was killed for needing more than 64 MB of RAM") || !strings.Contains(all, "At most it needed 64 of 64 MB") {
		t.Errorf("%s", all)
	}
	t.Logf("from the command to the message: %v", m.At.Sub(began).Round(time.Millisecond))
}
