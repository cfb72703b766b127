package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/daemon/settings"
	"berth/proc"
	"berth/proc/sandbox"
)

// openNetwork loads the network policy. Where the kernel lets nobody, programs
// have the host's network, and PORT.
func (d *daemon) openNetwork() error {
	network, err := sandbox.NewNetwork(d.settings.NetworkRules())
	if err != nil {
		d.unnetworked = err
		d.log.Warn("programs reach everything that the host reaches, and their ports are open to all: only PORT is theirs", "error", err)
		return nil
	}
	d.network = network
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.keepNetwork(ctx)
	}()
	d.undo = append(d.undo, network.Close, func() error { stop(); <-done; return nil })
	return nil
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
func (d *daemon) openWalls(context.Context) error {
	d.walls = proc.Walls{Data: d.settings.DataDir, Paths: d.settings.ShownPaths()}
	launcher := proc.Launcher{Tree: d.groups, Log: d.log, Walls: d.walls}
	verdicts := launcher.Try()
	if err := demand(append(verdicts, sandbox.Verdict{Layer: sandbox.Reach, Err: d.unnetworked}), d.settings.RequiredLayers()); err != nil {
		return err
	}
	for _, v := range verdicts {
		if v.Err != nil {
			d.log.Warn("programs run without a wall; doctor tells what to do", "wall", v.Layer, "error", v.Err)
		}
	}
	d.walls.Layers = sandbox.Available(verdicts)
	return nil
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
