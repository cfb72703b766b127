package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/app"
	"berth/files"
	"berth/host"
	"berth/host/runtimes"
	"berth/proc"
	"berth/proc/logs"
	"berth/proc/sandbox"
	"berth/web/proxy"
)

// launcher makes of an app.Program what proc runs: its group, its directories,
// its environment, its output. It is host.Launch on this machine.
type launcher struct {
	path     string // PATH of programs
	proc     *proc.Launcher
	trees    *files.Store
	logs     *logs.Book
	pids     int64
	cpu      int64 // percent of one processor; 0: no limit
	fileSize int64 // bytes of one file; 0: no limit
	oomGroup bool
	adopts   func(app.ID) (survivor, bool)
	builds   atomic.Int64 // numbers the groups of builds
	consoles atomic.Int64 // and of console commands
}

// launch is a host.Launch.
func (l *launcher) launch(_ context.Context, p app.Program) (host.Instance, error) {
	if p.Code.Static() {
		return launchStatic(l.trees, p, l.shell)
	}
	out, pipe, err := l.logs.Pipe(p.App, p.Build, p.UID)
	if err != nil {
		return nil, cmp.Or(files.Refused("open the application's log", err), err)
	}
	defer pipe.Close()
	temp, err := l.temp(p)
	if err != nil {
		l.logs.Ended(p)
		return nil, err
	}
	spec := l.spec(p, temp)
	spec.Output = pipe
	if p.Code.Stdin && !p.Build {
		if spec.Input, err = l.logs.Input(p); err != nil {
			l.logs.Ended(p)
			return nil, scarce(err)
		}
		defer spec.Input.Close()
	}
	spec.OnHelperOOM, spec.OnNoSocket = helperKilled(out), noSocket(out)
	spec.Gate, spec.OnMemory = p.Gate, warned(p)
	if p.Build {
		spec.Group = fmt.Sprintf("apps/%s/build-%d", p.App, l.builds.Add(1))
		spec.OOMGroup, spec.OOMScore = true, host.ScoreBuild
		spec.Pids = max(l.pids, buildPids)
		spec.Port = 0 // the program that runs beside it has it
	}
	if p.Stage != "" {
		spec.From = l.trees.BuildDir(p.Stage)
	}
	tidy := func() {
		l.logs.Ended(p)
		if !p.Build {
			return
		}
		if err := l.trees.DropTemp(p.App, true); err != nil {
			l.proc.Log.Error("cannot remove what a build left", "app", p.App, "error", err)
		}
	}
	run, err := l.proc.Launch(spec)
	if err != nil {
		tidy()
		return nil, scarce(err)
	}
	if !p.Build {
		l.logs.HoldProcess(p.App, p.Run, run.Process())
	}
	return &instance{run, l, p.App, spec, out, tidy}, nil
}

// launchStatic starts a site of files, or says that it has no first page.
func launchStatic(trees *files.Store, p app.Program, shell host.Shell) (host.Instance, error) {
	switch err := staticSite(trees, p.App, p.Code).Ready(); {
	case errors.Is(err, os.ErrNotExist):
		return nil, app.Errorf(app.Unusable, "cannot find MAIN=%q in the application: BUILD has not made it", p.Code.Main)
	case err != nil:
		return nil, err
	}
	return &staticInstance{shell: shell, program: p, began: time.Now(), stopped: make(chan struct{})}, nil
}

// scarce is the error of a start with a sentence where the host lacks for a moment what
// others give back.
func scarce(err error) error {
	if app.KindOf(err) != app.Internal || !sandbox.Passes(err) {
		return err
	}
	return &app.Error{
		Kind: app.Unavailable, Err: err,
		Message: app.Textf("cannot start the program: this host has no process, memory or file descriptor to spare; try again in a minute"),
	}
}

// helperKilled notes in a log that a helper of the program was killed.
func helperKilled(out *logs.Log) func(limit int64) {
	return func(limit int64) {
		out.Note(fmt.Sprintf("a helper process was killed: the application needed more than %d MB of RAM", limit))
	}
}

