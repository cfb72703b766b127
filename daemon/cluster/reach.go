package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/app"
	"berth/kube"
)

// Programs of different owners share one volume, whose server may believe any user that a program claims to be (NFS with
// AUTH_SYS), and many a network policy does not hold for the machine that a pod is on. So nothing starts before a pod on
// each machine has tried what it reaches.

const (
	// reachTime is how long one pod may try, and reachAgain the pause until all is tried again.
	reachTime  = 2 * time.Minute
	reachAgain = time.Hour
	// reachRetry is that pause where something was reached, or could not be tried.
	reachRetry = 30 * time.Second
)

// privatePorts are tried at every address of a machine: ssh, the NFS portmapper and NFS, the API server, etcd, kubelets
// and what they tell without asking who it is for, and k3s's supervisor.
var privatePorts = []int{22, 111, 2049, 2379, 2380, 6443, 6444, 9345, 10250, 10255, 10256}

// metadata is where clouds tell a machine its secrets.
var metadata = netip.MustParseAddrPort("169.254.169.254:80")

// Doors are what programs must not reach beside the machines of the cluster and the API server: addresses of this
// machine and its own servers, and the server of the volume.
type Doors struct {
	Addresses []netip.Addr     // of this machine
	Ports     []int            // at them
	Closed    []netip.AddrPort // and others
}

// try connects to each address of its arguments, "host port", and to the API server as pods know it, all at once, and
// prints those where somebody answered.
// It fails with 3 where the image has nothing to connect with.
const try = `set -- "$@" $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT
if command -v nc >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1; then how=nc
elif command -v bash >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1; then how=bash
elif command -v node >/dev/null 2>&1; then how=node
elif command -v python3 >/dev/null 2>&1; then how=python3
else exit 3; fi
one() { case $how in
nc) timeout 6 nc -w 3 "$1" "$2" </dev/null >/dev/null 2>&1; case $? in 0|124|143) true;; *) false;; esac;; # connected, and nobody hung up
bash) timeout 3 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2" 2>/dev/null;;
node) node -e 'const c=require("net").connect(process.argv[2],process.argv[1],()=>process.exit(0));c.on("error",()=>process.exit(1));setTimeout(()=>process.exit(1),3000)' "$1" "$2";;
python3) python3 -c 'import socket,sys;socket.create_connection((sys.argv[1],sys.argv[2]),3)' "$1" "$2" 2>/dev/null;;
esac && echo "$1 $2"; }
while [ $# -gt 1 ]; do one "$1" "$2" & shift 2; done; wait`

// reach is what is known of what programs reach.
type reach struct {
	mu      sync.Mutex
	tried   bool
	problem error               // why it could not be tried
	open    map[string][]string // by machine
	closed  []string            // machines from which nothing was reached
	changed chan struct{}       // closed when all was tried once
}

// watchReach tries what programs reach, again and again, until the engine closes: at once from a machine that is new.
func (e *Engine) watchReach() {
	for e.life.Err() == nil {
		open, closed, err := e.tryAll(e.life)
		if e.life.Err() != nil {
			return
		}
		r := &e.reach
		r.mu.Lock()
		first, before := !r.tried, len(r.open) > 0 || r.problem != nil
		r.tried, r.open, r.closed, r.problem = true, open, closed, err
		if first {
			close(r.changed)
		}
		r.mu.Unlock()
		pause, bad := reachAgain, len(open) > 0 || err != nil
		switch {
		case bad && !before:
			e.Log.Error("programs on the cluster could reach what is not theirs; none starts on those machines", "open", open, "error", err)
		case !bad && before:
			e.Log.Info("programs on the cluster reach nothing that is not theirs any more")
		}
		if bad {
			pause = reachRetry
		}
		for until := time.Now().Add(pause); time.Now().Before(until) && e.life.Err() == nil && (bad || e.allTried()); {
			sleep(e.life, pollTime)
		}
	}
}

// allTried reports whether it was tried from every machine that takes programs now.
func (e *Engine) allTried() bool {
	e.mu.Lock()
	nodes := e.nodes
	e.mu.Unlock()
	e.reach.mu.Lock()
	defer e.reach.mu.Unlock()
	return !slices.ContainsFunc(nodes, func(n kube.Node) bool {
		return n.Ready() && !n.Spec.Unschedulable && !slices.Contains(e.reach.closed, n.Metadata.Name)
	})
}

// closed returns the machines where programs reach nothing that is not theirs, and refuses where there are none. It waits
// until that was tried once. It returns nil where all trust each other.
func (e *Engine) closed(ctx context.Context) (machines []string, err error) {
	if e.Trusted {
		return nil, nil
	}
	r := &e.reach
	select {
	case <-r.changed:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.life.Done():
		return nil, e.life.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.closed) > 0:
		return r.closed, nil
	case len(r.open) > 0:
		return nil, app.Errorf(app.Unavailable, "cannot start the program: programs on the cluster of this host could reach the files of others; ask its owner to run: berth doctor")
	}
	return nil, &app.Error{Kind: app.Unavailable, Err: r.problem, Message: app.Textf("cannot start the program: this host does not know yet what programs on its cluster could reach; ask its owner to run: berth doctor")}
}

