// Command heaps measures what runtimes do with the RAM that a program was given: six ways to use
// memory, in each language that the machine has, at four sizes of RAM, in control groups of berth's,
// with what berth tells the runtime of its RAM and without. It prints a table, and writes it into a
// page of the documentation. -ram and -work choose some of it, for an emulated guest; -mark names the
// table of the page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	rams  []int // in MB
	works = []string{"bot", "web", "cache", "garbage", "buffers", "leak"}
)

// one is one run of one program.
type one struct {
	runtime *runtime
	work    string
	ram     int
	told    bool // of its RAM
	result
}

// result is how a run ended.
type result struct {
	end        string // "lived", "killed" or "ended itself"
	code       int
	peak       int64 // bytes
	operations int64
	last       string // line of its output
}

func main() {
	page := flag.String("page", "", "`FILE` to write the table into")
	only := flag.String("only", "", "`RUNTIMES` to measure, separated by commas; empty: all")
	ram := flag.String("ram", "64,100,256,512", "`SIZES` in MB, separated by commas")
	work := flag.String("work", strings.Join(works, ","), "`PROGRAMS`, separated by commas")
	mark := flag.String("mark", "make heaps", "what `MEASURED` the table, as the page has it")
	seconds := flag.Int("seconds", 4, "`N` that each program runs")
	beside := flag.Int("beside", 2, "programs (`N`) at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	works, rams = strings.Split(*work, ","), nil
	for size := range strings.SplitSeq(*ram, ",") {
		mb, err := strconv.Atoi(size)
		if err != nil {
			fmt.Fprintln(os.Stderr, "heaps: -ram:", err)
			os.Exit(2)
		}
		rams = append(rams, mb)
	}
	if err := measure(ctx, *page, *mark, *only, *seconds, *beside); err != nil {
		fmt.Fprintln(os.Stderr, "heaps:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, page, mark, only string, seconds, beside int) (err error) {
	dir, err := os.MkdirTemp("/tmp", "berth-heaps.")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // programs of another user are in it
		return err
	}
	known, err := prepare(ctx, dir, only)
	if err != nil {
		return err
	}
	s, err := newStage(ctx, seconds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var all []*one
	for _, r := range known {
		for _, work := range works {
			for _, ram := range rams {
				if !r.lacks(work) {
					all = append(all, &one{runtime: r, work: work, ram: ram}, &one{runtime: r, work: work, ram: ram, told: true})
				}
			}
		}
	}
	if err := s.runAll(ctx, all, beside); err != nil {
		return err
	}
	text := tableOf(known, all)
	fmt.Print(text)
	if page == "" {
		return nil
	}
	return write(page, mark, text)
}

// runAll makes the runs, some at a time.
func (s *stage) runAll(ctx context.Context, all []*one, beside int) error {
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		failed  error
	)
	queue := make(chan *one)
	for range beside {
		workers.Go(func() {
			for o := range queue {
				got, err := s.run(ctx, o)
				mu.Lock()
				o.result, failed = got, errors.Join(failed, err)
				mu.Unlock()
				fmt.Fprintf(os.Stderr, "%s %s %d told=%v: %s %d, %.0f MB, %d operations; %s\n",
					o.runtime.title, o.work, o.ram, o.told, got.end, got.code, float64(got.peak)/(1<<20), got.operations, got.last)
			}
		})
	}
	for _, o := range all {
		if ctx.Err() == nil {
			queue <- o
		}
	}
	close(queue)
	workers.Wait()
	return errors.Join(failed, ctx.Err())
}

// write puts a table between the marks of a page.
func write(page, mark, text string) error {
	begin, end := "<!-- measured by "+mark+" -->\n", "<!-- end of what "+mark+" measured -->\n"
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), begin)
	_, after, found2 := strings.Cut(rest, end)
	if !found || !found2 {
		return fmt.Errorf("cannot write %s: it lacks the marks of the table", page)
	}
	return os.WriteFile(page, []byte(before+begin+text+end+after), 0o644) //nolint:gosec // a page of the documentation
}

// tableOf is a table of the results of each runtime.
func tableOf(known []*runtime, all []*one) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s. Each cell is without and with what berth sets: ✓ lived, ✗ killed by the kernel, "+
		"◦ ended itself; the peak in MB; and with it, how much was done in relation to without.\n", time.Now().UTC().Format(time.DateOnly))
	for _, r := range known {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| program |", r.title, r.version)
		for _, ram := range rams {
			fmt.Fprintf(&b, " RAM=%d |", ram)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(rams)) + "\n")
		for _, work := range works {
			if r.lacks(work) {
				continue
			}
			fmt.Fprintf(&b, "| %s |", work)
			for _, ram := range rams {
				fmt.Fprintf(&b, " %s |", cell(all, r, work, ram))
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n")
	return b.String()
}

func cell(all []*one, r *runtime, work string, ram int) string {
	var without, with result
	for _, o := range all {
		if o.runtime == r && o.work == work && o.ram == ram {
			if o.told {
				with = o.result
			} else {
				without = o.result
			}
		}
	}
	signs := map[string]string{"lived": "✓", "killed": "✗", "ended itself": "◦"}
	text := fmt.Sprintf("%s %d → %s %d", signs[without.end], without.peak>>20, signs[with.end], with.peak>>20)
	if without.end == "lived" && with.end == "lived" && without.operations > 0 && work != "leak" {
		text += fmt.Sprintf(", ×%.2f", float64(with.operations)/float64(without.operations))
	}
	return text
}

// programs are the sources, beside this file.
func programs() string { return filepath.Join("heaps", "programs") }
