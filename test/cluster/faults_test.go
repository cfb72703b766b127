//go:build cluster && soak

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"berth/test/harness"
)

// machineOf is the machine that the program of an application runs on.
func machineOf(t *testing.T, id string) *Node {
	t.Helper()
	out, err := world.kubectl("get", "pods", "-n", "berth-apps", "-l", "berth/app="+id, "-o", "jsonpath={.items[0].spec.nodeName}").Output()
	at := slices.IndexFunc(world.Nodes, func(n *Node) bool { return n.Name == string(out) })
	if err != nil || at < 0 {
		t.Fatalf("it runs on %q, %v", out, err)
	}
	return world.Nodes[at]
}

// A machine that is cut off is waited for. Its programs go on, and when it is back, so is all that they printed.
func TestSoakCutMachine(t *testing.T) {
	d := launch(t)
	c := d.NewAccount("ann", 500)
	id := c.Upload(harness.ShellBot(numbered, "RAM=64"))
	c.UntilLog(id, "line 5")
	before, node := pods(t, id), machineOf(t, id)
	if err := node.Cut(true); err != nil {
		t.Fatal(err)
	}
	joined := false
	join := func() {
		if err := node.Cut(false); err != nil {
			t.Error(err)
		}
		joined = true
	}
	defer func() {
		if !joined {
			join()
		}
	}()
	c.UntilLog(id, "its machine "+node.Name+" does not answer")
	c.Info(id).Want(200, "apps.online", true, "apps.stale", true, "message", "Your application was online when this host heard of it last: its machine does not answer.")
	goesOn(t, id, before)
	join()
	c.UntilLog(id, "its machine "+node.Name+" answers again")
	c.Info(id).Want(200, "apps.online", true)
	goesOn(t, id, before)
	c.Put("/app/"+id+"/stop", "").Want(200)
	if n := counted(t, c, id); n < 500 {
		t.Errorf("it printed %d lines", n)
	}
}

// A machine that loses its power and comes back runs its programs once again.
func TestSoakMachineOffAndOn(t *testing.T) {
	d := launch(t)
	c := d.NewAccount("ann", 500)
	id := c.Upload(harness.ShellBot(numbered, "RAM=64"))
	c.UntilLog(id, "line 5")
	before, node := pods(t, id), machineOf(t, id)
	if err := node.Off(); err != nil {
		t.Fatal(err)
	}
	c.UntilLog(id, "its machine "+node.Name+" does not answer")
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it runs again, once", func() bool {
		after := pods(t, id)
		return c.Info(id).At("apps.online") == true && len(after) == 1 && after[0] != before[0]
	})
}

// administer is kubectl in the namespace of the programs, as the administrator of the cluster.
func administer(args ...string) error {
	return run(world.kubectl(append([]string{"-n", "berth-apps"}, args...)...).Args...)
}

