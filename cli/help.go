package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
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
				return exit.Misused("unexpected argument %q", rest[0])
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
		fmt.Fprint(out, fitting(out, cmd.Short)+"\n\n")
		printTable(out, cmd)
		fmt.Fprint(out, "\n"+fitting(out, "berth COMMAND --help lists the flags of a command.")+"\n")
	case cmd.HasSubCommands():
		printTable(out, cmd)
	default:
		fmt.Fprintf(out, "%s\n\n%s\n", fitting(out, cmd.CommandPath()+": "+cmd.Short), fitting(out, "Usage: "+cmd.UseLine()))
		if strings.Contains(cmd.Use, " APP") && cmd.Flags().Lookup("context") != nil {
			fmt.Fprintln(out, fitting(out, whatAppIs))
		}
		for _, alias := range cmd.Aliases {
			fmt.Fprintf(out, "Alias: %s %s\n", cmd.Parent().CommandPath(), alias)
		}
		printFlags(out, cmd)
	}
}

// whatAppIs says what the commands of the client take for an application.
const whatAppIs = "APP is an id or a name, or . for the application that this directory was deployed to."

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

func printTable(out io.Writer, group *cobra.Command) {
	var rows [][2]string
	Walk(group, func(cmd *cobra.Command) { rows = append(rows, [2]string{cmd.CommandPath(), cmd.Short}) })
	printRows(out, rows)
}

func printFlags(out io.Writer, cmd *cobra.Command) {
	var rows [][2]string
	EachFlag(cmd, func(name, text string) { rows = append(rows, [2]string{name, text}) })
	if len(rows) > 0 {
		fmt.Fprint(out, "\nFlags:\n")
	}
	printRows(out, rows)
}

// printRows prints names and what they mean in two columns. On a terminal no line
// is longer than it is wide; where it is too narrow for two columns, the meaning
// stands below the name.
func printRows(out io.Writer, rows [][2]string) {
	width, left := 0, 0
	if p, is := out.(*output); is {
		width = p.width
	}
	for _, row := range rows {
		left = max(left, len(row[0]))
	}
	indent := 2 + left + 2
	const narrow = 24 // columns that a meaning needs
	for _, row := range rows {
		switch {
		case width == 0:
			fmt.Fprintf(out, "  %-*s%s\n", left+2, row[0], row[1])
		case width-indent >= narrow:
			fmt.Fprintf(out, "  %-*s%s\n", left+2, row[0], screen.Wrap(row[1], width-indent, indent))
		default:
			fmt.Fprintf(out, "  %s\n      %s\n", screen.Wrap(row[0], width-2, 6), screen.Wrap(row[1], width-6, 6))
		}
	}
}

// fitting is a sentence in lines that fit a terminal.
func fitting(out io.Writer, text string) string {
	if p, is := out.(*output); is && p.width > 0 {
		return screen.Wrap(text, p.width-2, 2)
	}
	return text
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

// completion prints a script for a shell. The script asks berth itself, so names
// of applications and accounts are those of the moment.
func completion() *cobra.Command {
	cmd := command.New("completion bash|zsh|fish", "print a completion script for a shell", 1, 1)
	cmd.ValidArgs, cmd.ValidArgsFunction = []string{"bash", "zsh", "fish"}, nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		switch args[0] {
		case "bash":
			return cmd.Root().GenBashCompletionV2(out, true)
		case "zsh":
			return cmd.Root().GenZshCompletion(out)
		case "fish":
			return cmd.Root().GenFishCompletion(out, true)
		}
		return exit.Misused("unknown shell %q%s", args[0], exit.DidYouMean(args[0], cmd.ValidArgs, "%q"))
	}
	return cmd
}
