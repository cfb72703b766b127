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

func TestUnitOf(t *testing.T) {
	for groups, want := range map[string]string{
		"0::/system.slice/nginx.service\n":                                       "nginx.service",
		"0::/system.slice/docker.service/inner\n":                                "docker.service",
		"1:name=systemd:/system.slice/cron.service\n0::/\n":                      "cron.service",
		"0::/user.slice/user-0.slice/session-3.scope\n":                          "",
		"0::/init.scope\n":                                                       "",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.service\n": "user@1000.service",
		"": "",
	} {
		if got := unitOf(groups); got != want {
			t.Errorf("%q: %q, want %q", groups, got, want)
		}
	}
	for want, l := range map[string]Listener{"a (pid 1)": {1, "a", ""}, "a (pid 1, a.service)": {1, "a", "a.service"}} {
		if l.String() != want {
			t.Errorf("got %q, want %q", l, want)
		}
	}
}

func TestConnectionPorts(t *testing.T) {
	for _, tt := range []struct {
		given, reserved string
		first, last     int
		want            int
	}{
		{"32768\t60999\n", "\n", 20000, 29999, 0},
		{"32768\t60999\n", "\n", 32000, 32767, 0},
		{"32768\t60999\n", "\n", 32000, 32768, 1},
		{"1024 65535", "", 20000, 29999, 10000},
		{"1024 65535", "20000-29999\n", 20000, 29999, 0},
		{"1024 65535", "8080,20000-20009,29999\n", 20000, 29999, 9989},
		{"30000 30001", "", 20000, 40000, 2},
	} {
		p, err := parsePorts(tt.given, tt.reserved)
		if err != nil || p.Among(tt.first, tt.last) != tt.want {
			t.Errorf("of %q without %q, %d to %d has %d, %v; want %d", tt.given, tt.reserved, tt.first, tt.last, p.Among(tt.first, tt.last), err, tt.want)
		}
	}
	for _, bad := range [][2]string{{"", ""}, {"2 1", ""}, {"x", ""}, {"1 2", "a"}, {"1 2", "3-"}} {
		if _, err := parsePorts(bad[0], bad[1]); err == nil {
			t.Errorf("%q without %q is taken", bad[0], bad[1])
		}
	}
	if p, err := FindConnectionPorts(); err != nil || p.Len() < 1 {
		t.Errorf("here they are %+v, %v", p, err)
	}
}
