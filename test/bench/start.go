package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

var start = measure{
	name: "start", title: "20 programs started",
	method: `From the request or command until the last of 20 programs has stamped its first
	instruction. Warm: the daemon runs, the programs do not; berth gets one HTTP request
	(PUT /v2/app/all/start), PM2 "pm2 start" with a file of 20 programs, supervisord "supervisorctl
	start all"; the figures of the peers have the start of their command in them, which is the
	reference. Cold: neither runs; berth is started on its data and supervisord on its configuration,
	PM2 by the same command as warm. Five times each, in turns.`,
	run: measureStart,
}

func measureStart(ctx context.Context, b *bench) ([]row, error) {
	warm, cold := map[string]sample{}, map[string]sample{}
	err := b.withAll(ctx, plan{program: "idle", count: 20, restart: true}, func(all map[string]manager) error {
		for range 5 {
			for _, name := range managers {
				m := all[name]
				w, err := timeStart(ctx, m, m.startAll, m.stopAll)
				if err != nil {
					return err
				}
				c, err := timeStart(ctx, m, m.boot, m.down)
				if err != nil {
					return err
				}
				warm[name], cold[name] = append(warm[name], w), append(cold[name], c)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	bare, err := b.bareCommands(ctx)
	if err != nil {
		return nil, err
	}
	rows := []row{
		{what: "20 programs started, warm", aim: below(warm["berth"].median(), 300, "ms"), reference: bare},
		{what: "20 programs started, cold"},
	}
	for _, name := range managers {
		rows[0].set(name, warm[name].in("ms"))
		rows[1].set(name, cold[name].in("ms"))
	}
	return rows, nil
}

// timeStart ends the programs, lets them be started and returns after how many
// milliseconds the last one ran.
func timeStart(ctx context.Context, m manager, up, down func(context.Context) error) (float64, error) {
	if err := down(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := up(ctx); err != nil {
		return 0, err
	}
	last, err := m.programs().started(ctx, began)
	return milliseconds(last.Sub(began)), err
}

// bareCommands tells how long the commands of the peers take for nothing.
func (b *bench) bareCommands(ctx context.Context) (string, error) {
	times := map[string]sample{}
	for range 5 {
		for _, args := range [][]string{{"pm2", "--version"}, {"supervisorctl", "--help"}} {
			began := time.Now()
			if _, err := command(ctx, b.dir, nil, args...); err != nil {
				return "", err
			}
			times[args[0]] = append(times[args[0]], milliseconds(time.Since(began)))
		}
	}
	return "the command alone: pm2 " + digits(times["pm2"].median()) + " ms, supervisorctl " +
		digits(times["supervisorctl"].median()) + " ms", nil
}

var restart = measure{
	name: "restart", title: "Killed to restarted",
	method: `Ten programs of each manager, in turns, get SIGKILL after they ran for more than two
	seconds, each for the first time; the time until their successor has stamped its first instruction. All managers
	are told to restart at once. The reference is the same program started by the measuring program
	itself, as often; what is ours is the difference between the medians. Then ten more programs of
	berth are killed, while the kernel notes what happens (tracefs, where it is mounted): the rows
	"after the death" are when each step was done.`,
	run: measureRestart,
}

func measureRestart(ctx context.Context, b *bench) ([]row, error) {
	times := map[string]sample{}
	var direct sample
	err := b.withAll(ctx, plan{program: "idle", count: 10, restart: true}, func(all map[string]manager) error {
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
		for i := range 10 {
			for _, name := range managers {
				t, err := timeRestart(ctx, all[name].programs(), i)
				if err != nil {
					return err
				}
				times[name] = append(times[name], t)
			}
			t, err := b.startDirectly(ctx)
			if err != nil {
				return err
			}
			direct = append(direct, t)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ours := times["berth"].median() - direct.median()
	total := row{what: "killed to restarted", aim: below(times["berth"].median(), 150, "ms"), reference: "started directly: " + direct.in("ms")}
	for _, name := range managers {
		total.set(name, times[name].in("ms"))
	}
	steps, err := b.timeSteps(ctx)
	return append([]row{total, {what: "of it ours", berth: sample{ours}.in("ms"), aim: below(ours, 10, "ms")}}, steps...), err
}

// timeRestart kills a program and returns after how many milliseconds it ran
// again.
func timeRestart(ctx context.Context, f *fleet, i int) (float64, error) {
	pid, err := f.processOf(ctx, i)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0, err
	}
	e, err := stamped(ctx, f.dirs[i], "start", began)
	return milliseconds(e.at.Sub(began)), err
}

// startDirectly returns how many milliseconds the program takes from fork to
// its first instruction.
func (b *bench) startDirectly(ctx context.Context) (ms float64, err error) {
	err = b.within(func(dir string) error {
		if err := b.install(dir, "idle"); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "idle"))
		cmd.Dir = dir
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return err
		}
		e, err := stamped(ctx, dir, "start", began)
		_ = errors.Join(cmd.Process.Kill(), cmd.Wait()) // the kill is its end
		ms = milliseconds(e.at.Sub(began))
		return err
	})
	return ms, err
}
