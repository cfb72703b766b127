package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"berth/app"
	"berth/app/exit"
	"berth/daemon/cluster"
	"berth/daemon/settings"
	"berth/files/depot"
	"berth/host"
	"berth/host/runtimes"
	"berth/kube"
	"berth/proc"
	"berth/proc/sandbox"
)

// engine is what runs programs, and where. The host asks nothing else of it.
type engine struct {
	// typing is host.Config.Type.
	typing   func(ctx context.Context, id app.ID, run int, line string) error
	launch   host.Launch
	adopt    host.Adopt
	shell    host.Shell
	limitCPU func(id app.ID, percent int) error // host.Config.LimitCPU
	stale    func(id app.ID) app.Text           // host.Config.Stale
	tools    runtimes.Tools                     // that programs find
	memory   host.Memory                        // host.Config.Memory
	booted   func(ctx context.Context)          // ends what was not adopted
	ram      func() app.MB                      // that there is in all, for programs and the reserve; it does not block
}

// machine is the engine of this machine, which has so much RAM.
func (d *daemon) machine(ram app.MB) engine {
	s := d.settings
	commands := proc.FindTools()
	if slices.Contains(d.proc.Walls.Layers, sandbox.Mounts) {
		commands.Only(d.proc.Walls.Paths)
	}
	tools := planTools{commands, depot.Of(s.DataDir)}
	start := &launcher{
		adopts: d.survivors.release,
		path:   tools.Path(), trees: d.data.trees, logs: d.data.logs,
		proc: d.proc,
		pids: int64(s.Apps.PidsMax), cpu: int64(s.Apps.CPUMax), oomGroup: s.Apps.OOMGroup,
	}
	if !d.data.trees.Quota().Enforced() { // a quota says EDQUOT, this kills
		start.fileSize = s.Apps.Disk.Bytes()
	}
	return engine{
		launch: start.launch, adopt: start.adopt, shell: start.shell, limitCPU: start.limitCPU, tools: tools,
		typing: func(_ context.Context, id app.ID, run int, line string) error { return d.data.logs.Type(id, run, line) },
		memory: openMemory(d.groups, &d.undo), ram: func() app.MB { return ram },
		booted: func(context.Context) {
			d.survivors.endUntaken(0, "ended the program of an application that cannot run")
		},
	}
}

// openEngine is the engine that the settings name; this machine has so much RAM. Programs of the other engine end here, once
// this one is known to answer: no program may run on both.
func (d *daemon) openEngine(ctx context.Context, ram app.MB) (engine, error) {
	last, err := d.data.db.Cluster(ctx)
	if err != nil {
		return engine{}, err
	}
	s := d.settings
	onCluster := s.Engine == settings.Kubernetes
	if last != "" && s.Kubernetes.Server != last {
		return engine{}, exit.NewProblem(exit.Config, fmt.Errorf("cannot start: programs of this host may still run on the cluster at %s, which kubernetes.server does not name", last),
			"Hint: set kubernetes.server to it. If it is no more, or has another address now, berth engine forget makes berth forget it.")
	}
	if !onCluster {
		if last != "" {
			if err := d.leaveCluster(ctx); err != nil {
				return engine{}, err
			}
		}
		return d.machine(ram), nil
	}
	e, err := d.cluster(ctx)
	if err != nil {
		return engine{}, err
	}
	d.survivors.endUntaken(s.Apps.StopTimeout, "ended the program on this machine; it starts on the cluster")
	if last == "" {
		err = d.data.db.SetCluster(ctx, s.Kubernetes.Server)
	}
	return e, err
}

// leaveCluster ends what runs on the cluster of the settings, and forgets that one.
func (d *daemon) leaveCluster(ctx context.Context) error {
	name, err := d.data.db.GroupName(ctx)
	if err != nil {
		return err
	}
	var ended []app.ID
	client, config, err := OpenCluster(d.settings, name)
	if err == nil {
		defer client.Close()
		ended, err = cluster.End(ctx, client, config)
	}
	for _, id := range ended {
		d.log.Warn("ended the program on the cluster; it starts on this machine", "app", id)
		d.data.logs.Note(id, "its program on the cluster was ended; what that printed last may be missing")
	}
	if err != nil {
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot start: programs of this host may still run on the cluster at %s: %w", d.settings.Kubernetes.Server, err),
			"Hint: berth starts once they have ended there. If that cluster is no more, berth engine forget makes berth forget it.")
	}
	return d.data.db.SetCluster(ctx, "")
}

