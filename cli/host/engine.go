package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/cluster"
	"berth/daemon/mover"
	"berth/daemon/settings"
	"berth/db"
	"berth/proc"
	"berth/web/local"
)

// onlineTime is how long programs may take to be online on the other engine: a machine may have to fetch an image first.
const onlineTime = 5 * time.Minute

// engineMove is "engine move": programs go from this machine to the cluster of the settings, or back. While a hold is set
// nothing runs on either, so it can be cut short at any moment and begun again.
func engineMove(c *caller) *cobra.Command {
	cmd := command.New("move ENGINE [--yes] [--data-dir DIR]", "move the programs to the cluster of the settings (ENGINE is kubernetes), or back to this machine (machine)", 1, 1)
	cmd.ValidArgs = []string{settings.Kubernetes, settings.Machine}
	from := c.settingFlags(cmd, "data_dir")
	yes := command.Toggle(cmd, "yes", "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		to := args[0]
		if to != settings.Kubernetes && to != settings.Machine {
			return exit.Misused("%q is no engine: kubernetes and machine are%s", to, exit.DidYouMean(to, cmd.ValidArgs, "%q"))
		}
		if err := mustBeRoot("move the programs", ", for it decides for every account", "engine move "+to); err != nil {
			return err
		}
		s, err := from.Load(c.Getenv)
		if err != nil {
			return err
		}
		end, err := mover.Lock(s.DataDir, 0)
		if err != nil {
			return cannot("move the programs", err)
		}
		defer end()
		d, err := openDatabase(cmd.Context(), s)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		m := &engineMoving{caller: c, db: d, flags: from, settings: s, to: to, yes: *yes}
		return m.run(cmd.Context())
	}
	return cmd
}

// engineMoving is one "engine move".
type engineMoving struct {
	*caller
	db       *db.DB
	flags    *settings.Flags
	settings settings.Settings // as they are
	to       string            // the engine
	yes      bool
	apps     []app.App
	online   []app.App // before the move, or wanted so when it goes on
}

func (m *engineMoving) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	served, err := local.Ask(ctx, m.settings.RuntimeDir)
	if err != nil || !sameDir(served.DataDir, m.settings.DataDir) {
		return exit.NewProblem(exit.Failure, errors.New("cannot move the programs: berth does not run here, and somebody has to stop them when the time comes"),
			"Hint: systemctl start berth")
	}
	hold, held, err := m.db.Holds.HoldOf(ctx)
	switch {
	case err != nil:
		return err
	case held && hold.Why != app.HoldEngine:
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot move the programs: %s", screen.Escape(hold.Text().String(), false)), "")
	case served.Engine == m.to && !held:
		m.Tell("the programs run %s already", where(m.to))
		return nil
	}
	if m.apps, err = m.db.Apps.Apps(ctx); err != nil {
		return err
	}
	for _, a := range m.apps {
		is := a.Wanted == app.WantOnline
		if is && !held {
			if is, err = local.Online(ctx, m.settings.RuntimeDir, a.Account, a.ID); err != nil {
				return cannot("move the programs", err)
			}
		}
		if is {
			m.online = append(m.online, a)
		}
	}
	if err := m.agree(ctx, held); err != nil {
		return err
	}
	return m.move(ctx, served.Engine)
}

// where is an engine in a sentence.
func where(engine string) string {
	if engine == settings.Kubernetes {
		return "on the cluster"
	}
	return "on this machine"
}

// agree tries the engine, shows what is to happen, and asks.
func (m *engineMoving) agree(ctx context.Context, again bool) error {
	next, err := m.settings.With(m.to)
	if err != nil {
		return exit.NewProblem(exit.Config, fmt.Errorf("cannot move the programs: %w", err),
			"Hint: docs/kubernetes.md says what the section kubernetes of berth.toml needs; leave the line engine out.")
	}
	path, _ := m.flags.File(m.Getenv)
	if err := settings.Manageable(path, map[string]string{"engine": m.to}); err != nil {
		return err
	}
	if err := m.findsRuntimes(); err != nil {
		return err
	}
	try := m.tryMachine
	if m.to == settings.Kubernetes {
		try = m.tryCluster
	}
	ram, err := try(ctx, next)
	if err != nil {
		return err
	}
	if err := m.fits(ram); err != nil {
		return err
	}
	if again {
		m.Tell("finishing the move: the programs are stopped already")
		return nil
	}
	m.Tell("the programs stop, berth starts anew with engine = %q, and %d of %d start %s", m.to, len(m.online), len(m.apps), where(m.to))
	if m.yes {
		return nil
	}
	q := newQuestions(m.Stdin, m.Stderr)
	if q == nil {
		return exit.Misused("nobody is there to agree to the move: use --yes")
	}
	answer, err := q.line("Move the programs? (yes or no)", "no")
	if err != nil {
		return err
	}
	if answer != "yes" && answer != "y" {
		return exit.NewProblem(exit.Failure, errors.New("not moved"), "Hint: nothing was changed.")
	}
	return nil
}

