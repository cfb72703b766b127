package cluster

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/kube"
	"berth/proc/logs"
)

func engine(t *testing.T) *Engine {
	t.Helper()
	images, err := ParseImages([]string{"default shell:1", "node 22.11.0 node:22"})
	if err != nil {
		t.Fatal(err)
	}
	return &Engine{Config: Config{
		Host: "h", DataDir: "/data", Claim: "files", Images: images, Grace: 1500 * time.Millisecond,
		Env:      func(app.Program, string, string, string) []string { return []string{"A=$(PATH) $$(B)", "EMPTY="} },
		Home:     func(id app.ID) string { return "/data/apps/" + string(id) },
		BuildDir: func(s app.Stage) string { return filepath.Join("/data/staging", string(s), "build") },
	}}
}

// A pod is as strict as the standard "restricted", and the cluster takes no text of an owner for a variable.
func TestPod(t *testing.T) {
	p := app.Program{App: "179", Run: 3, Argv: []string{"sh", "-c", "echo $(A)"}, UID: 70001, Port: 20001, RAM: 100, Share: 100, Journal: "j"}
	e := engine(t)
	made, err := e.pod(p, runKind, e.podName(p.App, p.Run))
	if err != nil {
		t.Fatal(err)
	}
	c, s := made.Spec.Containers[0], made.Spec
	if made.Metadata.Name != "179.3.h" || made.Metadata.Labels[appLabel] != "179" || made.Metadata.Annotations[portNote] != "20001" || s.Hostname != "app-179" {
		t.Errorf("it is called %+v, %s", made.Metadata, s.Hostname)
	}
	if c.Command[2] != "echo $$(A)" || c.Env[0] != (kube.EnvVar{Name: "A", Value: "$$(PATH) $$$$(B)"}) || c.Env[1].Value != "" {
		t.Errorf("its texts: %q, %+v", c.Command, c.Env)
	}
	if !s.SecurityContext.RunAsNonRoot || s.SecurityContext.RunAsUser != 70001 || !c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation ||
		*s.AutomountServiceAccountToken || !s.ShareProcessNamespace || s.RestartPolicy != "Never" || *s.TerminationGracePeriodSeconds != 2 {
		t.Errorf("it is not strict: %+v", s)
	}
	if c.VolumeMounts[0] != (kube.VolumeMount{Name: "files", MountPath: "/data/apps/179", SubPath: "apps/179"}) || s.Volumes[1].EmptyDir.Medium != "Memory" {
		t.Errorf("its files: %+v, %+v", c.VolumeMounts, s.Volumes)
	}
	if c.Resources.Limits["memory"] != "100Mi" || c.Resources.Requests["memory"] != "100Mi" || c.Resources.Limits["cpu"] != "" {
		t.Errorf("what it may have: %+v", c.Resources)
	}
	p.Build, p.Stage, p.CPU = true, "s1", 50
	made, err = engine(t).pod(p, buildKind, otherName(p.App, buildKind))
	if err != nil {
		t.Fatal(err)
	}
	c = made.Spec.Containers[0]
	if c.VolumeMounts[0] != (kube.VolumeMount{Name: "files", MountPath: "/data/apps/179", SubPath: "staging/s1/build"}) || made.Spec.Volumes[1].EmptyDir.Medium != "" ||
		c.Resources.Limits["cpu"] != "500m" {
		t.Errorf("a build: %+v, %+v", c, made.Spec.Volumes)
	}
	outside := engine(t)
	outside.DataDir = "/other"
	if _, err := outside.pod(p, runKind, "179.4"); err == nil || err.Error() != "cannot find the files of the application on the cluster: /data/staging/s1/build is not in /other" {
		t.Errorf("files outside of the volume: %v", err)
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]app.MB{
		"3884596Ki": 3793, "4Gi": 4096, "100Mi": 100, "1000000000": 953, "2G": 1907, "1500M": 1430, "": 0, "many": 0, "1e9": 0, "10Ei": 0, "9223372036854775807Ti": 0,
	} {
		if got := mebibytes(text); got != want {
			t.Errorf("%q is %d MB, want %d", text, got, want)
		}
	}
}

func terminated(code int, reason string) kube.Pod {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := &kube.Terminated{ExitCode: code, Reason: reason, StartedAt: at, FinishedAt: at.Add(time.Minute)}
	return kube.Pod{Status: kube.PodStatus{Phase: "Failed", ContainerStatuses: []kube.ContainerStatus{{State: kube.ContainerState{Terminated: end}}}}}
}

// ofPod is a pod whose cluster says why it ended.
func ofPod(p kube.Pod, reason string) kube.Pod {
	p.Status.Reason = reason
	return p
}

// deleted is a pod that somebody has deleted so long after its program had ended.
func deleted(p kube.Pod, after time.Duration) kube.Pod {
	const grace = 5
	by := p.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Add(after + grace*time.Second)
	p.Metadata.DeletionTimestamp, p.Metadata.DeletionGrace = &by, grace
	return p
}

