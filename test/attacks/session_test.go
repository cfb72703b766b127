package attacks

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/test/harness"
)

// memory is how much of the machine's the daemon has, in MB.
func (d *daemon) memory() int {
	d.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Cmd.Process.Pid))
	said := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if err != nil || said == nil {
		d.t.Fatalf("%v: %s", err, status)
	}
	kb, _ := strconv.Atoi(string(said[1]))
	return kb >> 10
}

const idler = "import signal\nprint('up', flush=True)\nwhile True: signal.pause()"

// mostMemory is by how many MB the daemon may be larger while sessions are under attack: some
// buffers for each, and what a collector of garbage has not seen yet.
const mostMemory = 64

// TestAttacksOnSessions: the terminals of one account are attacked by others, by pages of
// other sites, by what runs in them, and by clients that send and take what no client does.
func TestAttacksOnSessions(t *testing.T) {
	t.Parallel()
	connected(t)
	d := launch(t, "--apps-pids-max", "60")
	d.run("account", "create", "bob", "--ram", "1024")
	bob := d.as(d.run("token", "create", "bob"))
	id := d.upload(bot("main.py", map[string]string{"main.py": idler}, "RAM=256"))
	bobs := bob.upload(bot("main.py", map[string]string{"main.py": idler}, "RAM=256"))
	t.Cleanup(func() { bob.send(bob.request(http.MethodDelete, "/app/all/delete", nil)).want(200) })
	d.untilLog(id, "up")
	bob.untilLog(bobs, "up")
	tenant, status := bob.sits(bobs, true, "sh", http.Header{})
	if tenant == nil {
		t.Fatalf("bob's session: %d", status)
	}
	calm := d.memory()
	unharmed := func(t *testing.T, what string) {
		t.Helper()
		for n := range 5 {
			tenant.answers(t, time.Now().Nanosecond()+n)
		}
		bob.in(t).get("/app/"+bobs).want(200, "apps.online", true)
		if now := d.memory(); now > calm+mostMemory {
			t.Errorf("%s: the daemon has %d MB, and had %d", what, now, calm)
		}
	}
	alone := len(processes(d.uid(id), 1))

	t.Run("who may", func(t *testing.T) { d.in(t).whoMaySit(t, bob.in(t), id) })
	t.Run("the walls", func(t *testing.T) { d.in(t).wallsOfSessions(t, id) })
	t.Run("frames", func(t *testing.T) {
		for what, attack := range framesOfNoClient {
			t.Run(what, func(t *testing.T) {
				d := d.in(t)
				attack(t, d, id)
				unharmed(t, what)
			})
		}
	})
	t.Run("output to slow readers", func(t *testing.T) {
		d := d.in(t)
		slow, _ := d.dial(id, false, "exec yes "+strings.Repeat("x", 1000), http.Header{})
		for range 2 { // who read nothing
			if conn, status := d.dial(id, true, "yes", http.Header{}); conn == nil {
				t.Fatalf("a session: %d", status)
			}
		}
		for read := 0; read < 20<<20; { // who could get a hundred times that
			_, text, err := slow.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if before := read >> 22; (read+len(text))>>22 > before {
				unharmed(t, "a slow reader")
			}
			read += len(text)
		}
		unharmed(t, "slow readers")
	})
	harness.Eventually(t, "nothing of the sessions is left", func() bool { return len(processes(d.uid(id), 1)) == alone })
	t.Run("what is left behind", func(t *testing.T) {
		for what, script := range map[string]string{
			"another session of processes": "setsid sleep 4321 & (setsid sh -c 'trap \"\" HUP TERM INT; while :; do sleep 4321; done' &); ",
			"with its streams open":        "sleep 4321 & ",
			"a bomb of processes":          "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1; ",
		} {
			for _, tty := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, tty %t", what, tty), func(t *testing.T) {
					d := d.in(t)
					id := d.upload(bot("main.py", map[string]string{"main.py": idler}, "RAM=256"))
					d.untilLog(id, "up")
					s, status := d.sits(id, tty, "echo ready; exec sh", http.Header{})
					if s == nil {
						t.Fatalf("a session: %d", status)
					}
					s.types(t, script+"exit\n")
					_ = s.ends(t)
					harness.Eventually(t, "nothing of it is left", func() bool { return len(processes(d.uid(id), 1)) == 1 })
					unharmed(t, what)
					d.send(d.request(http.MethodDelete, "/app/"+id+"/delete", nil)).want(200)
				})
			}
		}
	})
	t.Run("taken away", func(t *testing.T) {
		d := d.in(t)
		token := d.json(http.MethodPost, "/token", `{"label":"laptop"}`).want(200)
		s, status := d.as(token.text("token.token")).sits(id, true, "sh", http.Header{})
		if s == nil {
			t.Fatalf("a session: %d", status)
		}
		s.types(t, "trap '' HUP TERM; echo re''ady; while :; do sleep 1; done\n")
		s.sees(t, "ready")
		d.json(http.MethodDelete, "/token/"+token.text("token.id"), "").want(200)
		began := time.Now()
		if why := s.ends(t); !strings.Contains(why, "not valid") {
			t.Errorf("the reason is %q", why)
		}
		// Five seconds until it is asked, and then the machine's time to end it.
		if took := time.Since(began); took > 15*time.Second && !slow {
			t.Errorf("it ends after %v", took)
		}
		harness.Eventually(t, "its command has ended", func() bool { return len(processes(d.uid(id), 1)) == alone })
	})
	t.Run("more than an account may", func(t *testing.T) {
		d := d.in(t)
		more := d.as(d.run("token", "create", "ana"))
		second := d.upload(bot("main.py", map[string]string{"main.py": idler}, "RAM=64"))
		var open []*seated
		for n := range 4 {
			s, status := []*daemon{d, more}[n%2].sits([]string{id, second}[n/2], true, "sh", http.Header{})
			if s == nil {
				t.Fatalf("session %d: %d", n, status)
			}
			open = append(open, s)
		}
		for _, d := range []*daemon{d, more} {
			for _, id := range []string{id, second} {
				if s, status := d.sits(id, true, "sh", http.Header{}); s != nil || status != http.StatusServiceUnavailable {
					t.Errorf("a fifth session: %d", status)
				}
			}
		}
		unharmed(t, "many sessions") // bob has his own
		open[0].types(t, "exit\n")
		_ = open[0].ends(t)
		harness.Eventually(t, "there is a seat again", func() bool {
			s, _ := d.sits(id, true, "sh", http.Header{})
			return s != nil
		})
	})
	if strings.Contains(d.Out.String(), "panic") {
		t.Error("the daemon has panicked")
	}
}

