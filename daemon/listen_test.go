package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"berth/app/exit"
	"berth/proc"
)

// A port that is taken is refused with the process that has it.
func TestListenOnTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	h := &handover{files: map[string]*os.File{}}
	err = h.open(t.Context(), address)
	p, ok := errors.AsType[*exit.Problem](err)
	want := "cannot listen on " + address + ": address already in use by "
	if !ok || p.Code != 1 || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d", os.Getpid())) {
		t.Errorf("got %v, want %q and pid %d", err, want, os.Getpid())
	}
	if got := listenProblem(t.Context(), "192.0.2.1:80", syscall.EADDRNOTAVAIL).Error(); got != "cannot listen on 192.0.2.1:80: cannot assign requested address" {
		t.Errorf("got %q", got)
	}
}

func TestTakers(t *testing.T) {
	for want, who := range map[string]Takers{
		"a process that cannot be seen from here":                nil,
		"nginx (pid 8, nginx.service), nginx (pid 9)":            {{Pid: 8, Name: "nginx", Unit: "nginx.service"}, {Pid: 9, Name: "nginx"}},
		"systemd (pid 1, apache-htcacheclean.socket), x (pid 2)": {proc.Listener{Pid: 1, Name: "systemd", Unit: "apache-htcacheclean.socket"}, {Pid: 2, Name: "x"}},
	} {
		if got := who.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	const list = "/run/dbus/system_bus_socket dbus.socket dbus.service\n[::]:22 ssh.socket ssh.service\n127.0.0.1:8400 berth.socket berth.service\n"
	for port, want := range map[int]string{22: "ssh.socket", 8400: "berth.socket", 80: "", 400: ""} {
		if got := socketUnit(list, port); got != want {
			t.Errorf("port %d: %q, want %q", port, got, want)
		}
	}
	pid1, berth := proc.Listener{Pid: 1, Name: "systemd"}, proc.Listener{Pid: 7, Name: "berth", Unit: "berth.service"}
	socket := proc.Listener{Pid: 1, Name: "systemd", Unit: "berth.socket"}
	for want, got := range map[string]Takers{
		"berth (pid 7, berth.service)":                                withoutKeeper(Takers{pid1, berth}, nil),
		"systemd (pid 1, berth.socket), berth (pid 7, berth.service)": withoutKeeper(Takers{socket, berth}, nil),
		"systemd (pid 1, berth.service)":                              withoutKeeper(Takers{pid1}, func() bool { return true }),
		"systemd (pid 1)":                                             withoutKeeper(Takers{pid1}, func() bool { return false }),
		"init (pid 1), berth (pid 7, berth.service)":                  withoutKeeper(Takers{{Pid: 1, Name: "init"}, berth}, nil),
	} {
		if got.String() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if who := WhoListens(t.Context(), "nonsense"); who != nil {
		t.Errorf("nobody listens on nonsense: %v", who)
	}
}
