package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/daemon/settings"
	"berth/db"
)

// accountReset lets somebody in who has lost the second factor: what the account signed in with
// is gone, and a one-time link is the way in.
func accountReset(c *caller) *cobra.Command {
	cmd := command.New("reset ACCOUNT [--data-dir DIR] [--listen HOST:PORT] [--base-url URL]",
		"remove the password and the second factors of an account, end its sessions, and print a one-time link that sets a new password", 1, 1)
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, a app.Account) error {
		if !s.Panel.Enabled {
			return errPanelOff()
		}
		if err := d.SignIns.Reset(ctx, a.ID); err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "factor.reset", "", "account="+a.Name)
		c.Tell("the password and the second factors of %q are removed, and its sessions are ended; its tokens go on", a.Name)
		return printLink(ctx, c, d, s, a)
	}, panelSettings...)
}

func errPanelOff() error {
	return exit.NewProblem(exit.Config, errors.New("cannot make a link: the panel is off"), "Hint: set panel.enabled to true, and start berth anew.")
}

// factorsView is what accounts have as second factors; the JSON is for programs, so that its
// fields only ever become more.
type factorsView struct {
	Required bool              `json:"required"` // everybody must have one
	Accounts []accountsFactors `json:"accounts"`
}

type accountsFactors struct {
	ID       app.AccountID `json:"id"`
	Name     string        `json:"name"`
	TOTP     bool          `json:"totp"`
	Passkeys int           `json:"passkeys"`
	Recovery int           `json:"recoveryCodes"` // that are left
}

// accountFactors shows who has a second factor, and demands one of everybody.
func accountFactors(c *caller) *cobra.Command {
	cmd := command.New("factors [--required true|false] [--json] [--data-dir DIR]",
		"show which accounts have a second factor for the panel, or demand one of everybody", 0, 0)
	required := command.Word(cmd, "required", "`BOOL`: true demands a second factor of everybody, false leaves it to them")
	command.Choices(cmd, map[string][]string{"required": {"true", "false"}})
	asJSON := command.JSON(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, _ []string) error {
		if *required != "" {
			return c.requireFactor(ctx, d, *required)
		}
		view := factorsView{Accounts: []accountsFactors{}}
		var err error
		if view.Required, err = d.SignIns.FactorRequired(ctx); err != nil {
			return err
		}
		accounts, err := d.Accounts.Accounts(ctx)
		if err != nil {
			return err
		}
		for _, a := range accounts {
			f, err := d.SignIns.Factors(ctx, a.ID)
			if err != nil {
				return err
			}
			view.Accounts = append(view.Accounts, accountsFactors{a.ID, a.Name, f.TOTP, f.Passkeys, f.Recovery})
		}
		return c.Print(*asJSON, view, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tNAME\tAPP\tPASSKEYS\tRECOVERY CODES")
			for _, a := range view.Accounts {
				fmt.Fprintf(out, "%d\t%s\t%s\t%d\t%d\n", a.ID, a.Name, map[bool]string{true: "yes", false: "no"}[a.TOTP], a.Passkeys, a.Recovery)
			}
			fmt.Fprintf(out, "required of everybody: %t\n", view.Required)
		})
	})
}

func (c *caller) requireFactor(ctx context.Context, d *db.DB, value string) error {
	on, err := strconv.ParseBool(value)
	if err != nil || value != strconv.FormatBool(on) {
		return exit.Misused("bad value %q for --required: expected true or false", value)
	}
	if err := d.SignIns.RequireFactor(ctx, on); err != nil {
		return err
	}
	c.record(ctx, d, 0, "factor.require", "", "required="+value)
	if on {
		c.Tell("everybody must have a second factor: somebody who has none reaches only the page that sets one up; tokens go on")
		return nil
	}
	c.Tell("a second factor is everybody's own choice")
	return nil
}
