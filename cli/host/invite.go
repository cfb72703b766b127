package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon/settings"
	"berth/db"
	"berth/host/account"
	"berth/proc"
)

// inviteCreate prints a link that makes an account, or gives one permissions.
func inviteCreate(c *caller) *cobra.Command {
	cmd := command.New("create [--ram MB] [--disk MB] [--apps N] [--name NAME] [--app APP:PERMISSION,...]... [--life DURATION] [--data-dir DIR] [--listen HOST:PORT] [--base-url URL]",
		"print a link with which somebody makes an account, or joins teams, once", 0, 0)
	var ram, disk app.MB
	set := cmd.Flags()
	set.Var(settings.RAM(&ram), "ram", "RAM in `MB`, or such as 2GB, of a new account; without it, the link is for an account that exists")
	set.Var(settings.Disk(&disk), "disk", "disk space in `MB`, or such as 2GB, of the new account; 0: no limit")
	apps := set.Int("apps", 0, "`N` applications at most of the new account; 0: no limit")
	name := command.Word(cmd, "name", "`NAME` that is proposed for the new account")
	grants := set.StringArray("app", nil, "`APP:PERMISSION,...`: an application, by its id or name, and what the account may do with it; can be repeated: "+strings.Join(app.AllPermissions.Names(), ", "))
	life := set.Duration("life", account.UsualOffer, "`DURATION`, such as 24h, for which the link can be used, from 15m to 720h")
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, _ []string) error {
		if !s.Panel.Enabled {
			return errPanelOff()
		}
		o := app.Offer{For: *name, RAM: ram, Disk: disk, Apps: *apps}
		for _, text := range *grants {
			g, err := c.grant(ctx, d, text)
			if err != nil {
				return err
			}
			o.Grants = append(o.Grants, g)
		}
		info, err := proc.Host()
		if err != nil {
			return err
		}
		capacity := func() app.MB { return app.Capacity(info.RAM, s.Host.Reserve, s.Host.Overcommit) }
		invitations := account.NewInvitations(d.Invitations, nil, capacity)
		key, made, err := invitations.Invite(ctx, app.Account{}, o, *life)
		switch kind := app.KindOf(err); {
		case err == nil:
		case kind == app.Invalid:
			return exit.Misused("%w", err)
		case kind == app.NotFound:
			return unknownApp(fmt.Errorf("cannot invite: %w", err))
		case kind == app.Exhausted:
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot invite: %w", err), "Hint: berth invite list shows the invitations that wait, berth account list what accounts have.")
		default:
			return err
		}
		c.record(ctx, d, 0, "invitation.create", "", fmt.Sprintf("invitation=%d for=%q ramMB=%d diskMB=%d applications=%d may=%v minutes=%d",
			made.ID, made.For, made.RAM, made.Disk, made.Apps, made.Grants, *life/time.Minute))
		c.Tell("invitation %d works once, until %s", made.ID, command.When(made.Expires))
		c.tellWhere(s)
		_, err = fmt.Fprintf(c.Stdout, "%s/invitation/%s\n", panelURL(s), key)
		return err
	}, panelSettings...)
}

// tellWhere says so when the panel's address leads to this host only.
func (c *caller) tellWhere(s settings.Settings) {
	if onThisHost(panelURL(s)) {
		c.Tell("it leads to this host only; from another computer, run there and leave open: %s", tunnel(s, c.Getenv))
	}
}

// grant reads an application and permissions.
func (c *caller) grant(ctx context.Context, d *db.DB, text string) (g app.Grant, err error) {
	which, may, found := strings.Cut(text, ":")
	if !found || which == "" {
		return g, exit.Misused("bad value %q for --app: expected an application and permissions, such as shop:logs_app,start_app", text)
	}
	if g.Permissions, err = app.ParsePermissions(strings.Split(may, ",")); err != nil {
		return g, exit.Misused("%w", err)
	}
	g.App, err = c.findApp(ctx, d, which)
	return g, err
}

// offerView is an invitation as it is printed; fields only ever become more.
type offerView struct {
	ID      int64       `json:"id"`
	Name    string      `json:"name"`      // that is proposed; "" for none
	By      string      `json:"invitedBy"` // account; "" for the owner of the host
	RAM     app.MB      `json:"ramMb"`     // 0: for an account that exists
	Disk    *app.MB     `json:"diskMb"`    // null: no limit
	Apps    *int        `json:"applications"`
	Grants  []grantView `json:"apps"`
	Expires time.Time   `json:"expires"`
}

type grantView struct {
	App app.ID   `json:"id"`
	May []string `json:"may"`
}

func inviteList(c *caller) *cobra.Command {
	cmd := command.New("list [--json] [--data-dir DIR]", "list the invitations that nobody has accepted yet", 0, 0)
	cmd.Aliases = []string{"ls"}
	asJSON := command.JSON(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, _ []string) error {
		all, err := d.Invitations.Offers(ctx, 0)
		if err != nil {
			return err
		}
		views := make([]offerView, len(all))
		for i, o := range all {
			views[i] = offerView{o.ID, o.For, o.By, o.RAM, limitOf(o.Disk), limitOf(o.Apps), []grantView{}, o.Expires}
			for _, g := range o.Grants {
				views[i].Grants = append(views[i].Grants, grantView{g.App, g.Permissions.Names()})
			}
		}
		return c.Print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tFOR\tBY\tRAM\tDISK\tAPPS\tMAY\tEXPIRES")
			for _, o := range all {
				ram, disk, apps := "-", "-", "-"
				if o.RAM > 0 {
					ram, disk, apps = fmt.Sprintf("%d MB", o.RAM), limitText(limitOf(o.Disk), " MB"), limitText(limitOf(o.Apps), "")
				}
				fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.ID, cmp.Or(o.For, "-"), cmp.Or(o.By, "the owner"), ram, disk, apps,
					screen.Word(cmp.Or(strings.Trim(fmt.Sprint(o.Grants), "[]"), "-")), command.When(o.Expires))
			}
		})
	})
}

func inviteRevoke(c *caller) *cobra.Command {
	cmd := command.New("revoke ID... [--data-dir DIR]", "revoke invitations; nobody can accept them from now on", 1, 1000)
	cmd.Aliases, cmd.ValidArgsFunction = []string{"rm"}, c.invitations
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, args []string) error {
		ids := make([]int64, len(args))
		for i, arg := range args { // all of them, before the first is revoked
			id, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				return exit.Misused("%q is not the id of an invitation, which is a number: berth invite list shows it", arg)
			}
			ids[i] = id
		}
		for _, id := range ids {
			err := d.Invitations.DeleteOffer(ctx, 0, id)
			if app.KindOf(err) == app.NotFound {
				return exit.NewProblem(exit.NotFound, err, "Hint: berth invite list shows the invitations.")
			}
			if err != nil {
				return err
			}
			c.record(ctx, d, 0, "invitation.revoke", "", fmt.Sprintf("invitation=%d", id))
			c.Tell("invitation %d is revoked", id)
		}
		return nil
	})
}
