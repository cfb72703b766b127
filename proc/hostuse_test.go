package proc

import (
	"testing"
	"time"
)

func TestBusy(t *testing.T) {
	const stat = `cpu  100 10 50 9000 700 3 7 30 20 0
cpu0 50 5 25 4500 350 1 3 15 10 0
cpu1 50 5 25 4500 350 2 4 15 10 0
intr 1 2 3
`
	if got := busy(stat); got != time.Second {
		t.Errorf("a mean processor was busy for %s", got)
	}
	if got := busy(""); got != 0 {
		t.Errorf("nothing is %s", got)
	}
}

func TestPassed(t *testing.T) {
	const dev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 900 6838947    0    0    0     0          0         0 900 6838947    0    0    0     0       0          0
  eth0: 2000   70356    0    0    0     0          0         0  300 55635    0    0    0     0       0          0
docker0: 50 1    0    0    0     0          0         0  60 1    0    0    0     0       0          0
`
	if in, out := passed(dev, func(name string) bool { return name == "eth0" }); in != 2000 || out != 300 {
		t.Errorf("by devices %d and %d", in, out)
	}
	if in, out := passed(dev, func(string) bool { return false }); in != 2050 || out != 360 {
		t.Errorf("without devices %d and %d", in, out)
	}
}

func TestHostUse(t *testing.T) {
	c, err := HostUse(t.TempDir())
	if err != nil || c.MemoryBytes <= 0 || c.LimitBytes < c.MemoryBytes || c.CPU <= 0 || c.DiskBytes <= 0 {
		t.Errorf("the host used %+v: %v", c, err)
	}
}

func BenchmarkHostUse(b *testing.B) {
	for b.Loop() {
		if _, err := HostUse("/tmp"); err != nil {
			b.Fatal(err)
		}
	}
}
