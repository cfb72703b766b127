package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"berth/app"
	"berth/app/build"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// Run is berth without the process around it: it runs the command that args
// name and returns the exit code.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	return execute(ctx, &command.Caller{Args: args, Getenv: getenv, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr})
}

// execute is Run for what is around a command.
func execute(ctx context.Context, c *command.Caller) int {
	args, stderr, out := c.Args, c.Stderr, &output{to: c.Stdout}
	if f, is := c.Stdout.(*os.File); is {
		out.width, _, _ = term.GetSize(int(f.Fd())) // 0 where it is no terminal
	}
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
		return exit.OK
	}
	if status, is := errors.AsType[exit.Status](err); is {
		return int(status)
	}
	say := func(text string) { // it may have a server's words, or a program's
		fmt.Fprintln(stderr, screen.Fit(screen.Escape(text, false), screen.Width(stderr)))
	}
	say("berth: " + err.Error())
	code, hint := verdict(err)
	if _, is := errors.AsType[*exit.Misuse](err); is {
		code, hint = exit.Usage, usage
	}
	if hint != "" {
		say(hint)
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
	var p *exit.Problem
	switch {
	case errors.As(err, &p):
		return p.Code, p.Hint
	case errors.Is(err, fs.ErrPermission):
		return exit.Permission, ""
	case app.KindOf(err) == app.NotFound:
		return exit.NotFound, ""
	}
	if refused, is := errors.AsType[*client.Error](err); is {
		return refusal(refused)
	}
	if many, is := errors.AsType[*client.AmbiguousError](err); is {
		return exit.Usage, fmt.Sprintf("Hint: name one of them by its id, such as %s.", screen.Word(many.Apps[0].ID))
	}
	return failure(err)
}

// failure is verdict for what no server refused.
func failure(err error) (code int, hint string) {
	switch {
	case errors.Is(err, client.ErrNoApp):
		return exit.NotFound, "Hint: berth ls lists your applications."
	case errors.Is(err, client.ErrOwnersOnly):
		return exit.Permission, ""
	case errors.Is(err, client.ErrCertificate):
		return exit.Unreachable, "Hint: berth talks to no server that it cannot tell from another; let the server have a certificate that this system trusts."
	case errors.Is(err, client.ErrNotBerth):
		return exit.Unreachable, "Hint: check the address; berth context list shows those that you use."
	case errors.Is(err, client.ErrNoServer):
		return exit.Unreachable, "Hint: check the address and the network; on the host, systemctl status berth."
	case errors.Is(err, client.ErrPlain):
		return exit.Usage, "Hint: use an https address; berth login --insecure-http is for networks that you trust."
	}
	return exit.Failure, ""
}

// refusal is verdict for what a server refused.
func refusal(e *client.Error) (code int, hint string) {
	switch {
	case e.Status == http.StatusUnauthorized:
		return exit.Permission, "Hint: berth login URL logs in again, with a token that is valid."
	case e.Status == http.StatusForbidden:
		return exit.Permission, ""
	case e.Status == http.StatusNotFound:
		return exit.NotFound, ""
	case e.Status == http.StatusConflict, e.Status == http.StatusTooManyRequests:
		return exit.Busy, ""
	case e.Status == http.StatusRequestEntityTooLarge:
		return exit.Failure, "Hint: the server's owner sets how large a request may be."
	case e.Status >= http.StatusInternalServerError:
		return exit.Unreachable, ""
	}
	return exit.Failure, ""
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
func Root(c *command.Caller) *cobra.Command {
	unsorted()
	root := &cobra.Command{
		Use: "berth COMMAND", Short: "berth turns a machine into a host for uploaded applications.", Version: build.Version(),
		DisableFlagsInUseLine: true, SilenceErrors: true, SilenceUsage: true, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		Args: cobra.ArbitraryArgs,
		RunE: func(root *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return unknown(root, args[0])
			case len(c.Args) > 0:
				return exit.Misused("unknown flag %s", c.Args[0])
			}
			return root.Help()
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true // completion is ours
	root.SetVersionTemplate(versionLine())
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd) })
	root.SetFlagErrorFunc(flagError)
	for _, cmd := range commands(c) {
		group(cmd)
		root.AddCommand(cmd)
	}
	root.SetHelpCommand(help())
	root.InitDefaultHelpCmd()
	return root
}

// group makes a command with others below it one that asks for one of them.
func group(cmd *cobra.Command) {
	if !cmd.HasSubCommands() {
		return
	}
	cmd.Args, cmd.RunE, cmd.FParseErrWhitelist.UnknownFlags = cobra.ArbitraryArgs, runGroup, true
	for _, below := range cmd.Commands() {
		group(below)
	}
}

// commands are all of this system, in the order of the help text: those of the client, of
// every day first, then those of the host.
func commands(of *command.Caller) []*cobra.Command {
	c := &caller{of}
	onHost, stored := hostCommands(of)
	all := []*cobra.Command{
		c.login(), c.logout(), c.whoami(), c.contextGroup(), c.clientEnv(),
		c.initialize(), c.deploy(), c.list(), c.status(), c.top(), c.logs(), c.start(), c.stop(), c.restart(), c.ram(), c.advice(), c.envGroup(), c.exec(), c.send(),
		c.deploys(), c.rollback(), c.events(), c.domainGroup(), c.teamGroup(), c.notifyGroup(), c.open(), c.delete(), c.importGroup(),
		c.appGroup(stored),
	}
	return append(append(all, onHost...), c.tokenGroup(stored), completion(), version())
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
	return exit.NewProblem(exit.Usage, fmt.Errorf("%s needs one of %s", cmd.CommandPath(), strings.Join(names, ", ")), listHint)
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
	format := `"` + strings.ReplaceAll(prefix, "%", "%%") + `%s"`
	meant := exit.DidYouMean(word, names, format)
	for _, cmd := range group.Commands() {
		if slices.Contains(cmd.SuggestFor, word) { // as other tools call it
			meant = exit.DidYouMean(cmd.Name(), []string{cmd.Name()}, format)
		}
	}
	return exit.NewProblem(exit.Usage, fmt.Errorf("unknown command %q%s", prefix+word, meant), listHint)
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
		return exit.Misused("unknown flag %s%s%s", dashes, name, exit.DidYouMean(name, known, "--%s"))
	}
	if lacking, is := errors.AsType[*pflag.ValueRequiredError](err); is {
		return exit.Misused("the flag --%s needs a value", lacking.GetFlag().Name)
	}
	if bad, is := errors.AsType[*pflag.InvalidValueError](err); is {
		return exit.Misused("bad value %q for --%s: %w", bad.GetValue(), bad.GetFlag().Name, bad.Unwrap())
	}
	return exit.Misused("%w", err)
}

func versionLine() string {
	return fmt.Sprintf("berth %s %s %s/%s\n", build.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func version() *cobra.Command {
	cmd := command.New("version", "print the versions of berth and of Go", 0, 0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
		return err
	}
	return cmd
}
