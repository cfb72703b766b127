package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// envGroup are the commands for environment variables.
func (c *caller) envGroup() *cobra.Command {
	list := command.New("list [APP] [--json]", "list the environment variables of an application, with masked values", 0, 1)
	list.Aliases = []string{"ls"}
	jsonFlag[[]command.VariableView](list)
	c.onApp(list, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		return c.changeEnv(ctx, list, w, a, "list", nil)
	})

	set := command.New("set APP NAME=VALUE...", "set environment variables; NAME alone reads the value from the standard input", 2, math.MaxInt)
	c.onVariables(set, "set")
	unset := command.New("unset APP NAME...", "remove environment variables", 2, math.MaxInt)
	unset.Aliases = []string{"rm"}
	c.onVariables(unset, "unset")
	return command.Group("env", "list and change the environment variables of an application", list, set, unset, c.envPush(), c.envPull())
}

// onVariables is onApp for a command whose first argument is an application, always.
func (c *caller) onVariables(cmd *cobra.Command, verb string) {
	wayFlags(c, cmd)
	cmd.ValidArgsFunction = c.completeVariables(verb)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withApp(cmd, args[0], func(ctx context.Context, w *way, a client.App) error {
			return c.changeEnv(ctx, cmd, w, a, verb, args[1:])
		})
	}
}

// changeEnv lists, sets or removes environment variables.
func (c *caller) changeEnv(ctx context.Context, cmd *cobra.Command, w *way, a client.App, verb string, args []string) error {
	if verb == "list" {
		all, err := w.Variables(ctx, a)
		if err != nil {
			return err
		}
		views := make([]command.VariableView, len(all))
		for i, v := range all {
			views[i] = command.VariableView{Name: screen.Word(v.Name), Value: v.Value}
		}
		return c.PrintVariables(given(cmd, "json") == "true", views)
	}
	change := map[string]*string{}
	if verb == "set" {
		var err error
		if change, err = c.Assignments(args); err != nil {
			return err
		}
	}
	if verb == "unset" {
		if err := c.checkKnown(ctx, w, a, args); err != nil {
			return err
		}
		for _, name := range args {
			change[name] = nil
		}
	}
	if _, err := w.ChangeVariables(ctx, a, change); err != nil {
		return err
	}
	c.Tell("the environment of %q was changed: in effect from the next start", a.ID)
	return nil
}

// checkKnown refuses to remove a variable that there is not: the API takes it for removed.
func (c *caller) checkKnown(ctx context.Context, w *way, a client.App, names []string) error {
	all, err := w.Variables(ctx, a)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, v := range all {
		known[v.Name] = true
	}
	for _, name := range names {
		if !known[name] {
			return exit.NewProblem(exit.NotFound, fmt.Errorf("there is no variable %q", name), "Hint: berth env list APP lists the variables.")
		}
	}
	return nil
}

// completeVariables completes an application, and then its variables.
func (c *caller) completeVariables(verb string) cobra.CompletionFunc {
	end := map[string]string{"set": "="}[verb]
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return c.appWords(cmd)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		w, a, err := c.find(ctx, cmd, args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer w.Close()
		all, _ := w.Variables(ctx, a) // none where they cannot be read
		var words []string
		for _, v := range all {
			words = append(words, screen.Word(v.Name)+end)
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// appGroup are the commands by which applications were shown and changed before there was
// a client. They are the same as env, deploys and events, in another order of words, and
// on the host they work while no daemon runs: stored has those that read its database.
func (c *caller) appGroup(stored map[string]*cobra.Command) *cobra.Command {
	env := command.New("env APP list|set NAME=VALUE...|unset NAME... [--json]",
		"list, set or remove the environment variables of an application (id or name)", 2, math.MaxInt)
	command.JSON(env)
	c.onVerbs(env)
	deploys := c.shown("deploys", "list the latest deploys of an application (id or name), and which you can roll back to", c.printDeploys)
	events := c.shown("events", "list the latest events of an application (id or name)", c.printHistory)
	return command.Group("app", "show and change what berth stores of an application", c.backupGroup(), c.snapshotGroup(),
		c.onHost(stored["env"], env), c.onHost(stored["deploys"], deploys), c.onHost(stored["events"], events))
}

// shown is "app NAME APP", which prints something of an application.
func (c *caller) shown(name, short string, print func(context.Context, *cobra.Command, *way, client.App) error) *cobra.Command {
	cmd := command.New(name+" APP [--json]", short, 1, 1)
	command.JSON(cmd)
	wayFlags(c, cmd)
	cmd.ValidArgsFunction = c.completeApps
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withApp(cmd, args[0], func(ctx context.Context, w *way, a client.App) error { return print(ctx, cmd, w, a) })
	}
	return cmd
}

// onVerbs is "app env APP VERB ARGUMENT...".
func (c *caller) onVerbs(cmd *cobra.Command) {
	wayFlags(c, cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return c.appWords(cmd)
		case len(args) == 1:
			return []string{"list", "set", "unset"}, cobra.ShellCompDirectiveNoFileComp
		}
		return c.completeVariables(args[1])(cmd, args[:1], typed)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		verb, rest := cmp.Or(map[string]string{"ls": "list", "rm": "unset"}[args[1]], args[1]), args[2:]
		switch {
		case verb != "list" && verb != "set" && verb != "unset":
			return exit.Misused("unknown word %q%s", verb, exit.DidYouMean(verb, []string{"list", "set", "unset"}, "%q"))
		case verb != "list" && given(cmd, "json") == "true":
			return exit.Misused("--json goes with list")
		case verb == "list" && len(rest) > 0:
			return exit.Misused("unexpected argument %q", rest[0])
		case verb != "list" && len(rest) == 0:
			return exit.Misused("an argument is missing")
		}
		return c.withApp(cmd, args[0], func(ctx context.Context, w *way, a client.App) error { return c.changeEnv(ctx, cmd, w, a, verb, rest) })
	}
}

// onHost is a command that reads the database of the host, unless the way in leads to
// another server: then it is elsewhere, by the same words.
func (c *caller) onHost(stored, elsewhere *cobra.Command) *cobra.Command {
	if stored == nil {
		return elsewhere
	}
	wayFlags(c, stored)
	onHost, complete := stored.RunE, stored.ValidArgsFunction
	stored.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if c.leadsElsewhere(cmd) {
			return elsewhere.ValidArgsFunction(cmd, args, typed)
		}
		return complete(cmd, args, typed)
	}
	stored.RunE = func(cmd *cobra.Command, args []string) error {
		if !c.leadsElsewhere(cmd) {
			return onHost(cmd, args)
		}
		for _, flag := range []string{"show", "data-dir"} {
			if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
				return exit.Misused("--%s is for the host itself", flag)
			}
		}
		return elsewhere.RunE(cmd, args)
	}
	return stored
}
