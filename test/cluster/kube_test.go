//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/kube"
	"berth/test/harness"
)

// box is the name of the container in each pod.
const box = "program"

// pod is a pod that runs a script of the shell, as strict as the namespace wants it.
func pod(name string, ram int64, node, script string) kube.Pod {
	no, grace := false, int64(5)
	memory := map[string]string{"memory": fmt.Sprintf("%dMi", ram)}
	requests := maps.Clone(memory)
	requests["cpu"] = "10m"
	p := kube.Pod{Metadata: kube.Meta{Name: name, Labels: map[string]string{"berth/test": name}}}
	p.Spec = kube.PodSpec{
		RestartPolicy: "Never", TerminationGracePeriodSeconds: &grace, ShareProcessNamespace: true,
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		SecurityContext: &kube.PodSecurity{RunAsUser: 20001, RunAsGroup: 20001, RunAsNonRoot: true, SeccompProfile: kube.SeccompProfile{Type: "RuntimeDefault"}},
		Containers: []kube.Container{{
			Name: box, Image: shellImage, ImagePullPolicy: "Never", Command: []string{"/bin/sh", "-c", script},
			Resources:       kube.Resources{Limits: memory, Requests: requests},
			SecurityContext: kube.ContainerSecurity{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: true, Capabilities: &kube.Capabilities{Drop: []string{"ALL"}}},
		}},
	}
	if node != "" {
		p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node}
	}
	return p
}

// create makes a pod, and removes it after the test.
func create(t *testing.T, c *kube.Client, p kube.Pod) kube.Pod {
	t.Helper()
	made, err := c.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), made.Metadata.Name, made.Metadata.UID, 0); err != nil {
			t.Error(err)
		}
	})
	return made
}

