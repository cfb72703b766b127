//go:build cluster

package cluster

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

var claims atomic.Int64

// launch starts a berth whose programs run on the cluster. Its data directory is a volume of every machine.
func launch(t *testing.T, args ...string) *harness.Berth {
	t.Helper()
	d := harness.Prepare(t, args...)
	onCluster(t, d)
	d.Serve()
	return d
}

// onCluster lets a berth run its programs on the cluster.
func onCluster(t *testing.T, d *harness.Berth) {
	t.Helper()
	name := "files-" + strconv.Itoa(int(claims.Add(1)))
	file := token(t)
	if err := world.Apply(claim(name, d.Data)); err != nil {
		t.Fatal(err)
	}
	d.Args = append(d.Args, engineFlags(t, file, name)...)
}

// claim is a directory of this machine as a volume of every machine.
func claim(name, dir string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": %[1]q}, "spec": {"capacity": {"storage": "1Gi"},
 "accessModes": ["ReadWriteMany"], "hostPath": {"path": %[2]q}, "storageClassName": "", "claimRef": {"name": %[1]q, "namespace": "berth-apps"}}},
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": %[1]q, "namespace": "berth-apps"}, "spec": {
 "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": %[1]q, "resources": {"requests": {"storage": "1Gi"}}}}]}`, name, dir)
}

func engineFlags(t *testing.T, token, claim string) []string {
	images := "default " + shellImage + ",node " + version(t, "node") + " " + nodeImage + ",python " + version(t, "python3") + " " + pythonImage
	return []string{
		"--engine=kubernetes", "--kubernetes-server=" + world.Server, "--kubernetes-ca-file=" + world.CA,
		"--kubernetes-token-file=" + token, "--kubernetes-claim=" + claim, "--kubernetes-images=" + images,
	}
}

// version is that of a command of this machine ("v20.20.2", "Python 3.11.2").
func version(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.Command("/usr/bin/"+command, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimLeft(strings.TrimSpace(string(out)), "vPython ")
}

// pods are the names of the pods of an application that have not ended.
func pods(t *testing.T, id string) []string {
	t.Helper()
	out, err := world.kubectl("get", "pods", "-n", "berth-apps", "-l", "berth/app="+id, "--field-selector=status.phase=Running", "-o", "name").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// goesOn fails unless the pods of an application are those of before.
func goesOn(t *testing.T, id string, before []string) {
	t.Helper()
	if after := pods(t, id); !slices.Equal(before, after) {
		t.Errorf("its pods: %v, before %v", after, before)
	}
}

// printed is the last line of an application's program, as its machine has it.
func printed(t *testing.T, id string) string {
	t.Helper()
	out, err := world.kubectl("logs", "-n", "berth-apps", "-l", "berth/app="+id, "--tail=1").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What an owner does with an application is the same on a cluster.
func TestStory(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.NewAccount("ann", 500)
	id := c.Upload(harness.ShellBot("trap 'echo last words; exit 7' TERM; echo first $PORT; while :; do sleep 0.1; done\n", "RAM=64"))
	c.UntilLog(id, "first ")
	if all := pods(t, id); len(all) != 1 {
		t.Errorf("its pods: %v", all)
	}
	c.Put("/app/"+id+"/ram", `{"ramMB": 100}`).Want(200)
	c.Info(id).Want(200, "apps.online", true, "apps.ram", 100)
	c.Put("/app/"+id+"/stop", "").Want(200)
	c.Info(id).Want(200, "apps.online", false, "apps.exitCode", 7)
	if log := c.Log(id); !strings.Contains(log, "last words") {
		t.Errorf("the log: %s", log)
	}
	c.Put("/app/"+id+"/start", "").Want(200, "appStatus.online", true)
	c.Commit(id, harness.ShellBot("echo second; exec sleep 1000\n", "RAM=100")).Want(200)
	c.UntilLog(id, "second")
	if all := pods(t, id); len(all) != 1 {
		t.Errorf("its pods: %v", all)
	}
}

// A program that is killed for its RAM is told from one that is killed, and codes are exact.
func TestExitsOfPrograms(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.NewAccount("ann", 500)
	for code, want := range map[string][]any{
		"exit 3\n":                 {"apps.exitCode", 3, "apps.ramKilled", false},
		"exec tail /dev/zero\n":    {"apps.exitCode", 137, "apps.ramKilled", true},
		"kill -9 $$\n":             {"apps.exitCode", 137, "apps.ramKilled", false},
		"tail /dev/zero\nexit 0\n": {"apps.online", false},
	} {
		id := c.Upload(harness.ShellBot("while [ ! -e go ]; do sleep 0.1; done\n"+code, "RAM=64"))
		harness.Write(t, d.Path(id, "go"), "")
		c.Until(id, append([]any{"apps.online", false}, want...)...)
		c.Delete(id).Want(200)
	}
}

// A program goes on while berth is killed, and each line that it printed is in its log once.
func TestAdoption(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.NewAccount("ann", 500)
	id := c.Upload(harness.ShellBot("n=0; while :; do n=$((n+1)); echo line $n; sleep 0.01; done\n", "RAM=64"))
	c.UntilLog(id, "line 20")
	before := pods(t, id)
	for range 3 {
		d.Cmd.Process.Signal(syscall.SIGKILL)
		harness.Eventually(t, "it has ended", d.Ended)
		last := printed(t, id)
		harness.Eventually(t, "the program prints while no berth is there", func() bool { return printed(t, id) != last })
		d.Serve()
	}
	goesOn(t, id, before)
	c.Put("/app/"+id+"/stop", "").Want(200)
	next := 1
	for line := range strings.Lines(c.Log(id)) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, is := strings.CutPrefix(text, "line ")
		if !is {
			continue
		}
		if number != strconv.Itoa(next) {
			t.Fatalf("after line %d comes %s", next-1, number)
		}
		next++
	}
	if next < 100 {
		t.Errorf("it has %d lines", next-1)
	}
}

// Where programs reach what is not theirs, none starts, and doctor says what they reach; where it is closed, they start.
func TestOpenDoors(t *testing.T) {
	if err := world.Guard(false); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := world.Guard(true); err != nil {
			t.Error(err)
		}
	}()
	server, err := net.Listen("tcp", api+":2049") // as an NFS server does on berth's machine
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	d := launch(t)
	c := d.NewAccount("ann", 200)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	c.UntilLog(id, "programs on the cluster of this host could reach the files of others")
	findings := examined(t, d, 1)
	for _, machine := range []string{"n1", "n2"} {
		want := "a program on " + machine + " reaches 10.99.0.11:10250, 10.99.0.12:10250, 10.99.0.1:2049, 10.99.0.1:6443"
		if !slices.ContainsFunc(findings, func(f finding) bool { return f.Name == "reach" && f.Verdict == "FAIL" && f.Text == want }) {
			t.Errorf("doctor does not say %q: %+v", want, findings)
		}
	}
	if err := world.Guard(true); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it is closed, and the program starts", func() bool { return c.Put("/app/"+id+"/start", "").At("appStatus.online") == true })
	harness.Eventually(t, "nothing of what was tried is left", func() bool { return len(pods(t, "probe")) == 0 })
	holds := 0
	for _, f := range examined(t, d, 0) {
		if f.Verdict == "FAIL" {
			t.Errorf("doctor says %+v", f)
		}
		if strings.HasPrefix(f.Name, "WAL n") && f.Verdict == "ok" && strings.Contains(f.Text, "where SQLite's WAL mode holds") {
			holds++ // the directory is on a disk of this machine
		}
	}
	if holds != len(world.Nodes) {
		t.Errorf("doctor says of %d machines that WAL mode holds", holds)
	}
}

// finding is one of berth doctor.
type finding struct{ Name, Verdict, Text string }

// examined is what berth doctor says of the cluster; code is its exit code.
func examined(t *testing.T, d *harness.Berth, code int) (of []finding) {
	t.Helper()
	got, out, errs := d.Run(append([]string{"doctor", "--json"}, d.Args[1:]...)...)
	var all []finding
	if err := json.Unmarshal([]byte(out), &all); err != nil || got != code {
		t.Fatalf("doctor ends with %d, want %d: %v: %s %s", got, code, err, out, errs)
	}
	from := slices.IndexFunc(all, func(f finding) bool { return f.Name == "cluster" })
	if from < 0 {
		t.Fatalf("doctor says nothing of the cluster: %+v", all)
	}
	for _, f := range all[from:] {
		t.Logf("%s %s: %s", f.Verdict, f.Name, f.Text)
	}
	return all[from:]
}

// numbered prints lines with numbers.
const numbered = "n=0; while :; do n=$((n+1)); echo line $n; sleep 0.02; done\n"

// counted reports the lines of numbered in a log, each of which must be there once.
func counted(t *testing.T, c *harness.Client, id string) (lines int) {
	t.Helper()
	for line := range strings.Lines(c.Log(id)) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, is := strings.CutPrefix(text, "line ")
		if !is {
			continue
		}
		if number != strconv.Itoa(lines+1) {
			t.Fatalf("%s: after line %d comes %s", id, lines, number)
		}
		lines++
	}
	return lines
}

// A machine that does not answer is waited for; only a person gives it up, and then its programs run elsewhere.
func TestForgottenMachine(t *testing.T) {
	d := launch(t)
	d.Env = append(d.Env, environment(d.Args)...)
	c := d.NewAccount("ann", 500)
	id := c.Upload(harness.ShellBot(numbered, "RAM=64"))
	c.UntilLog(id, "line 5")
	out, err := world.kubectl("get", "pods", "-n", "berth-apps", "-l", "berth/app="+id, "-o", "jsonpath={.items[0].spec.nodeName}").Output()
	if err != nil {
		t.Fatal(err)
	}
	name := string(out)
	if code, _, errs := d.Run("cluster", "forget", name, "--yes"); code == 0 || !strings.Contains(errs, "cannot forget "+name+": it answers") {
		t.Errorf("forget of one that answers: %d, %s", code, errs)
	}
	if code, _, errs := d.Run("cluster", "drain", name); code == 0 || !strings.Contains(errs, "kubectl cordon "+name) {
		t.Errorf("drain of one that is not cordoned: %d, %s", code, errs)
	}
	node := world.Nodes[slices.IndexFunc(world.Nodes, func(n *Node) bool { return n.Name == name })]
	there := d.Of(id)
	node.StopKubelet()
	defer func() {
		if err := node.StartKubelet(); err != nil {
			t.Error(err)
		}
		harness.Eventually(t, "the machine hears that the program was given up", func() bool {
			return !slices.ContainsFunc(d.Of(id), func(p harness.Process) bool {
				return slices.Contains(there, p) && !strings.HasPrefix(p.Command, "sleep")
			})
		})
	}()
	c.UntilLog(id, "its machine "+name+" does not answer")
	if all := pods(t, id); len(all) != 1 {
		t.Errorf("its pods: %v", all)
	}
	if code, _, errs := d.Run("cluster", "drain", name); code == 0 || !strings.Contains(errs, "it does not answer") {
		t.Errorf("drain of one that is silent: %d, %s", code, errs)
	}
	if text := d.CLI("cluster", "nodes"); !strings.Contains(text, "does not answer") {
		t.Errorf("nodes: %s", text)
	}
	if code, out, errs := d.Run("cluster", "forget", name, "--yes"); code != 0 {
		t.Errorf("forget ends with %d: %s%s", code, out, errs)
	}
	c.Until(id, "apps.online", true)
}

// environment are the settings of flags as variables, for commands that have fewer flags.
func environment(flags []string) (env []string) {
	for _, flag := range flags {
		if name, value, ok := strings.Cut(strings.TrimPrefix(flag, "--"), "="); ok {
			env = append(env, "BERTH_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
		}
	}
	return env
}

// A program reads the lines that its owner sends, each once and in order, and sees no end of them. One that does not read
// holds up nobody.
func TestInput(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.NewAccount("ann", 500)
	send := func(id, line string) harness.Answer {
		t.Helper()
		r := c.Request(http.MethodPost, "/v2/app/"+id+"/input", strings.NewReader(fmt.Sprintf(`{"line":%q}`, line)))
		r.Header.Set("Content-Type", "application/json")
		return c.Send(r)
	}
	reads := c.Upload(harness.ShellBot("echo up; while read -r line; do echo \"got $line\"; done; echo end; exec sleep 1000\n", "RAM=64", "STDIN=true"))
	c.UntilLog(reads, "up")
	want := "up\n"
	for n := range 30 {
		line := fmt.Sprintf("line %d $HOME \\ é", n)
		if n == 15 {
			d.End(syscall.SIGKILL)
			d.Serve()
		}
		began := time.Now()
		send(reads, line).Want(200)
		if n == 29 {
			t.Logf("a line took %s", time.Since(began))
		}
		want += "got " + line + "\n"
	}
	c.UntilLog(reads, "got line 29")
	got := ""
	for line := range strings.Lines(c.Log(reads)) {
		if _, text, _ := strings.Cut(line, "Z "); !strings.HasPrefix(text, "[berth]") {
			got += text
		}
	}
	if got != want {
		t.Errorf("it printed %s; want %s", got, want)
	}
	c.Put("/app/"+reads+"/restart", "").Want(200)
	send(reads, "again").Want(200)
	c.UntilLog(reads, "got again")

	deaf := c.Upload(harness.ShellBot("echo up; exec sleep 1000\n", "RAM=64", "STDIN=true"))
	c.UntilLog(deaf, "up")
	for n, long := 0, strings.Repeat("x", 4000); ; n++ {
		if a := send(deaf, long); a.Code != 200 {
			a.Want(503)
			a.Says("message", "does not read its input")
			t.Logf("refused after %d lines", n)
			break
		}
		if n > 1000 {
			t.Fatal("nobody reads, and every line is taken")
		}
	}
	send(reads, "still").Want(200)
	c.UntilLog(reads, "got still")
	c.Put("/app/"+deaf+"/stop", "").Want(200)
}

// A program that makes as many processes as it can harms nobody else.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.NewAccount("ann", 500)
	calm := c.Upload(harness.ShellBot("n=0; while :; do n=$((n+1)); echo line $n; sleep 0.1; done\n", "RAM=64"))
	before := pods(t, calm)
	bomb := c.Upload(harness.ShellBot("trap '' TERM; echo up; bomb() { bomb & bomb; }; bomb\n", "RAM=64"))
	c.UntilLog(bomb, "up")
	c.Until(bomb, "apps.online", false)
	goesOn(t, calm, before)
	c.UntilLog(calm, "line 50")
	harness.Eventually(t, "nothing of it runs", func() bool { return len(d.Of(bomb)) == 0 })
}