// warned is proc.Spec.OnMemory of a program, nil where nobody is to be warned.
func warned(p app.Program) func(app.MemoryWarning) {
	if p.Warn == nil {
		return nil
	}
	return func(w app.MemoryWarning) {
		w.Run = p.Run
		p.Warn(w)
	}
}

// noSocket notes in a log that the program was refused sockets, or is ended for
// them.
func noSocket(out *logs.Log) func(held int, ended bool) {
	return func(held int, ended bool) {
		if ended {
			out.Note(fmt.Sprintf("ended: it holds %d sockets, more than it may, because it listened on connections that it had accepted", held))
			return
		}
		out.Note(fmt.Sprintf("the program was refused new sockets: it holds %d, and a program, and all programs of an account together, have a bound; close those that it does not use", held))
	}
}

// memoryTemp is the TMPDIR of a program with a root directory of its own: in
// memory, and gone with it.
const memoryTemp = "/tmp"

// temp returns an empty TMPDIR. A build's is on the disk: what compilers and
// package managers put there is more than its RAM.
func (l *launcher) temp(p app.Program) (string, error) {
	if p.Build || !slices.Contains(l.proc.Walls.Layers, sandbox.Mounts) {
		if p.Beside {
			return l.trees.Temp(p.App, false), nil // the other run's, which is using it
		}
		return l.trees.EnsureTemp(p.App, p.Build, p.UID)
	}
	return memoryTemp, l.trees.DropTemp(p.App, false) // of a daemon before this one
}

// spec is what a program runs with, whoever starts it and for what.
func (l *launcher) spec(p app.Program, temp string) proc.Spec {
	home := l.trees.Dir(p.App)
	spec := proc.Spec{
		Group: "apps/" + string(p.App) + "/" + strconv.Itoa(p.Run), Argv: p.Argv,
		Env: environment(p, l.path, home, temp), Dir: home, UID: p.UID, Port: p.Port, Name: p.App.Hostname(),
		Account: uint32(p.Account),
		Journal: p.Journal, MemoryMB: int64(p.RAM), Weight: int64(p.Share), Pids: l.pids, OOMGroup: l.oomGroup,
		CPU: l.cpuOf(p.CPU), FileSize: l.fileSize, OOMScore: host.ScoreStart,
		MemorySignal: p.Code.MemorySignal,
	}
	if temp != memoryTemp {
		spec.Temp = temp
	}
	return spec
}

// cpuOf is the percentage of one processor that an application may have, 0 for any: the
// setting's, or less where its account leaves it less.
func (l *launcher) cpuOf(account int) int64 {
	if account == 0 || l.cpu > 0 && l.cpu < int64(account) {
		return l.cpu
	}
	return int64(account)
}

// limitCPU is host.Config.LimitCPU.
func (l *launcher) limitCPU(id app.ID, percent int) error {
	return l.proc.Tree.LimitCPU("apps/"+string(id), l.cpuOf(percent))
}

// environment is everything a program gets in its environment, built from
// nothing, in the order of who beats whom: berth's defaults, the language's,
// the owner's variables, and what is true of the place the program runs in. What tells
// runtimes of the RAM goes beside the owner's variables, and does not beat them.
func environment(p app.Program, path, home, temp string) []string {
	env := slices.Concat([]string{"PATH=" + path, "LANG=C.UTF-8"}, p.Env)
	for _, v := range p.Variables {
		env = append(env, v.Name+"="+v.Value)
	}
	env = append(env, "HOME="+home, "TMPDIR="+temp, "PORT="+strconv.Itoa(p.Port), "BERTH_APP_ID="+string(p.App))
	if p.Build {
		for _, c := range caches {
			env = append(env, c.variable+"="+temp+"/"+c.dir)
		}
	}
	return runtimes.Sized(lastOfEach(env), p.Code.Lang, p.RAM)
}

// lastOfEach keeps of several variables of one name the last: which of them a
// program would see is its language's choice.
func lastOfEach(env []string) []string {
	at := make(map[string]int, len(env))
	kept := env[:0:0]
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if i, again := at[name]; again {
			kept[i] = v
			continue
		}
		at[name] = len(kept)
		kept = append(kept, v)
	}
	return kept
}

