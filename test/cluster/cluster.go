//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/test/harness"
)

// The network of the cluster is in namespaces of its own, so its addresses are nobody else's.
const (
	prefix = "bkt" // of namespaces, links and groups
	api    = "10.99.0.1"
	port   = "6443"
)

// Cluster is a Kubernetes with a control plane and machines that are directories and network namespaces here. All its
// processes are the children of this one.
type Cluster struct {
	Server string // of the API
	CA     string // its certificate, a file
	Nodes  []*Node

	bin, dir string
	keys     *keys
	plane    []*process
	apis     *process
}

// Node is a machine of a cluster.
type Node struct {
	Name, Address string

	cluster            *Cluster
	dir, pods          string // its directory, and the addresses of its pods
	containerd, agent  *process
	group, networkName string
}

// process is a part of the cluster.
type process struct {
	log  string // a file
	cmd  *exec.Cmd
	done chan struct{}
}

// start starts a part of the cluster, whose output goes to a file in dir.
func start(dir, name string, argv ...string) (*process, error) {
	log := filepath.Join(dir, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has it
	p := &process{log: log, cmd: command(argv), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended says nothing
	}()
	return p, nil
}

// command outlives no cluster: Close ends all.
func command(argv []string) *exec.Cmd {
	return exec.CommandContext(context.Background(), argv[0], argv[1:]...)
}

// end sends a signal, and kills what has not ended after a while.
func (p *process) end(s syscall.Signal) {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(s)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// run runs a command to its end, and returns its output in the error.
func run(argv ...string) error {
	out, err := command(argv).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// in is a command in a network.
func in(network string, argv ...string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + network}, argv...)
}

// New starts a cluster of n machines in dir, of the programs in bin. This process MUST be in the network of the control
// plane, which is bktcp. On an error nothing of it is left.
func New(bin, dir string, n int) (c *Cluster, err error) {
	c = &Cluster{Server: "https://" + api + ":" + port, bin: bin, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for i := range n {
		name := "n" + strconv.Itoa(i+1)
		c.Nodes = append(c.Nodes, &Node{
			Name: name, Address: "10.99.0." + strconv.Itoa(11+i), cluster: c, dir: filepath.Join(dir, name),
			pods: "10.244." + strconv.Itoa(i+1) + ".0/24", group: prefix + name, networkName: prefix + name,
		})
	}
	if err := c.connect(); err != nil {
		return c, err
	}
	if c.keys, err = newKeys(filepath.Join(dir, "keys"), c.Nodes); err != nil {
		return c, err
	}
	c.CA = c.keys.file("ca.crt")
	if err := errors.Join(c.startPlane(), c.Guard(true)); err != nil {
		return c, err
	}
	if err := images(filepath.Join(dir, "images")); err != nil {
		return c, err
	}
	ready := make(chan error)
	for _, node := range c.Nodes {
		go func() { ready <- node.Start() }()
	}
	for range c.Nodes {
		err = errors.Join(err, <-ready)
	}
	return c, err
}

// connect makes the networks: the control plane's has a bridge, to which each machine is joined.
func (c *Cluster) connect() error {
	plane := prefix + "cp"
	steps := [][]string{
		{"ip", "-n", plane, "link", "set", "lo", "up"},
		{"ip", "-n", plane, "link", "add", "br0", "type", "bridge"},
		{"ip", "-n", plane, "addr", "add", api + "/24", "dev", "br0"},
		{"ip", "-n", plane, "link", "set", "br0", "up"},
		in(plane, "sysctl", "-qw", "net.ipv4.ip_forward=1"),
	}
	for _, n := range c.Nodes {
		steps = append(steps,
			[]string{"ip", "netns", "add", n.networkName},
			[]string{"ip", "-n", n.networkName, "link", "set", "lo", "up"},
			[]string{"ip", "link", "add", n.networkName, "netns", plane, "type", "veth", "peer", "name", "eth0", "netns", n.networkName},
			[]string{"ip", "-n", plane, "link", "set", n.networkName, "master", "br0", "up"},
			[]string{"ip", "-n", n.networkName, "addr", "add", n.Address + "/24", "dev", "eth0"},
			[]string{"ip", "-n", n.networkName, "link", "set", "eth0", "up"},
			[]string{"ip", "-n", n.networkName, "route", "add", "default", "via", api},
			[]string{"ip", "-n", plane, "route", "add", n.pods, "via", n.Address},
			in(n.networkName, "sysctl", "-qw", "net.ipv4.ip_forward=1"),
		)
	}
	for _, n := range c.Nodes {
		for _, other := range c.Nodes {
			if n != other {
				steps = append(steps, []string{"ip", "-n", n.networkName, "route", "add", other.pods, "via", other.Address})
			}
		}
	}
	for _, step := range steps {
		if err := run(step...); err != nil {
			return err
		}
	}
	return nil
}

// Guard loads the rules of deploy/kubernetes on each machine, that of the control plane included, or takes them away.
func (c *Cluster) Guard(on bool) error {
	rules := []byte("table inet berth\ndelete table inet berth\n")
	if on {
		text, err := os.ReadFile("../../deploy/kubernetes/berth.nft")
		if err != nil {
			return err
		}
		rules = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("10.42.0.0/16"), []byte("10.244.0.0/16")), []byte("10.0.0.0/24"), []byte("10.99.0.0/24"))
	}
	networks := []string{prefix + "cp"}
	for _, n := range c.Nodes {
		networks = append(networks, n.networkName)
	}
	for _, network := range networks {
		argv := in(network, "nft", "-f", "-")
		cmd := command(argv)
		cmd.Stdin = bytes.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot load the rules of %s: %w: %s", network, err, out)
		}
	}
	return nil
}

