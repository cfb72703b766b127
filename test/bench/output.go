package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

var output = measure{
	name: "output", title: "200 MB of output",
	method: `A program prints 2,000,000 numbered lines of 100 bytes with printf and a buffer of 64 KB,
	and stamps when it begins and ends. berth stamps each line and begins a new file every 5 MB; it runs
	once with its rate (1 MB a second, beyond which lines are dropped and counted) and once without;
	so that all can be added up, it keeps all files. PM2 and supervisord have the settings they come with. The
	reference is the same program with a file as its standard output. Processor time and memory are the
	daemon's, from before the program begins until the daemon has been idle for a second; memory is the
	greatest (VmHWM) in that time. Then the lines kept and the lines counted as dropped are added up.
	Everything is synced before each. Five times each, in turns; the ratios are of neighbours.`,
	run: measureOutput,
}

// produced is how many lines the program prints.
const produced = 2_000_000

// outflow is what one program's output cost.
type outflow struct {
	took, cpu     sample // s
	peak          sample // MB
	kept, dropped sample // lines
}

// recorders are who takes the output, in the order of their turns.
var recorders = []struct {
	name, manager string
	flags         []string
}{
	{"berth, rate-limited", "berth", []string{"--logs-keep", "1000"}},
	{"berth, no rate", "berth", []string{"--logs-rate", "1048576", "--logs-keep", "1000"}},
	{"PM2", "PM2", nil},
	{"supervisord", "supervisord", nil},
}

func measureOutput(ctx context.Context, b *bench) ([]row, error) {
	flows := map[string]*outflow{}
	var direct sample
	for range 5 {
		d, err := b.printDirectly(ctx)
		if err != nil {
			return nil, err
		}
		direct = append(direct, d)
		for _, r := range recorders {
			if flows[r.name] == nil {
				flows[r.name] = &outflow{}
			}
			err := b.with(ctx, r.manager, plan{program: "print", count: 1, flags: r.flags}, func(m manager) error {
				return flows[r.name].add(ctx, m.programs())
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	var rows []row
	for _, name := range []string{"berth, rate-limited", "berth, no rate"} {
		rows = append(rows, outputRows(name, flows, direct)...)
	}
	return rows, nil
}

// outputRows are the rows of one way to run berth; the peers stand in both.
func outputRows(name string, flows map[string]*outflow, direct sample) []row {
	own, pm2, sup := flows[name], flows["PM2"], flows["supervisord"]
	ratio := ratios(own.took, direct).median()
	what := "200 MB of output, " + name[len("berth, "):] + ": "
	times := func(f *outflow) string { return digits(ratios(f.took, direct).median()) + " times; " + f.took.in("s") }
	return []row{
		{
			what + "the program's time", times(own), below(ratio, 1.5, "times"),
			times(pm2), times(sup), "to a file itself: " + direct.in("s"),
		},
		{what + "the daemon's CPU", own.cpu.in("s"), below(own.cpu.median(), 0.5, "s"), pm2.cpu.in("s"), sup.cpu.in("s"), ""},
		{what + "the daemon's peak", own.peak.in("MB"), below(own.peak.median(), 25, "MB"), pm2.peak.in("MB"), sup.peak.in("MB"), ""},
		{what + "lines", own.lines(), verdict(own.missing() == 0, "all kept or counted"), pm2.lines(), sup.lines(), strconv.Itoa(produced) + " printed"},
	}
}

// lines tells what became of the lines.
func (o *outflow) lines() string {
	return fmt.Sprintf("%.0f kept, %.0f dropped and counted, %.0f missing", o.kept.median(), o.dropped.median(), o.missing())
}

// missing is how far the worst run was from all lines being kept or counted.
func (o *outflow) missing() float64 {
	worst := 0.0
	for i := range o.kept {
		worst = max(worst, math.Abs(produced-o.kept[i]-o.dropped[i]))
	}
	return worst
}

// add lets the one program of a fleet print, and adds what that cost.
func (o *outflow) add(ctx context.Context, f *fleet) error {
	// supervisord takes a program that ends within a second for one that failed.
	if err := pause(ctx, 1500*time.Millisecond); err != nil {
		return err
	}
	before, err := cpuTime(f.pid)
	if err := errors.Join(err, resetPeak(f.pid)); err != nil {
		return err
	}
	took, err := pass(ctx, f.dirs[0])
	if err != nil {
		return err
	}
	after, err := restingCPU(ctx, f.pid)
	if err != nil {
		return err
	}
	mb, err := peak(f.pid)
	if err != nil {
		return err
	}
	kept, dropped, err := settledLog(ctx, f.printed)
	o.took, o.cpu, o.peak = append(o.took, took.Seconds()), append(o.cpu, (after-before).Seconds()), append(o.peak, mb)
	o.kept, o.dropped = append(o.kept, float64(kept)), append(o.dropped, float64(dropped))
	return err
}

// restingCPU waits until a process has used no processor time for a second,
// or hardly any for half a minute, and returns what it used in all.
func restingCPU(ctx context.Context, pid int) (time.Duration, error) {
	used, since, began := time.Duration(-1), time.Now(), time.Now()
	for time.Since(since) < time.Second && time.Since(began) < 30*time.Second {
		now, err := cpuTime(pid)
		if err != nil {
			return 0, err
		}
		if now-used > tick || used < 0 {
			used, since = now, time.Now()
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return cpuTime(pid)
}

// printDirectly returns how many seconds the program takes for a file.
func (b *bench) printDirectly(ctx context.Context) (seconds float64, err error) {
	err = b.within(func(dir string) error {
		out, err := os.Create(filepath.Join(dir, "out"))
		if err != nil {
			return err
		}
		defer out.Close()
		seconds, err = b.direct(ctx, dir, "print", out)
		return err
	})
	return seconds, err
}

// direct runs a program without a manager and returns the seconds it took for
// what it does. Then it is killed, if need be.
func (b *bench) direct(ctx context.Context, dir, program string, out *os.File) (float64, error) {
	if err := b.install(dir, program); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, program))
	cmd.Dir, cmd.Stdout = dir, out
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }()
	if _, err := stamped(ctx, dir, "start", time.Time{}); err != nil {
		return 0, err
	}
	took, err := pass(ctx, dir)
	return took.Seconds(), err
}

var droppedLines = regexp.MustCompile(`^\S+ \[berth\] (\d+) lines? (?:\(.*\) dropped|lost):`)

// settledLog counts a log, again for some seconds while lines are missing: a
// daemon at rest may be waiting for the disk.
func settledLog(ctx context.Context, pattern string) (kept, dropped int, err error) {
	for end := time.Now().Add(5 * time.Second); ; {
		kept, dropped, err = countLog(pattern)
		if err != nil || kept+dropped >= produced || time.Now().After(end) {
			return kept, dropped, err
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return kept, dropped, err
		}
	}
}

// countLog counts the program's lines in the files of a pattern, and those that
// the log says were dropped.
func countLog(pattern string) (kept, dropped int, err error) {
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is no log %s", filepath.Base(pattern))
	}
	for _, file := range files {
		k, d, failed := countFile(file)
		kept, dropped, err = kept+k, dropped+d, errors.Join(err, failed)
	}
	return kept, dropped, err
}

func countFile(name string) (kept, dropped int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) >= 99 && line[len(line)-1] == 'x' {
			kept++
		} else if m := droppedLines.FindSubmatch(line); m != nil {
			n, failed := strconv.Atoi(string(m[1]))
			dropped, err = dropped+n, errors.Join(err, failed)
		}
	}
	return kept, dropped, errors.Join(err, lines.Err())
}