// caches are where builds keep what is no part of the application: else it
// would go to HOME, which is the application's directory. Go, pip, uv and Deno
// follow the first.
var caches = []struct{ variable, dir string }{
	{"XDG_CACHE_HOME", "cache"},
	{"XDG_DATA_HOME", "data"},
	{"XDG_STATE_HOME", "state"},
	{"npm_config_cache", "npm"},
	{"YARN_GLOBAL_FOLDER", "yarn"},
	{"BUN_INSTALL_CACHE_DIR", "bun"},
	{"GOPATH", "go"},
	{"CARGO_HOME", "cargo"},
	{"COMPOSER_HOME", "composer"},
	{"BUNDLE_USER_HOME", "bundle"},
	{"GEM_SPEC_CACHE", "gem"},
}

// adopt is a host.Adopt.
func (l *launcher) adopt(p app.Program) (*host.Survivor, error) {
	v, ok := l.adopts(p.App)
	if !ok {
		return nil, nil
	}
	p.Run = v.run
	if v.Port > 0 {
		p.Port = v.Port
	}
	out, pipe, err := l.logs.Pipe(p.App, false, p.UID)
	if err != nil {
		err = l.unadopted(v, err)
		if v.PIDFD != nil {
			_ = v.PIDFD.Close()
		}
		if err := l.logs.Fallen(p.App, p.Run); err != nil { // nobody else gives up what was held for it
			l.proc.Log.Warn("cannot give up what was held for a program", "app", p.App, "error", err)
		}
		return nil, err
	}
	defer pipe.Close()
	temp := memoryTemp // of its console commands
	if !slices.Contains(l.proc.Walls.Layers, sandbox.Mounts) {
		temp = l.trees.Temp(p.App, false)
	}
	spec := l.spec(p, temp)
	spec.OnHelperOOM, spec.OnNoSocket, spec.OnMemory = helperKilled(out), noSocket(out), warned(p)
	l.logs.KeepInput(p.App, p.Run)
	run, err := l.proc.Adopt(v.Survivor, spec)
	if err != nil {
		l.logs.Ended(p)
		return nil, l.unadopted(v, err)
	}
	l.logs.HoldProcess(p.App, p.Run, run.Process())
	tidy := func() { l.logs.Ended(p) }
	return &host.Survivor{Instance: &instance{run, l, p.App, spec, out, tidy}, Run: v.run, StartedAt: v.Started, Port: p.Port}, nil
}

// unadopted ends a program that cannot be adopted: it must not run twice.
func (l *launcher) unadopted(v survivor, why error) error {
	if _, err := l.proc.Tree.Sweep(func(group string) bool { return group != v.Group }); err != nil {
		return fmt.Errorf("%w; and cannot end it: %w", why, err)
	}
	return why
}

// shell is a host.Shell: the command gets what the program would get, in a
// group of its own.
func (l *launcher) shell(_ context.Context, p app.Program, e *app.Exec) (host.Command, error) {
	temp, err := l.temp(p)
	if err != nil {
		return nil, err
	}
	spec := l.spec(p, temp)
	return l.console(p.App, spec, nil, e)
}

// Shell implements host.Instance: the command gets what the program got, in a
// group below the program's.
func (i *instance) Shell(argv []string, e *app.Exec) (host.Command, error) {
	spec := i.spec
	spec.Argv = argv
	return i.launcher.console(i.id, spec, i.Run, e)
}

// console starts a command of a console or a session, in a group that no command had before.
func (l *launcher) console(id app.ID, spec proc.Spec, in *proc.Run, e *app.Exec) (host.Command, error) {
	spec.Group = fmt.Sprintf("apps/%s/console-%d", id, l.consoles.Add(1))
	if e != nil && e.TTY {
		spec.Env = lastOfEach(append(slices.Clip(spec.Env), "TERM="+e.Term))
	}
	c, err := l.proc.Console(spec, in, e)
	if err != nil { // and no nil pointer becomes an interface
		return nil, err
	}
	return c, nil
}

