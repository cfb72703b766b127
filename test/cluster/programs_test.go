//go:build cluster

package cluster

import (
	"fmt"
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
	file := token(t)
	claim := "files-" + strconv.Itoa(int(claims.Add(1)))
	err := world.Apply(fmt.Sprintf(`{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": %[1]q}, "spec": {"capacity": {"storage": "1Gi"},
 "accessModes": ["ReadWriteMany"], "hostPath": {"path": %[2]q}, "storageClassName": "", "claimRef": {"name": %[1]q, "namespace": "berth-apps"}}},
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": %[1]q, "namespace": "berth-apps"}, "spec": {
 "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": %[1]q, "resources": {"requests": {"storage": "1Gi"}}}}]}`, claim, d.Data))
	if err != nil {
		t.Fatal(err)
	}
	d.Args = append(d.Args, "--engine", "kubernetes", "--kubernetes-server", world.Server, "--kubernetes-ca-file", world.CA,
		"--kubernetes-token-file", file, "--kubernetes-claim", claim,
		"--kubernetes-images", "default "+shellImage+",node "+nodeVersion(t)+" "+nodeImage)
}

func nodeVersion(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("/usr/bin/node", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
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
