package proc

import (
	"os"
	"strings"
	"testing"

	"berth/app"
	"berth/proc/sandbox"
)

// chatter sends itself datagrams of known sizes over IPv4 and IPv6, then a
// stream, on loopback.
const chatter = `
import os, socket, time
def datagrams(family, host, size, count):
    a = socket.socket(family, socket.SOCK_DGRAM)
    a.bind((host, 0))
    for _ in range(count):
        a.sendto(b"x" * size, a.getsockname())
        a.recv(65536)
datagrams(socket.AF_INET, "127.0.0.1", 1000, 3)
datagrams(socket.AF_INET6, "::1", 500, 2)
print("datagrams", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
l = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(l.getsockname())
s, _ = l.accept()
c.sendall(b"x" * 100000)
c.close()
while s.recv(65536): pass
print("stream", flush=True)
time.sleep(600)
`

func TestKernelTrafficIsCounted(t *testing.T) {
	b := newBench(t)
	if err := sandbox.Probe().BPF; err != nil {
		t.Skip("the kernel lets nobody load eBPF programs here:", err)
	}
	meter, err := sandbox.NewMeter()
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	b.Meter = meter
	python, _ := FindTools().Find("python3")
	if python == "" {
		t.Fatal("there is no python3")
	}
	s, quiet := b.spec(t, ""), b.spec(t, "sleep 600")
	s.Argv = []string{python, "-c", chatter}
	talks, silent := b.launch(t, s), b.launch(t, quiet)
	usage := func(r *Run) app.Usage {
		t.Helper()
		u, err := r.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	poll(t, "the datagrams are sent", func() bool { return strings.Contains(output(t, s), "datagrams\n") })
	const sent = 3*(1000+8+20) + 2*(500+8+40) // UDP and IP headers
	if u := usage(talks); u.NetIn != sent || u.NetOut != sent {
		t.Errorf("datagrams of %d bytes on the wire: counted %d in, %d out", sent, u.NetIn, u.NetOut)
	}
	if err := os.WriteFile(b.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	poll(t, "the stream is sent", func() bool { return strings.Contains(output(t, s), "stream\n") })
	if u := usage(talks); u.NetIn < sent+100000 || u.NetOut < sent+100000 || u.NetIn > 2*(sent+100000) {
		t.Errorf("a stream of 100000 bytes: counted %d in, %d out", u.NetIn, u.NetOut)
	}
	if u := usage(silent); u.NetIn != 0 || u.NetOut != 0 {
		t.Errorf("a program that sends nothing: counted %d in, %d out", u.NetIn, u.NetOut)
	}
}

// A meter whose programs are gone counts nothing, and keeps none from running.
func TestProgramsRunUncounted(t *testing.T) {
	b := newBench(t)
	if err := sandbox.Probe().BPF; err != nil {
		t.Skip("the kernel lets nobody load eBPF programs here:", err)
	}
	meter, err := sandbox.NewMeter()
	if err != nil {
		t.Fatal(err)
	}
	if err := meter.Close(); err != nil {
		t.Fatal(err)
	}
	b.Meter = meter
	r := b.launch(t, b.spec(t, "sleep 600"))
	if u, err := r.Usage(t.Context()); err != nil || u.NetIn != 0 || u.NetOut != 0 {
		t.Errorf("Usage() = %+v, %v", u, err)
	}
}

// A program that runs costs no thread of the daemon's.
func TestRunsHoldNoThread(t *testing.T) {
	b := newBench(t)
	const programs = 40
	threads := func() int {
		t.Helper()
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := threads()
	for range programs {
		b.launch(t, b.spec(t, "sleep 600"))
	}
	if more := threads() - before; more > programs/2 {
		t.Errorf("%d programs took %d threads", programs, more)
	}
}
