package cluster

import (
	"crypto/rand"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/kube"
)

// temp is the TMPDIR of a program: in its memory, and gone with it. A build's is on the disk of its machine.
const temp = "/tmp"

// buildTemp bounds the TMPDIR of a build.
const buildTemp = "4Gi"

// no is an answer that the API tells from none.
var no = false

// pod is what the cluster is asked for, to run a program.
func (e *Engine) pod(p app.Program, kind, name string) (kube.Pod, error) {
	image, err := e.Images.Of(p.Runtime)
	if err != nil {
		return kube.Pod{}, err
	}
	made := e.bare(p, image, kind, name)
	home := e.Home(p.App)
	tree := home
	if p.Stage != "" {
		tree = e.BuildDir(p.Stage)
	}
	part, err := filepath.Rel(e.DataDir, tree)
	if err != nil || !filepath.IsLocal(part) {
		return kube.Pod{}, fmt.Errorf("cannot find the files of the application on the cluster: %s is not in %s", tree, e.DataDir)
	}
	disk := kube.EmptyDir{Medium: "Memory", SizeLimit: fmt.Sprintf("%dMi", p.RAM)}
	if p.Build {
		disk = kube.EmptyDir{SizeLimit: buildTemp}
	}
	c := &made.Spec.Containers[0]
	for _, v := range e.Env(p, e.Images.Tools().Path(), home, temp) {
		key, value, _ := strings.Cut(v, "=")
		c.Env = append(c.Env, kube.EnvVar{Name: key, Value: literal(value)})
	}
	c.WorkingDir, c.Stdin = home, p.Code.Stdin && !p.Build
	c.VolumeMounts = []kube.VolumeMount{{Name: "files", MountPath: home, SubPath: part}, {Name: "temp", MountPath: temp}}
	made.Spec.Volumes = []kube.Volume{
		{Name: "files", PersistentVolumeClaim: &kube.ClaimSource{ClaimName: e.Claim}}, {Name: "temp", EmptyDir: &disk},
	}
	return made, nil
}

// bare is a pod without files, as strict as the standard "restricted" wants it.
func (e *Engine) bare(p app.Program, image, kind, name string) kube.Pod {
	grace, user := int64((e.Grace+time.Second-1)/time.Second), int64(p.UID)
	argv := make([]string, len(p.Argv))
	for i, word := range p.Argv {
		argv[i] = literal(word)
	}
	made := kube.Pod{Metadata: kube.Meta{
		Name:        name,
		Labels:      map[string]string{hostLabel: e.Host, appLabel: string(p.App), kindLabel: kind, runLabel: strconv.Itoa(p.Run)},
		Annotations: map[string]string{portNote: strconv.Itoa(p.Port), journalNote: p.Journal},
	}}
	made.Spec = kube.PodSpec{
		NodeSelector: e.NodeSelector, RuntimeClassName: e.RuntimeClass, RestartPolicy: "Never", TerminationGracePeriodSeconds: &grace,
		ShareProcessNamespace: true, AutomountServiceAccountToken: &no, EnableServiceLinks: &no, Hostname: p.App.Hostname(),
		SecurityContext: &kube.PodSecurity{RunAsUser: user, RunAsGroup: user, RunAsNonRoot: true, SeccompProfile: kube.SeccompProfile{Type: "RuntimeDefault"}},
		Containers: []kube.Container{{
			Name: box, Image: image, ImagePullPolicy: "IfNotPresent", Command: argv, Resources: e.resources(p),
			SecurityContext: kube.ContainerSecurity{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: true, Capabilities: &kube.Capabilities{Drop: []string{"ALL"}},
			},
		}},
		// A machine that is silent may still run its programs. Without these the cluster gives them up after five
		// minutes, and shows them as ending for ever.
		Tolerations: []kube.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"},
			{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute"},
		},
	}
	return made
}

// resources are what a program may have: its RAM is put aside for it, and its share of the processor follows its RAM.
func (e *Engine) resources(p app.Program) kube.Resources {
	limits := map[string]string{"memory": fmt.Sprintf("%dMi", p.RAM)}
	requests := maps.Clone(limits)
	requests["cpu"] = fmt.Sprintf("%dm", max(int(p.Share)/10, 10))
	if cpu := cpuOf(e.CPU, p.CPU); cpu > 0 {
		limits["cpu"] = fmt.Sprintf("%dm", 10*cpu)
		requests["cpu"] = fmt.Sprintf("%dm", min(max(int(p.Share)/10, 10), 10*cpu))
	}
	return kube.Resources{Limits: limits, Requests: requests}
}

// cpuOf is the lower one of two limits, of which 0 is none.
func cpuOf(all, account int) int {
	if all == 0 || account > 0 && account < all {
		return account
	}
	return all
}

// literal writes a text so that the cluster does not take "$(NAME)" in it for a variable: of two dollars it makes one.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// podName names the pod of a run: an application's id has no dot, so no two share one, nor do two berths.
func (e *Engine) podName(id app.ID, run int) string {
	return string(id) + "." + strconv.Itoa(run) + "." + e.Host
}

// otherName names a pod that no pod before had.
func otherName(id app.ID, kind string) string {
	return string(id) + "." + kind + "-" + strings.ToLower(rand.Text()[:10])
}

// ended returns how a pod's program ended, nil while it has not.
func ended(p kube.Pod) *kube.Terminated {
	if len(p.Status.ContainerStatuses) == 0 {
		return nil
	}
	return p.Status.ContainerStatuses[0].State.Terminated
}

// over reports whether nothing of a pod runs any more. A pod fails before its program has ended.
func over(p kube.Pod) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Running != nil {
			return false
		}
	}
	return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
}

// startedAt is when a pod's program began, or else when it was asked for.
func startedAt(p kube.Pod) time.Time {
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Running != nil:
			return s.State.Running.StartedAt
		case s.State.Terminated != nil && !s.State.Terminated.StartedAt.IsZero():
			return s.State.Terminated.StartedAt
		}
	}
	return p.Metadata.CreationTimestamp
}

// mebibytes reads a quantity of memory as the API writes it ("3884596Ki", "4Gi", "1000000000"); 0 for another one.
func mebibytes(quantity string) app.MB {
	digits := strings.TrimRight(quantity, "kKMGTi")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	units := map[string]int64{
		"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
	}
	unit, is := units[quantity[len(digits):]]
	if !is || n > (1<<62)/max(unit, 1) {
		return 0
	}
	return app.MB(n * unit >> 20)
}
