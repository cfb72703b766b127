//go:build guest

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// guest skips where the tests would change the machine: they write units,
// fill disks and make them read-only.
func guest(t *testing.T) {
	t.Helper()
	if !harness.Exists(t, "/berth-vm/main") {
		t.Skip("needs a guest of test/vm/run")
	}
	harness.Ready(t, harness.Unready)
}

// service is a daemon that systemd runs in a unit of its own, with its control
// group delegated.
type service struct {
	*daemon
	unit string
}

// serve writes the unit of a daemon and does not start it. lines are more of
// the section Service, args are flags of serve. What it was is told when the
// test fails.
func serve(t *testing.T, lines []string, args ...string) *service {
	t.Helper()
	guest(t)
	address := harness.Address(t) // the same for all its lives
	d := prepare(t, append([]string{"--listen", address}, args...)...)
	d.Base = "http://" + address
	s := &service{daemon: d, unit: fmt.Sprintf("berth-test-%d.service", d.UID/harness.UIDs)}
	unit := append([]string{
		"[Service]", "Type=notify", "Delegate=yes", "KillMode=mixed", "Restart=on-failure", "RestartPreventExitStatus=78",
		"Environment=BERTH_CONFIG=/dev/null", "Environment=BERTH_RUNTIME_DIR=" + d.Runtime(), `Environment="PATH=` + os.Getenv("PATH") + `"`,
		"ExecStart=" + harness.Binary + " " + strings.Join(d.Args, " "),
	}, lines...)
	file := filepath.Join("/run/systemd/system", s.unit)
	harness.Write(t, file, strings.Join(unit, "\n")+"\n") // a new name needs no daemon-reload, which takes seconds here
	t.Cleanup(func() {
		if t.Failed() {
			status, _ := exec.Command("systemctl", "status", "--no-pager", "-n0", s.unit).CombinedOutput()
			t.Logf("the unit:\n%s\n%s", status, harness.Tail(harness.BesidesRequests(s.journal()), 6000))
		}
		s.try("stop", s.unit)
		os.Remove(file)
	})
	return s
}

// try is systemctl, and returns the exit status and what it printed.
func (s *service) try(args ...string) (int, string) {
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err == nil {
		return 0, string(out)
	}
	return 1, fmt.Sprintf("%s%v", out, err)
}

// systemctl is try for what must succeed.
func (s *service) systemctl(args ...string) {
	s.T.Helper()
	if code, out := s.try(args...); code != 0 {
		s.T.Fatalf("systemctl %v: %s", args, out)
	}
}

// is checks properties of the unit, given as "Name=value".
func (s *service) is(want ...string) {
	s.T.Helper()
	var names []string
	for _, w := range want {
		name, _, _ := strings.Cut(w, "=")
		names = append(names, name)
	}
	got := s.properties(names...)
	for _, w := range want {
		if name, value, _ := strings.Cut(w, "="); got[name] != value {
			s.T.Errorf("%s of the unit is %q, want %q", name, got[name], value)
		}
	}
}

// properties are what systemd says of the unit.
func (s *service) properties(names ...string) map[string]string {
	var out []byte
	harness.Eventually(s.T, "systemd answers, which another test may have made execute itself", func() (ok bool) {
		var err error
		out, err = exec.Command("systemctl", "show", "-p", strings.Join(names, ","), s.unit).Output()
		return err == nil
	})
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		found[name] = value
	}
	return found
}

// journal is all that the unit printed, in all its lives. The daemon gives its
// lines no priority, so they are ordinary ones.
func (s *service) journal() string {
	_ = exec.Command("journalctl", "--sync").Run() // what it has not got is missing below
	out, err := exec.Command("journalctl", "-u", s.unit, "-o", "json", "--no-pager").Output()
	if err != nil {
		s.T.Errorf("journalctl: %v", err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(out)) {
		var entry struct {
			Priority string `json:"PRIORITY"`
			Message  string `json:"MESSAGE"`
			Name     string `json:"SYSLOG_IDENTIFIER"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || (entry.Name == "berth" && entry.Priority != "6") {
			s.T.Errorf("%v in %s, want a text of priority 6", err, line)
		}
		fmt.Fprintln(&b, entry.Message)
	}
	return b.String()
}

// hybrid reports whether the controllers of this machine are on cgroup v1.
func hybrid(t *testing.T) bool { return harness.Exists(t, "/sys/fs/cgroup/unified") }

// groupOf is the control group of a process in the hierarchy of a controller,
// "" for cgroup v2, and its directory.
func groupOf(t *testing.T, pid int, controller string) (group, dir string) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	mount := filepath.Join("/sys/fs/cgroup", controller)
	if controller == "" && hybrid(t) {
		mount = "/sys/fs/cgroup/unified"
	}
	for line := range strings.Lines(string(b)) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 && parts[1] == controller {
			return parts[2], filepath.Join(mount, parts[2])
		}
	}
	t.Fatalf("no group of %q in %s", controller, b)
	return "", ""
}

// groups are what there is of the service in any hierarchy.
func (s *service) groups() []string {
	found := harness.GroupsNamed(harness.GroupOfData(s.Data))
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == s.unit {
			found = append(found, path)
		}
		return nil // a group that went meanwhile is none
	})
	if err != nil {
		s.T.Error(err)
	}
	return found
}

// nothingLeft fails unless the service has gone with all it started.
func (s *service) nothingLeft() {
	s.T.Helper()
	s.is("ActiveState=inactive", "Result=success", "MainPID=0")
	for _, p := range s.Processes() {
		s.T.Errorf("left running: %v", p)
	}
	if left := s.groups(); len(left) > 0 {
		s.T.Errorf("left groups: %v", left)
	}
	mounts, err := os.ReadFile("/proc/1/mountinfo")
	if err != nil || strings.Contains(string(mounts), s.Root) {
		s.T.Errorf("left mounts: %s, %v", mounts, err)
	}
}

// curl is a request by the real curl.
func (c *client) curl(method, path string, options ...string) harness.Answer {
	c.T.Helper()
	args := append([]string{"-sS", "-X", method, "-H", "api-token: " + c.Token, "-w", "\n%{http_code}"}, options...)
	var out, problems bytes.Buffer
	cmd := exec.Command("curl", append(args, c.d.Base+"/v2"+path)...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		c.T.Fatalf("curl %s %s: %v: %s", method, path, err, problems.String())
	}
	body, code, _ := bytes.Cut(out.Bytes(), []byte("\n")) // berth answers in one line
	a := harness.Answer{T: c.T, Body: body}
	if _, err := fmt.Sscan(string(code), &a.Code); err != nil {
		c.T.Fatalf("curl %s %s printed %q", method, path, out.String())
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&a.Value); err != nil {
		c.T.Errorf("curl %s %s: %v in %q", method, path, err, body)
	}
	return a
}

// curlUpload uploads a program from a file, and returns its id.
func (c *client) curlUpload(f harness.Files) string {
	c.T.Helper()
	file, err := os.CreateTemp(c.d.Root, "*.zip")
	if err != nil {
		c.T.Fatal(err)
	}
	defer file.Close()
	harness.Write(c.T, file.Name(), string(f.Zip()))
	return c.curl("POST", "/upload", "-F", "file=@"+file.Name()).Want(200, "status", "ok").Text("app.id")
}