// tryMachine returns the RAM that this machine has.
func (m *engineMoving) tryMachine(context.Context, settings.Settings) (app.MB, error) {
	info, err := proc.Host()
	return info.RAM, err
}

// tryCluster returns the RAM that the cluster of the settings has, after all that berth doctor tries there.
func (m *engineMoving) tryCluster(ctx context.Context, s settings.Settings) (ram app.MB, err error) {
	m.Tell("trying the cluster at %s", s.Kubernetes.Server)
	bad := 0
	for _, f := range daemon.ExamineCluster(ctx, s) {
		if f.Verdict == app.Good {
			continue
		}
		m.Tell(" %-5s %-12s %s", f.Verdict, f.Name, f.Text)
		if f.Fix != "" {
			m.Tell("       %s", f.Fix)
		}
		if f.Verdict == app.Bad && (f.Name != cluster.Reach || !s.Kubernetes.Trusted) {
			bad++
		}
	}
	if bad > 0 {
		return 0, exit.NewProblem(exit.Failure, fmt.Errorf("cannot move the programs: the cluster has %s", counted(bad, "problem")), "Hint: nothing was changed.")
	}
	client, config, err := daemon.OpenCluster(s, "")
	if err != nil {
		return 0, err
	}
	defer client.Close()
	all, err := cluster.Machines(ctx, client, config)
	for _, machine := range all {
		if machine.State == cluster.MachineReady {
			ram += machine.RAM
		}
	}
	return ram, err
}

// findsRuntimes refuses when programs that run would not start on the engine, and says what differs there.
func (m *engineMoving) findsRuntimes() error {
	with, not, err := daemon.RuntimesOn(m.settings, m.to, m.apps)
	if err != nil {
		return cannot("move the programs", err)
	}
	lacking := 0
	for _, a := range m.apps {
		name := fmt.Sprintf("%s (%s)", screen.Word(a.Name), a.ID)
		if why := not[a.ID]; why != nil {
			if slices.ContainsFunc(m.online, func(o app.App) bool { return o.ID == a.ID }) {
				lacking++
			}
			m.Tell("%s would not start: %v", name, why)
			continue
		}
		if with[a.ID] != "" {
			m.Tell("%s gets %s", name, with[a.ID])
		}
		if daemon.HasEnvironment(m.settings.DataDir, a.ID) {
			m.Tell("note: %s has packages of one Python, which another does not find: commit it again after the move", name)
		}
	}
	if lacking > 0 {
		hint := "Hint: nothing was changed. berth runtime install brings runtimes."
		if m.to == settings.Kubernetes {
			hint = "Hint: nothing was changed. Add images with them to kubernetes.images."
		}
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot move the programs: %s cannot run there", counted(lacking, "program")), hint)
	}
	return nil
}

// fits refuses programs that the other engine has no room for.
func (m *engineMoving) fits(ram app.MB) error {
	may := app.Capacity(ram, m.settings.Host.Reserve, m.settings.Host.Overcommit)
	var need app.MB
	for _, a := range m.online {
		need += a.RAM
	}
	if need > may {
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot move the programs: they have %d MB of RAM together, and there are %d MB %s", need, may, where(m.to)),
			"Hint: nothing was changed. Stop some of them, or look at host.reserve and host.overcommit.")
	}
	return nil
}

