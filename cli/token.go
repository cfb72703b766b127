package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// tokenGroup are the commands for tokens of the API. With an ACCOUNT they work on the
// database of the host, also while no daemon runs: stored has those.
func (c *caller) tokenGroup(stored map[string]*cobra.Command) *cobra.Command {
	return command.Group("token", "manage API tokens, those of CI too",
		c.tokenCreate(stored["create"]), c.tokenList(stored["list"]), c.tokenRevoke(stored["revoke"]))
}

// ofAccount is a command of the way in that is another's, on the host, where an ACCOUNT is its
// argument. Its own flags are refused then.
func (c *caller) ofAccount(cmd, stored *cobra.Command, own ...string) *cobra.Command {
	if stored == nil {
		return cmd
	}
	cmd.Use, cmd.ValidArgsFunction = cmd.Use+" [--data-dir DIR]", stored.ValidArgsFunction
	stored.Flags().VisitAll(cmd.Flags().AddFlag)
	elsewhere := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			if f := cmd.Flags().Lookup("data-dir"); f != nil && f.Changed {
				return exit.Misused("--data-dir goes with an ACCOUNT")
			}
			return elsewhere(cmd, args)
		}
		for _, flag := range append(own, "context", "account") {
			if cmd.Flags().Lookup(flag).Changed {
				return exit.Misused("--%s goes without an ACCOUNT as argument: on the host, --account ACCOUNT names it", flag)
			}
		}
		return stored.RunE(cmd, args)
	}
	return cmd
}

// tokenCreate is "berth token create".
func (c *caller) tokenCreate(stored *cobra.Command) *cobra.Command {
	cmd := command.New("create [ACCOUNT] [--label LABEL] [--app APP,... --may PERMISSION,...] [--days DAYS]",
		"create a token for the API and print it, once only; with --app and --may it can do that alone", 0, 1)
	if stored == nil {
		command.Word(cmd, "label", "`LABEL` that distinguishes the token, such as the name of a machine")
		cmd.Args = command.New("", "", 0, 0).Args
	}
	apps := command.Word(cmd, "app", "`APP,...` that the token may use, by id or name, . for that of the directory")
	may := command.Word(cmd, "may", "`PERMISSION,...` that it has: "+strings.Join(app.AllPermissions.Names(), ", "))
	days := command.Word(cmd, "days", "`DAYS` that the token works; without this, for ever")
	command.Choices(cmd, map[string][]string{"may": app.AllPermissions.Names()})
	c.remote(cmd, func(ctx context.Context, w *way, _ []string) error {
		wanted := client.NewToken{Label: given(cmd, "label")}
		if *days != "" {
			n, err := strconv.ParseInt(*days, 10, 32)
			if err != nil || n < 1 {
				return exit.Misused("%q is no number of days", *days)
			}
			wanted.Days = n
		}
		if err := c.bind(ctx, w, &wanted, *apps, *may); err != nil {
			return err
		}
		text, _, err := w.CreateToken(ctx, wanted)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.Stdout, screen.Escape(text, false))
		return err
	})
	return c.ofAccount(cmd, stored, "app", "may", "days")
}

// bind sets the bounds of a token that is asked for.
func (c *caller) bind(ctx context.Context, w *way, wanted *client.NewToken, apps, may string) (err error) {
	switch {
	case apps == "" && may == "":
		return nil
	case apps == "" || may == "":
		return exit.Misused("--app and --may go together: the one says with which applications, the other what")
	}
	if wanted.May, err = permissions(may); err != nil {
		return err
	}
	wanted.Apps, err = c.appIDs(ctx, w, apps)
	return err
}

// appIDs are the ids of the applications that words mean, with commas between them.
func (c *caller) appIDs(ctx context.Context, w *way, words string) ([]string, error) {
	all, err := w.Apps(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for word := range strings.SplitSeq(words, ",") {
		if word = strings.TrimSpace(word); word == "." {
			at, err := appOfDirectory()
			if err != nil {
				return nil, err
			}
			word = at.ID
		}
		a, err := client.Choose(all, word)
		if err != nil {
			return nil, err
		}
		ids = append(ids, a.ID)
	}
	return ids, nil
}

// tokenList is "berth token list".
func (c *caller) tokenList(stored *cobra.Command) *cobra.Command {
	cmd := command.New("list [ACCOUNT] [--json]", "list the tokens of your account", 0, 1)
	cmd.Aliases = []string{"ls"}
	if stored == nil {
		cmd.Args = command.New("", "", 0, 0).Args
		command.JSON(cmd)
	}
	c.remote(cmd, func(ctx context.Context, w *way, _ []string) error {
		all, err := w.Tokens(ctx)
		if err != nil {
			return err
		}
		if all == nil {
			all = []client.Token{} // an empty list in JSON, not null
		}
		return c.Print(given(cmd, "json") == "true", all, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tLABEL\tLAST USED\tEXPIRES\tAPPS\tMAY")
			for _, t := range all {
				fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%s\n", t.ID, cmp.Or(screen.Word(t.Label), "-"), command.LastUse(moment(t.LastUsed), t.Unused),
					command.When(moment(t.ExpiresAt)), listOf(t.Apps, "all"), listOf(t.May, "everything"))
			}
		})
	})
	return c.ofAccount(cmd, stored)
}

// listOf is a list of words, or what null means.
func listOf(words []string, null string) string {
	if words == nil {
		return null
	}
	return cmp.Or(screen.Word(strings.Join(words, ",")), "none")
}

func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// tokenRevoke is "berth token revoke": of any account on the host, and else of one's own.
func (c *caller) tokenRevoke(stored *cobra.Command) *cobra.Command {
	cmd := command.New("revoke TOKENID...", "revoke tokens; berth refuses them from the next request on", 1, math.MaxInt)
	cmd.Aliases = []string{"rm"}
	c.remote(cmd, func(ctx context.Context, w *way, args []string) error {
		ids := make([]int64, len(args))
		for i, arg := range args { // all of them, before the first is revoked
			id, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				return exit.Misused("%q is not the id of a token, which is a number: berth token list shows it", arg)
			}
			ids[i] = id
		}
		for _, id := range ids {
			err := w.RevokeToken(ctx, id)
			if client.StatusOf(err) == http.StatusNotFound {
				return exit.NewProblem(exit.NotFound, errors.New(screen.Escape(err.Error(), false)), "Hint: berth token list shows your tokens.")
			}
			if err != nil {
				return err
			}
			c.Tell("token %d is revoked", id)
		}
		return nil
	})
	return c.onHost(stored, cmd)
}
