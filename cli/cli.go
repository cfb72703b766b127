package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"berth/app"
	"berth/cli/host"
	"berth/daemon/settings"
)

// Run is berth without the process around it: it runs the command that args
// name and returns the exit code.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	out := &output{to: stdout}
	if f, is := stdout.(*os.File); is {
		out.width, _, _ = term.GetSize(int(f.Fd())) // 0 where it is no terminal
	}
	c := &host.Caller{Args: args, Getenv: getenv, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr}
	root := Root(c)
	root.SetOut(out)
	root.SetErr(stderr)
	root.SetArgs(twoDashes(root, args))
	cmd, err := root.ExecuteContextC(ctx)
	usage := "Usage: " + cmd.UseLine()
	if err == nil && c.Then != nil {
		err = c.Then(ctx)
	}
	if err == nil {
		err = out.failed
	}
	if err == nil {
		return settings.ExitOK
	}
	fmt.Fprintf(stderr, "berth: %v\n", err)
	code, hint := verdict(err)
	if _, is := errors.AsType[*settings.Misuse](err); is {
		code, hint = settings.ExitUsage, usage
	}
	if hint != "" {
		fmt.Fprintln(stderr, hint)
	}
	return code
}

// twoDashes lets a long flag begin with one dash, as flags did before they were
// cobra's: units and scripts have such.
func twoDashes(root *cobra.Command, args []string) []string {
	known := map[string]bool{"help": true, "version": true}
	Walk(root, func(cmd *cobra.Command) { cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true }) })
	all := slices.Clone(args)
	for i, arg := range all {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && known[name] {
			all[i] = "-" + arg
		}
	}
	return all
}

// verdict is the exit code of an error, and what the reader can do about it.
func verdict(err error) (code int, hint string) {
	var p *settings.Problem
	switch {
	case errors.As(err, &p):
		return p.Code, p.Hint
	case errors.Is(err, fs.ErrPermission):
		return settings.ExitPermission, ""
	case app.KindOf(err) == app.NotFound:
		return settings.ExitNotFound, ""
	}
	return settings.ExitFailure, ""
}

// output remembers the first write that failed, for cobra drops such errors.
type output struct {
	to     io.Writer
	width  int // columns of the terminal; 0 when it is none
	failed error
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if o.failed == nil {
		o.failed = err
	}
	return n, err
}

// unsorted lets help show commands in the order of the tables, not of the alphabet.
var unsorted = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

// Root returns the whole command line, as c calls it.
func Root(c *host.Caller) *cobra.Command {
	unsorted()
	root := &cobra.Command{
		Use: "berth COMMAND", Short: "berth turns a machine into a host for uploaded applications.", Version: settings.Version(),
		DisableFlagsInUseLine: true, SilenceErrors: true, SilenceUsage: true, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		Args: cobra.ArbitraryArgs,
		RunE: func(root *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return unknown(root, args[0])
			case len(c.Args) > 0:
				return settings.Misused("unknown flag %s", c.Args[0])
			}
			return root.Help()
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true // completion is ours
	root.SetVersionTemplate(versionLine())
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd) })
	root.SetFlagErrorFunc(flagError)
	for _, cmd := range append(host.Commands(c), completion(), version()) {
		if cmd.HasSubCommands() {
			cmd.Args, cmd.RunE, cmd.FParseErrWhitelist.UnknownFlags = cobra.ArbitraryArgs, runGroup, true
		}
		root.AddCommand(cmd)
	}
	root.SetHelpCommand(help())
	root.InitDefaultHelpCmd()
	return root
}

// runGroup refuses a group of commands without one of them.
func runGroup(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknown(cmd, args[0])
	}
	var names []string
	for _, member := range cmd.Commands() {
		names = append(names, member.Name())
	}
	return settings.NewProblem(settings.ExitUsage, fmt.Errorf("%s needs one of %s", cmd.CommandPath(), strings.Join(names, ", ")), listHint)
}

const listHint = "Hint: berth help lists the commands."

// unknown refuses a word that is no command of a group, or of the root.
func unknown(group *cobra.Command, word string) error {
	var names []string
	for _, cmd := range group.Commands() {
		names = append(names, append(cmd.Aliases, cmd.Name())...)
		for _, member := range cmd.Commands() { // whose group was forgotten
			names = append(names, cmd.Name()+" "+member.Name())
		}
	}
	_, prefix, _ := strings.Cut(group.CommandPath()+" ", " ")
	meant := settings.DidYouMean(word, names, `"`+strings.ReplaceAll(prefix, "%", "%%")+`%s"`)
	return settings.NewProblem(settings.ExitUsage, fmt.Errorf("unknown command %q%s", prefix+word, meant), listHint)
}

// flagError says in our words what pflag found.
func flagError(cmd *cobra.Command, err error) error {
	if absent, is := errors.AsType[*pflag.NotExistError](err); is {
		name, dashes := absent.GetSpecifiedName(), "--"
		if group := absent.GetSpecifiedShortnames(); group != "" {
			name, dashes = group, "-"
		}
		name, _, _ = strings.Cut(name, "=")
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		return settings.Misused("unknown flag %s%s%s", dashes, name, settings.DidYouMean(name, known, "--%s"))
	}
	if lacking, is := errors.AsType[*pflag.ValueRequiredError](err); is {
		return settings.Misused("the flag --%s needs a value", lacking.GetFlag().Name)
	}
	if bad, is := errors.AsType[*pflag.InvalidValueError](err); is {
		return settings.Misused("bad value %q for --%s: %w", bad.GetValue(), bad.GetFlag().Name, bad.Unwrap())
	}
	return settings.Misused("%w", err)
}

func versionLine() string {
	return fmt.Sprintf("berth %s %s %s/%s\n", settings.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func version() *cobra.Command {
	cmd := host.NewCommand("version", "print the versions of berth and of Go", 0, 0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
		return err
	}
	return cmd
}
