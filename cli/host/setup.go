package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/doctor"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
	"berth/host/account"
	"berth/proc"
	"berth/web/local"
)

// setup leads from a berth that serves to a first account and a panel that can be opened. Each
// step looks first whether it is done, so that the command can be run again at any time.
type setup struct {
	*caller
	ctx      context.Context
	flags    setupFlags
	from     *settings.Flags
	settings settings.Settings
	db       *db.DB
	served   local.Daemon
	ask      *questions // nil where nobody answers
	report   setupReport
}

// setupFlags are what the command line says.
type setupFlags struct {
	account      string
	ram          app.MB
	ramGiven     func() bool
	passwordFile string
	domain, ip   string
	noDomain     bool
	tunnel       bool
	email        string
	yes, json    bool
}

// setupReport is what --json prints; fields only ever become more.
type setupReport struct {
	Host    string      `json:"host"`              // the verdict of berth doctor
	Account string      `json:"account"`           // its name
	Name    string      `json:"name,omitempty"`    // the domain or IP address that has a certificate
	Expires *time.Time  `json:"expires,omitempty"` // the certificate
	Panel   string      `json:"panel,omitempty"`   // its address
	Link    string      `json:"link,omitempty"`    // works once, and sets a password
	Tunnel  string      `json:"tunnel,omitempty"`  // the command that leads to the panel
	Steps   []setupStep `json:"steps"`
}

// setupStep is one line.
type setupStep struct {
	Step    string `json:"step"`
	Text    string `json:"text"`
	Changed bool   `json:"changed"` // now, and not before
}

// setupCommand is the command.
func setupCommand(c *caller) *cobra.Command {
	cmd := command.New("setup [--account NAME] [--ram MB] [--password-file FILE] [--domain NAME] [--ip ADDRESS] [--no-domain] [--tunnel] [--email ADDRESS] [--yes] [--json] [--data-dir DIR] [--runtime-dir DIR]",
		"create the first account and bring the panel to HTTPS, step by step; run it again at any time", 0, 0)
	u := &setup{caller: c}
	f := &u.flags
	set := cmd.Flags()
	word := func(to *string, name, help string) { command.AddWord(set, to, name, help) }
	word(&f.account, "account", "`NAME` of the first account, an administrator")
	ram := settings.RAM(&f.ram)
	set.Var(ram, "ram", "RAM in `MB` of the first account; all that applications may have if you do not give it")
	f.ramGiven = ram.Given
	word(&f.passwordFile, "password-file", "`FILE` with the password of the first account in its first line; - is the standard input; without it, a link sets the password")
	word(&f.domain, "domain", "`NAME` of a domain that leads to this host: the panel is at NAME, and sites are below it")
	word(&f.ip, "ip", "public IP `ADDRESS` of this host, where the panel is if you have no domain")
	command.AddToggle(set, &f.noDomain, "no-domain", "use the public IP address of this host, or an SSH tunnel if it has none or no certificate can be had")
	command.AddToggle(set, &f.tunnel, "tunnel", "open nothing to the internet, and print the ssh command that leads to the panel")
	word(&f.email, "email", "email `ADDRESS` to which the certificate authority may write")
	command.AddToggle(set, &f.yes, "yes", "ask nothing, and take the defaults")
	command.AddToggle(set, &f.json, "json", "ask nothing, and print the result as JSON")
	_ = cmd.MarkFlagFilename("password-file")
	u.from = c.settingFlags(cmd, "data_dir", "runtime_dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		u.ctx = cmd.Context()
		if err := mustBeRoot("set up this host", "", "setup"); err != nil {
			return err
		}
		if err := f.agree(); err != nil {
			return err
		}
		return u.run()
	}
	return cmd
}

// agree refuses flags that exclude each other.
func (f *setupFlags) agree() error {
	ways := 0
	for _, given := range []bool{f.domain != "", f.ip != "", f.noDomain, f.tunnel} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		return exit.Misused("--domain, --ip, --no-domain and --tunnel exclude each other")
	}
	return nil
}

// run does all steps.
func (u *setup) run() (err error) {
	if u.settings, err = u.from.Load(u.Getenv); err != nil {
		return err
	}
	if u.db, err = daemon.OpenDatabase(u.ctx, u.settings.DataDir, u.settings.KeyFiles()...); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.db.Close()) }()
	if u.served, err = askDaemon(u.ctx, u.settings); err != nil {
		return err
	}
	if !u.flags.yes && !u.flags.json {
		u.ask = newQuestions(u.Stdin, u.Stdout)
	}
	w := &publishing{setup: u}
	if err := w.decide(); err != nil {
		return err
	}
	u.report.Host = app.Verdict(doctor.Examine(u.ctx, u.settings)).String()
	u.step("host", false, "%s (berth doctor tells of each)", u.report.Host)
	a, err := u.firstAccount()
	if err != nil {
		return err
	}
	if err := w.run(); err != nil {
		return err
	}
	return u.finish(a)
}