// move stops everything, lets the daemon take the other engine, and starts what was online. What fails is taken back.
func (m *engineMoving) move(ctx context.Context, before string) error {
	const again = "Hint: the same command again finishes the move; berth resume starts the programs where berth runs them now."
	began := time.Now()
	m.Tell("stopping the programs")
	if err := m.db.Holds.SetHold(ctx, app.Hold{Why: app.HoldEngine, Peer: m.to, At: time.Now()}); err != nil {
		return err
	}
	if _, err := m.tellHold(ctx, m.settings); err != nil {
		return exit.NewProblem(exit.Failure, fmt.Errorf("the move is not finished: %w", err), again)
	}
	m.Tell("berth starts anew")
	if err := m.take(ctx, m.to); err != nil {
		if before == m.to || ctx.Err() != nil {
			return exit.NewProblem(exit.Failure, fmt.Errorf("the move is not finished: %w", err), again)
		}
		m.Tell("%v; going back", err)
		if back := m.take(ctx, before); back != nil {
			return exit.NewProblem(exit.Failure, fmt.Errorf("the move is not finished, and berth does not start as before: %w", errors.Join(err, back)), again)
		}
		if left := m.release(ctx); left != nil {
			return exit.NewProblem(exit.Failure, fmt.Errorf("%w; and the programs are held: %w", err, left), "Hint: berth resume starts them.")
		}
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot move the programs: %w", err), "Hint: they run "+where(before)+" as before.")
	}
	if err := m.release(ctx); err != nil {
		return exit.NewProblem(exit.Failure, fmt.Errorf("the move is not finished: %w", err), again)
	}
	m.record(ctx, m.db, 0, "host.engine", "", fmt.Sprintf("engine=%s applications=%d", m.to, len(m.apps)))
	return m.await(ctx, began)
}

// take sets the engine, and waits until the daemon has it.
func (m *engineMoving) take(ctx context.Context, engine string) error {
	path, _ := m.flags.File(m.Getenv)
	if _, err := settings.Manage(path, map[string]string{"engine": engine}); err != nil {
		return err
	}
	s, err := m.flags.Load(m.Getenv)
	if err != nil {
		return err
	}
	_, err = reloadDaemon(ctx, s)
	return err
}

// release ends the hold.
func (m *engineMoving) release(ctx context.Context) error {
	if err := m.db.Holds.DropHold(ctx); err != nil {
		return err
	}
	_, err := m.tellHold(ctx, m.settings)
	return err
}

// await waits until the programs are online, and says how long they were not.
func (m *engineMoving) await(ctx context.Context, began time.Time) error {
	left := m.online
	for until := time.Now().Add(onlineTime); len(left) > 0 && time.Now().Before(until) && ctx.Err() == nil; {
		is, err := local.Online(ctx, m.settings.RuntimeDir, left[0].Account, left[0].ID)
		if err == nil && is {
			left = left[1:]
			continue
		}
		if err := pause(ctx); err != nil {
			break
		}
	}
	if len(left) == 0 {
		m.Tell("moved %s; the time offline was %s at most", counted(len(m.online), "program"), time.Since(began).Round(100*time.Millisecond))
		return nil
	}
	for _, a := range left {
		m.Tell("%s (%s) is not online yet", screen.Word(a.Name), a.ID)
	}
	return exit.NewProblem(exit.Incomplete, fmt.Errorf("%d of %d programs are not online %s yet", len(left), len(m.online), where(m.to)), "Hint: their logs say why; berth tries on.")
}

// engineForget is "engine forget".
func engineForget(c *caller) *cobra.Command {
	cmd := command.New("forget [--yes] [--data-dir DIR]", "forget the cluster on which programs ran, which is no more or has another address now", 0, 0)
	sure := command.Toggle(cmd, "yes", "do not ask for the cluster's address")
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, _ []string) error {
		if err := mustBeRoot("forget the cluster", ", for it decides for every account", "engine forget"); err != nil {
			return err
		}
		server, err := d.Cluster(ctx)
		if err != nil {
			return err
		}
		if server == "" {
			c.Tell("no program of this host runs on a cluster")
			return nil
		}
		if served, err := local.Ask(ctx, s.RuntimeDir); err == nil && sameDir(served.DataDir, s.DataDir) {
			return exit.NewProblem(exit.Failure, errors.New("cannot forget the cluster: berth runs, and uses it"), "Hint: berth engine move machine moves the programs away from it.")
		}
		if !*sure {
			err := c.typed(server, "address", fmt.Sprintf("Programs that still run at %s go on there, and berth starts each a second time, with the same files.", screen.Word(server)))
			if err != nil {
				return err
			}
		}
		if err := d.SetCluster(ctx, ""); err != nil {
			return err
		}
		c.record(ctx, d, 0, "host.engine_forget", "", fmt.Sprintf("cluster=%q", server))
		c.Tell("the cluster at %s is forgotten", screen.Word(server))
		return nil
	})
}
