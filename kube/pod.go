package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// The parts of the Kubernetes API (v1) that berth writes and reads, by its names.
type (
	// Meta is ObjectMeta.
	Meta struct {
		Name              string            `json:"name,omitempty"`
		Namespace         string            `json:"namespace,omitempty"`
		UID               string            `json:"uid,omitempty"`
		ResourceVersion   string            `json:"resourceVersion,omitempty"`
		Labels            map[string]string `json:"labels,omitempty"`
		Annotations       map[string]string `json:"annotations,omitempty"`
		CreationTimestamp time.Time         `json:"creationTimestamp,omitzero"`
		DeletionTimestamp *time.Time        `json:"deletionTimestamp,omitempty"` // by which it is to be gone
		DeletionGrace     int64             `json:"deletionGracePeriodSeconds,omitempty"`
	}

	// Pod is a pod: of berth's one container.
	Pod struct {
		APIVersion string    `json:"apiVersion,omitempty"`
		Kind       string    `json:"kind,omitempty"`
		Metadata   Meta      `json:"metadata"`
		Spec       PodSpec   `json:"spec"`
		Status     PodStatus `json:"status,omitzero"`
	}

	// PodSpec is what is to run.
	PodSpec struct {
		NodeName                      string            `json:"nodeName,omitempty"`
		NodeSelector                  map[string]string `json:"nodeSelector,omitempty"`
		RuntimeClassName              string            `json:"runtimeClassName,omitempty"`
		RestartPolicy                 string            `json:"restartPolicy,omitempty"`
		ActiveDeadlineSeconds         *int64            `json:"activeDeadlineSeconds,omitempty"`
		TerminationGracePeriodSeconds *int64            `json:"terminationGracePeriodSeconds,omitempty"`
		ShareProcessNamespace         bool              `json:"shareProcessNamespace,omitempty"`
		AutomountServiceAccountToken  *bool             `json:"automountServiceAccountToken,omitempty"`
		EnableServiceLinks            *bool             `json:"enableServiceLinks,omitempty"`
		Hostname                      string            `json:"hostname,omitempty"`
		SecurityContext               *PodSecurity      `json:"securityContext,omitempty"`
		Containers                    []Container       `json:"containers"`
		Volumes                       []Volume          `json:"volumes,omitempty"`
		Tolerations                   []Toleration      `json:"tolerations,omitempty"`
		Affinity                      *Affinity         `json:"affinity,omitempty"`
	}

	// Affinity says on which machines a pod may run.
	Affinity struct {
		NodeAffinity struct {
			Required NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `json:"nodeAffinity"`
	}

	// NodeSelector chooses the machines that one of its terms chooses.
	NodeSelector struct {
		Terms []NodeTerm `json:"nodeSelectorTerms"`
	}

	// NodeTerm chooses machines by their fields.
	NodeTerm struct {
		MatchFields []NodeField `json:"matchFields"`
	}

	// NodeField is what a field of a machine must be.
	NodeField struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	}

	// PodSecurity is PodSecurityContext.
	PodSecurity struct {
		RunAsUser          int64          `json:"runAsUser,omitempty"`
		RunAsGroup         int64          `json:"runAsGroup,omitempty"`
		RunAsNonRoot       bool           `json:"runAsNonRoot,omitempty"`
		SupplementalGroups []int64        `json:"supplementalGroups,omitempty"`
		SeccompProfile     SeccompProfile `json:"seccompProfile,omitzero"`
	}

	// SeccompProfile is a profile of system calls.
	SeccompProfile struct {
		Type string `json:"type"`
	}

	// Container is the program.
	Container struct {
		Name            string            `json:"name"`
		Image           string            `json:"image"`
		ImagePullPolicy string            `json:"imagePullPolicy,omitempty"`
		Command         []string          `json:"command,omitempty"`
		WorkingDir      string            `json:"workingDir,omitempty"`
		Env             []EnvVar          `json:"env,omitempty"`
		Resources       Resources         `json:"resources,omitzero"`
		VolumeMounts    []VolumeMount     `json:"volumeMounts,omitempty"`
		SecurityContext ContainerSecurity `json:"securityContext,omitzero"`
		Stdin           bool              `json:"stdin,omitempty"`
	}

	// EnvVar is a variable.
	EnvVar struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}

	// Resources are requests and limits, in the quantities of Kubernetes.
	Resources struct {
		Limits   map[string]string `json:"limits,omitempty"`
		Requests map[string]string `json:"requests,omitempty"`
	}

	// VolumeMount is where a container has a volume.
	VolumeMount struct {
		Name      string `json:"name"`
		MountPath string `json:"mountPath"`
		SubPath   string `json:"subPath,omitempty"`
		ReadOnly  bool   `json:"readOnly,omitempty"`
	}

	// Volume is a claim, or an empty directory.
	Volume struct {
		Name                  string       `json:"name"`
		PersistentVolumeClaim *ClaimSource `json:"persistentVolumeClaim,omitempty"`
		EmptyDir              *EmptyDir    `json:"emptyDir,omitempty"`
	}

	// ClaimSource names a claim.
	ClaimSource struct {
		ClaimName string `json:"claimName"`
	}

	// EmptyDir is a directory that lives as long as the pod.
	EmptyDir struct {
		Medium    string `json:"medium,omitempty"`
		SizeLimit string `json:"sizeLimit,omitempty"`
	}

	// ContainerSecurity is SecurityContext.
	ContainerSecurity struct {
		AllowPrivilegeEscalation *bool         `json:"allowPrivilegeEscalation,omitempty"`
		ReadOnlyRootFilesystem   bool          `json:"readOnlyRootFilesystem,omitempty"`
		Capabilities             *Capabilities `json:"capabilities,omitempty"`
	}

	// Capabilities are those that are taken away.
	Capabilities struct {
		Drop []string `json:"drop"`
	}

	// Toleration lets a pod stay on a machine that is not well.
	Toleration struct {
		Key               string `json:"key,omitempty"`
		Operator          string `json:"operator,omitempty"`
		Effect            string `json:"effect,omitempty"`
		TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
	}

	// PodStatus is what a pod does.
	PodStatus struct {
		Phase             string            `json:"phase,omitempty"`
		Reason            string            `json:"reason,omitempty"`
		Message           string            `json:"message,omitempty"`
		PodIP             string            `json:"podIP,omitempty"`
		HostIP            string            `json:"hostIP,omitempty"`
		Conditions        []Condition       `json:"conditions,omitempty"`
		ContainerStatuses []ContainerStatus `json:"containerStatuses,omitempty"`
	}

	// Condition is one of a pod's or a machine's.
	Condition struct {
		Type    string `json:"type"`
		Status  string `json:"status"`
		Reason  string `json:"reason,omitempty"`
		Message string `json:"message,omitempty"`
	}

	// ContainerStatus is what a container does.
	ContainerStatus struct {
		Name         string         `json:"name"`
		State        ContainerState `json:"state"`
		RestartCount int            `json:"restartCount"`
		Resources    *Resources     `json:"resources,omitempty"`
	}

	// ContainerState has one of three.
	ContainerState struct {
		Waiting    *Waiting    `json:"waiting,omitempty"`
		Running    *Running    `json:"running,omitempty"`
		Terminated *Terminated `json:"terminated,omitempty"`
	}

	// Waiting is a container that does not run yet.
	Waiting struct {
		Reason  string `json:"reason,omitempty"`
		Message string `json:"message,omitempty"`
	}

	// Running is a container that runs.
	Running struct {
		StartedAt time.Time `json:"startedAt"`
	}

	// Terminated is how a container ended.
	Terminated struct {
		ExitCode   int       `json:"exitCode"`
		Signal     int       `json:"signal,omitempty"`
		Reason     string    `json:"reason,omitempty"`
		Message    string    `json:"message,omitempty"`
		StartedAt  time.Time `json:"startedAt"`
		FinishedAt time.Time `json:"finishedAt"`
	}
)

