//go:build guest

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestGuestServiceByCurl is the whole path: systemd starts the daemon, curl
// asks, the kernel limits.
func TestGuestServiceByCurl(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.systemctl("start", s.unit) // returns once it is ready
	c := s.account("ana", 600)
	node := c.curlUpload(harness.NodeBot(harness.IdleNode, "RAM=90"))
	python := c.curlUpload(harness.PythonBot(harness.IdlePython, "RAM=40"))
	s.placed(node, 90)
	s.placed(python, 40)
	c.curl("GET", "/app/"+node+"/status").Want(200, "apps.container", "Online").Says("apps.memory", "MB/90MB")
	c.curl("GET", "/app/"+python).Want(200, "apps.online", true, "apps.ramKilled", false)

	pid := s.main()
	hog := c.curlUpload(harness.PythonBot("import time\ntime.sleep(1)\n"+hogPython, "RAM=40"))
	c.Until(hog, "apps.online", false)
	c.curl("GET", "/app/"+hog).Want(200, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
	c.curl("GET", "/app/"+hog+"/logs").Want(200).Says("apps.terminal.big", "hogging", "killed: needed more than 40 MB of RAM (exit code 137)")
	s.is("ActiveState=active", "SubState=running", "Result=success", "NRestarts=0", fmt.Sprintf("MainPID=%d", pid))

	before := s.PID(node)
	c.curl("PUT", "/app/"+node+"/stop").Want(200, "status", "ok")
	c.curl("GET", "/app/"+node).Want(200, "apps.online", false)
	if left := s.Of(node); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	c.curl("PUT", "/app/"+node+"/start").Want(200, "status", "ok")
	if now := s.PID(node); now == before {
		t.Errorf("it was %d and is %d", before, now)
	}
	c.curl("DELETE", "/app/"+node+"/delete").Want(200, "status", "ok")
	c.curl("GET", "/app/"+node).Want(404)
	if left := s.Entries("apps"); len(left) != 2 {
		t.Errorf("the applications are %v, want two", left)
	}
	s.systemctl("stop", s.unit)
	s.nothingLeft()
	s.journalHolds(c.Token)
}

// main is the daemon's pid.
func (s *service) main() int {
	s.T.Helper()
	pid, err := strconv.Atoi(s.properties("MainPID")["MainPID"])
	if err != nil || pid == 0 {
		s.T.Fatalf("the unit has no main process: %v", err)
	}
	return pid
}

// placed checks where an application's program and the daemon are.
func (s *service) placed(id string, ram int) {
	s.T.Helper()
	unit := "/system.slice/" + s.unit
	program := s.PID(id)
	group, dir := groupOf(s.T, program, "")
	daemon, _ := groupOf(s.T, s.main(), "")
	limit, below, leaf := filepath.Join(dir, "memory.max"), unit, unit+"/daemon"
	if hybrid(s.T) {
		memory, v1 := groupOf(s.T, program, "memory")
		if memory != group {
			s.T.Errorf("the program is in %s, and for its memory in %s", group, memory)
		}
		limit, below, leaf = filepath.Join(v1, "memory.limit_in_bytes"), "/berth/"+harness.GroupOfData(s.Data), unit
	}
	if want := below + "/apps/" + id + "/"; !strings.HasPrefix(group, want) {
		s.T.Errorf("the program's group is %s, want it below %s", group, want)
	}
	if daemon != leaf {
		s.T.Errorf("the daemon's group is %s, want %s", daemon, leaf)
	}
	if b, err := os.ReadFile(limit); err != nil || strings.TrimSpace(string(b)) != fmt.Sprint(ram<<20) {
		s.T.Errorf("%s is %s, %v, want %d", limit, b, err, ram<<20)
	}
}

// journalHolds looks for the daemon's log in the journal, and for what must
// not be there.
func (s *service) journalHolds(token string) {
	s.T.Helper()
	journal := s.journal()
	for _, want := range []string{
		`msg="listening on ` + s.Base, `msg="program ended" app=`, "code=137 oom=true", "msg=stopping", "msg=request ",
	} {
		if !strings.Contains(journal, want) {
			s.T.Errorf("the journal does not hold %q", want)
		}
	}
	secret := token[strings.LastIndexByte(token, '.')+1:]
	if len(secret) < 20 || strings.Contains(journal, secret) {
		s.T.Error("the journal holds the token, or there is none")
	}
}

// TestGuestServiceRestarts: what is wanted online is online after each end of
// the daemon, once.
func TestGuestServiceRestarts(t *testing.T) {
	t.Parallel()
	// With systemd's default it ends the programs beside the daemon, which may
	// then tell of an end that nobody asked it for.
	s := serve(t, []string{"KillMode=control-group"})
	s.systemctl("start", s.unit)
	c := s.account("ana", 600)
	ids := []string{
		c.Upload(harness.NodeBot("process.on('SIGTERM', () => process.exit(0))\n"+harness.IdleNode, "RAM=90")),
		c.Upload(harness.PythonBot(harness.IdlePython, "RAM=40")),
	}
	stopped := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	c.Put("/app/"+stopped+"/stop", "").Want(200)
	pids := map[int]bool{}
	online := func(after string) {
		t.Helper()
		for _, id := range ids {
			c.Until(id, "apps.online", true, "apps.ramKilled", false)
			if pid := s.PID(id); pids[pid] {
				t.Errorf("after %s %s is still %d", after, id, pid)
			} else {
				pids[pid] = true
			}
		}
		c.Info(stopped).Want(200, "apps.online", false)
		if all := s.Processes(); len(all) != len(ids) {
			t.Errorf("after %s %v run, want %d processes", after, all, len(ids))
		}
	}
	online("the start")
	s.systemctl("restart", s.unit)
	online("a restart")
	s.placed(ids[1], 40)

	harness.Kill(t, s.main())
	harness.Eventually(t, "systemd has started the daemon again", func() bool {
		now := s.properties("NRestarts", "ActiveState")
		return now["NRestarts"] == "1" && now["ActiveState"] == "active"
	})
	online("SIGKILL")
	s.placed(ids[1], 40)
	s.systemctl("daemon-reload") // must take nothing away
	s.placed(ids[0], 90)
	s.systemctl("stop", s.unit)
	s.nothingLeft()
}

// TestGuestServiceStopInTime: the default time for programs that ignore
// SIGTERM lies within systemd's for the unit.
func TestGuestServiceStopInTime(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--apps-stop-timeout", "10s") // the default
	s.systemctl("start", s.unit)
	c := s.account("ana", 100)
	id := c.Upload(harness.NodeBot("process.on('SIGTERM', () => console.log('no'))\n" + harness.IdleNode))
	c.UntilLog(id, "up\n")
	s.systemctl("stop", s.unit)
	s.nothingLeft()
	if journal := s.journal(); strings.Contains(journal, "timed out") {
		t.Errorf("systemd ran out of patience: %s", journal)
	}
}

// TestGuestServiceConfigError: what only a person can mend is told once.
func TestGuestServiceConfigError(t *testing.T) {
	t.Parallel()
	s := serve(t, []string{"Environment=BERTH_APPS_RAM_MIN=little"})
	if code, out := s.try("start", s.unit); code == 0 {
		t.Errorf("systemctl start succeeded: %s", out)
	}
	s.is("ActiveState=failed", "Result=exit-code", "ExecMainStatus=78", "NRestarts=0")
	if journal := s.journal(); strings.Count(journal, `bad value "little" for apps.ram_min in BERTH_APPS_RAM_MIN`) != 1 {
		t.Errorf("the journal holds %s", journal)
	}
	if left := s.groups(); len(left) > 0 {
		t.Errorf("left groups: %v", left)
	}
}