// whoMaySit tries to get a session by what a stranger, a browser and a page can send.
func (d *daemon) whoMaySit(t *testing.T, bob *daemon, id string) {
	t.Helper()
	const password = "correct horse"
	link := d.run("setup-url", "ana", "--listen", strings.TrimPrefix(d.Base, "http://"))
	cookies := []string{}
	for _, c := range (&http.Response{Header: postFrom(t, "127.0.0.1", link, "password", password, "again", password).header}).Cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	browser := strings.Join(cookies, "; ")
	if len(cookies) == 0 {
		t.Fatal("ana cannot sign in")
	}
	nobody := d.as("")
	host := strings.TrimPrefix(d.Base, "http://")
	for what, tt := range map[string]struct {
		by     *daemon
		header http.Header
		status int
	}{
		"no token":                           {nobody, http.Header{}, 401},
		"a wrong token":                      {d.as("x" + d.token), http.Header{}, 401},
		"another account":                    {bob, http.Header{}, 404},
		"a browser that is signed in":        {nobody, http.Header{"Cookie": {browser}}, 401},
		"the same, from the panel":           {nobody, http.Header{"Cookie": {browser}, "Origin": {d.Base}}, 401},
		"the same, from another site":        {nobody, http.Header{"Cookie": {browser}, "Origin": {"https://evil.example"}}, 401},
		"a page of another site":             {d, http.Header{"Origin": {"https://evil.example"}}, 403},
		"a page of a site of this host":      {d, http.Header{"Origin": {"http://shop." + host}}, 403},
		"a page of a program on this host":   {d, http.Header{"Origin": {"http://127.0.0.1:1"}}, 403},
		"a page of a file":                   {d, http.Header{"Origin": {"null"}}, 403},
		"a page whose host only begins so":   {d, http.Header{"Origin": {d.Base + ".evil.example"}}, 403},
		"a page that names the host as user": {d, http.Header{"Origin": {"http://" + host + "@evil.example"}}, 403},
	} {
		if s, status := tt.by.sits(id, true, "echo hello", tt.header); s != nil || status != tt.status {
			t.Errorf("%s: %d, want %d", what, status, tt.status)
		}
	}
	if s, status := d.sits(id, true, "echo hello", http.Header{"Origin": {d.Base}}); s == nil {
		t.Errorf("the owner, from a page of berth's own: %d", status)
	}
}

// wallsOfSessions compares what holds for the program with what holds beside it.
func (d *daemon) wallsOfSessions(t *testing.T, id string) {
	t.Helper()
	program := processes(d.uid(id), 1)[0]
	for _, tty := range []bool{true, false} {
		s, status := d.sits(id, tty, "echo ready; exec sleep 4321", http.Header{})
		if s == nil {
			t.Fatalf("a session: %d", status)
		}
		pid := 0
		harness.Eventually(t, "its command sleeps", func() bool {
			for _, p := range processes(d.uid(id), 1) {
				if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p)); strings.HasPrefix(string(line), "sleep\x004321") {
					pid = p
				}
			}
			return pid > 0
		})
		for what, of := range wallsOf {
			want, got := of(t, program), of(t, pid)
			for _, line := range want {
				if !slices.Contains(got, line) {
					t.Errorf("tty %t, %s: the program has %q, the session has not", tty, what, line)
				}
			}
			for _, line := range got {
				if !slices.Contains(want, line) {
					t.Errorf("tty %t, %s: the session has %q, the program has not", tty, what, line)
				}
			}
		}
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil || len(fds) != 3 {
			t.Errorf("tty %t: its descriptors are %v, %v", tty, fds, err)
		}
		all, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if text := string(all); err != nil || !strings.Contains(text, "HOME=") || strings.Contains(text, "leak") || strings.Contains(text, d.token) || strings.Contains(text, d.runtimeDir) {
			t.Errorf("tty %t: its environment is %q, %v", tty, text, err)
		}
		_ = s.conn.CloseNow()
		harness.Eventually(t, "it has ended", func() bool { return !slices.Contains(processes(d.uid(id), 1), pid) })
	}
}