// tryAll tries from every machine that takes programs, and returns what was reached there, and where nothing was.
func (e *Engine) tryAll(ctx context.Context) (open map[string][]string, closed []string, err error) {
	nodes, err := e.kube.Nodes(ctx, selector(e.NodeSelector))
	if err != nil {
		return nil, nil, err
	}
	machines, err := e.kube.Nodes(ctx, "") // also those where no program of berth runs
	if err != nil {
		return nil, nil, err
	}
	targets, err := e.targets(ctx, machines)
	if err != nil {
		return nil, nil, err
	}
	open = map[string][]string{}
	var work sync.WaitGroup
	var mu sync.Mutex
	for _, n := range nodes {
		if !n.Ready() || n.Spec.Unschedulable {
			continue
		}
		work.Go(func() {
			found, wrong := e.tryFrom(ctx, n.Metadata.Name, targets)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case len(found) > 0:
				open[n.Metadata.Name] = found
			case wrong == nil:
				closed = append(closed, n.Metadata.Name)
			default:
				err = errors.Join(err, fmt.Errorf("cannot try what programs reach from the machine %s: %w", n.Metadata.Name, wrong))
			}
		})
	}
	work.Wait()
	return open, closed, err
}

// targets are the addresses that no program must reach.
func (e *Engine) targets(ctx context.Context, machines []kube.Node) (all []netip.AddrPort, err error) {
	add := func(a netip.Addr, ports ...int) {
		for _, port := range ports {
			all = append(all, netip.AddrPortFrom(a.Unmap(), uint16(port))) //nolint:gosec // they are ports
		}
	}
	for _, n := range machines {
		for _, a := range n.Status.Addresses {
			if address, err := netip.ParseAddr(a.Address); err == nil { // else it is a name
				add(address, privatePorts...)
			}
		}
	}
	for _, a := range e.Doors.Addresses {
		add(a, privatePorts...)
		add(a, e.Doors.Ports...)
	}
	server, err := url.Parse(e.Server)
	if err != nil {
		return nil, err
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", server.Hostname())
	if err != nil {
		return nil, fmt.Errorf("cannot find the address of the API server: %w", err)
	}
	port := 443
	if text := server.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil {
			return nil, err
		}
	}
	for _, a := range addresses {
		add(a, port)
	}
	all = append(append(all, metadata), e.Doors.Closed...)
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all), nil
}

// tryFrom tries from one machine, in a pod that is made like that of a program.
func (e *Engine) tryFrom(ctx context.Context, machine string, targets []netip.AddrPort) (open []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	r, err := e.probe(ctx, machine, "")
	if err != nil {
		return nil, err
	}
	defer e.dismiss(r)
	var routes strings.Builder
	if _, err := e.kube.Exec(ctx, r.name, box, kube.Command{Argv: []string{"/bin/sh", "-c", "cat /proc/net/route; :"}, Out: &routes}); err != nil {
		return nil, err
	}
	targets = slices.Clone(targets)
	for _, gateway := range gateways(routes.String()) { // an address of the machine that no list has
		for _, port := range privatePorts {
			targets = append(targets, netip.AddrPortFrom(gateway, uint16(port))) //nolint:gosec // they are ports
		}
	}
	argv := []string{"/bin/sh", "-c", try, "sh"}
	for _, t := range targets {
		argv = append(argv, t.Addr().String(), strconv.Itoa(int(t.Port())))
	}
	var out strings.Builder
	code, err := e.kube.Exec(ctx, r.name, box, kube.Command{Argv: argv, Out: &out})
	const nothing = 3 // of try
	switch {
	case err != nil:
		return nil, err
	case code == nothing:
		return nil, errors.New("the default image has none of nc, bash, node and python3 to connect with: choose another one in kubernetes.images")
	}
	for line := range strings.Lines(out.String()) {
		if host, port, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			open = append(open, net.JoinHostPort(host, port))
		}
	}
	slices.Sort(open)
	return open, nil
}

// probe starts a pod of berth's own on a machine, with a user that no application has, in a part of the volume unless
// that is "".
func (e *Engine) probe(ctx context.Context, machine, part string) (*run, error) {
	p := app.Program{App: "probe", Argv: []string{"/bin/sh", "-c", idle}, UID: probeUser, RAM: 256, Share: 32}
	image, err := e.Images.Of("")
	if err != nil {
		return nil, err
	}
	spec := e.bare(p, image, probeKind, otherName(p.App, probeKind))
	spec.Spec.Affinity = kube.OnMachines([]string{machine})
	if part != "" {
		const at = "/volume"
		c := &spec.Spec.Containers[0]
		c.WorkingDir, c.VolumeMounts = at, []kube.VolumeMount{{Name: "files", MountPath: at, SubPath: part}}
		spec.Spec.Volumes = []kube.Volume{{Name: "files", PersistentVolumeClaim: &kube.ClaimSource{ClaimName: e.Claim}}}
	}
	r := e.newRun(p, spec.Metadata.Name, nil)
	if err := e.create(ctx, r, spec); err != nil {
		return nil, err
	}
	r.ignoreOutput()
	return r, nil
}

// probeUser is the user of berth's own pods: nobody's, and none of apps.uid_base on.
const probeUser = 65534

// gateways reads the default routes of a table of routes (/proc/net/route, IPv4).
func gateways(table string) (all []netip.Addr) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[1] != "00000000" {
			continue
		}
		n, err := strconv.ParseUint(fields[2], 16, 32)
		if err != nil || n == 0 {
			continue
		}
		all = append(all, netip.AddrFrom4([4]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})) // in the host's order
	}
	return all
}
