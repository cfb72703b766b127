package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/daemon/settings"
)

// help is the command; --help of any command prints the same.
func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "list the commands, or print the help of one command", DisableFlagsInUseLine: true,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			words := []string{}
			if found, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, member := range found.Commands() {
					words = append(words, cobra.CompletionWithDesc(member.Name(), member.Short))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0 && found.HasSubCommands():
				return unknown(found, rest[0])
			case len(rest) > 0:
				return settings.Misused("unexpected argument %q", rest[0])
			}
			printHelp(found)
			return nil
		},
	}
}

// printHelp prints the commands of the root or of a group, or what one command is
// for and its flags. What cannot be printed, Run says.
func printHelp(cmd *cobra.Command) {
	out := cmd.OutOrStdout()
	switch {
	case !cmd.HasParent():
		fmt.Fprint(out, cmd.Short+"\n\n")
		printTable(out, cmd)
		fmt.Fprint(out, "\nberth COMMAND --help lists the flags of a command.\n")
	case cmd.HasSubCommands():
		printTable(out, cmd)
	default:
		fmt.Fprintf(out, "%s: %s\n\nUsage: %s\n", cmd.CommandPath(), cmd.Short, cmd.UseLine())
		for _, alias := range cmd.Aliases {
			fmt.Fprintf(out, "Alias: %s %s\n", cmd.Parent().CommandPath(), alias)
		}
		printFlags(out, cmd)
	}
}

// Walk calls visit for each command that does something, in the order of the help
// text.
func Walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.IsAvailableCommand() && !cmd.HasSubCommands() || cmd.Name() == "help" {
		visit(cmd)
	}
	for _, member := range cmd.Commands() {
		Walk(member, visit)
	}
}

func printTable(to io.Writer, group *cobra.Command) {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	Walk(group, func(cmd *cobra.Command) { fmt.Fprintf(out, "  %s\t%s\n", cmd.CommandPath(), cmd.Short) })
	_ = out.Flush()
}

func printFlags(to io.Writer, cmd *cobra.Command) {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	first := true
	EachFlag(cmd, func(name, text string) {
		if first {
			fmt.Fprint(out, "\nFlags:\n")
			first = false
		}
		fmt.Fprintf(out, "  %s\t%s\n", name, text)
	})
	_ = out.Flush()
}

// EachFlag calls visit for each flag of a command: how it is written, and what it
// is for.
func EachFlag(cmd *cobra.Command, visit func(name, text string)) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		word, text := pflag.UnquoteUsage(f)
		if f.DefValue != "" {
			text += " (default " + f.DefValue + ")"
		}
		visit(strings.TrimSpace("--"+f.Name+" "+word), text)
	})
}