// belowTheProgram is the group of a session in that of the program.
var belowTheProgram = regexp.MustCompile(`/console-\d+`)

// wallsOf are what the kernel says of the walls around a process.
var wallsOf = map[string]func(t *testing.T, pid int) []string{
	"status": func(t *testing.T, pid int) []string {
		t.Helper()
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^(Uid|Gid|Groups|Cap\w+|NoNewPrivs|Seccomp\w*|Umask|Cpus_allowed):.*$`).FindAllString(string(text), -1)
		if len(found) < 11 {
			t.Errorf("little is known: %v", found)
		}
		return found
	},
	"limits": func(t *testing.T, pid int) []string {
		t.Helper()
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(text), "\n")
	},
	"namespaces": func(t *testing.T, pid int) (all []string) {
		t.Helper()
		for _, name := range []string{"net", "ipc", "uts", "user", "pid", "time", "cgroup"} {
			at, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if own, _ := os.Readlink("/proc/self/ns/" + name); slices.Contains([]string{"ipc", "uts", "cgroup"}, name) { // one of its own
				at = fmt.Sprintf("%s of the host: %t", name, at == own)
			}
			all = append(all, at)
		}
		return all
	},
	"mounts": func(t *testing.T, pid int) (all []string) {
		t.Helper()
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line) // id, parent, device, root, where, options
			if !strings.HasPrefix(words[4], "/dev") {
				all = append(all, belowTheProgram.ReplaceAllString(strings.Join(words[3:6], " "), ""))
			}
		}
		return all
	},
	"group": func(t *testing.T, pid int) (all []string) {
		t.Helper()
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			all = append(all, belowTheProgram.ReplaceAllString(strings.TrimSpace(line), ""))
		}
		return all
	},
	"oom": func(t *testing.T, pid int) []string {
		t.Helper()
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		if err != nil {
			t.Fatal(err)
		}
		score, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return []string{fmt.Sprintf("killed before what is not berth's: %t", score > 0)} // berth changes the number
	},
}

// session runs the attacks as the command of a session with a terminal; the victim is a
// command in a session, too.
func (v *victims) session(t *testing.T, features []string) {
	t.Helper()
	sitting, status := v.sits(v.id, true, "echo ready; exec sleep 4321", http.Header{})
	if sitting == nil {
		t.Fatalf("the victim's session: %d", status)
	}
	v.targets = maps.Clone(v.targets) // which others read meanwhile
	harness.Eventually(t, "the victim sits", func() bool {
		return slices.ContainsFunc(processes(v.uid(v.id), 1), func(pid int) bool {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if !strings.HasPrefix(string(line), "sleep\x004321") {
				return false
			}
			v.targets["victim"] = strconv.Itoa(pid)
			return true
		})
	})
	terminal, err := os.Readlink("/proc/" + v.targets["victim"] + "/fd/0")
	if err != nil {
		t.Fatal(err)
	}
	f := files(t, "attacker")
	f["targets"], f["main.py"] = v.told("then end"), "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)\nwhile True: signal.pause()"
	id := v.upload(bot("main.py", f))
	s, status := v.sits(id, true, "chmod u+x attacker; exec ./attacker", http.Header{})
	if s == nil {
		t.Fatalf("the attacker's session: %d", status)
	}
	_ = s.ends(t)
	compare(t, "c", results(t, s.seen()), func(r row) string {
		if r.name == "write its memory limit" { // its group is one below the program's, which has the limit
			return r.want + "|ENOENT"
		}
		return denied(features)(r)
	})
	// The terminal of another: by its name, and by who has it open.
	for _, try := range []string{
		"cat </proc/" + v.targets["victim"] + "/fd/0", "echo typed >/proc/" + v.targets["victim"] + "/fd/1", "ls /proc/" + v.targets["victim"] + "/fd/",
		"echo typed >" + terminal + "9",
	} {
		a := v.console(id, try+" && echo it can")
		if strings.Contains(string(a.body), "it can") {
			t.Errorf("%s: %s", try, a.body)
		}
	}
	if strings.Contains(sitting.seen(), "typed") {
		t.Errorf("the victim sees %q", sitting.seen())
	}
	v.survive(t)
	_ = sitting.conn.CloseNow()
}