// An end is only one for memory with the code of SIGKILL: on control groups v1 a helper's death marks the container too.
func TestExits(t *testing.T) {
	book := logs.NewBook(t.TempDir(), logs.Options{}, nil)
	out, err := book.Output("a1", false)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	r := &run{out: out, ram: 64}
	for _, c := range []struct {
		pod       kube.Pod
		code      int
		signal    int
		oom       bool
		hostOOM   bool
		disrupted bool
	}{
		{terminated(0, "Completed"), 0, 0, false, false, false},
		{terminated(3, "Error"), 3, 0, false, false, false},
		{terminated(143, "Error"), 143, 15, false, false, false},
		{terminated(255, "Error"), 255, 0, false, false, false},
		{terminated(137, "OOMKilled"), 137, 9, true, false, false},
		{terminated(137, "Error"), 137, 9, false, false, false},
		{terminated(0, "OOMKilled"), 0, 0, false, false, false},
		{kube.Pod{Status: kube.PodStatus{Phase: "Failed", Reason: "Evicted", Message: "The node was low on resource: memory."}}, app.UnknownCode, 0, false, true, false},
		{kube.Pod{}, app.UnknownCode, 0, false, false, true},
		{terminated(255, "Unknown"), app.UnknownCode, 0, false, false, true},
		{terminated(137, "ContainerStatusUnknown"), app.UnknownCode, 0, false, false, true},
		{ofPod(terminated(143, "Error"), "Terminated"), 143, 15, false, false, true},
		{ofPod(terminated(143, "Error"), "DeadlineExceeded"), 143, 15, false, false, false},
		{ofPod(terminated(137, "OOMKilled"), "Evicted"), 137, 9, true, false, false},
		{deleted(terminated(143, "Error"), 0), 143, 15, false, false, true},
		{deleted(terminated(143, "Error"), time.Second), 143, 15, false, false, false}, // it had ended before
		{deleted(terminated(137, "OOMKilled"), 0), 137, 9, true, false, false},
	} {
		e := r.exitOf(c.pod)
		if e.Code != c.code || e.Signal != c.signal || e.OOM != c.oom || e.HostOOM != c.hostOOM || e.Disrupted != c.disrupted || e.LimitMB != 64 {
			t.Errorf("%+v: %+v", c.pod.Status, e)
		}
	}
	if e := r.exitOf(terminated(3, "Error")); e.Ran != time.Minute {
		t.Errorf("it ran for %s", e.Ran)
	}
	probe := &run{ram: 32}
	if e := probe.exitOf(terminated(0, "OOMKilled")); e.OOM || e.Code != 0 {
		t.Errorf("a probe, which has no log: %+v", e)
	}
	end := terminated(3, "Error").Status.ContainerStatuses[0].State.Terminated.FinishedAt
	within := end.Add(400 * time.Millisecond)
	for _, c := range []struct{ line, end time.Time }{{end.Add(-time.Minute), end}, {within, within}} {
		if err := out.Take("run", nil, textOf(kube.Place{At: c.line, Lines: 1})); err != nil {
			t.Fatal(err)
		}
		r.uid = "run"
		if e := r.exitOf(terminated(3, "Error")); !e.At.Equal(c.end) {
			t.Errorf("with a last line of %v it ended at %v, want %v", c.line, e.At, c.end)
		}
	}
}

func TestPlaces(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
	for _, p := range []kube.Place{{}, {At: at, Lines: 7}, {At: at.Truncate(time.Second), Lines: 1}} {
		if got := placeOf(textOf(p)); !got.At.Equal(p.At) || got.Lines != p.Lines {
			t.Errorf("%+v became %+v", p, got)
		}
	}
	for _, text := range []string{"", "x 1", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z many"} {
		if got := placeOf(text); got != (kube.Place{}) {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestGateways(t *testing.T) {
	const routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n" +
		"eth0\t00000000\t0101F40A\t0003\t0\t0\t0\t00000000\n" +
		"eth0\t0001F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
	if got := gateways(routes); !slices.Equal(got, []netip.Addr{netip.MustParseAddr("10.244.1.1")}) {
		t.Errorf("got %v", got)
	}
	if got := gateways("nonsense\neth0 00000000 zz\neth0 00000000 00000000\n"); len(got) > 0 {
		t.Errorf("of nonsense: %v", got)
	}
}

// What a pod on a machine printed of its limits becomes findings.
func TestLimitsOfAMachine(t *testing.T) {
	now := strconv.FormatInt(time.Now().Unix(), 10)
	for _, c := range []struct {
		lines    []string
		dubious  []string // names of findings
		bad      []string
		mentions string
	}{
		{[]string{"1", "0", now, "ext4", "505"}, nil, nil, "on ext4, where SQLite's WAL mode holds"},
		{[]string{"1", "0", now, "nfs4", "505"}, []string{"WAL n1"}, nil, "on nfs4, where SQLite's WAL mode loses data"},
		{[]string{"1", "0", now, "fuse.s3fs", "505"}, []string{"WAL n1"}, nil, "on fuse.s3fs, where SQLite's WAL mode loses data"},
		{[]string{"0", "max", "1000", "xfs", "505"}, []string{"limits n1", "limits n1", "clock n1"}, nil, "may swap"},
		{[]string{"1", "0", now, "xfs", "1100"}, nil, []string{"limits n1"}, "more than 1000 processes"},
		{nil, []string{"limits n1", "WAL n1"}, []string{"limits n1"}, "nobody knows what file system"},
	} {
		x := &examination{}
		x.limits("n1", c.lines)
		var dubious, bad []string
		var texts strings.Builder
		for _, f := range x.list {
			switch f.Verdict {
			case app.Dubious:
				dubious = append(dubious, f.Name)
			case app.Bad:
				bad = append(bad, f.Name)
			}
			texts.WriteString(f.Text + "\n")
		}
		if !slices.Equal(dubious, c.dubious) || !slices.Equal(bad, c.bad) || !strings.Contains(texts.String(), c.mentions) {
			t.Errorf("%q: dubious %q, bad %q: %s", c.lines, dubious, bad, &texts)
		}
	}
}
