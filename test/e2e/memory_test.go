package e2e

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// sized holds as many MB as a file says, and says when it got its signal.
const sized = `
import signal, time
signal.signal(signal.SIGUSR2, lambda *a: print("memory is low", flush=True))
held = []
print("up", flush=True)
while True:
    try:
        want = int(open("size").read())
    except (OSError, ValueError):
        want = 0
    while len(held) < want:
        held.append(b"x" * (1 << 20))
    del held[want:]
    time.sleep(0.02)
`

// A program that needs nearly all of its RAM is warned of once, in the stream, the log and the
// history, over a crash of the daemon and an upgrade in place; and then it is killed,
// which is told as ever.
func TestMemoryWarning(t *testing.T) {
	t.Parallel()
	d := upgradable(t)
	d.Serve()
	c := d.account("ana", 200)
	id := c.Upload(harness.PythonBot(sized, "RAM=100", "MEMORY_SIGNAL=SIGUSR2", "AUTORESTART=false"))
	c.UntilLog(id, "up")
	size := func(mb string) {
		t.Helper()
		c.console(id, "echo "+mb+" > size.new && mv size.new size").Want(200)
	}
	s := c.stream("/v2/events?app="+id, "")
	size("78")
	s.until(`event: app\.memory\ndata: .*"level":80,"held":8\d{7},"limit":104857600,.*"memorySignal":"","sent":false`)
	c.UntilLog(id, "[berth] RAM 80 % full: the program needs 8")

	for _, again := range []func(){func() { d.End(syscall.SIGKILL); d.Serve(); d.Listens() }, d.Upgrade} {
		pid := d.PID(id)
		again()
		if d.PID(id) != pid {
			t.Fatal("the program was started again")
		}
	}
	s = c.stream("/v2/events?app="+id, "")
	size("88")
	s.until(`event: app\.memory\ndata: .*"level":90,.*"memorySignal":"SIGUSR2","sent":true`)
	c.UntilLog(id, "memory is low")
	c.console(id, "echo 200 > size.new && mv size.new size") // it may be killed with the program
	c.Until(id, "apps.ramKilled", true, "apps.exitCode", 137)

	history := string(c.Get("/app/" + id + "/events").Want(200).Body)
	if n := strings.Count(history, `"level":80`); n != 1 {
		t.Errorf("%d warnings at 80 %% in %s", n, history)
	}
	log := regexp.MustCompile(`\[berth\] (RAM \d+|killed: needed more than 100 MB)`).FindAllString(c.Log(id), -1)
	if len(log) < 3 || log[0] != "[berth] RAM 80" || log[1] != "[berth] RAM 90" || log[len(log)-1] != "[berth] killed: needed more than 100 MB" {
		t.Errorf("the log has %q", log)
	}
}
