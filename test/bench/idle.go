package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

var idle = measure{
	name: "idle", title: "Idle daemons",
	method: `Daemons with 10, 20, 100, 200 and 1,000 programs that wait run at the same time, 65 s after
	the last program was started, when berth's timers of starts have passed. Processor time and
	voluntary context switches of all their threads are counted over the same 60 s; the clock of the
	processor time has steps of 10 ms. berth measures each program once a minute for its history, which
	is in each of these windows, and looks at the memory of each every 10 or 20 s where the kernel gives no
	signal that it fills (cgroup v2), at all in one moment; else it sleeps. A daemon that wakes up every ten seconds is switched to
	six times in 60 s, and each wake-up may go through several threads.`,
	run: measureIdle,
}

const (
	calm   = 65 * time.Second
	window = 60 * time.Second
)

// idler is a daemon that idles beside others.
type idler struct {
	manager string
	count   int
}

var idlers = []idler{{"berth", 10}, {"berth", 20}, {"berth", 100}, {"berth", 200}, {"berth", 1000}, {"PM2", 100}, {"supervisord", 100}}

func measureIdle(ctx context.Context, b *bench) (rows []row, err error) {
	var pids []int
	for _, i := range idlers {
		m, err := b.open(ctx, i.manager, plan{program: "idle", count: i.count, restart: true})
		if err != nil {
			return nil, fmt.Errorf("with %d programs: %w", i.count, err)
		}
		defer func() { err = errors.Join(err, shut(ctx, m)) }()
		pids = append(pids, m.programs().pid)
	}
	if err := pause(ctx, calm); err != nil {
		return nil, err
	}
	cpu, switches, err := watch(ctx, pids)
	if err != nil {
		return nil, err
	}
	return idleRows(cpu, switches), nil
}

// watch returns the processor time in milliseconds and the context switches
// of processes in the window.
func watch(ctx context.Context, pids []int) (cpu, switches []float64, err error) {
	read := func() error {
		for i, pid := range pids {
			used, err := cpuTime(pid)
			n, err2 := wakeups(pid)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			cpu[i], switches[i] = milliseconds(used)-cpu[i], n-switches[i]
		}
		return nil
	}
	cpu, switches = make([]float64, len(pids)), make([]float64, len(pids))
	if err := read(); err != nil {
		return nil, nil, err
	}
	if err := pause(ctx, window); err != nil {
		return nil, nil, err
	}
	return cpu, switches, read()
}

// idleRows has a row for each number of programs.
func idleRows(cpu, switches []float64) []row {
	var rows []row
	at := map[int]int{} // the row of a number of programs
	least, most := math.Inf(1), 0.0
	for i, x := range idlers {
		k, ok := at[x.count]
		if !ok {
			k = len(rows)
			at[x.count] = k
			rows = append(rows, row{what: fmt.Sprintf("idle for 60 s with %d programs", x.count)})
		}
		rows[k].set(x.manager, fmt.Sprintf("%s ms CPU, %.0f switches", digits(cpu[i]), switches[i]))
		if x.manager == "berth" {
			least, most = min(least, cpu[i]), max(most, cpu[i])
		}
	}
	// One look at each program a minute, and two steps of the clock.
	rows[at[200]].aim = below(cpu[slices.Index(idlers, idler{"berth", 200})], 0.005*milliseconds(window), "ms CPU")
	rows[at[1000]].aim = verdict(most-least <= 150+milliseconds(2*tick), "150 ms more than with 10")
	return rows
}
