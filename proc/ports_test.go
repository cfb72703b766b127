package proc

import (
	"net"
	"os"
	"slices"
	"testing"
)

func TestListeners(t *testing.T) {
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		l, err := net.Listen(network, address)
		if err != nil && network == "tcp6" {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		got, err := Listeners(port)
		if err != nil || !slices.ContainsFunc(got, func(l Listener) bool { return l.Pid == os.Getpid() && l.Name != "" }) {
			t.Errorf("%s: %+v, %v; want this process", network, got, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		got, err = Listeners(port)
		if err != nil || slices.ContainsFunc(got, func(l Listener) bool { return l.Pid == os.Getpid() }) {
			t.Errorf("%s, closed: %+v, %v", network, got, err)
		}
	}
	if got, err := Listeners(0); err != nil || len(got) > 0 {
		t.Errorf("port 0: %+v, %v", got, err)
	}
}