// cluster is the engine of the Kubernetes cluster that the settings name.
func (d *daemon) cluster(ctx context.Context) (engine, error) {
	s, trees := d.settings, d.data.trees
	name, err := d.data.db.GroupName(ctx)
	if err != nil {
		return engine{}, err
	}
	client, config, err := OpenCluster(s, name)
	if err != nil {
		return engine{}, err
	}
	config.Env, config.BuildDir, config.Home, config.Logs, config.Log = environment, trees.BuildDir, trees.Dir, d.data.logs, d.log
	c, err := cluster.Open(ctx, client, config)
	if err != nil {
		return engine{}, err
	}
	d.undo.add(func() error { c.Close(); return nil })
	return engine{
		launch: func(ctx context.Context, p app.Program) (host.Instance, error) {
			if p.Code.Static() {
				return launchStatic(trees, p, c.Shell)
			}
			return c.Launch(ctx, p)
		},
		adopt: func(p app.Program) (*host.Survivor, error) { return d.adoptPod(c, p) },
		shell: c.Shell, limitCPU: c.LimitCPU, stale: c.Stale, typing: c.Type, tools: config.Images.Tools(), booted: c.EndOthers, ram: c.RAM,
	}, nil
}

// adoptPod is host.Adopt on a cluster.
func (d *daemon) adoptPod(c *cluster.Engine, p app.Program) (*host.Survivor, error) {
	good, err := d.data.db.History.Journals(context.Background(), p.App)
	if err != nil {
		return nil, err
	}
	pending := d.data.trees.Undone(p.App, good)
	undone := func(v cluster.Survivor) bool { return slices.Contains(pending, v.Journal) }
	v, ok := rightful(c.Survivors(p.App), func(v cluster.Survivor) int { return v.Run }, p.Run, undone)
	if !ok {
		return nil, nil
	}
	run, err := c.Adopt(v, p)
	if err != nil {
		return nil, err
	}
	return &host.Survivor{Instance: run, Run: v.Run, StartedAt: v.StartedAt, Port: v.Port}, nil
}

// capacity is the RAM that programs may have together now.
func (d *daemon) capacity() app.MB {
	return app.Capacity(d.engine.ram(), d.settings.Host.Reserve, d.settings.Host.Overcommit)
}

// OpenCluster is the cluster that the settings name, for the berth that is called so there (db.GroupName).
func OpenCluster(s settings.Settings, host string) (*kube.Client, cluster.Config, error) {
	k := s.Kubernetes
	images, err := cluster.ParseImages(s.KubernetesImages())
	if err != nil {
		return nil, cluster.Config{}, err
	}
	client, err := kube.New(kube.Config{Server: k.Server, CAFile: k.CAFile, TokenFile: k.TokenFile, Namespace: k.Namespace})
	return client, cluster.Config{
		Host: host, Server: k.Server, Doors: doors(s), Trusted: k.Trusted, DataDir: s.DataDir, Claim: k.Claim,
		Images:       images,
		NodeSelector: s.Selector(), RuntimeClass: k.RuntimeClass, Grace: s.Apps.StopTimeout, CPU: s.Apps.CPUMax,
	}, err
}

// ExamineCluster tries the cluster that the settings name (cluster.Examine), nothing where programs run on this machine.
func ExamineCluster(ctx context.Context, s settings.Settings) []app.Finding {
	if s.Engine != settings.Kubernetes {
		return nil
	}
	client, config, err := OpenCluster(s, "")
	if err != nil {
		return []app.Finding{{Name: "cluster", Verdict: app.Bad, Text: err.Error(), Fix: "look at the settings of the section kubernetes"}}
	}
	return cluster.Examine(ctx, client, config)
}

// doors are the addresses at which programs on a cluster must not reach this machine.
func doors(s settings.Settings) cluster.Doors {
	doors := cluster.Doors{Closed: s.ClosedDoors()}
	if _, text, err := net.SplitHostPort(s.Listen); err == nil {
		if port, err := strconv.Atoi(text); err == nil && port > 0 { // any port is none that is known
			doors.Ports = append(doors.Ports, port)
		}
	}
	addresses, _ := net.InterfaceAddrs() // none: those of the cluster's machines are tried all the same
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && !prefix.Addr().IsLoopback() && !prefix.Addr().IsLinkLocalUnicast() {
			doors.Addresses = append(doors.Addresses, prefix.Addr())
		}
	}
	return doors
}
