package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"berth/app"
	"berth/daemon/settings"
)

// command is one row of the table of commands.
type command struct {
	name    string // one or two words
	summary string // one line, lower case, no full stop
	usage   string // what follows the name
	run     func(ctx context.Context, c *call) error
}

// commands are in the order of the help text.
var commands = []command{
	{"serve", "host the applications and answer the API, in the foreground", "[--data-dir DIR] [--listen HOST:PORT] [--config FILE] [flags]", serve},
	{"install", "make berth a service of systemd", "[--now] [--dry-run] [--force] [--prefix DIR] [--root DIR] [--data-dir DIR] [--listen HOST:PORT]", install},
	{"uninstall", "remove the service, not the data", "[--dry-run] [--force]", uninstall},
	{"check", "say whether this binary could serve here, beside a daemon that does", "[--json] [--data-dir DIR] [--listen HOST:PORT] [--config FILE] [flags]", check},
	{"setup-url", "print a one-time link to the panel, for the first password", "[ACCOUNT] [--data-dir DIR] [--listen HOST:PORT] [--base-url URL]", setupURL},
	{"doctor", "say what this host gives and what will be enforced", "[--json] [--data-dir DIR] [flags]", runDoctor},
	{"account create", "make an account and print its id", "NAME --ram MB [--data-dir DIR]", accountCreate},
	{"account list", "list the accounts", "[--json] [--data-dir DIR]", accountList},
	{"account show", "show one account", "ACCOUNT [--json] [--data-dir DIR]", accountShow},
	{"account password", "set the password of an account, read from the terminal or the standard input", "ACCOUNT [--link] [--data-dir DIR] [--listen HOST:PORT] [--base-url URL]", accountPassword},
	{"account set", "change the RAM, plan or locale of an account, or whether it looks after the host", "ACCOUNT [--ram MB] [--plan PLAN] [--locale LOCALE] [--admin true|false] [--data-dir DIR]", accountSet},
	{"account disable", "answer the tokens of an account with 403", "ACCOUNT [--data-dir DIR]", accountDisable},
	{"account enable", "undo account disable", "ACCOUNT [--data-dir DIR]", accountEnable},
	{"account delete", "delete an account that owns no applications, and its tokens", "ACCOUNT [--data-dir DIR]", accountDelete},
	{"app env", "list, set or remove the environment variables of an application", "APP list|set NAME=VALUE...|unset NAME... [--show] [--json] [--data-dir DIR]", appEnv},
	{"app deploys", "list the deploys of an application that can be rolled back to", "APP [--json] [--data-dir DIR]", appDeploys},
	{"app events", "list what happened to an application lately", "APP [--json] [--data-dir DIR]", appEvents},
	{"backup create", "write everything into one archive, while everything runs", "--to FILE|DIR [--data-dir DIR]", backupCreate},
	{"backup verify", "prove that an archive is whole", "FILE", backupVerify},
	{"backup restore", "fill an empty data directory from an archive", "FILE --data-dir DIR", backupRestore},
	{"token create", "make a token and print it, once", "ACCOUNT [--label LABEL] [--data-dir DIR]", tokenCreate},
	{"token list", "list the tokens of an account", "ACCOUNT [--json] [--data-dir DIR]", tokenList},
	{"token revoke", "make tokens invalid at once", "TOKENID... [--data-dir DIR]", tokenRevoke},
	{"audit", "tell who did what, and when", "[--account ACCOUNT] [--app APP] [--since TIME] [--limit N] [--json] [--data-dir DIR]", audit},
	{"proxy snippet", "print what nginx or Caddy needs to bring sites to berth", "nginx|caddy [--proxy-domain DOMAIN] [--proxy-listen HOST:PORT] [--config FILE]", proxySnippet},
	{"proxy certificates", "list the certificates of sites, and why some have none", "[--json] [--data-dir DIR] [--config FILE] [flags]", proxyCertificates},
	{"version", "print the version", "", version},
	{"help", "print this text, or that of a command", "[COMMAND]", help},
}

// call is one call of a command.
type call struct {
	command        command
	table          []command
	args           []string // without the command's name
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// errHelped ends a command that has printed its help.
var errHelped = errors.New("help was printed")

// Run is berth without the process around it: it runs the command that args
// name and returns the exit code.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	c := &call{table: commands, getenv: getenv, stdin: os.Stdin, stdout: stdout, stderr: stderr}
	err := c.dispatch(ctx, args)
	if err == nil || errors.Is(err, errHelped) {
		return settings.ExitOK
	}
	fmt.Fprintf(stderr, "berth: %v\n", err)
	var p *settings.Problem
	if errors.As(err, &p) && p.Hint != "" {
		fmt.Fprintln(stderr, p.Hint)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var p *settings.Problem
	switch {
	case errors.As(err, &p):
		return p.Code
	case errors.Is(err, fs.ErrPermission):
		return settings.ExitPermission
	case app.KindOf(err) == app.NotFound:
		return settings.ExitNotFound
	default:
		return settings.ExitFailure
	}
}

// dispatch finds the command that args begin with and runs it on the rest.
func (c *call) dispatch(ctx context.Context, args []string) error {
	const hint = "Hint: berth help lists the commands."
	if len(args) == 0 {
		return settings.NewProblem(settings.ExitUsage, errors.New("a command is missing"), hint)
	}
	if strings.TrimLeft(args[0], "-") == "h" || strings.TrimLeft(args[0], "-") == "help" {
		args = append([]string{"help"}, args[1:]...)
	}
	for words := min(2, len(args)); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		if i := slices.IndexFunc(c.table, func(cmd command) bool { return cmd.name == name }); i >= 0 {
			c.command, c.args = c.table[i], args[words:]
			return c.command.run(ctx, c)
		}
	}
	group, names := c.group(args[0])
	switch {
	case len(group) == 0:
		return settings.NewProblem(settings.ExitUsage, fmt.Errorf("unknown command %q%s", args[0], settings.DidYouMean(args[0], names, "%q")), hint)
	case len(args) == 1:
		return settings.NewProblem(settings.ExitUsage, fmt.Errorf("berth %s needs one of %s", args[0], strings.Join(group, ", ")), hint)
	case args[1] == "-h" || args[1] == "--help" || args[1] == "-help":
		return c.printTable(args[0] + " ")
	}
	return settings.NewProblem(settings.ExitUsage, fmt.Errorf("unknown command %q%s", args[0]+" "+args[1], settings.DidYouMean(args[1], group, `"`+args[0]+` %s"`)), hint)
}