// Rights and room that are taken away refuse a start with a sentence, and what runs goes on; given back, programs start.
func TestSoakTakenAway(t *testing.T) {
	d := launch(t)
	c := d.NewAccount("ann", 500)
	id, other := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64")), c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	c.Put("/app/"+other+"/stop", "").Want(200)
	quota := func(pods int) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "little", "namespace": "berth-apps"}, "spec": {"hard": {"pods": "%d"}}}`, pods)
	}
	for name, fault := range map[string]struct {
		take, give func() error
	}{
		"quota":  {func() error { return world.Apply(quota(1)) }, func() error { return administer("delete", "resourcequota", "little") }},
		"rights": {func() error { return administer("delete", "rolebinding", "berth") }, func() error { token(t); return nil }},
	} {
		if err := fault.take(); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, name+": a start is refused", func() bool {
			r := c.Put("/app/"+other+"/start", "")
			if r.Code == 200 {
				c.Put("/app/"+other+"/stop", "").Want(200)
			}
			return r.Code == 503 && strings.Contains(fmt.Sprint(r.At("message")), "the cluster of this host refuses it")
		})
		c.Info(id).Want(200, "apps.online", true)
		if err := fault.give(); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, name+": it starts again", func() bool { return c.Put("/app/"+other+"/start", "").Code == 200 })
		c.Put("/app/"+other+"/stop", "").Want(200)
	}
	if all := pods(t, id); len(all) != 1 {
		t.Errorf("its pods: %v", all)
	}
}

// The kernel kills fifty programs for their RAM, and berth tells of each.
func TestSoakKilledForRAM(t *testing.T) {
	d := launch(t)
	c := d.NewAccount("ann", 2000)
	var all sync.WaitGroup
	for range 5 {
		id := c.Upload(harness.ShellBot("[ -e go ] && exec tail /dev/zero; exec sleep 1000\n", "RAM=32"))
		c.Put("/app/"+id+"/stop", "").Want(200)
		harness.Write(t, d.Path(id, "go"), "")
		all.Go(func() {
			for turn := range 10 {
				c.Put("/app/"+id+"/start", "").Want(200)
				harness.Eventually(t, "berth tells of the kill", func() bool {
					return strings.Count(c.Log(id), "killed: needed more than 32 MB") == turn+1
				})
				c.Until(id, "apps.online", false, "apps.exitCode", 137, "apps.ramKilled", true)
			}
		})
	}
	all.Wait()
}

// berth names an image or a volume that is missing. Once it is there, the program starts.
func TestSoakMissing(t *testing.T) {
	d := harness.Prepare(t)
	onCluster(t, d)
	images := d.Args[len(d.Args)-1]
	d.Args[len(d.Args)-1] = strings.Replace(images, nodeImage, "docker.io/library/missing:berth", 1)
	d.Serve()
	c := d.NewAccount("ann", 500)
	id := c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64"))
	c.UntilLog(id, "a machine of the cluster cannot get its image")
	d.Args[len(d.Args)-1] = images
	d.Restart()
	c.Until(id, "apps.online", true)
	c.Put("/app/"+id+"/stop", "").Want(200)
	volume := "files-" + strconv.FormatInt(claims.Load(), 10)
	if err := errors.Join(administer("delete", "pvc", volume, "--timeout=1m"), administer("delete", "pv", volume, "--timeout=1m")); err != nil {
		t.Fatal(err)
	}
	c.Put("/app/"+id+"/start", "").Want(503).Says("message", "persistentvolumeclaim \""+volume+"\" not found")
	if err := world.Apply(claim(volume, d.Data)); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it starts", func() bool { return c.Put("/app/"+id+"/start", "").Code == 200 })
}

// A program that the cluster evicts, as before a machine is mended, goes on elsewhere.
func TestSoakEvicted(t *testing.T) {
	d := launch(t)
	c := d.NewAccount("ann", 500)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	before, node := pods(t, id), machineOf(t, id)
	if err := run(world.kubectl("drain", node.Name, "--force", "--ignore-daemonsets", "--delete-emptydir-data").Args...); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := run(world.kubectl("uncordon", node.Name).Args...); err != nil {
			t.Error(err)
		}
	}()
	harness.Eventually(t, "it runs again, once", func() bool {
		after := pods(t, id)
		return len(after) == 1 && after[0] != before[0] && c.Info(id).At("apps.online") == true
	})
	if now := machineOf(t, id); now == node {
		t.Errorf("it runs on %s again", now.Name)
	}
	if log := c.Log(id); !strings.Contains(log, "was removed from it, not by itself") {
		t.Errorf("its log: %s", log)
	}
}

// What happened while nobody listened, and the cluster has forgotten since, is found by a new list: a program that is gone
// is started again.
func TestSoakCompacted(t *testing.T) {
	d := launch(t)
	c := d.NewAccount("ann", 500)
	gone, stays := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64")), c.Upload(harness.ShellBot(numbered, "RAM=64"))
	before, others := pods(t, gone), pods(t, stays)
	world.StopAPI()
	key := "/registry/pods/berth-apps/" + strings.TrimPrefix(before[0], "pod/")
	store(t, "deleterange", map[string]any{"key": []byte(key)})
	revision, err := strconv.Atoi(store(t, "range", map[string]any{"key": []byte("/registry/pods")}))
	if err == nil {
		store(t, "compaction", map[string]any{"revision": revision})
		err = world.StartAPI()
	}
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it runs again, once", func() bool {
		after := pods(t, gone)
		return len(after) == 1 && after[0] != before[0] && c.Info(gone).At("apps.online") == true
	})
	goesOn(t, stays, others)
}

// store asks etcd, and returns the revision that it has then (etcd.io, gRPC gateway).
func store(t *testing.T, what string, request map[string]any) string {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://127.0.0.1:12379/v3/kv/"+what, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Header  struct{ Revision string }
		Deleted string
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK || what == "deleterange" && answer.Deleted != "1" {
		t.Fatalf("%s: %s, %+v, %v", what, resp.Status, answer, err)
	}
	return answer.Header.Revision
}
