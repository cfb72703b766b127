package host

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon/settings"
	"berth/db"
	"berth/host/account"
)

// setupURL prints a one-time link to the panel: to the first account, which it
// makes, or to a new password of the one who looks after the host.
func setupURL(c *caller) *cobra.Command {
	cmd := command.New("setup-url [ACCOUNT] [--data-dir DIR] [--listen HOST:PORT] [--base-url URL]", "print a one-time link with which you create the first account, or set a password", 0, 1)
	cmd.ValidArgsFunction = c.accounts
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, args []string) error {
		var a app.Account
		var err error
		if len(args) > 0 {
			a, err = findAccount(ctx, d, args[0])
		} else {
			a, err = administratorOf(ctx, d)
		}
		if err != nil {
			return err
		}
		return printLink(ctx, c, d, s, a)
	}, panelSettings...)
}

// panelSettings are those that tell where the panel is.
var panelSettings = []string{"listen", "base_url"}

// administratorOf returns the oldest account that looks after the host, and the zero
// account when there is none at all. On a host from before there was a panel the
// oldest account becomes that one.
func administratorOf(ctx context.Context, d *db.DB) (app.Account, error) {
	all, err := d.Accounts.Accounts(ctx)
	if err != nil || len(all) == 0 {
		return app.Account{}, err
	}
	for _, a := range all {
		if a.Admin && a.Closed() == nil {
			return a, nil
		}
	}
	return d.Accounts.UpdateAccount(ctx, all[0].ID, func(a *app.Account, _ app.MB) error {
		a.Admin = true
		return nil
	})
}

// signIns are those of the commands, which know no browser.
func signIns(d *db.DB, s settings.Settings) *account.SignIns {
	all := account.NewSignIns(d.SignIns, s.Panel.SessionTTL, nil)
	all.KnownPassword = s.KnownPassword
	return all
}

func printLink(ctx context.Context, c *caller, d *db.DB, s settings.Settings, a app.Account) error {
	if !s.Panel.Enabled {
		return errPanelOff()
	}
	key, err := signIns(d, s).Invite(ctx, a.ID)
	if err != nil {
		return err
	}
	who := "the first account, an administrator"
	if a.ID != 0 {
		who = fmt.Sprintf("a new password of %q", a.Name)
		c.record(ctx, d, a.ID, "password.link", "", "account="+a.Name)
	}
	c.Tell("this link is for %s; it works once, within %d minutes", who, int(account.InvitationTime.Minutes()))
	c.tellWhere(s)
	_, err = fmt.Fprintf(c.Stdout, "%s/setup/%s\n", panelURL(s), key)
	return err
}

// panelURL is where browsers find the panel: base_url, or on this host.
func panelURL(s settings.Settings) string {
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil || strings.Trim(host, "0.:") == "" {
		host = "localhost"
	}
	return cmp.Or(s.BaseURL, "http://"+net.JoinHostPort(host, port))
}

// accountPassword sets the password of an account, read from the terminal or, for
// programs, from the standard input; with --link it prints a link to do so.
func accountPassword(c *caller) *cobra.Command {
	cmd := command.New("password ACCOUNT [--link] [--data-dir DIR] [--listen HOST:PORT] [--base-url URL]",
		"read a password from the terminal or the standard input, and set it for an account", 1, 1)
	link := command.Toggle(cmd, "link", "print a one-time link that sets the password")
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, a app.Account) error {
		if *link {
			return printLink(ctx, c, d, s, a)
		}
		password, err := readPassword(c.Stdin, c.Stderr)
		if err != nil {
			return err
		}
		err = signIns(d, s).SetPassword(ctx, a, password, 0)
		if app.KindOf(err) == app.Invalid {
			return exit.NewProblem(exit.Usage, err, "Hint: nothing was changed.")
		}
		if err == nil {
			c.record(ctx, d, a.ID, "password.set", "", "account="+a.Name)
			c.Tell("the password of account %q is set, and its sessions are ended", a.Name)
		}
		return err
	}, panelSettings...)
}

// readPassword reads it twice from a terminal, which does not show it, or one line
// of anything else.
func readPassword(stdin io.Reader, stderr io.Writer) (string, error) {
	return readHidden(stdin, stderr, "password", "Password: ", "\nAgain: ")
}

// readHidden reads what is a secret, once for each prompt, from a terminal, which does not show
// it, or one line of anything else.
func readHidden(stdin io.Reader, stderr io.Writer, what string, prompts ...string) (string, error) {
	unchanged := func(why string) error {
		return exit.NewProblem(exit.Usage, errors.New(why), "Hint: nothing was changed.")
	}
	nothing := "cannot read the " + what + ": the input has none"
	f, is := stdin.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) {
		line, err := bufio.NewReader(io.LimitReader(stdin, 4096)).ReadString('\n')
		if err != nil && (!errors.Is(err, io.EOF) || line == "") {
			return "", unchanged(nothing)
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	typed := make([]string, len(prompts))
	for i, prompt := range prompts {
		text, err := screen.AskSecret(f, stderr, prompt)
		if errors.Is(err, io.EOF) {
			return "", unchanged(nothing)
		}
		if err != nil {
			return "", fmt.Errorf("cannot read the %s: %w", what, err)
		}
		typed[i] = string(text)
	}
	fmt.Fprintln(stderr)
	if typed[0] != typed[len(typed)-1] {
		return "", unchanged("the two " + what + "s differ")
	}
	return typed[0], nil
}
