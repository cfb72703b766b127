package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/cluster"
	"berth/daemon/settings"
	"berth/db"
	"berth/kube"
	"berth/web/local"
)

// clusterWork is what a command of this group works with.
type clusterWork struct {
	*caller
	settings settings.Settings
	client   *kube.Client
	config   cluster.Config
	apps     []app.App
}

// onCluster is withDB for a command of this group.
func (c *caller) onCluster(cmd *cobra.Command, do func(ctx context.Context, w clusterWork, args []string) error) *cobra.Command {
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, args []string) error {
		if s.Engine != settings.Kubernetes {
			return exit.NewProblem(exit.Config, errors.New("programs of this host run on this machine, and not on a cluster"), "Hint: docs/kubernetes.md says how they run on one.")
		}
		name, err := d.GroupName(ctx)
		if err != nil {
			return err
		}
		apps, err := d.Apps.Apps(ctx)
		if err != nil {
			return err
		}
		client, config, err := daemon.OpenCluster(s, name)
		if err != nil {
			return exit.NewProblem(exit.Config, err, "Hint: look at the settings of the section kubernetes.")
		}
		defer client.Close()
		return do(ctx, clusterWork{c, s, client, config, apps}, args)
	})
}

// machineView is a machine as --json has it.
type machineView struct {
	Name     string   `json:"name"`
	State    string   `json:"state"`
	RAM      app.MB   `json:"ram"` // MB that it has for programs
	Programs []app.ID `json:"programs"`
}

// clusterNodes is "cluster nodes".
func clusterNodes(c *caller) *cobra.Command {
	cmd := command.New("nodes [--json] [--data-dir DIR]", "list the machines, what they do, and which programs run there", 0, 0)
	asJSON := command.JSON(cmd)
	return c.onCluster(cmd, func(ctx context.Context, w clusterWork, _ []string) error {
		all, err := cluster.Machines(ctx, w.client, w.config)
		if err != nil {
			return err
		}
		views := []machineView{}
		for _, m := range all {
			views = append(views, machineView{m.Name, m.State, m.RAM, append([]app.ID{}, m.Programs...)})
		}
		return c.Print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "MACHINE\tSTATE\tRAM\tPROGRAMS")
			for _, v := range views {
				fmt.Fprintf(out, "%s\t%s\t%d MB\t%d\n", screen.Word(v.Name), v.State, v.RAM, len(v.Programs))
			}
		})
	})
}

// machine returns the machine of a name.
func (w clusterWork) machine(ctx context.Context, name string) (cluster.Machine, error) {
	all, err := cluster.Machines(ctx, w.client, w.config)
	if err != nil {
		return cluster.Machine{}, err
	}
	var names []string
	for _, m := range all {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return cluster.Machine{}, exit.NewProblem(exit.NotFound, fmt.Errorf("the cluster has no machine %q%s", name, exit.DidYouMean(name, names, "%q")), "Hint: berth cluster nodes lists them.")
}

// clusterDrain is "cluster drain".
func clusterDrain(c *caller) *cobra.Command {
	cmd := command.New("drain MACHINE [--data-dir DIR]", "restart the programs of a machine on others, one after the other", 1, 1)
	return c.onCluster(cmd, func(ctx context.Context, w clusterWork, args []string) error {
		m, err := w.machine(ctx, args[0])
		if err != nil {
			return err
		}
		switch m.State {
		case cluster.MachineSilent:
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot drain %s: it does not answer", m.Name), "Hint: when it is gone for good, berth cluster forget "+m.Name+" starts its programs on others.")
		case cluster.MachineReady:
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot drain %s: the cluster would start new programs there", m.Name), "Hint: kubectl cordon "+m.Name)
		}
		return w.startAll(ctx, m.Programs, "restart")
	})
}

// clusterForget is "cluster forget".
func clusterForget(c *caller) *cobra.Command {
	cmd := command.New("forget MACHINE [--yes] [--data-dir DIR]", "give up a machine that does not answer, and start its programs on others", 1, 1)
	sure := command.Toggle(cmd, "yes", "do not ask for the machine's name")
	return c.onCluster(cmd, func(ctx context.Context, w clusterWork, args []string) error {
		m, err := w.machine(ctx, args[0])
		if err != nil {
			return err
		}
		if m.State != cluster.MachineSilent {
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot forget %s: it answers", m.Name), "Hint: kubectl cordon "+m.Name+", and then berth cluster drain "+m.Name+".")
		}
		if !*sure {
			err := c.typed(m.Name, "name", fmt.Sprintf("berth does not know whether %s is off or only cut off.\n"+
				"If it is only cut off, its %d programs go on there beside the new ones, with the same files, until the cluster reaches it again.\nSwitch it off first.", screen.Word(m.Name), len(m.Programs)))
			if err != nil {
				return err
			}
		}
		forgotten, err := cluster.Forget(ctx, w.client, w.config.Host, m.Name)
		if err != nil {
			return fmt.Errorf("%d programs are forgotten: %w", len(forgotten), err)
		}
		return w.startAll(ctx, forgotten, "start")
	})
}

// typed says what a person is about to do, and wants what it is about typed.
func (c *caller) typed(word, what, warning string) error {
	fmt.Fprintf(c.Stderr, "%s\nType its %s to go on: ", warning, what)
	text, err := bufio.NewReader(io.LimitReader(c.Stdin, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if strings.TrimSpace(text) != word {
		return exit.NewProblem(exit.Failure, fmt.Errorf("that is not its %s", what), "Hint: nothing was changed.")
	}
	return nil
}

// goneTime is how long the daemon may take to hear that a program was forgotten.
const goneTime = 30 * time.Second

// startAll lets the daemon start programs, or restart them. One that fails keeps no other from it.
func (w clusterWork) startAll(ctx context.Context, ids []app.ID, verb string) error {
	failed := 0
	for _, id := range ids {
		i := slices.IndexFunc(w.apps, func(a app.App) bool { return a.ID == id })
		if i < 0 {
			continue // it was deleted since
		}
		var err error
		for until := time.Now().Add(goneTime); ; {
			err = local.Restart(ctx, w.settings.RuntimeDir, w.apps[i].Account, id, verb)
			// Until the daemon has heard of the end, the program is online for it.
			if err == nil || verb != "start" || !strings.Contains(err.Error(), "already") || time.Now().After(until) || ctx.Err() != nil {
				break
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		if err != nil {
			failed++
			fmt.Fprintf(w.Stderr, "%s: %v\n", screen.Word(string(id)), err)
			continue
		}
		w.Tell("%s runs elsewhere", screen.Word(string(id)))
	}
	if failed > 0 {
		return exit.NewProblem(exit.Failure, fmt.Errorf("%d of %d programs could not be started", failed, len(ids)), "Hint: their logs say why.")
	}
	if len(ids) == 0 {
		w.Tell("no program of this berth runs there")
	}
	return nil
}
