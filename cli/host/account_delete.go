package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon/settings"
	"berth/db"
	"berth/web/local"
)

func accountDelete(c *caller) *cobra.Command {
	cmd := command.New("delete ACCOUNT [--with-applications] [--yes] [--data-dir DIR]",
		"delete an account and everything of it, after listing that; it must own no applications, unless these are to go too", 1, 1)
	cmd.Aliases = []string{"rm"}
	all := command.Toggle(cmd, "with-applications", "delete its applications, their files and their backups too; berth must run")
	yes := command.Toggle(cmd, "yes", "do not ask for the account's name")
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, a app.Account) error {
		what, err := leaving(ctx, d, s, a)
		if err != nil {
			return err
		}
		if len(what.apps) > 0 && !*all {
			return ownsApplications(a, what)
		}
		if err := c.confirmDelete(a, what, *yes); err != nil {
			return err
		}
		if len(what.apps) > 0 {
			err = deleteByDaemon(ctx, s, a)
		} else {
			err = refusedDelete(a, d.Accounts.DeleteAccount(ctx, a.ID), "")
		}
		if err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "account.delete", "", fmt.Sprintf("account=%s applications=%d", a.Name, len(what.apps)))
		return nil
	})
}

// left is what goes with an account.
type left struct {
	apps    []app.App
	disk    *local.DiskUse // nil where no daemon could measure it
	names   app.NameList
	tokens  int
	teams   []app.Membership // of others
	members int              // of its own teams
}

func leaving(ctx context.Context, d *db.DB, s settings.Settings, a app.Account) (l left, err error) {
	apps, err := d.Apps.Apps(ctx)
	if err != nil {
		return l, err
	}
	for _, one := range apps {
		if one.Account == a.ID {
			l.apps = append(l.apps, one)
		}
	}
	if l.names, err = d.Names.Names(ctx, a.ID); err != nil {
		return l, err
	}
	tokens, err := d.Accounts.Tokens(ctx, a.ID)
	if err != nil {
		return l, err
	}
	members, err := d.Teams.Members(ctx, a.ID)
	if err != nil {
		return l, err
	}
	l.tokens, l.members = len(tokens), len(members)
	if l.teams, err = d.Teams.Memberships(ctx, a.ID); err != nil || len(l.apps) == 0 {
		return l, err
	}
	if use, err := local.DiskUseOf(ctx, s.RuntimeDir, a.ID); err == nil {
		l.disk = &use
	}
	return l, nil
}

// lines say what goes, one thing a line.
func (l left) lines() (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, a := range l.apps {
		disk := ""
		if l.disk != nil {
			disk = fmt.Sprintf(", %d MB of files", (l.disk.Files[a.ID]+1<<20-1)>>20)
		}
		say("application %s (%s), %d MB of RAM%s", screen.Word(cmp.Or(a.Name, string(a.ID))), a.ID, a.RAM, disk)
	}
	if l.disk != nil && l.disk.Backups > 0 {
		say("%s, %d MB", counted(l.disk.Backups, "backup"), (l.disk.BackupBytes+1<<20-1)>>20)
	}
	for _, n := range l.names.Domains {
		say("domain %s", n.Name)
	}
	for _, n := range l.names.Subdomains {
		say("subdomain %s", n.ID)
	}
	if l.tokens > 0 {
		say("%s", counted(l.tokens, "token"))
	}
	if l.members > 0 {
		say("%s of others in its teams", counted(l.members, "membership"))
	}
	for _, m := range l.teams {
		say("its membership in the team of %s, of %s", m.App, m.Owner.Name)
	}
	return lines
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// ownsApplications refuses to delete an account that has applications.
func ownsApplications(a app.Account, l left) error {
	return exit.NewProblem(exit.Failure, fmt.Errorf("cannot delete %q: the account owns %s", a.Name, counted(len(l.apps), "application")),
		fmt.Sprintf("Hint: berth account delete %s --with-applications deletes %s too, for ever; berth account suspend %s keeps everything.",
			a.Name, joinIDs(idsOf(l.apps, a.ID)), a.Name))
}

// confirmDelete says what goes, and asks for the account's name. Where nobody is at a
// terminal, applications go with --yes alone.
func (c *caller) confirmDelete(a app.Account, l left, yes bool) error {
	lines := l.lines()
	if len(lines) > 0 {
		c.Tell("This deletes the account %q for ever, with:", a.Name)
		for _, line := range lines {
			c.Tell("  %s", line)
		}
	}
	if yes {
		return nil
	}
	q := newQuestions(c.Stdin, c.Stderr)
	switch {
	case q == nil && len(l.apps) == 0:
		return nil
	case q == nil:
		return exit.NewProblem(exit.Usage, fmt.Errorf("cannot delete %q: nobody is at a terminal to confirm it", a.Name), "Hint: --yes goes on without a question.")
	}
	name, err := q.line("Type its name to go on", "")
	if err != nil {
		return err
	}
	if strings.TrimSpace(name) != a.Name {
		return exit.NewProblem(exit.Failure, errors.New("that is not its name"), "Hint: nothing was changed.")
	}
	return nil
}

// deleteByDaemon lets the daemon that runs the applications remove them with the account.
func deleteByDaemon(ctx context.Context, s settings.Settings, a app.Account) error {
	d, err := local.Ask(ctx, s.RuntimeDir)
	if errors.Is(err, local.ErrNobody) || err == nil && !sameDir(d.DataDir, s.DataDir) {
		return refusedDelete(a, errors.New("its applications are removed by the daemon, which does not run here"), "Hint: systemctl start berth, and call the command again.")
	}
	if err == nil {
		err = local.Delete(ctx, s.RuntimeDir, a.ID)
	}
	return refusedDelete(a, err, "Hint: call the command again; meanwhile the account may be suspended.")
}

func refusedDelete(a app.Account, err error, hint string) error {
	if err == nil {
		return nil
	}
	return exit.NewProblem(exit.Failure, fmt.Errorf("cannot delete %q: %w", a.Name, err), hint)
}
