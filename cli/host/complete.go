package host

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
)

// remembered returns what list finds in the database that the command line means.
// It makes nothing and reports nothing: a host without a database, one of another
// schema, and one that this user may not read have nothing to complete to.
func (c *caller) remembered(cmd *cobra.Command, list func(context.Context, *db.DB) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	s, err := settings.Load(func(name string) string {
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "BERTH_"), "_", "-"))
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return f.Value.String()
		}
		return c.Getenv(name)
	})
	if err != nil {
		return nil, none
	}
	d, err := daemon.OpenCurrent(cmd.Context(), s.DataDir, s.KeyFiles()...)
	if err != nil || d == nil {
		return nil, none
	}
	defer func() { _ = d.Close() }()
	words, err := list(cmd.Context(), d)
	if err != nil {
		return nil, none
	}
	return words, none
}

func wordsOf[T any](all []T, word func(T) string) []string {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = word(v)
	}
	return words
}

// accounts completes the first argument, or a flag, to the name of an account.
func (c *caller) accounts(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.ValidArgsFunction != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.remembered(cmd, func(ctx context.Context, d *db.DB) ([]string, error) {
		all, err := d.Accounts.Accounts(ctx)
		return wordsOf(all, func(a app.Account) string { return a.Name }), err
	})
}

// apps completes the first argument, or a flag, to the id of an application. What
// accompanies it is its name, as the shell shows it.
func (c *caller) apps(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.remembered(cmd, func(ctx context.Context, d *db.DB) ([]string, error) {
		all, err := d.Apps.Apps(ctx)
		return wordsOf(all, func(a app.App) string { return cobra.CompletionWithDesc(string(a.ID), screen.Word(a.Name)) }), err
	})
}

// tokens completes every argument to the number of a token.
func (c *caller) tokens(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.remembered(cmd, func(ctx context.Context, d *db.DB) ([]string, error) {
		accounts, err := d.Accounts.Accounts(ctx)
		var words []string
		for _, a := range accounts {
			all, failed := d.Accounts.Tokens(ctx, a.ID)
			if failed != nil {
				return nil, failed
			}
			for _, t := range all {
				words = append(words, cobra.CompletionWithDesc(strconv.FormatInt(t.ID, 10), screen.Word(a.Name+" "+t.Label)))
			}
		}
		return words, err
	})
}

// invitations completes every argument to the number of an invitation that waits.
func (c *caller) invitations(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.remembered(cmd, func(ctx context.Context, d *db.DB) ([]string, error) {
		all, err := d.Invitations.Offers(ctx, 0)
		return wordsOf(all, func(o app.Offer) string {
			return cobra.CompletionWithDesc(strconv.FormatInt(o.ID, 10), cmp.Or(o.For, fmt.Sprint(o.Grants)))
		}), err
	})
}

// variables completes "app env": an application, a verb, then its variables.
func (c *caller) variables(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return c.apps(cmd, args, typed)
	case len(args) == 1:
		return []string{"list", "set", "unset"}, cobra.ShellCompDirectiveNoFileComp
	case args[1] == "list" || args[1] == "ls":
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words, directive := c.remembered(cmd, func(ctx context.Context, d *db.DB) ([]string, error) {
		all, err := d.Apps.Variables(ctx, app.ID(args[0]))
		end := map[string]string{"set": "="}[args[1]]
		return wordsOf(all, func(v app.Variable) string { return v.Name + end }), err
	})
	return words, directive | cobra.ShellCompDirectiveNoSpace
}