// askDaemon returns what the daemon says of itself that serves the data directory of the
// settings.
func askDaemon(ctx context.Context, s settings.Settings) (local.Daemon, error) {
	const hint = "Hint: start it with systemctl start berth; if berth is no service yet, with berth install --now."
	d, err := local.Ask(ctx, s.RuntimeDir)
	switch {
	case errors.Is(err, local.ErrNobody):
		return d, exit.NewProblem(exit.Failure, errors.New("cannot set up this host: berth does not run"), hint)
	case err != nil:
		return d, fmt.Errorf("cannot set up this host: %w", err)
	case d.DataDir != s.DataDir:
		return d, exit.NewProblem(exit.Usage, fmt.Errorf("cannot set up this host: the daemon serves %s, and the settings say %s", d.DataDir, s.DataDir),
			"Hint: name the directory that is served with --data-dir, or restart berth.")
	}
	return d, nil
}

// step notes a step that is done and prints its line; changed tells whether it was done now.
func (u *setup) step(name string, changed bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	u.report.Steps = append(u.report.Steps, setupStep{name, text, changed})
	u.line(name, text)
}

// line prints a text in the second column.
func (u *setup) line(name, text string) {
	if u.flags.json {
		return
	}
	const column = 9
	if width := screen.Width(u.Stdout); width > 0 {
		text = screen.Wrap(text, width-column, column)
	}
	fmt.Fprintf(u.Stdout, "%-*s%s\n", column, name, screen.Escape(text, false)) // which a visited server may have said
}

// firstAccount returns the account that the panel's link is for, and makes it if there is no
// account at all.
func (u *setup) firstAccount() (app.Account, error) {
	a, err := administratorOf(u.ctx, u.db)
	if err != nil {
		return a, err
	}
	if name := u.flags.account; a.ID != 0 && name != "" && name != a.Name {
		if a, err = u.db.Accounts.AccountByName(u.ctx, name); app.KindOf(err) == app.NotFound {
			return a, exit.NewProblem(exit.Usage, fmt.Errorf("cannot create %q as the first account: this host has accounts", name),
				"Hint: berth account create "+name+" --ram MB creates another one; berth account list shows those that exist.")
		}
	}
	if err != nil {
		return a, err
	}
	made := a.ID == 0
	if made {
		if a, err = u.newAccount(); err != nil {
			return a, err
		}
	}
	has, err := u.hasPassword(a)
	if err != nil {
		return a, err
	}
	password := ""
	if !has {
		if password, err = u.password(a); err != nil {
			return a, err
		}
	}
	if made {
		if a, err = u.db.Accounts.CreateAccount(u.ctx, a); err != nil {
			return a, err
		}
		u.record(u.ctx, u.db, a.ID, "account.create", "", fmt.Sprintf("account=%s ramMB=%d", a.Name, a.TotalRAM))
	}
	if password != "" {
		if err := signIns(u.db, u.settings).SetPassword(u.ctx, a, password, 0); err != nil {
			return a, err
		}
		u.record(u.ctx, u.db, a.ID, "password.set", "", "account="+a.Name)
	}
	u.report.Account = a.Name
	text := fmt.Sprintf("%q exists", a.Name)
	if made {
		text = fmt.Sprintf("%q is created, an administrator with %d MB of RAM", a.Name, a.TotalRAM)
	} else if password != "" {
		text = fmt.Sprintf("%q exists, and has a password now", a.Name)
	}
	u.step("account", made || password != "", "%s", text)
	return a, nil
}

