package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"berth/app"
	"berth/host"
	"berth/kube"
)

// A command goes on when its stream ends, and a stream goes on while anything has it open. So each command is marked in its
// environment, which what it starts inherits, and is ended by its mark.
const (
	mark = "BERTH_COMMAND"

	// sweep ends everything with the mark $mark, or with any where that is empty. The shell that does so has none: what is
	// exported later is not in its environment as the kernel shows it.
	sweep = `n=1; while [ $n -gt 0 ]; do n=0
for p in /proc/[0-9]*; do case "$(tr '\000' '\n' <"$p/environ" 2>/dev/null)" in *` + mark + `="$mark"*) n=1; kill -9 "${p#/proc/}" 2>/dev/null;; esac; done
done`

	// begin runs "$@" with the mark $1, and TERM=$2 unless that is empty, and ends what that leaves.
	begin = `mark=$1; [ -n "$2" ] && export TERM="$2"; shift 2; unset SHLVL; trap : INT QUIT; ` + mark + `="$mark" "$@"; code=$?
` + sweep + `
exit $code`

	// idle is what a pod runs in which a command is to take the program's place.
	idle = `trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done`
)

// cutTime is how long a stream may go on once its command was ended: what has lost its mark may hold it.
const cutTime = 3 * time.Second

// command is a console command, or that of a session. It implements host.Command.
type command struct {
	run     *run
	beside  bool // the program; else the run is its own
	mark    string
	life    context.Context
	cut     context.CancelFunc
	out     *kept
	errs    *kept
	session *session // nil for a console command
	done    chan struct{}

	mu     sync.Mutex
	ending bool
	result app.Shell
}

// Shell is a host.Shell: the command runs in a pod of its own.
func (e *Engine) Shell(ctx context.Context, p app.Program, s *app.Exec) (host.Command, error) {
	argv := p.Argv
	p.Argv, p.Gate, p.Build, p.Code.Stdin = []string{"/bin/sh", "-c", idle}, nil, false, false
	r, err := e.start(ctx, p, consoleKind, otherName(p.App, consoleKind))
	if err != nil {
		return nil, err
	}
	r.ignoreOutput()
	return r.command(argv, s, false), nil
}

// ignoreOutput waits for the end of a run of which nobody reads the log.
func (r *run) ignoreOutput() {
	r.engine.work.Go(func() {
		defer close(r.done)
		r.awaitEnd()
		p, _ := r.now()
		exit := r.exitOf(p)
		r.mu.Lock()
		r.exit = exit
		r.mu.Unlock()
		r.engine.drop(r)
	})
}

// Shell implements host.Instance.
func (r *run) Shell(argv []string, s *app.Exec) (host.Command, error) {
	r.mu.Lock()
	ending := r.stopped
	r.mu.Unlock()
	if ending || r.Ended() {
		return nil, app.Errorf(app.Conflict, "the application is being stopped; try again in a moment")
	}
	return r.command(argv, s, true), nil
}

// command runs a command in the pod.
func (r *run) command(argv []string, s *app.Exec, beside bool) *command {
	c := &command{run: r, beside: beside, mark: strings.ToLower(rand.Text()), done: make(chan struct{})}
	c.life, c.cut = context.WithCancel(r.engine.life)
	term := ""
	k := kube.Command{}
	if s == nil {
		c.out, c.errs = &kept{}, &kept{}
		k.Out, k.Err = c.out, c.errs
	} else {
		c.session = newSession(c, s)
		k.In, k.Out, k.TTY = c.session.in, c.session.toOut, s.TTY
		if s.TTY {
			term = s.Term
			k.Sizes = c.session.sizes
		} else {
			k.Err = c.session.toErr
		}
	}
	k.Argv = append([]string{"/bin/sh", "-c", begin, "sh", c.mark, term}, argv...)
	r.engine.work.Go(func() { c.execute(k) })
	return c
}

// execute runs the command to its end, and that of everything it has started.
func (c *command) execute(k kube.Command) {
	defer close(c.done)
	defer c.cut()
	r := c.run
	began := time.Now()
	code, err := r.engine.kube.Exec(c.life, r.name, box, k)
	c.mu.Lock()
	ending := c.ending
	c.mu.Unlock()
	if c.beside && (err != nil || ending) { // in its own pod it ends with that
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), undoTime)
		r.endCommands(ctx, c.mark)
		cancel()
	}
	exit := app.Exit{At: time.Now(), Ran: time.Since(began), Code: code, LimitMB: r.program.RAM}
	if err != nil {
		exit.Code = app.UnknownCode
	}
	exit.Signal = signalOf(code)
	if ending {
		exit.Code, exit.Signal = killed, signalOf(killed)
	}
	if !c.beside {
		r.Stop(0)
		if ending { // who ends it may be about to leave, and nothing of it is to go on
			timer := time.NewTimer(undoTime)
			select {
			case <-r.done:
			case <-timer.C:
			}
			timer.Stop()
		}
	}
	result := app.Shell{Online: c.beside, Exit: exit}
	if c.session == nil {
		result.Stdout, result.Stderr = c.out.output(), c.errs.output()
	} else {
		c.session.end()
	}
	if c.beside && (r.Ended() || err != nil || code == killed && !ending) {
		if end, ended := c.endOfProgram(); ended {
			result.Program = &end
			if result.Exit.Code == app.UnknownCode {
				result.Exit.Code, result.Exit.Signal = killed, signalOf(killed)
			}
			result.Exit.OOM = end.OOM
		}
	}
	c.mu.Lock()
	c.result = result
	c.mu.Unlock()
}

