package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// domainGroup are the commands for domains of the account's own.
func (c *caller) domainGroup() *cobra.Command {
	list := command.New("list [--json]", "list your domains", 0, 0)
	list.Aliases = []string{"ls"}
	asJSON := jsonFlag[[]client.Domain](list)
	c.remote(list, func(ctx context.Context, w *way, _ []string) error {
		all, err := w.Domains(ctx)
		if err != nil {
			return err
		}
		return c.Print(*asJSON, all, func(out io.Writer) {
			fmt.Fprintln(out, "DOMAIN\tSTATE\tAPPLICATION\tCERTIFICATE")
			for _, d := range all {
				certificate := "-"
				if d.Certificate != nil {
					certificate = d.Certificate.Status
				}
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", screen.Word(d.Name), screen.Word(d.Status), screen.Word(d.App.ID), screen.Word(certificate))
			}
		})
	})
	add := command.New("add DOMAIN [APP] [--json]", "claim a domain for a site, and print the records that its DNS needs", 1, 2)
	addJSON := jsonFlag[client.Domain](add)
	wayFlags(c, add)
	add.RunE = func(cmd *cobra.Command, args []string) error {
		word := "."
		if len(args) > 1 {
			word = args[1]
		}
		if strings.Contains(word, ".") && word != "." && !strings.Contains(args[0], ".") {
			return exit.NewProblem(exit.Usage, fmt.Errorf("the domain comes first: %s is no domain", screen.Word(args[0])),
				fmt.Sprintf("Hint: berth domain add %s %s", screen.Word(word), screen.Word(args[0])))
		}
		return c.withApp(cmd, word, func(ctx context.Context, w *way, a client.App) error {
			return c.printDomain(*addJSON)(w.AddDomain(ctx, a, args[0]))
		})
	}
	add.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return c.appWords(cmd)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	verify := command.New("verify DOMAIN [--json]", "look for the record that proves a domain", 1, 1)
	verifyJSON := jsonFlag[client.Domain](verify)
	c.remote(verify, func(ctx context.Context, w *way, args []string) error {
		return c.printDomain(*verifyJSON)(w.VerifyDomain(ctx, args[0]))
	})
	remove := command.New("remove DOMAIN", "give a domain up", 1, 1)
	remove.Aliases = []string{"rm"}
	c.remote(remove, func(ctx context.Context, w *way, args []string) error {
		return c.said(w.RemoveDomain(ctx, args[0]))
	})
	for _, cmd := range []*cobra.Command{verify, remove} {
		cmd.ValidArgsFunction = c.completeDomains
	}
	return command.Group("domain", "manage domains of your own", list, add, verify, remove)
}

// printDomain prints the answer about one domain: the records go to the standard output,
// what to do with them beside it.
func (c *caller) printDomain(asJSON bool) func(client.Domain, string, error) error {
	return func(d client.Domain, message string, err error) error {
		if err != nil {
			return err
		}
		c.Tell("%s", message)
		if !asJSON && len(d.Instructions) == 0 {
			return nil
		}
		return c.Print(asJSON, d, func(out io.Writer) {
			fmt.Fprintln(out, "TYPE\tNAME\tCONTENT")
			for _, r := range d.Instructions {
				fmt.Fprintf(out, "%s\t%s\t%s\n", screen.Word(r.Type), screen.Word(r.Name), screen.Word(r.Content))
			}
		})
	}
}

// completeDomains completes the first argument to a domain of the account.
func (c *caller) completeDomains(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	w, err := c.way(ctx, cmd, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer w.Close()
	all, _ := w.Domains(ctx) // none where they cannot be read
	var words []string
	for _, d := range all {
		words = append(words, screen.Word(d.Name))
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
