package proc

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
)

// A program that cannot be killed for want of descriptors is killed once there are
// some.
func TestKernelKillWithoutDescriptors(t *testing.T) {
	b := newBench(t)
	r := b.launch(t, b.spec(t, "sleep 1000"))
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	r.Stop(0)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	ended := make(chan app.Exit, 1)
	go func() { ended <- r.Wait() }()
	select {
	case e := <-ended:
		if e.Code != 137 {
			t.Errorf("it ended with %+v", e)
		}
	case <-time.After(time.Minute):
		t.Error("it runs on, though it was to be killed")
		r.Stop(0)
		<-ended
	}
}
