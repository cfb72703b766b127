package daemon

import (
	"slices"

	"berth/app"
	"berth/files/depot"
	"berth/host"
	"berth/host/runtimes"
	"berth/proc"
	"berth/proc/sandbox"
)

// engine is what runs programs, and where. The host asks nothing else of it.
type engine struct {
	launch   host.Launch
	adopt    host.Adopt
	shell    host.Shell
	limitCPU func(id app.ID, percent int) error // host.Config.LimitCPU
	tools    runtimes.Tools                     // that programs find
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
		ram: func() app.MB { return ram },
	}
}

// capacity is the RAM that programs may have together now.
func (d *daemon) capacity() app.MB {
	return app.Capacity(d.engine.ram(), d.settings.Host.Reserve, d.settings.Host.Overcommit)
}