// endOfProgram is how the program ended beside which a command ran whose stream is cut. It waits for a moment: the
// stream may end before the cluster tells of the program's end.
func (c *command) endOfProgram() (app.Exit, bool) {
	timer := time.NewTimer(2 * tellTime)
	defer timer.Stop()
	select {
	case <-c.run.done:
		c.run.mu.Lock()
		defer c.run.mu.Unlock()
		return c.run.exit, !c.run.left
	case <-timer.C:
	case <-c.run.engine.life.Done():
	}
	return app.Exit{}, false
}

// endCommands ends what runs with a mark, "" for any.
func (r *run) endCommands(ctx context.Context, mark string) {
	_, err := r.engine.kube.Exec(ctx, r.name, box, kube.Command{Argv: []string{"/bin/sh", "-c", "mark=$1; " + sweep, "sh", mark}, Out: io.Discard})
	if err != nil && ctx.Err() == nil && !r.Ended() {
		r.engine.Log.Debug("cannot end what a command left", "pod", r.name, "error", err)
	}
}

// Wait implements host.Command.
func (c *command) Wait() app.Shell {
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}

// End implements host.Command.
func (c *command) End() {
	c.mu.Lock()
	again := c.ending
	c.ending = true
	c.mu.Unlock()
	if again {
		return
	}
	c.run.engine.work.Go(func() {
		ctx, cancel := context.WithTimeout(c.life, undoTime)
		defer cancel()
		c.run.endCommands(ctx, c.mark)
		sleep(c.life, cutTime) // the stream ends by itself, behind what was printed
		c.cut()
	})
}

// Streams implements host.Command.
func (c *command) Streams() (app.Streams, func()) { return c.session.streams(), c.session.release }

// kept keeps the beginning of what a command prints. It is safe for concurrent use.
type kept struct {
	mu      sync.Mutex
	text    []byte
	dropped int64
}

// Write keeps what there is room for.
func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := min(len(p), app.OutputMax-len(k.text))
	k.text = append(k.text, p[:n]...)
	k.dropped += int64(len(p) - n)
	return len(p), nil
}

func (k *kept) output() app.Output {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := k.text
	if k.dropped > 0 { // not half a character
		for n := 0; n < utf8.UTFMax && len(text) > 0; n++ {
			if r, size := utf8.DecodeLastRune(text); r != utf8.RuneError || size > 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	return app.Output{Text: strings.ToValidUTF8(string(text), "\uFFFD"), Dropped: k.dropped}
}

// session is the streams of a command that somebody reads and writes as they come.
type session struct {
	command  *command
	in       *io.PipeReader
	toIn     *io.PipeWriter
	out, err *io.PipeReader
	toOut    *io.PipeWriter
	toErr    *io.PipeWriter
	sizes    chan [2]uint16 // nil without a terminal; holds the last one
	ended    chan struct{}
}

func newSession(c *command, s *app.Exec) *session {
	v := &session{command: c, ended: make(chan struct{})}
	v.in, v.toIn = io.Pipe()
	v.out, v.toOut = io.Pipe()
	if s.TTY {
		v.sizes = make(chan [2]uint16, 1)
		v.resize(s.Size)
		return v
	}
	v.err, v.toErr = io.Pipe()
	return v
}

// resize keeps the last size for who sends it.
func (v *session) resize(s app.Size) {
	for {
		select {
		case v.sizes <- [2]uint16{s.Cols, s.Rows}:
			return
		default:
		}
		select {
		case <-v.sizes:
		default:
		}
	}
}

func (v *session) streams() app.Streams {
	s := app.Streams{Input: v.toIn, Output: v.out, Ended: v.ended}
	if v.sizes == nil {
		s.Errors = v.err
		return s
	}
	s.Resize = func(size app.Size) error {
		select {
		case <-v.ended:
			return errors.New("the command has ended")
		default:
			v.resize(size)
			return nil
		}
	}
	return s
}

// end says that nothing of the command is left.
func (v *session) end() {
	_ = v.toOut.Close()
	if v.toErr != nil {
		_ = v.toErr.Close()
	}
	_ = v.in.CloseWithError(fmt.Errorf("cannot write: %w", io.ErrClosedPipe))
	close(v.ended)
}

// release lets the command write on without a reader.
func (v *session) release() {
	_ = v.toIn.Close()
	_ = v.out.Close()
	if v.err != nil {
		_ = v.err.Close()
	}
}
