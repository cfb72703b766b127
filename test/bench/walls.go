package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"berth/cgroup"
	"berth/proc"
	"berth/proc/sandbox"
)

var walls = measure{
	name: "walls", title: "Cost of a start behind walls",
	method: `/bin/true is started 100 times each without berth, by fork and exec, and by berth's own
	launcher in a control group of its own behind more and more walls, in turns; the time is until the
	program is executed. The ratio is to the bare start. Each of the others begins with the helper,
	which then becomes the program.`,
	run: measureWalls,
}

// stage is a start behind some walls.
type stage struct {
	name    string
	layers  []sandbox.Layer
	network *sandbox.Network
}

func measureWalls(ctx context.Context, b *bench) (rows []row, err error) {
	host, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	tree, err := cgroup.Open(host, fmt.Sprintf("bench-%d", os.Getpid()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	launcher := &proc.Launcher{Tree: tree, Log: slog.New(slog.DiscardHandler)}
	verdicts, err := launcher.Try(ctx, proc.TryPatience)
	if err != nil {
		return nil, err
	}
	given := sandbox.Available(verdicts)
	stages := []stage{{name: "its user and limits"}}
	for i, l := range given {
		if l != sandbox.Proc && i+1 < len(given) && given[i+1] == sandbox.Proc {
			continue // one view
		}
		stages = append(stages, stage{strings.Replace("with "+string(l), "proc", "mounts and proc", 1), given[:i+1], nil})
	}
	if network, refused := sandbox.NewNetwork(sandbox.Rules{}); refused == nil {
		defer func() { err = errors.Join(err, network.Close()) }()
		stages = append(stages, stage{"with " + string(sandbox.Reach), given, network})
	}
	times := map[string]sample{}
	for i := range 100 {
		bare, err := startBare(ctx)
		if err != nil {
			return nil, err
		}
		times[""] = append(times[""], bare)
		for j, s := range stages {
			launcher.Walls.Layers, launcher.Network = s.layers, s.network
			took, err := startWalled(launcher, fmt.Sprintf("apps/bench/%d-%d", i, j))
			if err != nil {
				return nil, err
			}
			times[s.name] = append(times[s.name], took)
		}
	}
	for _, s := range stages {
		t := times[s.name]
		rows = append(rows, row{
			what: "start " + s.name, berth: fmt.Sprintf("%s times; %s ms", digits(t.median()/times[""].median()), digits(t.median())),
			reference: "bare: " + digits(times[""].median()) + " ms",
		})
	}
	return rows, nil
}

// startBare returns how many milliseconds fork and exec take.
func startBare(ctx context.Context) (float64, error) {
	cmd := exec.CommandContext(ctx, "/bin/true")
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return milliseconds(took), cmd.Wait()
}

// startWalled returns how many milliseconds it takes until the program is
// executed behind the launcher's walls.
func startWalled(l *proc.Launcher, group string) (float64, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	began := time.Now()
	run, err := l.Launch(proc.Spec{
		Group: group, Argv: []string{"/bin/true"}, Dir: "/", Name: "bench", UID: 65534, MemoryMB: 64, Pids: 64, OOMGroup: true, Output: null,
	})
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	if e := run.Wait(); e.Code != 0 {
		return 0, fmt.Errorf("/bin/true ended with code %d", e.Code)
	}
	return milliseconds(took), nil
}
