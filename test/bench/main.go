// Command bench measures the built berth from outside: memory, starts,
// restarts, output, status, uploads, backups, packets, sites, idling and pages of the panel, beside
// PM2 and supervisord, or nginx and Caddy, where they can do the same. It prints a table and, after a
// whole run, writes it with the method as a page of the documentation. A
// missed aim is a result; only a measure that could not be made is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// measure is one thing that is measured.
type measure struct {
	name   string // for -only
	title  string
	method string // a paragraph for the page
	run    func(context.Context, *bench) ([]row, error)
}

// measures are all of them, in the order of the page.
var measures = []measure{memory, start, walls, restart, output, status, upload, deploy, socket, backup, packets, web, idle, watching, pages}

// bench is what the measures work with.
type bench struct {
	berth string // the binary
	dir   string // removed in the end
	probe string // the compiled program
	next  atomic.Int64
}

func main() {
	switch filepath.Base(os.Args[0]) {
	case siteName:
		serveSite()
		return
	case aloneName:
		serveAlone()
		return
	}
	berth := flag.String("berth", "./berth", "`BINARY` to measure")
	only := flag.String("only", "", "measures to make, separated by commas; empty: all ("+strings.Join(names(), ", ")+")")
	page := flag.String("page", "", "`FILE` to write after a whole run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *berth, *only, *page); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func names() []string {
	var all []string
	for _, m := range measures {
		all = append(all, m.name)
	}
	return all
}

// choose returns the measures with these names, all for "".
func choose(only string) ([]measure, error) {
	if only == "" {
		return measures, nil
	}
	var chosen []measure
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(measures, func(m measure) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no measure %q; there are: %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, measures[i])
	}
	return chosen, nil
}

func run(ctx context.Context, berth, only, page string) (err error) {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if os.Getuid() != 0 {
		return errors.New("berth gives every application a user and a control group: run it as root")
	}
	b, err := prepare(ctx, berth)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.clear(ctx)) }()
	m, err := examine(ctx, berth)
	if err != nil {
		return err
	}
	var failed []error
	var rows []row
	for _, measure := range chosen {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		began := time.Now()
		fmt.Fprintf(os.Stderr, "%s ...", measure.title)
		made, err := measure.run(ctx, b)
		fmt.Fprintf(os.Stderr, " %s\n", time.Since(began).Round(time.Second))
		if err != nil {
			failed = append(failed, fmt.Errorf("cannot measure %s: %w", measure.name, err))
		}
		rows = append(rows, made...)
	}
	fmt.Print(table(rows))
	if only == "" && page != "" && len(failed) == 0 {
		failed = append(failed, os.WriteFile(page, []byte(document(m, chosen, rows)), 0o644))
	}
	return errors.Join(failed...)
}

// prepare makes the directory of a run, which programs can enter, and the
// program that is measured.
func prepare(ctx context.Context, berth string) (_ *bench, err error) {
	for _, tool := range []string{"gcc", "zip", "unzip", "pm2", "supervisord", "supervisorctl", "nginx", "caddy", "wrk"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is missing; make bench brings it", tool)
		}
	}
	b := &bench{}
	if b.berth, err = filepath.Abs(berth); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "berth-bench."); err != nil {
		return nil, err
	}
	b.probe = filepath.Join(b.dir, "probe")
	if err := errors.Join(os.Chmod(b.dir, 0o711), isolate(b.dir), compile(ctx, b.probe)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.dir))
	}
	return b, nil
}

// isolate keeps settings of this user from what is measured, and PM2 from the
// user's home.
func isolate(dir string) error {
	var errs []error
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "BERTH_") || strings.HasPrefix(name, "PM2_") {
			errs = append(errs, os.Unsetenv(name))
		}
	}
	return errors.Join(append(errs, os.Setenv("BERTH_CONFIG", os.DevNull), os.Setenv("BERTH_RUNTIME_DIR", filepath.Join(dir, "run")), os.Setenv("PM2_HOME", filepath.Join(dir, "pm2")))...)
}

// clear removes what a run has made; it fails when a process is left, and ends
// it. Every command of PM2 starts its daemon, also those that need none.
func (b *bench) clear(ctx context.Context) error {
	bare := pm2{fleet{dir: os.Getenv("PM2_HOME")}}
	errs := []error{shut(ctx, &bare)}
	for _, pid := range inside(b.dir) {
		errs = append(errs, fmt.Errorf("process %d was left and is killed", pid), syscall.Kill(pid, syscall.SIGKILL))
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// fresh makes a new directory for what.
func (b *bench) fresh(what string) (string, error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("%s-%d", what, b.next.Add(1)))
	return dir, os.Mkdir(dir, 0o711)
}

// within runs f with a new directory, which is removed then.
func (b *bench) within(f func(dir string) error) error {
	dir, err := b.fresh("work")
	if err != nil {
		return err
	}
	return errors.Join(f(dir), os.RemoveAll(dir))
}
