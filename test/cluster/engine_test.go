//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// movable starts a berth whose programs run on this machine, with a cluster in its settings file.
func movable(t *testing.T) *harness.Berth {
	t.Helper()
	d := harness.Prepare(t)
	name := "files-" + strconv.Itoa(int(claims.Add(1)))
	file, text := token(t), ""
	if err := world.Apply(claim(name, d.Data)); err != nil {
		t.Fatal(err)
	}
	for _, flag := range engineFlags(t, file, name) {
		key, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if section, rest, in := strings.Cut(key, "-"); in {
			text += fmt.Sprintf("%s.%s = %q\n", section, strings.ReplaceAll(rest, "-", "_"), value)
		}
	}
	if err := os.Mkdir(filepath.Dir(config(d)), 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Write(t, config(d), text)
	d.Env = append(d.Env, "BERTH_CONFIG="+config(d))
	d.Serve()
	return d
}

// config is the settings file.
func config(d *harness.Berth) string { return filepath.Join(d.Root, "etc", "berth.toml") }

// here are the processes of programs in the groups of berth: those of pods, which are on this machine too, are in others.
func here(d *harness.Berth) (pids []int) {
	for _, p := range d.Processes() {
		groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID)) // it may have ended
		if strings.Contains(string(groups), "/berth/"+d.Group) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// Programs move to the cluster and back, with their files and logs, and never run on both.
func TestEngineMove(t *testing.T) {
	d := movable(t)
	c := d.NewAccount("ann", 500)
	count := "n=$(cat n 2>/dev/null || echo 0); trap 'echo end; exit 0' TERM; while :; do n=$((n+1)); echo $n >n; echo line $n; sleep 0.1; done\n"
	id := c.Upload(harness.ShellBot(count, "RAM=64"))
	stopped := c.Upload(harness.ShellBot("exec sleep 1000\n", "RAM=64"))
	c.Put("/app/"+stopped+"/stop", "").Want(200)
	c.UntilLog(id, "line 5")

	// berth names what would not run there before it changes anything.
	all, err := os.ReadFile(config(d))
	if err != nil {
		t.Fatal(err)
	}
	bot := c.Upload(harness.NodeBot("setInterval(() => {}, 1000)\n", "RAM=64"))
	harness.Write(t, config(d), strings.ReplaceAll(string(all), ",node ", ",bun "))
	if code, _, out := d.Run("engine", "move", "kubernetes", "--yes"); code != 1 || !strings.Contains(out, bot+") would not start: ") {
		t.Errorf("without an image: %d %s", code, out)
	}
	c.Info(bot).Want(200, "apps.online", true)
	c.Put("/app/"+bot+"/stop", "").Want(200)
	harness.Write(t, config(d), string(all))

	out := move(t, d, "kubernetes")
	if !strings.Contains(out, "moved 1 program; the time offline was ") {
		t.Errorf("it says %s", out)
	}
	if all := pods(t, id); len(all) != 1 || len(here(d)) != 0 {
		t.Errorf("its pods: %v, and here: %v", all, here(d))
	}
	c.Info(id).Want(200, "apps.online", true, "apps.ramKilled", false)
	c.Info(stopped).Want(200, "apps.online", false)
	goesOnCounting(t, c, id)
	if out := move(t, d, "kubernetes"); !strings.Contains(out, "already") {
		t.Errorf("again it says %s", out)
	}

	// Programs for which there is no RAM stay where they are.
	harness.Write(t, config(d), "host.reserve = 1000000\n"+string(all))
	if code, _, out := d.Run("engine", "move", "machine", "--yes"); code != 1 || !strings.Contains(out, "they have 64 MB of RAM together, and there are 0 MB on this machine") {
		t.Errorf("without RAM: %d %s", code, out)
	}
	goesOnCounting(t, c, id)
	harness.Write(t, config(d), string(all))

	// One that is killed is finished by the next.
	cmd := d.Command("engine", "move", "machine", "--yes", "--data-dir", d.Data)
	cmd.Env = append(harness.CleanEnv(), d.Env...)
	said := &harness.Output{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it stops the programs", func() bool { return strings.Contains(said.String(), "berth starts anew") })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	move(t, d, "machine")
	if all := pods(t, id); len(all) != 0 || len(here(d)) == 0 {
		t.Errorf("its pods: %v, and here: %v", all, here(d))
	}
	goesOnCounting(t, c, id)
}

func move(t *testing.T, d *harness.Berth, to string) string {
	t.Helper()
	code, _, out := d.Run("engine", "move", to, "--yes")
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, out)
	}
	t.Log(out)
	return out
}

// goesOnCounting fails unless the program goes on from the number of the one before: two at once would break the row.
func goesOnCounting(t *testing.T, c *harness.Client, id string) {
	t.Helper()
	log := c.Log(id)
	last := log[strings.LastIndex(log, "line ")+len("line "):]
	last, _, _ = strings.Cut(last, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(last))
	if err != nil {
		t.Fatal(err)
	}
	c.UntilLog(id, fmt.Sprintf("line %d", n+10))
}

// Whoever changes the engine by hand gets each program once, on the new one.
func TestEngineChangedByHand(t *testing.T) {
	d := movable(t)
	c := d.NewAccount("ann", 500)
	id := c.Upload(harness.ShellBot("echo began; while :; do sleep 0.1; done\n", "RAM=64"))
	c.UntilLog(id, "began")
	before := here(d)
	if d.End(syscall.SIGKILL); len(here(d)) != len(before) {
		t.Fatalf("of %v there are %v", before, here(d))
	}
	d.Args = append(d.Args, "--engine=kubernetes")
	d.Serve()
	harness.Eventually(t, "it runs on the cluster alone", func() bool { return len(pods(t, id)) == 1 && len(here(d)) == 0 })
	c.Put("/app/"+id+"/restart", "").Want(200)

	d.End(syscall.SIGKILL)
	d.Args[len(d.Args)-1] = "--kubernetes-server=https://127.0.0.1:1"
	cmd := d.Command(d.Args...)
	cmd.Env = append(harness.CleanEnv(), d.Env...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "may still run on the cluster at "+world.Server) {
		t.Errorf("with another cluster: %v, %s", err, out)
	}
	if len(pods(t, id)) != 1 || len(here(d)) != 0 {
		t.Error("that changed what runs")
	}
	d.Args = d.Args[:len(d.Args)-1]
	d.Serve()
	harness.Eventually(t, "it runs on this machine alone", func() bool { return len(pods(t, id)) == 0 && len(here(d)) != 0 })
	if log := c.Log(id); !strings.Contains(log, "its program on the cluster was ended") {
		t.Errorf("its log: %s", log)
	}
}
