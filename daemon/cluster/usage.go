package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/kube"
)

// used is what a pod used when its machine was asked last, and how busy its processors were before.
type used struct {
	kube.Used
	percent float64
}

// poll asks for the machines, and each of them what the programs on it use, again and again.
func (e *Engine) poll() {
	for e.life.Err() == nil {
		if nodes, err := e.kube.Nodes(e.life, selector(e.NodeSelector)); err == nil {
			e.mu.Lock()
			e.nodes = nodes
			e.mu.Unlock()
			e.tellSilence(nodes)
			e.measure(e.life, nodes)
		}
		sleep(e.life, pollTime)
	}
}

// measure asks each machine on which something of berth runs.
func (e *Engine) measure(ctx context.Context, nodes []kube.Node) {
	for _, n := range nodes {
		e.mu.Lock()
		busy := false
		for _, p := range e.pods {
			busy = busy || p.Spec.NodeName == n.Metadata.Name && !over(p)
		}
		e.mu.Unlock()
		if !busy || !n.Ready() {
			continue
		}
		all, err := e.kube.Stats(ctx, n)
		if err != nil {
			e.Log.Debug("cannot ask a machine of the cluster what programs use", "machine", n.Metadata.Name, "error", err)
			continue
		}
		e.mu.Lock()
		for _, u := range all {
			if _, there := e.pods[u.Pod]; !there {
				continue
			}
			next := used{Used: u}
			if before := e.used[u.Pod]; u.At.After(before.At) && !before.At.IsZero() {
				next.percent = 100 * (u.CPU - before.CPU).Seconds() / u.At.Sub(before.At).Seconds()
			} else {
				next.percent = before.percent
			}
			e.used[u.Pod] = next
		}
		e.mu.Unlock()
	}
}

// tellSilence notes in the logs of programs that their machine does not answer, and that it does again.
func (e *Engine) tellSilence(nodes []kube.Node) {
	ready := map[string]bool{}
	for _, n := range nodes {
		ready[n.Metadata.Name] = n.Ready()
	}
	var told []func()
	e.mu.Lock()
	e.quiet = false
	for name, r := range e.runs {
		p, known := e.pods[name]
		if !known || p.Spec.NodeName == "" || over(p) {
			continue
		}
		before := r.silent
		r.silent = !ready[p.Spec.NodeName]
		e.quiet = e.quiet || r.silent
		if r.silent == before {
			continue
		}
		text := "its machine " + p.Spec.NodeName + " answers again"
		if r.silent {
			text = "its machine " + p.Spec.NodeName + " does not answer: whether the program runs is not known, and berth starts no other one"
		}
		told = append(told, func() { r.out.Note(text) })
	}
	e.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}

// usedBy returns what a pod used when its machine was asked last.
func (e *Engine) usedBy(name string) (u used, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u, known = e.used[name]
	return u, known
}

// Usage implements host.Instance: the figures are as old as the last look at the machine.
func (r *run) Usage(context.Context) (app.Usage, error) {
	u, _ := r.engine.usedBy(r.name)
	r.mu.Lock()
	defer r.mu.Unlock()
	return app.Usage{MemoryBytes: u.Memory, LimitBytes: r.ram.Bytes(), CPUPercent: u.percent, NetIn: u.Rx, NetOut: u.Tx}, nil
}

// Counts implements host.Instance.
func (r *run) Counts() (app.Counts, error) {
	if r.Ended() {
		return app.Counts{}, nil
	}
	u, _ := r.engine.usedBy(r.name)
	r.mu.Lock()
	defer r.mu.Unlock()
	return app.Counts{MemoryBytes: u.Memory, LimitBytes: r.ram.Bytes(), CPU: u.CPU, NetIn: u.Rx, NetOut: u.Tx}, nil
}

// tellTime is how long a machine may take to tell that a program has ended: it looks each second.
const tellTime = 2500 * time.Millisecond

// Busy implements host.Instance. What a program does is not known, so it is busy while its end may not be told yet.
func (r *run) Busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.began) < tellTime
}

// Held implements host.Instance: a cluster does not tell.
func (r *run) Held(context.Context) (app.Space, error) { return app.Space{}, nil }

// dialTime bounds a connection to a pod.
const dialTime = time.Second

// Listens implements host.Instance. The pod has an address of its own, so the program's port and that of sites are
// tried first; what else is open is read in the pod, which costs more.
func (r *run) Listens() (app.Listening, error) {
	p, gone := r.now()
	address, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil || gone || r.Ended() {
		return app.Listening{}, nil
	}
	for _, port := range []int{r.program.Port, app.SitePort} {
		at := netip.AddrPortFrom(address, uint16(port)) //nolint:gosec // it is a port
		conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(r.life, "tcp", at.String())
		if err == nil {
			_ = conn.Close() // nothing was sent
			return app.Listening{At: at, Port: port, Own: port == r.program.Port}, nil
		}
	}
	open, private, err := r.doors()
	if err != nil {
		return app.Listening{}, err
	}
	l := app.Listening{Open: open, Private: private}
	if len(open) == 1 {
		l.At, l.Port, l.Open = netip.AddrPortFrom(address, uint16(open[0])), open[0], nil //nolint:gosec // it is a port
	}
	return l, nil
}

// doors reads at which ports something in the pod takes connections, at all addresses and at one.
func (r *run) doors() (open, private []int, err error) {
	var out strings.Builder
	ctx, cancel := context.WithTimeout(r.life, 5*time.Second)
	defer cancel()
	_, err = r.engine.kube.Exec(ctx, r.name, box, kube.Command{
		Argv: []string{"/bin/sh", "-c", "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null; :"}, Out: &out,
	})
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(out.String()) {
		const listens = "0A" // TCP_LISTEN (include/net/tcp_states.h)
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != listens {
			continue
		}
		address, hex, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			continue
		}
		list := &private
		if strings.Trim(address, "0") == "" {
			list = &open
		}
		if !slices.Contains(*list, int(port)) {
			*list = append(*list, int(port))
		}
	}
	slices.Sort(open)
	slices.Sort(private)
	return open, private, nil
}

// Dial implements host.Instance: a pod's address is the program's alone.
func (r *run) Dial(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	if r.Ended() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(at), Err: errors.New("the program has ended")}
	}
	return (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", at.String())
}
