//go:build guest

package e2e

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// TestGuestVisitors: no visitor of a site is refused while the daemon is restarted, or has died.
// Sites that move leave their port, and so does a berth that is stopped. Not parallel: a guest
// has one installed berth.
func TestGuestVisitors(t *testing.T) {
	s := uninstalled(t)
	t.Cleanup(s.leave)
	sites, moved := harness.Address(t), harness.Address(t)
	s.settings(behind(sites)...)
	s.command("install", "--now")
	c := s.account("ana", 100)
	id := c.Upload(shopNode)
	pids := map[string]int{id: s.PID(id)}
	s.through(c, sites, func() {
		for range 3 {
			s.systemctl("restart", "berth")
		}
	})
	s.runs(c, "restarts", pids)

	dead := s.main()
	harness.Kill(t, dead)
	harness.Eventually(t, "it is dead", func() bool { return syscall.Kill(dead, 0) != nil })
	visitors := harness.Visit(10, func() *http.Request { return atShop(sites) }) // who was there may have lost an answer
	s.restarted(1)
	visitors.End(t, 10)
	s.runs(c, "SIGKILL", pids)

	// The API moves, which needs another socket of systemd's; the sites stay.
	s.Base = "http://" + harness.Address(t)
	s.settings(behind(sites)...)
	visitors = harness.Visit(5, func() *http.Request { return atShop(sites) })
	s.command("install", "--now")
	visitors.End(t, 5)
	s.runs(c, "another address of the API", pids)

	_, port, _ := net.SplitHostPort(moved)
	for _, at := range []string{moved, "0.0.0.0:" + port, sites} {
		s.settings(behind(at)...)
		s.systemctl("restart", "berth")
		s.shopOpens(strings.Replace(at, "0.0.0.0", "127.0.0.1", 1))
		for _, other := range []string{sites, moved} {
			if is, want := listensAt(other), other == at || other == moved && at != sites; is != want {
				t.Errorf("with sites at %s, somebody listens at %s: %t", at, other, is)
			}
		}
	}
	s.settings("no_such_setting = 1")
	if code, out := s.try("restart", "berth"); code == 0 {
		t.Errorf("systemctl restart succeeded: %s", out)
	}
	s.free(sites, "a bad setting")
	s.settings(behind(sites)...)
	s.systemctl("start", "berth")
	s.shopOpens(sites)
	s.systemctl("stop", "berth.socket", "berth")
	s.free(sites, "a stop")
	s.systemctl("start", "berth")
	s.shopOpens(sites)
	s.settings()
	s.systemctl("restart", "berth")
	s.free(sites, "proxy.mode is off")
	s.runs(c, "all that", pids)
}

// free checks that nobody has a port.
func (s *service) free(address, after string) {
	s.T.Helper()
	var err error
	harness.Eventually(s.T, "systemd has closed the socket, after "+after, func() bool {
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			err = l.Close()
		}
		return !errors.Is(err, syscall.EADDRINUSE)
	})
	if err != nil {
		s.T.Error(err)
	}
}
