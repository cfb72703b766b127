package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/proc"
	"berth/sandbox"
)

// openWalls finds out which walls programs can have. From here on they have
// all of these or do not start.
func (d *daemon) openWalls(context.Context) error {
	d.walls = proc.Walls{Data: d.settings.DataDir, Paths: shownPaths(d.settings)}
	launcher := proc.Launcher{Tree: d.groups, Log: d.log, Walls: d.walls}
	verdicts := launcher.Try()
	if err := demand(append(verdicts, sandbox.Verdict{Layer: sandbox.Reach, Err: d.unnetworked}), required(d.settings)); err != nil {
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

// required are the layers that the owner requires.
func required(s Settings) []sandbox.Layer {
	list, _ := parseLayers(s.Sandbox.Require) // was checked when it was read
	return list
}

// shownPaths are what the owner lets programs see.
func shownPaths(s Settings) []string {
	list, _ := parsePaths(s.Sandbox.Paths) // was checked when it was read
	return list
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
	return &problem{
		exitConfig,
		fmt.Errorf("cannot serve: sandbox.require names walls that this host does not give: %s", strings.Join(refused, "; ")),
		"Hint: berth doctor tells what each of them needs; or take them out of sandbox.require.",
	}
}