// instance is a run whose output is in the log when Wait returns.
type instance struct {
	*proc.Run
	launcher *launcher
	id       app.ID
	spec     proc.Spec // that it was started with
	out      *logs.Log
	tidy     func() // after the end
}

// Wait implements host.Instance.
func (i *instance) Wait() app.Exit {
	e := i.Run.Wait()
	if i.Left() {
		return e // it goes on, and its output with it
	}
	i.out.Drain()
	i.tidy()
	return e
}

// BuildRAM is what a build may have on a host with ram, by the setting build.ram. A
// build as large as a small host would starve the host itself.
func BuildRAM(ram, set app.MB) app.MB {
	if set >= 0 {
		return set
	}
	return min(max(ram/2, 128), 512)
}

// buildPids is how many processes a build may have: package managers and
// compilers are many.
const buildPids = 1024

// staticSite is the files of a site without a program. Its directory stands in
// one of root's alone; all below is reached through its descriptor.
func staticSite(trees *files.Store, id app.ID, c app.Code) *proxy.Static {
	return &proxy.Static{
		Open: func() (*os.Root, error) { return os.OpenRoot(trees.Dir(id)) },
		Main: c.Main, Built: c.Build != "",
	}
}

// staticInstance is a site of files that is online: nothing runs, so it ends when it is
// asked to, and not before the console command that was started beside it.
type staticInstance struct {
	shell   host.Shell
	program app.Program
	began   time.Time
	stopped chan struct{}

	mu      sync.Mutex
	ended   bool
	command host.Command // the last one, for there is one at a time; nil when there was none
}

// Wait implements host.Instance.
func (i *staticInstance) Wait() app.Exit {
	<-i.stopped
	i.mu.Lock()
	c := i.command
	i.mu.Unlock()
	if c != nil {
		c.Wait()
	}
	now := time.Now()
	return app.Exit{At: now, Ran: now.Sub(i.began), LimitMB: i.program.RAM}
}

// Stop implements host.Instance.
func (i *staticInstance) Stop(time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return
	}
	i.ended = true
	if i.command != nil {
		i.command.End()
	}
	close(i.stopped)
}

// Leave implements host.Instance: there is nothing to go on, and the next daemon
// starts it anew, for it is wanted.
func (i *staticInstance) Leave() bool {
	i.mu.Lock()
	over := i.ended
	i.mu.Unlock()
	i.Stop(0)
	return !over
}

// Ended implements host.Instance.
func (i *staticInstance) Ended() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ended
}

// Busy implements host.Instance.
func (i *staticInstance) Busy() bool { return false }

// SetMemory implements host.Instance: from the next console command on.
func (i *staticInstance) SetMemory(ram app.MB) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.program.RAM, i.program.Share = ram, ram
	return nil
}

// Usage implements host.Instance.
func (i *staticInstance) Usage(context.Context) (app.Usage, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return app.Usage{LimitBytes: i.program.RAM.Bytes()}, nil
}

// Shell implements host.Instance.
func (i *staticInstance) Shell(argv []string, e *app.Exec) (host.Command, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return nil, app.Errorf(app.Conflict, "the application is being stopped; try again in a moment")
	}
	p := i.program
	p.Argv = argv
	c, err := i.shell(context.Background(), p, e)
	if err == nil {
		i.command = c
	}
	return c, err
}

// Counts implements host.Instance: nothing runs.
func (i *staticInstance) Counts() (app.Counts, error) { return app.Counts{}, nil }

// Listens implements host.Instance: berth itself answers.
func (i *staticInstance) Listens() (app.Listening, error) { return app.Listening{}, nil }

// Dial implements host.Instance: nobody is there.
func (i *staticInstance) Dial(_ context.Context, at netip.AddrPort) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(at), Err: errors.New("no program runs")}
}

// Held implements host.Instance.
func (i *staticInstance) Held(context.Context) (app.Space, error) { return app.Space{}, nil }
