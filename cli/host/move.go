package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/build"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/backup"
	"berth/daemon/keyring"
	"berth/daemon/mover"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/files/bundle"
	"berth/web/local"
)

// moveTries is how often a move begins again whose connection was lost while nothing ran.
const moveTries = 3

// again is how to finish a move, and how to take it back.
const again = "Hint: nothing runs now. The same command again finishes the move; berth resume --force takes it back and starts everything here."

// move is "move NEWHOST": everything goes to another host.
func move(c *caller) *cobra.Command {
	cmd := command.New("move NEWHOST [--yes] [--partial] [--data-dir DIR] [--key-file PATH]", "move everything to another host with an empty berth, over ssh", 1, 1)
	from := c.settingFlags(cmd, "data_dir", "key_file")
	yes := command.Toggle(cmd, "yes", "do not ask")
	partial := command.Toggle(cmd, "partial", "move also when the files of some applications cannot be read; their files stay here")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := mustBeRoot("move", ", for it reads the files of every application", "move NEWHOST"); err != nil {
			return err
		}
		if strings.HasPrefix(args[0], "-") || args[0] == "" {
			return exit.Misused("%q cannot be the name of a host", args[0])
		}
		s, err := from.Load(c.Getenv)
		if err != nil {
			return err
		}
		config, _ := from.File(c.Getenv)
		end, err := mover.Lock(s.DataDir, 0)
		if err != nil {
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot move: %w", err), "")
		}
		defer end()
		d, err := openDatabase(cmd.Context(), s)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		m := &moving{c: c, db: d, settings: s, to: args[0], yes: *yes}
		return m.run(cmd.Context(), config, *partial)
	}
	return cmd
}

// moving is one berth move.
type moving struct {
	c        *caller
	db       *db.DB
	settings settings.Settings
	to       string
	yes      bool
	sender   *mover.Sender
}

