//go:build cluster && soak

package cluster

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// stages let kwok play a kubelet: a machine is ready, a pod runs at once, and goes when it is deleted.
const stages = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector: {matchExpressions: [{key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions: [{type: Ready, status: "True", reason: KubeletReady, message: "", lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}}]
      addresses: [{type: InternalIP, address: {{ NodeIP | Quote }}}, {type: Hostname, address: {{ NodeName | Quote }}}]
      daemonEndpoints: {kubeletEndpoint: {Port: {{ NodePort }}}}
      capacity: {cpu: "64", memory: 64Gi, pods: "250"}
      allocatable: {cpu: "64", memory: 64Gi, pods: "250"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: runs}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: DoesNotExist}, {key: .status.phase, operator: In, values: [Pending]}]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      phase: Running
      startTime: {{ $now | Quote }}
      podIP: 10.245.0.1
      conditions: [{type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}]
      containerStatuses: [{name: program, image: shell, imageID: shell, ready: true, restartCount: 0, state: {running: {startedAt: {{ $now | Quote }}}}}]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: goes}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}
  next: {delete: true}
---
kind: ClusterLogs
apiVersion: kwok.x-k8s.io/v1alpha1
metadata: {name: logs}
spec: {logs: [{logsFile: %s, follow: true}]}
`

// pretend makes the cluster believe in n machines more, with the label kind=pretended.
func pretend(t *testing.T, n int) {
	t.Helper()
	out, err := exec.Command("../scripts/kwok").Output()
	if err != nil {
		t.Fatal("cannot build kwok: ", err)
	}
	dir := t.TempDir()
	log, config := filepath.Join(dir, "log"), filepath.Join(dir, "kwok.yaml")
	harness.Write(t, log, time.Now().UTC().Format(time.RFC3339Nano)+" stdout F up\n")
	harness.Write(t, config, fmt.Sprintf(stages, log))
	for i := range n {
		err := world.Apply(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "k%02d", "labels": {"kind": "pretended"}}}`, i))
		if err != nil {
			t.Fatal(err)
		}
	}
	kwok, err := start(world.dir, "kwok", strings.TrimSpace(string(out)), "--kubeconfig", world.keys.file("admin.conf"), "--config", config,
		"--manage-nodes-with-label-selector=kind=pretended", "--node-ip="+api, "--node-port=10247", "--server-address="+api+":10247",
		"--tls-cert-file="+world.keys.file("api.crt"), "--tls-private-key-file="+world.keys.file("api.key"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run(world.kubectl("delete", "nodes", "-l", "kind=pretended").Args...); err != nil {
			t.Error(err)
		}
		kwok.end(syscall.SIGTERM)
		if text, _ := os.ReadFile(kwok.log); t.Failed() {
			t.Logf("kwok said: %s", harness.Tail(string(text), 2000))
		}
	})
	err = world.until("all machines are ready", kwok, func() bool {
		out, err := world.kubectl("get", "nodes", "-l", "kind=pretended", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`).Output()
		return err == nil && strings.Count(string(out), "True") == n
	})
	if err != nil {
		t.Fatal(err)
	}
}

// crowd starts a berth with room for n programs, and so many of them, some at once, and prints what that takes.
func crowd(t *testing.T, n, at int, args ...string) *harness.Berth {
	t.Helper()
	const first = 200000 // user ids that no other test has
	d := harness.Prepare(t, append([]string{
		"--apps-uid-base", strconv.Itoa(first), "--apps-uid-count", strconv.Itoa(n + 10), "--apps-port-first", "20000", "--apps-port-last", strconv.Itoa(20010 + n),
	}, args...)...)
	onCluster(t, d)
	d.Serve()
	c := d.NewAccount("ann", 64*n+64)
	began, empty := time.Now(), memory(t, d.Cmd.Process.Pid)
	var work sync.WaitGroup
	bot := harness.ShellBot(harness.IdleShell, "RAM=64").Zip()
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	for range at {
		work.Go(func() {
			for range left {
				c.Post(bot).Want(200)
			}
		})
	}
	work.Wait()
	t.Logf("%d programs were uploaded and started in %.0f s", n, time.Since(began).Seconds())
	t.Logf("berth has %d MB of its own with none, and %d MB with them", empty, memory(t, d.Cmd.Process.Pid))
	d.End(syscall.SIGKILL)
	began = time.Now()
	d.Serve()
	t.Logf("after a SIGKILL it serves in %.1f s", time.Since(began).Seconds())
	if out := d.Out.String(); strings.Count(out, "program adopted") != n {
		t.Errorf("%d of %d programs are adopted", strings.Count(out, "program adopted"), n)
	}
	t.Logf("then it has %d MB of its own", memory(t, d.Cmd.Process.Pid))
	t.Logf("the list by the API takes %s, the list of pods by kubectl %s", median(func() { c.Get("/app/all").Want(200) }), median(func() {
		if out, err := world.kubectl("get", "pods", "-n", "berth-apps", "-o", "name").Output(); err != nil || strings.Count(string(out), "\n") < n {
			t.Errorf("%d pods, %v", strings.Count(string(out), "\n"), err)
		}
	}))
	before := busy(t, d.Cmd.Process.Pid)
	time.Sleep(30 * time.Second) // what it needs when nothing happens
	t.Logf("at rest it needs %.2f of a processor", (busy(t, d.Cmd.Process.Pid)-before).Seconds()/30)
	return d
}

// memory is what a process has that is of no file, in MB.
func memory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	kb, bad := strconv.Atoi(harness.Field(string(status), "RssAnon:"))
	if err != nil || bad != nil {
		t.Fatal(err, bad)
	}
	return kb >> 10
}

// busy is the processor time of a process.
func busy(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * (time.Second / 100) // USER_HZ
}

// median is what the fifth of nine calls takes.
func median(call func()) time.Duration {
	var all []time.Duration
	for range 9 {
		began := time.Now()
		call()
		all = append(all, time.Since(began).Round(time.Millisecond))
	}
	slices.Sort(all)
	return all[4]
}

// Two thousand programs on twenty machines that are not there.
func TestSoakTwoThousand(t *testing.T) {
	pretend(t, 20)
	d := crowd(t, 2000, 40, "--kubernetes-trusted", "--kubernetes-node-selector=kind=pretended")
	open := panel(t, d)
	for _, path := range []string{"/", "/?q=179"} {
		t.Logf("the panel's page %s takes %s", path, median(func() { open(path) }))
	}
	d.End(syscall.SIGKILL) // programs that are not there take no signal
	if err := administer("delete", "--raw", "/api/v1/namespaces/berth-apps/pods"); err != nil {
		t.Error(err)
	}
}

// panel signs ann in, and returns what opens a page.
func panel(t *testing.T, d *harness.Berth) func(path string) {
	t.Helper()
	_, key, _ := strings.Cut(d.CLI("account", "password", "ann", "--link"), "/setup/")
	web := &http.Client{Transport: harness.Web.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	secret := url.Values{"name": {"ann"}, "password": {"correct horse"}, "again": {"correct horse"}}
	resp, err := web.PostForm(d.Base+"/setup/"+key, secret)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return func(path string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, d.Base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, cookie := range resp.Cookies() {
			r.AddCookie(cookie)
		}
		page, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer page.Body.Close()
		text, err := io.ReadAll(page.Body)
		if err != nil || page.StatusCode != http.StatusOK || !strings.Contains(string(text), "Sign out") {
			t.Fatalf("%s: %s, %v", path, page.Status, err)
		}
	}
}

// Two hundred programs that run.
func TestSoakTwoHundred(t *testing.T) {
	d := crowd(t, 200, 8)
	c := d.Clients[0]
	began := time.Now()
	c.Put("/app/all/stop", "").Want(200)
	t.Logf("they are stopped in %.0f s", time.Since(began).Seconds())
	if all := d.Processes(); len(all) != 0 {
		t.Errorf("there are still %v", all)
	}
}
