package attacks

import (
	"bufio"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/test/harness"
)

// mostSockets is how many a program may hold, and an account's programs together
// on a host with the usual range of ports.
const mostSockets = 2048

var hoarderSays = regexp.MustCompile(`hoarder: (\d+) (\d+) (\w+)`)

// hoarded is what the processes of a hoarder got, once they have all said it.
func (d *daemon) hoarded(id string, processes int) (sockets, ports int, why string) {
	d.t.Helper()
	var log string
	defer func() {
		if d.t.Failed() {
			d.t.Logf("the log is:\n%s", log)
		}
	}()
	harness.Eventually(d.t, "the hoarder has what it gets", func() bool {
		log = d.log(id)
		said := hoarderSays.FindAllStringSubmatch(log, -1)
		sockets, ports = 0, 0
		for _, m := range said {
			held, _ := strconv.Atoi(m[1])
			took, _ := strconv.Atoi(m[2])
			sockets, ports, why = sockets+held, ports+took, m[3]
		}
		return len(said) == processes
	})
	return sockets, ports, why
}

// TestKernelAttacksOnPorts runs programs that take every port of the host that
// they can get, without a bind. They get what is theirs: programs of another
// account, the API and who visits sites find ports.
func TestKernelAttacksOnPorts(t *testing.T) {
	t.Parallel()
	connected(t)
	d := launch(t)
	hoarder := map[string]string{"sockets.py": source(t, "sockets.py"), "far": peer4 + " " + peer6}
	first := d.upload(bot("sockets.py", hoarder, "RAM=256"))
	sockets, ports, why := d.hoarded(first, 4)
	if sockets != mostSockets || ports > mostSockets || why != "EMFILE" && why != "EPERM" {
		t.Errorf("a program got %d sockets and %d ports, %s; want %d sockets", sockets, ports, why, mostSockets)
	}
	second := d.upload(bot("sockets.py", hoarder, "RAM=256"))
	if sockets, _, why := d.hoarded(second, 4); sockets != 0 {
		t.Errorf("a second program of the account got %d sockets, %s", sockets, why)
	}
	d.untilLog(first, "the program was refused new sockets")
	if n := strings.Count(d.Out.String(), "the program was refused sockets"); n < 1 || n > 2 {
		t.Errorf("the daemon says %d times that a program was refused sockets, want once for each program", n)
	}

	d.run("account", "create", "bob", "--ram", "4096")
	other := d.in(t)
	other.token = d.run("token", "create", "bob")
	some := other.upload(bot("sockets.py", hoarder, "RAM=256", "START=MOST=500 PROCESSES=1 python3 sockets.py"))
	if sockets, _, why := other.hoarded(some, 1); sockets != 500 || why != "enough" {
		t.Errorf("a program of another account got %d sockets, %s; want 500", sockets, why)
	}
	many := other.upload(bot("host.py", map[string]string{"host.py": source(t, "host.py"), "far": peer4}, "RAM=256"))
	log := other.untilLog(many, "host: port ")
	if !strings.Contains(log, "host: made 6000\n") {
		t.Errorf("6,000 sockets one after the other are too many:\n%s", log)
	}
	visit(t, regexp.MustCompile(`host: port (\d+)`).FindStringSubmatch(log)[1], 3000)
	other.untilLog(many, "host: visitors 3000")

	// What a program had is its account's again.
	d.put("/app/" + first + "/stop").want(200)
	d.put("/app/" + second + "/restart").want(200)
	harness.Eventually(t, "the second program gets what the first had", func() bool {
		got := 0
		for _, m := range hoarderSays.FindAllStringSubmatch(d.log(second), -1) {
			held, _ := strconv.Atoi(m[1])
			got += held
		}
		return got == mostSockets
	})
	for _, id := range []string{some, many} {
		other.send(other.request("DELETE", "/app/"+id+"/delete", nil)).want(200)
	}
}

// visit opens many connections to a port and keeps them until the test ends.
func visit(t *testing.T, port string, many int) {
	t.Helper()
	for i := range many {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), time.Minute)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if line, err := bufio.NewReader(c).ReadString('\n'); line != "hello\n" {
			t.Fatalf("connection %d: %q, %v", i, line, err)
		}
	}
}
