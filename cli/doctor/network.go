package doctor

import (
	"fmt"
	"log/slog"
	"os"

	"berth/cgroup"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/proc"
	"berth/proc/sandbox"
)

// checkTraffic counts the traffic of a group of its own.
func checkTraffic(h cgroup.Host) finding {
	fail := func(err error) finding {
		return finding{"netIO", dubious, "will show 0B: " + err.Error(), "run berth as root, outside of a container"}
	}
	meter, err := sandbox.NewMeter()
	if err != nil {
		return fail(err)
	}
	defer func() { _ = meter.Close() }() // nothing depends on it
	groups, err := cgroup.Open(h, fmt.Sprintf("doctor-%d", os.Getpid()))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = groups.Close() }() // it never had a group
	dir, err := os.Open(groups.Root())
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	counter, err := meter.Attach(dir)
	if err == nil {
		_, _, err = counter.Read()
	}
	if err != nil {
		return fail(err)
	}
	return finding{"netIO", good, "the bytes of each program are counted by eBPF", ""}
}

// checkSockets counts the sockets of a group of its own.
func checkSockets(h cgroup.Host, s settings.Settings) finding {
	fail := func(err error) finding {
		return unloaded(s, sandbox.Counted, "a program can take every port that this host gives to connections: ", err)
	}
	bounds := daemon.SocketBounds(slog.New(slog.DiscardHandler))
	sockets, err := sandbox.NewSockets(bounds)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = sockets.Close() }() // nothing depends on it
	groups, err := cgroup.Open(h, fmt.Sprintf("doctor-%d", os.Getpid()))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = groups.Close() }() // it never had a group
	dir, err := os.Open(groups.Root())
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	count, err := sockets.Enclose(dir, 1)
	if err == nil {
		_, _, err = count.Read()
	}
	if err != nil {
		return fail(err)
	}
	text := fmt.Sprintf("%d of a program at once, %d of an account, %d of all", bounds.Program, bounds.Account, bounds.All)
	if !sockets.Says() {
		text += "; more are EPERM, for EMFILE needs Linux 5.18"
	}
	return finding{"sockets", good, text, ""}
}

// unloaded makes a finding of a wall that eBPF programs put up, and of what is so
// without it.
func unloaded(s settings.Settings, l sandbox.Layer, without string, err error) finding {
	if sandbox.Passes(err) {
		return untried(string(l), err)
	}
	f := finding{string(l), dubious, without + err.Error(), ""}
	on, unread := countedOn(s)
	if unread != nil {
		f.Verdict, f.Text = bad, unread.Error()
	}
	return on.lacking(f, sandbox.Verdict{Layer: l, Err: err})
}

// untried makes a finding of what cannot be told just now, which a start of the
// daemon does not get past either.
func untried(name string, err error) finding {
	return finding{name, bad, err.Error(), "give berth more processes (TasksMax), open files (LimitNOFILE) or memory"}
}

// checkPorts warns when the ports that berth gives to applications are among those
// that the kernel gives to connections.
func checkPorts(given proc.ConnectionPorts, err error, first, last int) []finding {
	if err != nil {
		return []finding{{"ports", dubious, err.Error(), "mount -t proc proc /proc"}}
	}
	n := given.Among(first, last)
	if n == 0 {
		return nil
	}
	return []finding{{
		"ports", dubious,
		fmt.Sprintf("the kernel may give %d of the ports of applications (%d to %d) to connections of anybody: an application whose port is taken cannot start", n, first, last),
		fmt.Sprintf("set apps.port_first and apps.port_last below %d, or net.ipv4.ip_local_reserved_ports=%d-%d in /etc/sysctl.conf, and sysctl -p", given.First, first, last),
	}}
}

// checkNetwork puts a group of its own under the network policy.
func checkNetwork(h cgroup.Host, s settings.Settings) finding {
	fail := func(err error) finding {
		return unloaded(s, sandbox.Reach, "programs reach everything that the host reaches, and everybody who reaches the host can connect to their ports: ", err)
	}
	rules := s.NetworkRules()
	network, err := sandbox.NewNetwork(rules)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = network.Close() }() // nothing depends on it
	groups, err := cgroup.Open(h, fmt.Sprintf("doctor-%d", os.Getpid()))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = groups.Close() }() // it never had a group
	dir, err := os.Open(groups.Root())
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	if _, err := network.Enclose(dir, 0); err != nil {
		return fail(err)
	}
	text := "programs reach nothing of the host but its name servers"
	if n := len(rules.Allow); n > 0 {
		text += fmt.Sprintf(" and what %d rules of network.allow open", n)
	}
	return finding{"network", good, text + "; their ports are their own, by eBPF", ""}
}
