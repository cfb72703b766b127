package e2e

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// TestDoctor proves the limit.
func TestDoctor(t *testing.T) {
	t.Parallel()
	d := launch(t)
	var findings []struct{ Name, Verdict, Text string }
	if err := json.Unmarshal([]byte(d.CLI("doctor", "--json")), &findings); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range findings {
		seen[f.Name] = true
		if f.Name == "limit" && (f.Verdict != "ok" || !strings.Contains(f.Text, "killed at 32 MB")) {
			t.Errorf("the limit is %+v", f)
		}
	}
	for _, name := range []string{"host", "memory", "cgroups", "limit", "cpu", "netIO", "node", "python3", "go", "java", "bun", "data", "disk"} {
		if !seen[name] {
			t.Errorf("doctor does not speak of %s", name)
		}
	}
	if code, table, _ := d.Run("doctor"); code != 0 || !strings.Contains(table, "limit") {
		t.Errorf("exit status %d: %s", code, table)
	}
}

// TestOneStaticFile looks for what a program names that it wants loaded.
func TestOneStaticFile(t *testing.T) {
	harness.Ready(t, harness.Unready)
	if os.Getenv("BERTH_E2E_RACE") != "" {
		t.Skip("the race detector links dynamically")
	}
	f, err := elf.Open(harness.Binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a %v", p.Type)
		}
	}
}

// TestServeRefuses starts daemons that cannot run, and leave nothing.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	harness.Ready(t, harness.Unready)
	root, err := os.MkdirTemp("/tmp", "berth-e2e.") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	closed, file := filepath.Join(root, "closed"), filepath.Join(root, "berth.toml")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o711); err != nil {
		t.Fatal(err)
	}
	harness.Write(t, file, "listen = \"127.0.0.1:0\"\n\n[apps]\nram_defult = 200\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		name string
		data string
		args []string
		env  string
		uid  uint32
		code int
		says []string
	}{
		{"as somebody else", "other", nil, "", 65534, 4, []string{"cannot serve: berth must run as root", "sudo berth serve"}},
		{"a closed parent", "closed/data", nil, "", 0, 1, []string{"programs run as their own users and cannot enter " + closed, "chmod o+x " + closed}},
		{"a taken port", "port", []string{"--listen", taken.Addr().String()}, "", 0, 1, []string{"cannot listen on " + taken.Addr().String(), fmt.Sprintf("address already in use by e2e.test (pid %d", os.Getpid())}},
		{"an unknown key", "key", []string{"--config", file}, "", 0, 78, []string{`unknown key "apps.ram_defult"`, "line 4", `"apps.ram_default"`}},
		{"a file that is not there", "file", []string{"--config", file + "x"}, "", 0, 78, []string{"cannot read the configuration"}},
		{"a bad flag", "flag", []string{"--apps-ram-min", "few"}, "", 0, 2, []string{`bad value "few" for apps.ram_min in --apps-ram-min`}},
		{"an unknown flag", "flag", []string{"--apps-ram-mim", "32"}, "", 0, 2, []string{"apps-ram-mim", "--apps-ram-min"}},
		{"a bad variable", "variable", nil, "BERTH_RATE_LIMIT=0", 0, 78, []string{`bad value "0" for rate_limit in BERTH_RATE_LIMIT`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := filepath.Join(root, tt.data)
			cmd := exec.Command(harness.Binary, append([]string{"serve", "--data-dir", data, "--listen", "127.0.0.1:0"}, tt.args...)...)
			cmd.Env = append(harness.CleanEnv(), tt.env)
			if tt.uid != 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tt.uid, Gid: tt.uid}}
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			_ = cmd.Run() // the code tells
			if code := cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("exit status %d, want %d", code, tt.code)
			}
			for _, text := range tt.says {
				if !strings.Contains(stderr.String(), text) {
					t.Errorf("it said %s, want %q in it", &stderr, text)
				}
			}
			if left := harness.GroupsNamed(harness.GroupOfData(data)); len(left) > 0 {
				t.Errorf("left groups: %v", left)
			}
		})
	}
}

