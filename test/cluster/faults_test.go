//go:build cluster && soak

package cluster

import (
	"fmt"
	"slices"
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

// Rights and room that are taken away refuse a start with a sentence, and what runs goes on; given back, programs start.
func TestSoakTakenAway(t *testing.T) {
	d := launch(t)
	c := d.NewAccount("ann", 500)
	id, other := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64")), c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	c.Put("/app/"+other+"/stop", "").Want(200)
	quota := func(pods int) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "little", "namespace": "berth-apps"}, "spec": {"hard": {"pods": "%d"}}}`, pods)
	}
	away := func(args ...string) error {
		return run(world.kubectl(append([]string{"-n", "berth-apps"}, args...)...).Args...)
	}
	for name, fault := range map[string]struct {
		take, give func() error
	}{
		"quota":  {func() error { return world.Apply(quota(1)) }, func() error { return away("delete", "resourcequota", "little") }},
		"rights": {func() error { return away("delete", "rolebinding", "berth") }, func() error { token(t); return nil }},
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
