package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// teamGroup are the commands for who else may use an application.
func (c *caller) teamGroup() *cobra.Command {
	list := command.New("list [APP] [--json]", "list the members of an application's team", 0, 1)
	list.Aliases = []string{"ls"}
	asJSON := jsonFlag[[]client.Member](list)
	c.onApp(list, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		all, err := w.Members(ctx, a)
		if err != nil {
			return err
		}
		return c.Print(*asJSON, all, func(out io.Writer) {
			fmt.Fprintln(out, "ACCOUNT\tNAME\tMAY")
			for _, m := range all {
				fmt.Fprintf(out, "%s\t%s\t%s\n", screen.Word(m.ID), screen.Word(m.Name), screen.Word(strings.Join(m.Permissions, ",")))
			}
		})
	})
	remove := command.New("remove APP ACCOUNT", "take an account, by its number or name, out of an application's team", 2, 2)
	remove.Aliases = []string{"rm"}
	c.onApp(remove, 1, func(ctx context.Context, w *way, a client.App, args []string) error {
		id, err := member(ctx, w, a, args[0])
		if err != nil {
			return err
		}
		return c.said(w.RemoveMember(ctx, a, id))
	})
	return command.Group("team", "manage who else may use an application", list,
		c.memberCommand("add APP ACCOUNT --may PERMISSION,...", "take an account, by its number or name, into an application's team", (*client.Client).AddMember),
		c.memberCommand("set APP ACCOUNT --may PERMISSION,...", "change what a member of an application's team may do", (*client.Client).SetMember),
		remove)
}

// memberCommand is a command that gives an account permissions.
func (c *caller) memberCommand(
	use, short string, do func(*client.Client, context.Context, client.App, string, []string) (client.Outcome, error),
) *cobra.Command {
	cmd := command.New(use, short, 2, 2)
	may := command.Word(cmd, "may", "`PERMISSION,...`: "+strings.Join(app.AllPermissions.Names(), ", "))
	command.Choices(cmd, map[string][]string{"may": app.AllPermissions.Names()})
	return c.onApp(cmd, 1, func(ctx context.Context, w *way, a client.App, args []string) error {
		perms, err := permissions(*may)
		if err != nil {
			return err
		}
		return c.said(do(w.Client, ctx, a, args[0], perms))
	})
}

// permissions reads a list of them, as --may has it.
func permissions(text string) ([]string, error) {
	var all []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		if _, known := app.ParsePermission(word); !known {
			return nil, exit.Misused("there is no permission %q%s", word, exit.DidYouMean(word, app.AllPermissions.Names(), "%s"))
		}
		all = append(all, word)
	}
	if len(all) == 0 {
		return nil, exit.Misused("the flag --may is missing: what may the account do?")
	}
	return all, nil
}

// member returns the number of the account that a person means: the number itself, or the
// name of one who is in the team.
func member(ctx context.Context, w *way, a client.App, word string) (string, error) {
	if accountID(word) > 0 {
		return word, nil
	}
	all, err := w.Members(ctx, a)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(m client.Member) bool { return m.Name == word })
	if i < 0 {
		return "", exit.NewProblem(exit.NotFound, fmt.Errorf("nobody in the team of %s is called %q", a.ID, word),
			"Hint: berth team list "+a.ID+" shows who is.")
	}
	return all[i].ID, nil
}

// said prints the server's sentence about a change.
func (c *caller) said(o client.Outcome, err error) error {
	if err == nil {
		c.Tell("%s", o.Message)
	}
	return err
}
