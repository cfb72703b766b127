package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/host/runtimes"
	"berth/proc"
)

// runtime is what runs programs of a language.
type runtime struct {
	title, version string
	lang           string                // as the API calls it
	argv           func(o *one) []string // before the ways of the program
	web            func(port int) []string
	without        []string // what it cannot do
}

func (r *runtime) lacks(work string) bool { return slices.Contains(r.without, work) }

// prepare finds the runtimes of the machine, and copies or builds their programs in dir.
func prepare(ctx context.Context, dir, only string) ([]*runtime, error) {
	if err := os.CopyFS(dir, os.DirFS(programs())); err != nil {
		return nil, err
	}
	chosen := func(name string) bool { return only == "" || slices.Contains(strings.Split(only, ","), name) }
	var all []*runtime
	add := func(binary, lang, title string, version []string, argv ...string) *runtime {
		path, err := exec.LookPath(binary)
		if err != nil || !chosen(binary) {
			return nil
		}
		out, _ := exec.CommandContext(ctx, path, version...).CombinedOutput()
		first, _, _ := strings.Cut(string(out), "\n")
		r := &runtime{title: title, lang: lang, version: first, argv: func(*one) []string { return append([]string{path}, argv...) }}
		all = append(all, r)
		return r
	}
	script := func(name string) string { return filepath.Join(dir, name) }
	add("node", "javascript", "Node.js", []string{"--version"}, script("main.mjs"))
	add("deno", "deno", "Deno", []string{"--version"}, "run", "-A", "--no-remote", script("main.mjs"))
	add("bun", "bun", "Bun", []string{"--version"}, script("main.mjs"))
	add("python3", "python", "Python", []string{"--version"}, "-u", script("main.py"))
	add("ruby", "ruby", "Ruby", []string{"--version"}, script("main.rb"))
	if r := add("php", "php", "PHP", []string{"--version"}); r != nil {
		path := r.argv(nil)[0]
		limited := func(o *one) []string {
			if o.told {
				return []string{path, runtimes.PHPLimit(app.MB(o.ram))}
			}
			return []string{path}
		}
		r.argv = func(o *one) []string { return append(limited(o), script("main.php")) }
		r.web = func(port int) []string { return []string{"-S", "127.0.0.1:" + strconv.Itoa(port)} }
	}
	if _, err := exec.LookPath("javac"); err == nil && chosen("java") {
		if out, err := exec.CommandContext(ctx, "javac", "-d", dir, script("Main.java")).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("cannot compile %s: %w: %s", script("Main.java"), err, out)
		}
		if r := add("java", "java", "Java", []string{"-version"}); r != nil {
			path := r.argv(nil)[0]
			r.argv = func(o *one) []string {
				if o.told {
					return []string{path, "-XX:MaxRAMPercentage=70", "-XX:MinRAMPercentage=70", "-cp", dir, "Main"}
				}
				return []string{path, "-cp", dir, "Main"}
			}
		}
	}
	if chosen("go") {
		out, err := exec.CommandContext(ctx, "go", "build", "-o", script("go.bin"), script("main.go")).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("cannot build the Go program: %w: %s", err, out)
		}
		version, _ := exec.CommandContext(ctx, "go", "version").Output()
		all = append(all, &runtime{
			title: "Go", lang: "go", version: strings.TrimSpace(string(version)),
			argv: func(*one) []string { return []string{script("go.bin")} },
		})
	}
	return all, nil
}

// stage is where programs run.
type stage struct {
	tree     *cgroup.Tree
	launcher *proc.Launcher
	seconds  int
	next     atomic.Int64
}

func newStage(ctx context.Context, seconds int) (*stage, error) {
	host, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	s := &stage{seconds: seconds}
	if s.tree, err = cgroup.Open(host, fmt.Sprintf("heaps-%d", os.Getpid())); err != nil {
		return nil, err
	}
	s.launcher = &proc.Launcher{Tree: s.tree, Log: slog.New(slog.DiscardHandler)}
	_, err = s.launcher.Try(ctx, proc.TryPatience)
	return s, err
}

func (s *stage) close() error { return s.tree.Close() }

// run makes one run.
func (s *stage) run(ctx context.Context, o *one) (result, error) {
	out, err := os.CreateTemp("", "berth-heaps-out.")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = errors.Join(out.Close(), os.Remove(out.Name())) }() // nobody needs it
	port, err := freePort(ctx)
	if err != nil {
		return result{}, err
	}
	argv := o.runtime.argv(o)
	if o.work == "web" && o.runtime.web != nil {
		argv = append(argv[:len(argv)-1:len(argv)-1], append(o.runtime.web(port), argv[len(argv)-1])...)
	} else {
		argv = append(argv, o.work, strconv.Itoa(o.ram), strconv.Itoa(s.seconds))
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/tmp", "LANG=C.UTF-8", "NODE_ENV=production", "DENO_DIR=/tmp/berth-heaps.deno", "PORT=" + strconv.Itoa(port)}
	if o.told {
		env = runtimes.Sized(env, o.runtime.lang, app.MB(o.ram))
	}
	number := s.next.Add(1)
	run, err := s.launcher.Launch(proc.Spec{
		Group: fmt.Sprintf("apps/heaps/%d", number), Argv: argv, Env: env, Dir: filepath.Dir(out.Name()), Name: "heaps",
		UID: 65534, MemoryMB: int64(o.ram), Pids: 256, OOMGroup: true, Output: out,
	})
	if err != nil {
		return result{}, err
	}
	ended := make(chan app.Exit, 1)
	go func() { ended <- run.Wait() }()
	var requests int64
	alive := false
	if o.work == "web" {
		requests = s.visit(ctx, port)
		alive = !run.Ended()
		run.Stop(0)
	}
	e := <-ended
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return result{}, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	got := result{end: "ended itself", code: e.Code, peak: e.PeakBytes, operations: requests, last: lines[len(lines)-1]}
	if n, found := strings.CutPrefix(got.last, "operations "); found {
		got.operations, _ = strconv.ParseInt(n, 10, 64)
	}
	switch {
	case e.OOM:
		got.end = "killed"
	case e.Code == 0, alive && requests > 0:
		got.end = "lived"
	}
	return got, nil
}

func freePort(ctx context.Context) (int, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// visit asks a server by eight connections for as long as a run lasts, and returns how often it
// answered.
func (s *stage) visit(ctx context.Context, port int) int64 {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.seconds)*time.Second-200*time.Millisecond)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	var answered atomic.Int64
	var visitors sync.WaitGroup
	for range 8 {
		visitors.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+"/", http.NoBody)
				response, err := client.Do(r)
				if err != nil {
					time.Sleep(20 * time.Millisecond)
					continue
				}
				if _, err := io.Copy(io.Discard, response.Body); err == nil {
					answered.Add(1)
				}
				_ = response.Body.Close()
			}
		})
	}
	visitors.Wait()
	return answered.Load()
}
