//go:build cluster

package cluster

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	return []string{"--engine=kubernetes", "--kubernetes-server=" + world.Server, "--kubernetes-ca-file=" + world.CA,
		"--kubernetes-token-file=" + token, "--kubernetes-claim=" + claim,
		"--kubernetes-images=default " + shellImage + ",node " + version(t, "node") + " " + nodeImage + ",python " + version(t, "python3") + " " + pythonImage}
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

// What an owner does with an application is the same on a cluster.
func TestStory(t *testing.T) {
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
	d := launch(t)
	c := d.NewAccount("ann", 500)
	id := c.Upload(harness.ShellBot("n=0; while :; do n=$((n+1)); echo line $n; sleep 0.01; done\n", "RAM=64"))
	c.UntilLog(id, "line 20")
	before := pods(t, id)
	for range 3 {
		d.Cmd.Process.Signal(syscall.SIGKILL)
		harness.Eventually(t, "it has ended", d.Ended)
		time.Sleep(300 * time.Millisecond)
		d.Serve()
	}
	if after := pods(t, id); !slices.Equal(before, after) {
		t.Errorf("its pods: %v, before %v", after, before)
	}
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

// The tests of berth on its own machine pass on a cluster, as far as they are about what people see of it.
func TestEndToEnd(t *testing.T) {
	dir := t.TempDir()
	binary, file := filepath.Join(dir, "e2e.test"), token(t)
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "../e2e").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script := "#!/bin/sh\nset -e\nname=e2e-$(basename \"$(dirname \"$1\")\" | tr A-Z. a-z-)\ncat <<E | " +
		strings.Join(world.kubectl("apply", "-f", "-").Args, " ") + " >/dev/null\n" + claim("$name", "$1") + "\nE\ncat <<E\n" +
		strings.Join(engineFlags(t, file, "$name"), "\n") + "\nE\n"
	command := filepath.Join(dir, "engine")
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run", cmp.Or(os.Getenv("E2E"), "."), "-test.v", "-test.timeout=30m", "-test.parallel=3")
	cmd.Dir = "../e2e"
	cmd.Env = append(os.Environ(), "BERTH_E2E_ENGINE="+command)
	f, err := os.Create("/tmp/e2e.out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	err = cmd.Run()
	out, _ := os.ReadFile("/tmp/e2e.out")
	if err != nil {
		t.Errorf("%v: %s", err, out[max(0, len(out)-3000):])
	}
}