func (m *moving) run(ctx context.Context, config string, partial bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // what it does is to end as it should
	defer stop()
	if d, err := local.Ask(ctx, m.settings.RuntimeDir); err != nil || !sameDir(d.DataDir, m.settings.DataDir) {
		return exit.NewProblem(exit.Failure, errors.New("cannot move: berth does not run here, and somebody has to stop its programs when the time comes"),
			"Hint: systemctl start berth")
	}
	store, err := files.Open(m.settings.DataDir, bundle.Limits{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()     // never fails
	store.CopyDatabases(backup.CopyDatabase) // programs run while the most is copied
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("cannot move: %w", err)
	}
	keys, err := daemon.Keys(m.settings.DataDir, m.settings.KeyFiles()...).Keys()
	if err != nil {
		return fmt.Errorf("cannot move: %w", err)
	}
	m.sender = &mover.Sender{
		DB: m.db, Store: store, DataDir: m.settings.DataDir, Host: host, To: m.to, Version: build.Version(),
		Settings: config, Managed: settings.ManagedFile(config), Partial: partial,
		Fingerprint: store.Fingerprint, Agree: m.agree, Hold: m.hold, Tell: m.c.Tell, Now: time.Now,
	}
	for _, key := range keys {
		m.sender.Keys = append(m.sender.Keys, keyring.Text(key))
	}
	report, err := m.attempt(ctx)
	for try := 1; try < moveTries && err != nil && ctx.Err() == nil; try++ {
		var held *mover.HeldError
		if !errors.As(err, &held) || !mover.Lost(err) {
			break
		}
		m.c.Tell("%v; trying again", err)
		report, err = m.attempt(ctx)
	}
	if err != nil {
		return m.problem(err)
	}
	return m.done(ctx, report)
}

// attempt makes a connection and moves over it.
func (m *moving) attempt(ctx context.Context) (mover.Report, error) {
	conn, err := dialSSH(ctx, m.to)
	if err != nil {
		return mover.Report{}, err
	}
	report, err := m.sender.Move(ctx, conn)
	ended := conn.end()
	var said *sshProblem
	if mover.Lost(err) && errors.As(ended, &said) { // ssh knows better
		var held *mover.HeldError
		if errors.As(err, &held) {
			return report, &mover.HeldError{Err: fmt.Errorf("%w (%w)", ended, err)}
		}
		return report, ended
	}
	return report, err
}

// agree shows what is to happen, and asks.
func (m *moving) agree(p mover.Plan) error {
	c := m.c
	if p.Again {
		c.Tell("finishing the move to %s: the programs are stopped here already", m.to)
		return nil
	}
	c.Tell("to %s: berth %s on %s, with %d MB of disk free", m.to, screen.Word(p.There.Version), screen.Word(p.There.Host), p.There.Free>>20)
	for _, w := range p.Apps {
		c.Tell("  %s  %s, %d MB, %s", w.App.ID, screen.Word(w.App.Name), (w.Bytes+1<<20-1)>>20, w.App.Wanted)
	}
	c.Tell("%d applications, %d MB, with all accounts, variables, domains, certificates and the key of the secrets", len(p.Apps), (p.Bytes()+1<<20-1)>>20)
	c.Tell("not moved: logs, metric history, backups of applications, runtimes of berth runtime install, and this host's berth.toml (a copy goes there)")
	for _, name := range p.There.Accounts {
		c.Tell("the account %s of %s is replaced by those of this host", screen.Word(name), screen.Word(p.There.Host))
	}
	if note := p.There.ArchNote(); note != "" {
		c.Tell("note: %s", screen.Escape(note, false))
	}
	c.Tell("programs run here while everything is copied; then they are stopped, what changed is copied again, and they start there")
	if m.yes {
		return nil
	}
	q := newQuestions(c.Stdin, c.Stderr)
	if q == nil {
		return exit.Misused("nobody is there to agree to the move: use --yes")
	}
	answer, err := q.line("Move everything? (yes or no)", "no")
	if err != nil {
		return err
	}
	if answer != "yes" && answer != "y" {
		return exit.NewProblem(exit.Failure, errors.New("not moved"), "Hint: nothing was changed.")
	}
	return nil
}

// hold stores a hold and lets the daemon stop everything. It is called again until nothing runs.
func (m *moving) hold(ctx context.Context, h app.Hold) error {
	if err := m.db.Holds.SetHold(ctx, h); err != nil {
		return err
	}
	m.c.Tell("stopping the programs here")
	runs, err := m.c.tellHold(ctx, m.settings)
	if err == nil && !runs {
		err = errors.New("berth does not run here any more, and its programs may run on without it: systemctl start berth")
	}
	return err
}

// problem says what came of a move that failed.
func (m *moving) problem(err error) error {
	code := exit.Failure
	var misuse *exit.Problem
	if errors.As(err, &misuse) {
		code = misuse.Code
	}
	var held *mover.HeldError
	if errors.As(err, &held) {
		return exit.NewProblem(code, fmt.Errorf("the move to %s is not finished: %s", m.to, screen.Escape(err.Error(), false)), again)
	}
	if misuse != nil {
		return misuse
	}
	return exit.NewProblem(code, fmt.Errorf("cannot move to %s: %s", m.to, screen.Escape(err.Error(), false)), "Hint: nothing was changed here, and programs run on.")
}

// done says what came of a move that went well.
func (m *moving) done(ctx context.Context, r mover.Report) error {
	if r.Already {
		m.c.Tell("everything was moved to %s before", m.to)
		return nil
	}
	m.c.record(ctx, m.db, 0, "host.move", "", fmt.Sprintf("to=%q applications=%d", m.to, r.Apps))
	m.c.Tell("moved %d applications to %s; programs were offline for %s, and %d of the applications were copied meanwhile",
		r.Apps, m.to, r.Offline.Round(100*time.Millisecond), r.Copied)
	m.c.Tell("this host holds its programs from now on; lead DNS names to the new host")
	if len(r.Missing) == 0 {
		return nil
	}
	return exit.NewProblem(exit.Incomplete, fmt.Errorf("the files of these applications could not be moved: %v", r.Missing),
		"Hint: upload them anew on the new host; their files are still here.")
}

// sshConn is berth move-receive on another host, over ssh.
type sshConn struct {
	io.Reader
	io.WriteCloser
	cmd  *exec.Cmd
	said *tail
	to   string
	once sync.Once
	err  error
}

// dialSSH starts berth move-receive on a host, as root there. It asks nothing: who has no key, or
// does not know the host, hears so from ssh. The process ends with ctx.
func dialSSH(ctx context.Context, to string) (*sshConn, error) {
	cmd := exec.CommandContext(ctx, "ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15",
		"-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "--", to, "berth move-receive")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for berth, which ends it
	conn := &sshConn{cmd: cmd, said: &tail{}, to: to}
	cmd.Stderr = conn.said
	var err error
	if conn.WriteCloser, err = cmd.StdinPipe(); err == nil {
		conn.Reader, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, exit.NewProblem(exit.NotFound, errors.New("cannot move: there is no ssh here"), "Hint: apt install openssh-client")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot run ssh: %w", err)
	}
	return conn, nil
}

// end ends the connection, and returns why it ended by itself, if it did.
func (s *sshConn) end() error {
	s.once.Do(func() {
		_ = s.Close()
		_, _ = io.Copy(io.Discard, s.Reader) // until it has ended too
		s.err = s.explain(s.cmd.Wait())
	})
	return s.err
}

// sshProblem is what ssh, or the command on the other host, said.
type sshProblem struct{ why string }

// Error implements error.
func (p *sshProblem) Error() string { return p.why }

func (s *sshConn) explain(err error) error {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return err
	}
	said := strings.TrimSpace(s.said.String())
	if said == "" { // it was killed, which the end of the connection says as well
		return nil
	}
	switch ended.ExitCode() {
	case 127:
		return &sshProblem{fmt.Sprintf("there is no berth on %s: install it there first (%s)", s.to, said)}
	case exit.Usage:
		return &sshProblem{fmt.Sprintf("the berth on %s is older and cannot take a move: upgrade it first (%s)", s.to, said)}
	case 255:
		return &sshProblem{fmt.Sprintf("ssh cannot reach %s as it has to, without a question: %s", s.to, said)}
	}
	return &sshProblem{said}
}

// tail keeps the end of what is written. It is for one writer.
type tail struct{ bytes.Buffer }

const tailOf = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	n, _ := t.Buffer.Write(p) // it never fails
	if over := t.Len() - tailOf; over > 0 {
		t.Next(over)
	}
	return n, nil
}