// newAccount returns the first account as the flags or a person want it, not stored yet.
func (u *setup) newAccount() (app.Account, error) {
	info, err := proc.Host()
	if err != nil {
		return app.Account{}, err
	}
	h := u.settings.Host
	name, ram := u.flags.account, app.Capacity(info.RAM, h.Reserve, h.Overcommit)
	if u.flags.ramGiven() {
		ram = u.flags.ram
	}
	byDefault := "admin"
	if user := u.Getenv("SUDO_USER"); account.CheckName(user) == nil && user != "root" {
		byDefault = user
	}
	switch {
	case name != "":
	case u.ask == nil && !u.flags.yes:
		return app.Account{}, exit.Misused("the flag --account is missing: what is the first account called?")
	case u.ask == nil:
		name = byDefault
	default:
		for name == "" || account.CheckName(name) != nil {
			if name, err = u.ask.line("Name of your account", byDefault); err != nil {
				return app.Account{}, err
			}
			if err := account.CheckName(name); err != nil {
				u.ask.say(err.Error())
			}
		}
		for !u.flags.ramGiven() {
			text, err := u.ask.line("RAM of its applications together, in MB", fmt.Sprint(ram))
			if err != nil {
				return app.Account{}, err
			}
			if err := settings.RAM(&ram).Set(text); err == nil {
				break
			}
			u.ask.say(fmt.Sprintf("%q is no amount of RAM in MB.", text))
		}
	}
	a, err := account.NewAccount(name, ram)
	if app.KindOf(err) == app.Invalid {
		return a, exit.Misused("%w", err)
	}
	a.Admin = true
	return a, err
}

// hasPassword reports whether a stored account has a password.
func (u *setup) hasPassword(a app.Account) (bool, error) {
	if a.ID == 0 {
		return false, nil
	}
	_, hash, err := u.db.SignIns.PasswordByName(u.ctx, a.Name)
	return hash != "", err
}

// password reads one from where the flags say, or from a person; "" leaves it to the link at
// the end.
func (u *setup) password(a app.Account) (text string, err error) {
	refuse := func(err error) error {
		return exit.NewProblem(exit.Usage, err, "Hint: nothing was changed.")
	}
	switch {
	case u.flags.passwordFile == "-":
		text, err = readPassword(onlyReader{u.Stdin}, u.Stderr)
	case u.flags.passwordFile != "":
		f, openErr := os.Open(u.flags.passwordFile)
		if openErr != nil {
			return "", refuse(fmt.Errorf("cannot read the password: %w", openErr))
		}
		defer f.Close()
		text, err = readPassword(onlyReader{f}, u.Stderr)
	case u.ask != nil:
		return u.ask.password(a.Name)
	default:
		return "", nil
	}
	if err == nil && app.KindOf(account.CheckPassword(a.Name, text)) == app.Invalid {
		err = refuse(account.CheckPassword(a.Name, text))
	}
	return text, err
}

// onlyReader hides that a reader is a terminal.
type onlyReader struct{ io.Reader }

// finish says where the panel is.
func (u *setup) finish(a app.Account) error {
	s := u.settings
	s.Listen = u.served.Listen // as it is, whatever a flag of the daemon says
	if !s.Panel.Enabled {
		u.step("panel", false, "it is off (panel.enabled)")
		return u.end()
	}
	u.report.Panel = panelURL(s)
	elsewhere, err := daemon.PasskeysElsewhere(u.ctx, u.db, s.BaseURL)
	if err != nil {
		return err
	}
	if elsewhere != "" {
		u.step("passkeys", false, "%s: %s", elsewhere, daemon.PasskeysHint)
	}
	has, err := u.hasPassword(a)
	if err != nil {
		return err
	}
	open := u.report.Panel
	if !has {
		key, err := signIns(u.db, s).Invite(u.ctx, a.ID)
		if err != nil {
			return err
		}
		u.record(u.ctx, u.db, a.ID, "password.link", "", "account="+a.Name)
		u.report.Link = u.report.Panel + "/setup/" + key
		open = u.report.Link
	}
	if onThisHost(u.report.Panel) {
		u.report.Tunnel = tunnel(s, u.Getenv)
		u.step("panel", false, "from your computer, through SSH. Run there, and leave it open:")
		u.line("", u.report.Tunnel)
		u.line("", "then open in a browser:")
		u.line("", open)
	} else {
		u.step("panel", false, "%s", open)
	}
	if !has {
		u.line("", fmt.Sprintf("the link sets the password of %q; it works once, within %d minutes", a.Name, int(account.InvitationTime.Minutes())))
	}
	return u.end()
}

// end prints the report for programs.
func (u *setup) end() error {
	if !u.flags.json {
		return nil
	}
	out := screen.NewEncoder(u.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(u.report)
}

// onThisHost reports whether an address leads nowhere but to the machine that opens it.
func onThisHost(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// tunnel is the command that leads from another computer to what listens on loopback here.
func tunnel(s settings.Settings, getenv func(string) string) string {
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil || strings.Trim(host, "0.:") == "" {
		host = "127.0.0.1"
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "HOST"
	}
	return fmt.Sprintf("ssh -L %s:%s %s@%s", port, net.JoinHostPort(host, port), cmp.Or(getenv("SUDO_USER"), "root"), name)
}