// until waits for a state of a pod.
func until(t *testing.T, c *kube.Client, name, what string, ok func(p kube.Pod) bool) (p kube.Pod) {
	t.Helper()
	harness.Eventually(t, name+" "+what, func() bool {
		var err error
		if p, err = c.Get(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		return ok(p)
	})
	return p
}

func running(p kube.Pod) bool { return p.Status.Phase == "Running" }

func ended(p kube.Pod) bool {
	return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Terminated != nil
}

// end waits for the end of a pod's program.
func end(t *testing.T, c *kube.Client, name string) kube.Terminated {
	t.Helper()
	return *until(t, c, name, "ends", ended).Status.ContainerStatuses[0].State.Terminated
}

// log reads all lines of a pod.
func log(t *testing.T, c *kube.Client, name string) (lines []string) {
	t.Helper()
	_, err := c.Log(t.Context(), name, box, kube.Place{}, false, func(l kube.Line) error {
		lines = append(lines, string(l.Text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// How a program ended is exact: its code, its signal, and whether the kernel killed it for its memory.
func TestEnds(t *testing.T) {
	c := client(t)
	for name, script := range map[string]string{
		"code":   "echo bye; exit 3",
		"signal": "sh -c 'kill -9 $PPID'; sleep 60",
		"memory": "exec tail /dev/zero",
		"helper": "tail /dev/zero; echo helper ended with $?; exit 0",
	} {
		create(t, c, pod("ends-"+name, 32, "", script))
	}
	if e := end(t, c, "ends-code"); e.ExitCode != 3 || e.Reason != "Error" {
		t.Errorf("a code: %+v", e)
	}
	if lines := log(t, c, "ends-code"); !slices.Equal(lines, []string{"bye"}) {
		t.Errorf("printed %q", lines)
	}
	if e := end(t, c, "ends-signal"); e.ExitCode != 137 || e.Reason == "OOMKilled" {
		t.Errorf("a signal: %+v", e)
	}
	if e := end(t, c, "ends-memory"); e.ExitCode != 137 || e.Reason != "OOMKilled" {
		t.Errorf("too much memory: %+v", e)
	}
	// On control groups v1 the kernel kills the helper alone, and the cluster says OOMKilled of a program that ended well.
	if e := end(t, c, "ends-helper"); unified() && e.ExitCode != 137 || !unified() && e.ExitCode != 0 {
		t.Errorf("a helper: %+v", e)
	}
}

// A name that is taken is 409, what the namespace forbids 403, what is malformed 422.
func TestRefusals(t *testing.T) {
	c := client(t)
	create(t, c, pod("refused", 32, "", "sleep 600"))
	forbidden, malformed := pod("forbidden", 32, "", "true"), pod("Not_A_Name", 32, "", "true")
	forbidden.Spec.SecurityContext.RunAsNonRoot = false
	for code, p := range map[int]kube.Pod{http.StatusConflict: pod("refused", 32, "", "true"), http.StatusForbidden: forbidden, http.StatusUnprocessableEntity: malformed} {
		if _, err := c.Create(t.Context(), p); kube.CodeOf(err) != code {
			t.Errorf("want %d, got %v", code, err)
		}
	}
	if _, err := c.Get(t.Context(), "nobody"); kube.CodeOf(err) != http.StatusNotFound {
		t.Errorf("a pod that is not there: %v", err)
	}
	if err := c.Delete(t.Context(), "refused", "another", 0); err != nil {
		t.Errorf("a pod of another uid: %v", err)
	}
	if p, err := c.Get(t.Context(), "refused"); err != nil || p.Metadata.DeletionTimestamp != nil {
		t.Errorf("it was deleted by another's uid: %v", err)
	}
}

// A log that was followed and is read again at the end has every line once, however early the stream ended.
func TestLogsAreWhole(t *testing.T) {
	const lines = 20_000
	c := client(t)
	var work sync.WaitGroup
	for i := range 6 {
		name := fmt.Sprintf("prints-%d", i)
		create(t, c, pod(name, 32, "", fmt.Sprintf("seq 1 %d", lines)))
		work.Go(func() { // no FailNow here
			next, at := 1, kube.Place{}
			each := func(l kube.Line) error {
				if string(l.Text) != fmt.Sprint(next) {
					return fmt.Errorf("it has %q, want %d", l.Text, next)
				}
				next++
				return nil
			}
			var err error
			for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); time.Sleep(harness.Pause) {
				at, err = c.Log(t.Context(), name, box, at, true, each)
				if code := kube.CodeOf(err); code == http.StatusBadRequest || code == http.StatusNotFound && at.Lines == 0 {
					continue // it has not started, or its machine does not know it yet
				}
				if p, failed := c.Get(t.Context(), name); err != nil || failed != nil || ended(p) {
					break
				}
			}
			if err == nil {
				_, err = c.Log(t.Context(), name, box, at, false, each)
			}
			if err != nil || next != lines+1 {
				t.Errorf("%s: %d lines, %v", name, next-1, err)
			}
		})
	}
	work.Wait()
}

// A program that is asked to end hears SIGTERM though it is a shell, and its last words and its code stay until the pod
// is removed.
func TestFinish(t *testing.T) {
	c := client(t)
	made := create(t, c, pod("finish", 32, "", "trap 'echo last words; exit 7' TERM; echo ready; while :; do sleep 0.1; done"))
	until(t, c, "finish", "runs", running)
	harness.Eventually(t, "it is ready", func() bool { return slices.Contains(log(t, c, "finish"), "ready") })
	if err := c.Finish(t.Context(), "finish"); err != nil {
		t.Fatal(err)
	}
	if e := end(t, c, "finish"); e.ExitCode != 7 {
		t.Errorf("it ended with %+v", e)
	}
	if lines := log(t, c, "finish"); !slices.Contains(lines, "last words") {
		t.Errorf("it printed %q", lines)
	}
	if err := c.Delete(t.Context(), "finish", made.Metadata.UID, 0); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it is gone", func() bool {
		_, err := c.Get(t.Context(), "finish")
		return kube.CodeOf(err) == http.StatusNotFound
	})
}

// A command beside the program reads its input, prints on two channels, and ends with its code; a terminal has a size.
func TestExec(t *testing.T) {
	c := client(t)
	create(t, c, pod("exec", 32, "", "sleep 600"))
	until(t, c, "exec", "runs", running)
	var out, errs bytes.Buffer
	code, err := c.Exec(t.Context(), "exec", box, kube.Command{
		Argv: []string{"sh", "-c", "cat; echo oops >&2; exit 5"}, In: strings.NewReader("a line\n"), Out: &out, Err: &errs,
	})
	if err != nil || code != 5 || out.String() != "a line\n" || errs.String() != "oops\n" {
		t.Errorf("ended with %d, %v: %q, %q", code, err, out.String(), errs.String())
	}
	out.Reset()
	sizes := make(chan [2]uint16, 1)
	sizes <- [2]uint16{100, 40}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	code, err = c.Exec(ctx, "exec", box, kube.Command{
		Argv: []string{"sh", "-c", "until stty size 2>/dev/null | grep '40 100'; do sleep 0.1; done"}, TTY: true, Out: &out, Sizes: sizes,
	})
	if err != nil || code != 0 || out.String() != "40 100\r\n" {
		t.Errorf("the terminal ended with %d, %v: %q", code, err, out.String())
	}
	if _, err := c.Exec(t.Context(), "nobody", box, kube.Command{Argv: []string{"true"}, Out: &out}); kube.CodeOf(err) != http.StatusNotFound {
		t.Errorf("in no pod: %v", err)
	}
}

// The memory of a running program changes without a restart.
func TestResize(t *testing.T) {
	c := client(t)
	create(t, c, pod("resize", 32, "", "sleep 600"))
	until(t, c, "resize", "runs", running)
	if err := c.Resize(t.Context(), "resize", box, 48); err != nil {
		t.Fatal(err)
	}
	file := "/sys/fs/cgroup/memory.max"
	if !unified() {
		file = "/sys/fs/cgroup/memory/memory.limit_in_bytes"
	}
	harness.Eventually(t, "the kernel has the limit", func() bool {
		var out bytes.Buffer
		_, err := c.Exec(t.Context(), "resize", box, kube.Command{Argv: []string{"cat", file}, Out: &out})
		return err == nil && strings.TrimSpace(out.String()) == fmt.Sprint(48<<20)
	})
	if p, err := c.Get(t.Context(), "resize"); err != nil || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("it was started again: %v", err)
	}
}

// A watch tells of each change, over an API server that goes away and comes back, and of what happened meanwhile.
func TestWatch(t *testing.T) {
	c := client(t)
	create(t, c, pod("watched", 32, "", "sleep 600"))
	var mu sync.Mutex
	phases, losses, backs := map[string]string{}, 0, 0
	locked := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() {
		err := c.Watch(ctx, kube.Watcher{
			All: func(pods []kube.Pod) {
				locked(func() {
					clear(phases)
					for _, p := range pods {
						phases[p.Metadata.Name] = p.Status.Phase
					}
				})
			},
			Changed: func(p kube.Pod) { locked(func() { phases[p.Metadata.Name] = p.Status.Phase }) },
			Gone:    func(p kube.Pod) { locked(func() { delete(phases, p.Metadata.Name) }) },
			Lost: func(err error) {
				// An API server that has just started has not read who may do what.
				if !errors.Is(err, kube.ErrAway) && kube.CodeOf(err) != http.StatusForbidden {
					t.Errorf("lost: %v", err)
				}
				locked(func() { losses++ })
			},
			Back: func() { locked(func() { backs++ }) },
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended: %v", err)
		}
	})
	is := func(name, phase string) func() bool {
		return func() (ok bool) { locked(func() { ok = phases[name] == phase }); return ok }
	}
	harness.Eventually(t, "it runs", is("watched", "Running"))
	create(t, c, pod("short", 32, "", "sleep 4"))
	harness.Eventually(t, "the other runs", is("short", "Running"))
	world.StopAPI()
	harness.Eventually(t, "the loss is told", func() (ok bool) { locked(func() { ok = losses > 0 }); return ok })
	if _, err := c.Get(t.Context(), "watched"); !errors.Is(err, kube.ErrAway) {
		t.Errorf("a question meanwhile: %v", err)
	}
	if err := world.StartAPI(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the end meanwhile is told", is("short", "Succeeded"))
	locked(func() {
		if backs < 1 || phases["watched"] != "Running" {
			t.Errorf("%d times back; %v", backs, phases)
		}
	})
}

// What programs use comes from their machine, in one request.
func TestStats(t *testing.T) {
	c := client(t)
	create(t, c, pod("busy", 32, "n2", "while :; do :; done"))
	until(t, c, "busy", "runs", running)
	nodes, err := c.Nodes(t.Context(), "kubernetes.io/hostname=n2")
	if err != nil || len(nodes) != 1 || !nodes[0].Ready() || nodes[0].Address() != "10.99.0.12" {
		t.Fatalf("%+v, %v", nodes, err)
	}
	harness.Eventually(t, "its processor time is known", func() bool {
		all, err := c.Stats(t.Context(), nodes[0])
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all, func(u kube.Used) bool { return u.Pod == "busy" && u.CPU > 100*time.Millisecond && u.Memory > 0 })
	})
}

// berth may do what it needs, and nothing else.
func TestRights(t *testing.T) {
	client(t)
	may := func(namespace, verb, what string) bool {
		what, sub, _ := strings.Cut(what, "/")
		as := "--as=system:serviceaccount:berth-apps:berth"
		out, _ := world.kubectl("auth", "can-i", verb, what, "--subresource="+sub, "-n", namespace, as).Output() // no is a failure
		return strings.TrimSpace(string(out)) == "yes"
	}
	for _, right := range []string{"create pods", "get pods/log", "create pods/exec", "patch pods/resize", "get nodes", "get nodes/stats"} {
		verb, what, _ := strings.Cut(right, " ")
		if !may("berth-apps", verb, what) {
			t.Errorf("it may not %s", right)
		}
	}
	for _, right := range []string{"get secrets", "get nodes/proxy", "create pods/portforward", "create serviceaccounts", "update nodes", "create rolebindings"} {
		verb, what, _ := strings.Cut(right, " ")
		if may("berth-apps", verb, what) {
			t.Errorf("it may %s", right)
		}
	}
	if may("default", "create", "pods") || may("kube-system", "get", "pods") {
		t.Error("it may do something in another namespace")
	}
}