// TestSettingsFrom: a flag beats a variable, which beats the file, which beats what berth wrote.
func TestSettingsFrom(t *testing.T) {
	t.Parallel()
	d := prepare(t)
	file := filepath.Join(d.Root, "berth.toml")
	harness.Write(t, file, "[apps]\nram_min = 40\nram_default = 60\n[upload]\nmax = 3\n")
	if err := os.Mkdir(filepath.Join(d.Root, "berth.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	managed := filepath.Join(d.Root, "berth.d", "managed.toml")
	harness.Write(t, managed, "[upload]\nmax = 4\nmax_files = 9\n")
	d.Args = append(d.Args, "--config", file, "--apps-ram-default", "80")
	d.Env = append(d.Env, "BERTH_APPS_RAM_DEFAULT=70", "BERTH_APPS_RAM_MIN=50")
	d.Serve()
	c := d.account("ana", 500)
	c.Info(c.Upload(harness.ShellBot(harness.IdleShell))).Want(200, "apps.ram", 80)
	c.Post(harness.ShellBot(harness.IdleShell, "RAM=49").Zip()).Want(422).Says("message", "at least 50 MB")
	c.Post(harness.ShellBot(harness.IdleShell).With("noise", noise(3<<20)).Zip()).Want(413).Says("message", "3MB")
	many := harness.ShellBot(harness.IdleShell)
	for i := range 9 {
		many = many.With(fmt.Sprintf("f%d", i), "x")
	}
	c.Post(many.Zip()).Want(413).Says("message", "more than the 9 entries allowed")

	cmd := d.Command(append([]string{"check"}, d.Args[1:]...)...)
	cmd.Env = append(harness.CleanEnv(), d.Env...)
	out, err := cmd.CombinedOutput()
	for _, line := range []string{
		`apps.ram_min is "50", from BERTH_APPS_RAM_MIN instead of "40" from ` + file + " line 2",
		`apps.ram_default is "80", from --apps-ram-default instead of "70" from BERTH_APPS_RAM_DEFAULT and "60" from ` + file + " line 3",
		`upload.max is "3", from ` + file + ` line 5 instead of "4" from ` + managed + " line 2",
		`upload.max_files is "9", from ` + managed + " line 3",
	} {
		if err != nil || !strings.Contains(string(out), line+"\n") {
			t.Errorf("check: %v: %s; want %q", err, out, line)
		}
	}
}

// TestHostCapacity: what does not fit in the host is there and not started.
func TestHostCapacity(t *testing.T) {
	t.Parallel()
	harness.Ready(t, harness.Unready)
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	kb, err := strconv.Atoi(harness.Field(string(text), "MemTotal:"))
	if err != nil {
		t.Fatal(err)
	}
	// A tenth of what the reserve leaves: 150 MB.
	d := launch(t, "--host-overcommit", "0.1", "--host-reserve", strconv.Itoa(kb>>10-1500))
	c := d.account("ana", 1000) // an account may be larger than the host
	first := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=100"))
	const full = "this host has 150 MB for applications and 100 MB of them run already; 100 MB more do not fit"
	a := c.Post(harness.ShellBot(harness.IdleShell, "RAM=100").Zip()).Want(200, "status", "ok").Says("logs", "did not start", full)
	second := a.Text("app.id")
	c.Info(second).Want(200, "apps.online", false)
	c.Put("/app/"+second+"/start", "").Want(422, "status", "error", "code", 422).Says("message", full)
	c.Put("/app/"+first+"/ram", `{"ramMB":151}`).Want(200, "status", "error").Says("message", "151 MB more do not fit")
	c.Info(first).Want(200, "apps.ram", 100, "apps.online", true)
	c.Put("/app/"+second+"/ram", `{"ramMB":50}`).Want(200)
	c.Put("/app/"+second+"/start", "").Want(200, "status", "ok")
	c.Put("/app/"+first+"/stop", "").Want(200)
	third := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=100"))
	c.Info(third).Want(200, "apps.online", true)
	c.Put("/app/all/start", "").Want(422, "status", "error").Says("message", "do not fit")
	c.Commit(third, harness.Files{"start.sh": "echo new; exec sleep 1000"}).Want(200, "status", "ok") // it has its own place
	c.Info(third).Want(200, "apps.online", true)
}
