//go:build cluster

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// unified reports whether control groups are v2 alone; else each of v1 has its own tree.
func unified() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

// groups are the directories of a machine's group, one in each tree.
func (n *Node) groups() []string {
	if unified() {
		return []string{"/sys/fs/cgroup/" + n.group}
	}
	trees, _ := os.ReadDir("/sys/fs/cgroup") // none: mounting it fails later
	var all []string
	for _, t := range trees {
		if t.IsDir() && t.Name() != "unified" { // others are links to these
			all = append(all, filepath.Join("/sys/fs/cgroup", t.Name(), n.group))
		}
	}
	return all
}

// makeGroups makes the machine's groups.
func (n *Node) makeGroups() error {
	if unified() { // a kubelet does not start without these
		const controllers = "+cpu +cpuset +hugetlb +io +memory +pids"
		if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte(controllers), 0o644); err != nil {
			return err
		}
	}
	for _, dir := range n.groups() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if set := "/sys/fs/cgroup/cpuset/"; !unified() { // a new group of v1 has no processor
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			all, err := os.ReadFile(set + name)
			if err == nil {
				err = os.WriteFile(set+n.group+"/"+name, all, 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// configure writes what containerd and the kubelet read.
func (n *Node) configure() error {
	for _, dir := range []string{"cni", "logs", "kubelet", "volumes"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := n.makeGroups(); err != nil {
		return err
	}
	c, k := n.cluster, n.cluster.keys
	files := map[string]string{
		"containerd.toml": fmt.Sprintf(`version = 3
root = "%[1]s/root"
state = "%[1]s/state"
[grpc]
  address = "%[1]s/containerd.sock"
[ttrpc]
  address = "%[1]s/containerd.sock.ttrpc"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "%[3]s"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["%[2]s/cni"]
  conf_dir = "%[1]s/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    BinaryName = "%[2]s/runc"
    SystemdCgroup = false
`, n.dir, c.bin, pauseImage),
		"cni/10-net.conflist": fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
"ipam": {"type": "host-local", "dataDir": "%s/ipam", "ranges": [[{"subnet": "%s"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`, n.dir, n.pods),
		"kubelet.yaml": fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[2]s}}
authorization: {mode: Webhook}
tlsCertFile: %[3]s
tlsPrivateKeyFile: %[4]s
address: %[5]s
healthzBindAddress: 127.0.0.1
readOnlyPort: 0
cgroupDriver: cgroupfs
cgroupRoot: /%[6]s
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://%[1]s/containerd.sock
resolvConf: ""
seccompDefault: true
podPidsLimit: 512
volumePluginDir: %[1]s/volumes
podLogsDir: %[1]s/logs
nodeStatusUpdateFrequency: 2s
evictionHard: {memory.available: 100Mi, nodefs.available: 1%%, imagefs.available: 1%%, nodefs.inodesFree: 1%%}
systemReserved: {memory: 512Mi}
containerLogMaxSize: 10Mi
containerLogMaxFiles: 3
`, n.dir, k.file("ca.crt"), k.file(n.Name+".crt"), k.file(n.Name+".key"), n.Address, n.group),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// here is a command in the machine's network, and in a mount namespace where /run/netns, in which the namespaces of
// pods are, ends with the machine. So do the directories whose places kubelets do not let anybody choose: two kubelets
// would remove each other's socket. The control groups stay in sight, which "ip netns exec" hides.
func (n *Node) here(argv ...string) []string {
	const script = `exec 9<"$1" && shift && exec unshare -m --propagation private bash -c ` +
		`'mount --make-rshared / && for dir in /run/netns /var/lib/kubelet/device-plugins /var/log/containers; do ` +
		`mkdir -p "$dir" && mount -t tmpfs none "$dir" || exit; done && exec nsenter --net=/proc/self/fd/9 "$@"' - "$@"`
	return append([]string{"bash", "-c", script, "-", "/run/netns/" + n.networkName}, argv...)
}

// Start starts the machine, and returns once it is ready.
func (n *Node) Start() (err error) {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	if err := n.configure(); err != nil {
		return err
	}
	// One mount namespace for both: the kubelet mounts what containerd's programs see.
	socket := filepath.Join(n.dir, "containerd.sock")
	bin := n.cluster.bin
	if n.containerd, err = start(n.dir, "containerd", n.here("env", "PATH="+bin+":"+os.Getenv("PATH"),
		filepath.Join(bin, "containerd"), "--config", filepath.Join(n.dir, "containerd.toml"))...); err != nil {
		return err
	}
	ctr := func(args ...string) error {
		return run(append([]string{filepath.Join(bin, "ctr"), "-a", socket, "-n", "k8s.io"}, args...)...)
	}
	if err := n.cluster.until("containerd answers", n.containerd, func() bool { return ctr("version") == nil }); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(n.cluster.dir, "images", "*.tar"))
	if err != nil {
		return err
	}
	for _, a := range archives {
		if err := ctr("images", "import", "--local", a); err != nil {
			return err
		}
	}
	if err := n.StartKubelet(); err != nil {
		return err
	}
	return n.cluster.until("the machine is ready", n.agent, func() bool {
		out, err := n.cluster.kubectl("get", "node", n.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`).Output()
		return err == nil && string(out) == "True"
	})
}

// StartKubelet starts the kubelet alone, beside the containerd that runs.
func (n *Node) StartKubelet() (err error) {
	bin := n.cluster.bin
	n.agent, err = start(n.dir, "kubelet", "nsenter", "--mount", "--net", "--target", strconv.Itoa(n.containerd.cmd.Process.Pid),
		"env", "PATH="+bin+":"+os.Getenv("PATH"), filepath.Join(bin, "kubelet"), "--config", filepath.Join(n.dir, "kubelet.yaml"),
		"--kubeconfig", n.cluster.keys.file(n.Name+".conf"), "--hostname-override", n.Name, "--node-ip", n.Address,
		"--root-dir", filepath.Join(n.dir, "kubelet"), "--cert-dir", filepath.Join(n.dir, "kubelet/pki"))
	return err
}

// StopKubelet ends the kubelet; programs go on.
func (n *Node) StopKubelet() { n.agent.end(syscall.SIGTERM) }

// Cut takes the machine off the network, or joins it again.
func (n *Node) Cut(off bool) error {
	state := "up"
	if off {
		state = "down"
	}
	return run("ip", "-n", prefix+"cp", "link", "set", n.networkName, state)
}

// Off ends the machine at once, with all that runs on it, as a loss of power does. What is on its disk stays, but not what
// a machine has in its memory (/run).
func (n *Node) Off() error {
	n.agent.end(syscall.SIGKILL)
	n.containerd.end(syscall.SIGKILL)
	n.kill()
	return os.RemoveAll(filepath.Join(n.dir, "state"))
}

// Remove ends the machine with all that runs on it, and removes its directory and groups.
func (n *Node) Remove() error {
	n.agent.end(syscall.SIGTERM)
	n.kill()
	n.containerd.end(syscall.SIGTERM)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, n.dir+"/") {
			errs = append(errs, syscall.Unmount(at, syscall.MNT_DETACH))
		}
	}
	errs = append(errs, os.RemoveAll(n.dir))
	for _, dir := range n.groups() {
		errs = append(errs, removeGroup(dir))
	}
	if !unified() { // runc is in all trees
		errs = append(errs, removeGroup("/sys/fs/cgroup/unified/"+n.group))
	}
	return errors.Join(errs...)
}

// kill ends the programs of the machine's pods, and the shims, which nobody else has: they were started with the
// address of its containerd.
func (n *Node) kill() {
	files, _ := filepath.Glob(filepath.Join(n.dir, "state/io.containerd.runtime.v2.task/k8s.io/*/init.pid")) // the pattern is good
	for _, file := range files {
		text, err := os.ReadFile(file)
		if pid, bad := strconv.Atoi(string(text)); err == nil && bad == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
	for _, file := range all {
		text, _ := os.ReadFile(file) // it may have ended
		argv := strings.Split(string(text), "\x00")
		at := slices.Index(argv, "-address")
		if filepath.Base(argv[0]) != "containerd-shim-runc-v2" || at < 0 || at+1 >= len(argv) || argv[at+1] != filepath.Join(n.dir, "containerd.sock") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// removeGroup removes a group with those in it, once they are empty.
func removeGroup(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil //nolint:nilerr // it was never made
	}
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = command([]string{"find", dir, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"}).Run(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("cannot remove the group %s: %w", dir, err)
}
