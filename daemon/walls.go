package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/daemon/settings"
	"berth/host"
	"berth/proc"
	"berth/proc/sandbox"
)

// openNetwork loads the network policy. Where the kernel lets nobody, programs
// have the host's network, and PORT.
func (d *daemon) openNetwork(ctx context.Context) error {
	told := func(err error) { d.log.Warn("cannot load the network policy yet, trying again", "error", err) }
	err := sandbox.Insist(ctx, proc.TryPatience, told, func() (err error) {
		d.network, err = sandbox.NewNetwork(d.settings.NetworkRules())
		return err
	})
	if _, missing := errors.AsType[*sandbox.Missing](err); missing {
		d.unnetworked = err
		d.log.Warn("programs reach everything that the host reaches, and their ports are open to all: only PORT is theirs", "error", err)
		return nil
	}
	if err != nil {
		return untried(err)
	}
	network := d.network
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.keepNetwork(ctx)
	}()
	d.undo = append(d.undo, network.Close, func() error { stop(); <-done; return nil })
	return nil
}

// openSockets counts the programs' sockets, where the kernel lets somebody, and
// goes on with what those of an earlier daemon hold.
func (d *daemon) openSockets(ctx context.Context) error {
	bounds := SocketBounds(d.log)
	var earlier []string
	for _, v := range d.survivors.all {
		earlier = append(earlier, filepath.Join(d.groups.Root(), v.Group))
	}
	told := func(err error) { d.log.Warn("cannot count the programs' sockets yet, trying again", "error", err) }
	err := sandbox.Insist(ctx, proc.TryPatience, told, func() (err error) {
		d.sockets, err = sandbox.NewSockets(bounds, earlier...)
		return err
	})
	if _, missing := errors.AsType[*sandbox.Missing](err); missing {
		d.uncounted = err
		d.log.Warn("a program can take every port that this host gives to connections", "error", err)
		return nil
	}
	if err != nil {
		return untried(err)
	}
	d.undo = append(d.undo, d.sockets.Close)
	return nil
}

// SocketBounds is how many sockets programs may have on this host.
func SocketBounds(log *slog.Logger) sandbox.SocketBounds {
	ports, err := proc.FindConnectionPorts()
	if err != nil {
		ports = proc.ConnectionPorts{First: 32768, Last: 60999}
		log.Warn("cannot read which ports this host gives to connections, and takes the usual range", "error", err)
	}
	program, account, all := host.SocketBounds(ports.Len())
	return sandbox.SocketBounds{Program: int32(program), Account: int32(account), All: int32(all)}
}

// refreshEvery is how often the host's addresses and name servers are looked at
// for programs that run already.
const refreshEvery = 5 * time.Minute

func (d *daemon) keepNetwork(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := d.network.Refresh(); err != nil {
				d.log.Error("cannot keep the network policy true", "error", err)
			}
		}
	}
}

// openWalls finds out which walls programs can have. From here on they have
// all of these or do not start.
func (d *daemon) openWalls(ctx context.Context) error {
	if err := d.enoughFiles(); err != nil {
		return err
	}
	given, err := proc.FindConnectionPorts()
	if n := given.Among(d.settings.Apps.PortFirst, d.settings.Apps.PortLast); err == nil && n > 0 {
		d.log.Warn("the kernel may give ports of applications to connections; doctor tells what to do", "ports", n)
	}
	d.walls = proc.Walls{Data: d.settings.DataDir, Paths: d.settings.ShownPaths()}
	launcher := proc.Launcher{Tree: d.groups, Log: d.log, Walls: d.walls}
	verdicts, err := launcher.Try(ctx, proc.TryPatience)
	if err != nil {
		return untried(err)
	}
	all := append(slices.Clone(verdicts),
		sandbox.Verdict{Layer: sandbox.Reach, Err: d.unnetworked},
		sandbox.Verdict{Layer: sandbox.Counted, Err: d.uncounted})
	if err := demand(all, d.settings.RequiredLayers()); err != nil {
		return err
	}
	had, err := RememberedWalls(d.settings.DataDir)
	if err != nil {
		return err
	}
	if err := refuseFewer(LostWalls(all, had, d.settings.SparedLayers())); err != nil {
		return err
	}
	for _, v := range verdicts {
		if v.Err != nil {
			d.log.Warn("programs run without a wall; doctor tells what to do", "wall", v.Layer, "error", v.Err)
		}
	}
	d.walls.Layers = sandbox.Available(verdicts)
	if err := rememberWalls(d.settings.DataDir, had, all); err != nil {
		d.log.Warn("cannot remember the walls that programs have: a start without them will not be refused", "error", err)
	}
	return nil
}

// enoughFiles warns of a limit that the daemon meets before programs meet the one
// they are promised, and raises it. Where that cannot be done no program could start.
func (d *daemon) enoughFiles() error {
	most, err := proc.MostFiles()
	if err != nil || most >= proc.OpenFiles {
		return err
	}
	d.log.Warn("berth may open fewer files than each program is promised; doctor tells what to do", "limit", most, "promised", proc.OpenFiles)
	if err := proc.RaiseFiles(); err != nil {
		return settings.NewProblem(settings.ExitConfig,
			fmt.Errorf("cannot serve: each program is promised %d open files, and berth may have %d: %w", proc.OpenFiles, most, err),
			"Hint: set LimitNOFILE=524288 in berth's unit (systemctl edit berth), or ulimit -Hn 524288 where you start it.")
	}
	return nil
}

// untried is the end of a start that could not find out about the walls. It is no
// reason to run programs without them.
func untried(err error) error {
	return settings.NewProblem(settings.ExitFailure, fmt.Errorf("cannot serve: %w", err),
		"Hint: programs that run go on; look whether the service may have more processes (TasksMax), open files (LimitNOFILE) and memory. As a service berth tries again until it works.")
}

// demand refuses to serve without a layer that the owner requires: waiting does
// not mend it, so the unit is not to try again.
func demand(verdicts []sandbox.Verdict, layers []sandbox.Layer) error {
	var refused []string
	for _, v := range verdicts {
		if v.Err != nil && slices.Contains(layers, v.Layer) {
			refused = append(refused, fmt.Sprintf("%s (%v)", v.Layer, v.Err))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return settings.NewProblem(settings.ExitConfig,
		fmt.Errorf("cannot serve: sandbox.require names walls that this host does not give: %s", strings.Join(refused, "; ")),
		"Hint: berth doctor tells what each of them needs; or take them out of sandbox.require.")
}