// OnMachines lets a pod run on the machines of these names alone.
func OnMachines(names []string) *Affinity {
	a := &Affinity{}
	for _, name := range names { // a field takes one value
		a.NodeAffinity.Required.Terms = append(a.NodeAffinity.Required.Terms, NodeTerm{[]NodeField{{"metadata.name", "In", []string{name}}}})
	}
	return a
}

// Create makes a pod. It fails with a refusal of the cluster: 409 for a name that is taken, 403 for what a quota or
// the policy of the namespace forbids, 422 for what is malformed.
func (c *Client) Create(ctx context.Context, p Pod) (made Pod, err error) {
	p.APIVersion, p.Kind = "v1", "Pod"
	err = c.call(ctx, request{method: http.MethodPost, path: c.pods(), body: p}, &made)
	return made, err
}

// Get returns a pod.
func (c *Client) Get(ctx context.Context, name string) (p Pod, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: c.pods(name)}, &p)
	return p, err
}

// List returns the pods that a selector of labels chooses, and the version of the list, from which a watch goes on.
func (c *Client) List(ctx context.Context, selector string) (all []Pod, version string, err error) {
	var list struct {
		Metadata Meta
		Items    []Pod
	}
	query := url.Values{"labelSelector": {selector}}
	err = c.call(ctx, request{method: http.MethodGet, path: c.pods(), query: query}, &list)
	return list.Items, list.Metadata.ResourceVersion, err
}

// Finish has a pod end: its program gets SIGTERM within a second, and SIGKILL after the pod's grace. How it ended and
// its log stay until Delete, which takes both away after four seconds at most.
func (c *Client) Finish(ctx context.Context, name string) error {
	return c.patch(ctx, c.pods(name), map[string]any{"spec": map[string]any{"activeDeadlineSeconds": 1}})
}

// Resize changes the memory of a running program, in MiB, without a restart.
func (c *Client) Resize(ctx context.Context, name, container string, mib int64) error {
	memory := map[string]string{"memory": fmt.Sprintf("%dMi", mib)}
	resources := map[string]any{"limits": memory, "requests": memory}
	return c.patch(ctx, c.pods(name, "resize"), map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": container, "resources": resources}},
	}})
}

// patch is a strategic merge patch: lists of containers are merged by their names.
func (c *Client) patch(ctx context.Context, path string, body any) error {
	return c.call(ctx, request{method: http.MethodPatch, path: path, kind: "application/strategic-merge-patch+json", body: body}, nil)
}

// Delete removes the pod of a name, if it is the one of that uid. A pod that is gone is no error.
func (c *Client) Delete(ctx context.Context, name, uid string, grace time.Duration) error {
	err := c.call(ctx, request{method: http.MethodDelete, path: c.pods(name), body: map[string]any{
		"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": int64(grace / time.Second),
		"preconditions": map[string]string{"uid": uid},
	}}, nil)
	if code := CodeOf(err); code == http.StatusNotFound || code == http.StatusConflict { // another one has the name
		return nil
	}
	return err
}