// group returns the second words of the commands whose first is word, and all
// the names that a mistyped word may have meant.
func (c *call) group(word string) (second, names []string) {
	for _, cmd := range c.table {
		if rest, ok := strings.CutPrefix(cmd.name, word+" "); ok {
			second = append(second, rest)
		}
		first, _, _ := strings.Cut(cmd.name, " ")
		names = append(names, cmd.name, first)
	}
	return second, names
}

// flags returns an empty set of flags for this command.
func (c *call) flags() *flag.FlagSet {
	return flag.NewFlagSet(c.command.name, flag.ContinueOnError)
}

// parse sets the flags, wherever they stand among the arguments, and returns
// the other arguments, of which there must be from least to most.
func (c *call) parse(set *flag.FlagSet, least, most int) ([]string, error) {
	var others []string
	for rest := c.args; len(rest) > 0; {
		arg := rest[0]
		rest = rest[1:]
		switch {
		case arg == "--":
			others, rest = append(others, rest...), nil
		case len(arg) < 2 || arg[0] != '-':
			others = append(others, arg)
		default:
			var err error
			if rest, err = c.setFlag(set, arg, rest); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case len(others) < least:
		return nil, c.misuse("an argument is missing")
	case len(others) > most:
		return nil, c.misuse("unexpected argument %q", others[most])
	}
	return others, nil
}

// setFlag sets the flag that arg names, from arg itself or the first of rest,
// and returns what is left of rest.
func (c *call) setFlag(set *flag.FlagSet, arg string, rest []string) ([]string, error) {
	name, value, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	if name == "h" || name == "help" {
		return nil, c.printHelp(set)
	}
	f := set.Lookup(name)
	if f == nil {
		var known []string
		set.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		return nil, c.misuse("unknown flag --%s%s", name, settings.DidYouMean(name, known, "--%s"))
	}
	boolean, ok := f.Value.(interface{ IsBoolFlag() bool })
	switch {
	case inline:
	case ok && boolean.IsBoolFlag():
		value = "true"
	case len(rest) == 0:
		return nil, c.misuse("the flag --%s needs a value", name)
	default:
		value, rest = rest[0], rest[1:]
	}
	if err := set.Set(name, value); err != nil {
		return nil, c.misuse("bad value %q for --%s: %w", value, name, err)
	}
	return rest, nil
}

// misuse is an error in how the command was called.
func (c *call) misuse(format string, args ...any) error {
	return settings.NewProblem(settings.ExitUsage, fmt.Errorf(format, args...), "Usage: "+c.usageLine())
}

func (c *call) usageLine() string {
	return strings.TrimSpace("berth " + c.command.name + " " + c.command.usage)
}

// printHelp prints what the command is for and its flags.
func (c *call) printHelp(set *flag.FlagSet) error {
	fmt.Fprintf(c.stdout, "berth %s: %s\n\nUsage: %s\n", c.command.name, c.command.summary, c.usageLine())
	out := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	first := true
	set.VisitAll(func(f *flag.Flag) {
		if first {
			fmt.Fprint(out, "\nFlags:\n")
			first = false
		}
		word, text := flag.UnquoteUsage(f)
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			word = ""
		}
		if f.DefValue != "" {
			text += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(out, "  --%s\t%s\n", strings.TrimSpace(f.Name+" "+word), text)
	})
	if err := out.Flush(); err != nil {
		return err
	}
	return errHelped
}

// printTable prints the commands whose names begin with prefix.
func (c *call) printTable(prefix string) error {
	out := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, cmd := range c.table {
		if strings.HasPrefix(cmd.name, prefix) {
			fmt.Fprintf(out, "  berth %s\t%s\n", cmd.name, cmd.summary)
		}
	}
	return out.Flush()
}

func help(ctx context.Context, c *call) error {
	set := c.flags()
	words, err := c.parse(set, 0, 2)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return c.dispatch(ctx, append(words, "--help"))
	}
	fmt.Fprint(c.stdout, "berth turns a machine into a host for uploaded applications.\n\n")
	if err := c.printTable(""); err != nil {
		return err
	}
	_, err = fmt.Fprint(c.stdout, "\nberth COMMAND --help tells the flags of a command.\n")
	return err
}

func version(_ context.Context, c *call) error {
	if _, err := c.parse(c.flags(), 0, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.stdout, "berth %s %s %s/%s\n", settings.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
