package e2e

import (
	"strings"
	"testing"

	"berth/test/harness"
)

// talker sends itself a megabyte on loopback.
const talker = `
import socket
l = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(l.getsockname())
s, _ = l.accept()
for _ in range(16):
    c.sendall(bytes(65536))
    n = 65536
    while n: n -= len(s.recv(n))
` + harness.IdlePython

// TestNetIO counts what a program sends and receives, from its start on.
func TestNetIO(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	id, silent := c.Upload(harness.PythonBot(talker)), c.Upload(harness.ShellBot(harness.IdleShell))
	c.UntilLog(id, "up")
	a := c.Get("/app/"+id+"/status").Want(200, "apps.container", "Online")
	for _, way := range []string{"apps.netIO.down", "apps.netIO.up"} {
		if text := a.Text(way); !strings.HasPrefix(text, "1") || !strings.HasSuffix(text, "MB") {
			t.Errorf("%s is %q after a megabyte", way, text)
		}
	}
	c.Get("/app/"+silent+"/status").Want(200, "apps.netIO.down", "0B", "apps.netIO.up", "0B")
	c.Put("/app/"+id+"/stop", "").Want(200)
	c.Get("/app/"+id+"/status").Want(200, "apps.netIO.down", "0B", "apps.netIO.up", "0B")
}

// TestNetIOWhereTheKernelRefuses takes the rights to load eBPF programs from
// the daemon, as containers do: programs run, and doctor tells why nothing is
// counted.
func TestNetIOWhereTheKernelRefuses(t *testing.T) {
	t.Parallel()
	d := prepare(t)
	d.Under = []string{"setpriv", "--bounding-set", "-bpf,-net_admin,-sys_admin", "--inh-caps", "-all"}
	d.Serve()
	if !strings.Contains(d.Out.String(), "netIO will not be counted") {
		t.Errorf("the daemon's log does not tell: %s", d.Out)
	}
	c := d.account("ana", 100)
	id := c.Upload(harness.PythonBot(talker))
	c.UntilLog(id, "up")
	c.Get("/app/"+id+"/status").Want(200, "apps.container", "Online", "apps.netIO.down", "0B", "apps.netIO.up", "0B")
	_, table, _ := d.Run("doctor")
	if !strings.Contains(table, "warn  netIO") || !strings.Contains(table, "will show 0B: cannot load the programs that count traffic: operation not permitted\n") {
		t.Errorf("doctor says:\n%s", table)
	}
}