// startPlane starts what decides: etcd, the API server, the controllers and the scheduler.
func (c *Cluster) startPlane() error {
	if err := c.startStore(); err != nil {
		return err
	}
	if err := c.StartAPI(); err != nil {
		return err
	}
	k := c.keys
	for name, argv := range map[string][]string{
		"kube-controller-manager": {
			"--kubeconfig=" + k.file("controllers.conf"), "--leader-elect=false", "--use-service-account-credentials",
			"--service-account-private-key-file=" + k.file("accounts.key"), "--root-ca-file=" + k.file("ca.crt"), "--bind-address=127.0.0.1",
			"--node-monitor-period=1s", "--node-monitor-grace-period=10s",
		},
		"kube-scheduler": {"--kubeconfig=" + k.file("scheduler.conf"), "--leader-elect=false", "--bind-address=127.0.0.1"},
	} {
		p, err := start(c.dir, name, in(prefix+"cp", append([]string{filepath.Join(c.bin, name)}, argv...)...)...)
		if err != nil {
			return err
		}
		c.plane = append(c.plane, p)
	}
	return nil
}

func (c *Cluster) startStore() error {
	const at, peers = "http://127.0.0.1:12379", "http://127.0.0.1:12380"
	p, err := start(c.dir, "etcd", in(prefix+"cp", filepath.Join(c.bin, "etcd"), "--data-dir", filepath.Join(c.dir, "etcd"),
		"--listen-client-urls", at, "--advertise-client-urls", at, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
		"--initial-cluster", "default="+peers, "--unsafe-no-fsync")...)
	c.plane = append(c.plane, p)
	return err
}

// StartAPI starts the API server, and returns once it is ready.
func (c *Cluster) StartAPI() error {
	k := c.keys
	p, err := start(c.dir, "kube-apiserver", in(prefix+"cp", filepath.Join(c.bin, "kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:12379", "--bind-address="+api, "--advertise-address="+api, "--secure-port="+port,
		"--tls-cert-file="+k.file("api.crt"), "--tls-private-key-file="+k.file("api.key"), "--client-ca-file="+k.file("ca.crt"),
		"--service-account-key-file="+k.file("accounts.pub"), "--service-account-signing-key-file="+k.file("accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate="+k.file("kubelets.crt"), "--kubelet-client-key="+k.file("kubelets.key"),
		"--kubelet-certificate-authority="+k.file("ca.crt"), "--kubelet-preferred-address-types=InternalIP")...)
	if err != nil {
		return err
	}
	c.apis = p
	return c.until("the API server is ready", p, func() bool {
		return c.kubectl("get", "--raw", "/readyz").Run() == nil && c.kubectl("get", "serviceaccounts").Run() == nil
	})
}

// StopAPI ends the API server, as a machine that loses its power does.
func (c *Cluster) StopAPI() { c.apis.end(syscall.SIGKILL) }

// until waits while a part of the cluster runs.
func (c *Cluster) until(what string, p *process, ok func() bool) error {
	patience := 3 * time.Minute
	if harness.Emulated {
		patience *= 5
	}
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(100 * time.Millisecond) {
		if p.ended() || time.Now().After(deadline) {
			log, _ := os.ReadFile(p.log) // "" says that there is none
			return fmt.Errorf("it did not come so far that %s: %s", what, log[max(0, len(log)-2000):])
		}
	}
	return nil
}

// kubectl is a command of the administrator.
func (c *Cluster) kubectl(args ...string) *exec.Cmd {
	flags := []string{filepath.Join(c.bin, "kubectl"), "--kubeconfig", c.keys.file("admin.conf"), "--request-timeout=20s"}
	argv := in(prefix+"cp", append(flags, args...)...)
	return command(argv)
}

// Apply makes what a manifest says.
func (c *Cluster) Apply(manifest string) error {
	cmd := c.kubectl("apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Token writes a token of a service account to a file.
func (c *Cluster) Token(namespace, account, file string) error {
	out, err := c.kubectl("create", "token", "-n", namespace, account, "--duration=3h").Output()
	if err != nil {
		return err
	}
	return os.WriteFile(file, bytes.TrimSpace(out), 0o600)
}

// Close ends everything of the cluster, and leaves nothing.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Remove())
	}
	c.apis.end(syscall.SIGTERM)
	for i := len(c.plane) - 1; i >= 0; i-- {
		c.plane[i].end(syscall.SIGTERM)
	}
	for _, n := range c.Nodes {
		if _, err := os.Stat("/run/netns/" + n.networkName); err == nil {
			errs = append(errs, run("ip", "netns", "del", n.networkName))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}
