package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app/build"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
	"berth/files/bundle"
)

// completionTime bounds what a shell waits for, when it completes a name.
const completionTime = 3 * time.Second

// caller is a Caller with what the commands of the client share.
type caller struct{ *command.Caller }

// way is how commands reach an account of a berth.
type way struct {
	*client.Client

	kind    string // "host", "context" or "environment"
	context string // its name; "" for the other kinds
	url     string // where browsers find the server
	account string // name of the account, as far as it is known
	token   string // "" on the host itself, which needs none
}

// noWay is what is said to who has no berth to talk to.
func noWay() error {
	return exit.NewProblem(exit.Unreachable, errors.New("cannot reach a berth: there is no context yet"),
		"Hint: berth login URL makes one; scripts set BERTH_URL and BERTH_TOKEN.")
}

// remote lets a command reach a berth, by flags for the way in, and do its work with it
// and its arguments. Ctrl-C ends the context; a second one ends the process.
func (c *caller) remote(cmd *cobra.Command, do func(context.Context, *way, []string) error) *cobra.Command {
	wayFlags(c, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return interruptible(cmd.Context(), func(ctx context.Context) error {
			w, err := c.way(ctx, cmd, "")
			if err != nil {
				return err
			}
			defer w.Close()
			return do(ctx, w, args)
		})
	}
	return cmd
}

// onApp is remote for a command whose first argument names an application, by its id or
// its name. With no more than after arguments, or with "." as the first, it is the
// application of the directory. The work gets what is behind that argument.
func (c *caller) onApp(cmd *cobra.Command, after int, do func(context.Context, *way, client.App, []string) error) *cobra.Command {
	wayFlags(c, cmd)
	if cmd.ValidArgsFunction == nil || after == 0 {
		cmd.ValidArgsFunction = c.completeApps
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		word, rest := ".", args
		if len(args) > after {
			word, rest = args[0], args[1:]
		}
		return c.withApp(cmd, word, func(ctx context.Context, w *way, a client.App) error { return do(ctx, w, a, rest) })
	}
	return cmd
}

// withApp runs do with the application that a word means, "." that of the directory, and
// the way to it.
func (c *caller) withApp(cmd *cobra.Command, word string, do func(context.Context, *way, client.App) error) error {
	return interruptible(cmd.Context(), func(ctx context.Context) error {
		w, a, err := c.find(ctx, cmd, word)
		if err != nil {
			return err
		}
		defer w.Close()
		return do(ctx, w, a)
	})
}

// interruptible runs do with a context that Ctrl-C ends.
func interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // the second one is the kernel's
	err := do(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return exit.NewProblem(exit.Interrupted, errors.New("interrupted"), "")
	}
	return err
}

// wayFlags adds the flags of the way in, and names them in the usage.
func wayFlags(c *caller, cmd *cobra.Command) {
	command.AddWord(cmd.Flags(), new(string), "context", "`NAME` of the context to use, in place of the current one or of this host")
	command.AddWord(cmd.Flags(), new(string), "account", "`ACCOUNT` to act for, by name or id; on the host itself, as root")
	cmd.Use += " [--context NAME] [--account ACCOUNT]"
	command.Completes(cmd, "context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		all, err := loadContexts()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(all.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
	command.Completes(cmd, "account", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		h, err := hostHere(cmd.Context(), c.Caller)
		if err != nil || h == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := h.Accounts(cmd.Context()) // none where they cannot be read
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// given is the text of a flag that the command may not have.
func given(cmd *cobra.Command, flag string) string {
	if f := cmd.Flags().Lookup(flag); f != nil {
		return f.Value.String()
	}
	return ""
}

// config is what every client of a way has in common.
func (c *caller) config() client.Config {
	return client.Config{
		UserAgent: "berth/" + build.Version(),
		Notice:    func(text string) { c.Tell("%s", text) },
	}
}

// demanded is the way that a flag or the environment names, nil if they name none.
func (c *caller) demanded(cmd *cobra.Command) (*way, error) {
	name, address, token := given(cmd, "context"), c.Getenv("BERTH_URL"), c.Getenv("BERTH_TOKEN")
	switch {
	case name != "":
		all, err := loadContexts()
		if err != nil {
			return nil, err
		}
		return c.contextWay(all, name)
	case address == "" && token == "":
		return nil, nil
	case address == "" || token == "":
		return nil, exit.NewProblem(exit.Usage, errors.New("BERTH_URL and BERTH_TOKEN go together, and one of them is not set"), "Hint: set both or neither.")
	}
	at, err := client.ParseURL(address)
	if err != nil {
		return nil, exit.NewProblem(exit.Usage, fmt.Errorf("bad value for BERTH_URL: %w", err), "")
	}
	config := c.config()
	config.URL, config.Token = at, token
	return &way{Client: client.New(config), kind: "environment", url: at, token: token}, nil
}

// contextWay is the way of a context.
func (c *caller) contextWay(all *contexts, name string) (*way, error) {
	to, known := all.Contexts[name]
	if !known {
		meant := exit.DidYouMean(name, slices.Sorted(maps.Keys(all.Contexts)), "%q")
		return nil, exit.NewProblem(exit.NotFound, fmt.Errorf("there is no context %q%s", name, meant), "Hint: berth context list shows the contexts.")
	}
	config := c.config()
	config.URL, config.Token, config.PlainToken = to.URL, to.Token, to.PlainToken
	return &way{Client: client.New(config), kind: "context", context: name, url: to.URL, account: to.Account, token: to.Token}, nil
}

// way returns the way in that the flags, the environment, this host or the user's contexts
// give, in this order. On the host without an account to act for, it is that of the only
// account; owner names the account that a caller found out, or "".
func (c *caller) way(ctx context.Context, cmd *cobra.Command, owner string) (*way, error) {
	w, err := c.demanded(cmd)
	if w != nil || err != nil {
		if w != nil && given(cmd, "account") != "" {
			return nil, exit.Misused("--account is for the host itself: a token has its account")
		}
		return w, err
	}
	here, err := hostHere(ctx, c.Caller)
	if err != nil {
		return nil, err
	}
	if here != nil {
		return c.hostWay(ctx, cmd, here, owner)
	}
	if given(cmd, "account") != "" {
		return nil, exit.NewProblem(exit.Unreachable, errors.New("cannot act for an account: no berth serves here, or you are not root"),
			"Hint: --account is for root on the host; elsewhere the token has its account.")
	}
	all, err := loadContexts()
	switch {
	case err != nil && os.Getenv("HOME") == "": // a service of a host without a daemon
		return nil, noWay()
	case err != nil:
		return nil, err
	case all.Current == "":
		return nil, noWay()
	}
	return c.contextWay(all, all.Current)
}

// hostWay is the way of the host's owner to one account.
func (c *caller) hostWay(ctx context.Context, cmd *cobra.Command, here *command.Host, owner string) (*way, error) {
	account := cmp.Or(given(cmd, "account"), c.Getenv("BERTH_ACCOUNT"), owner)
	if account == "" {
		names, err := here.Accounts(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(names) == 0:
			return nil, exit.NewProblem(exit.NotFound, errors.New("this host has no account yet"), "Hint: berth account create NAME --ram MB")
		case len(names) > 1:
			return nil, exit.NewProblem(exit.Usage, fmt.Errorf("this host has %d accounts: %s", len(names), strings.Join(names, ", ")),
				"Hint: name one of them with --account, or in BERTH_ACCOUNT.")
		}
		account = names[0]
	}
	config := c.config()
	config.URL, config.HTTP, config.Account = "http://localhost", here.HTTP, account
	return &way{Client: client.New(config), kind: "host", url: here.URL, account: account}, nil
}

// find returns the application that a word means and the way to it. On the host, without
// an account to act for, the application may be any account's.
func (c *caller) find(ctx context.Context, cmd *cobra.Command, word string) (*way, client.App, error) {
	var at savedApp
	if word == "." {
		var err error
		if at, err = appOfDirectory(); err != nil {
			return nil, client.App{}, err
		}
		word = at.ID
	}
	w, err := c.wayTo(ctx, cmd, at.Context, word)
	if err != nil {
		return nil, client.App{}, err
	}
	all, err := w.Apps(ctx)
	if err == nil {
		var a client.App
		if a, err = client.Choose(all, word); err == nil {
			return w, a, nil
		}
		if errors.Is(err, client.ErrNoApp) {
			meant := meantApp(word, all, func(a client.App) (id, name string) { return a.ID, a.Name })
			err = exit.NewProblem(exit.NotFound, fmt.Errorf("%w%s", err, meant), "Hint: berth ls lists your applications.")
		}
	}
	w.Close()
	return nil, client.App{}, err
}

// meantApp completes an error about a word that names none of some applications.
func meantApp[A any](word string, all []A, of func(A) (id, name string)) string {
	var names []string
	for _, a := range all {
		id, name := of(a)
		names = append(names, screen.Word(id), screen.Word(name))
	}
	return exit.DidYouMean(word, names, "%s")
}

// wayTo is the way to an application: by the context that its directory was deployed with,
// unless another way is demanded, and on the host for its owner.
func (c *caller) wayTo(ctx context.Context, cmd *cobra.Command, context, idOrName string) (*way, error) {
	none := given(cmd, "context") == "" && c.Getenv("BERTH_URL") == "" && given(cmd, "account") == "" && c.Getenv("BERTH_ACCOUNT") == ""
	if !none {
		return c.way(ctx, cmd, "")
	}
	if context != "" {
		all, err := loadContexts()
		if err != nil {
			return nil, err
		}
		return c.contextWay(all, context)
	}
	here, err := hostHere(ctx, c.Caller)
	if err != nil || here == nil {
		return c.way(ctx, cmd, "")
	}
	apps, err := here.Apps(ctx)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(slices.Clone(apps), func(a command.HostApp) bool { return a.ID != idOrName })
	if len(found) == 0 {
		found = slices.DeleteFunc(slices.Clone(apps), func(a command.HostApp) bool { return a.Name != idOrName })
	}
	if len(found) == 0 {
		meant := meantApp(idOrName, apps, func(a command.HostApp) (id, name string) { return a.ID, a.Name })
		return nil, exit.NewProblem(exit.NotFound, fmt.Errorf("there is no application %q on this host%s", idOrName, meant),
			"Hint: berth ls lists the applications of an account.")
	}
	owners := make([]string, len(found))
	for i, a := range found {
		owners[i] = fmt.Sprintf("%s (account %s)", a.ID, a.Account)
	}
	if len(found) > 1 {
		return nil, exit.NewProblem(exit.Usage, fmt.Errorf("%d applications are named %q: %s", len(found), idOrName, strings.Join(owners, ", ")),
			"Hint: name one of them by its id.")
	}
	return c.way(ctx, cmd, found[0].Account)
}

// appOfDirectory returns the application of the working directory: that of the ID in the
// nearest discloud.config, or else the one that the directory was deployed to.
func appOfDirectory() (savedApp, error) {
	dir, err := os.Getwd()
	if err != nil {
		return savedApp{}, fmt.Errorf("cannot find the working directory: %w", err)
	}
	all, failed := loadContexts()
	known, is := savedApp{}, false
	if failed == nil {
		known, is = all.appOf(dir)
	}
	for at := dir; ; at = filepath.Dir(at) {
		f, err := os.Open(filepath.Join(at, bundle.ConfigName))
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		if err == nil {
			config, parseErr := bundle.ParseConfig(f)
			_ = f.Close()
			if parseErr != nil {
				return savedApp{}, parseErr
			}
			if config.ID != "" && config.ID != known.ID { // which was deployed elsewhere, or not yet from here
				return savedApp{ID: config.ID}, nil
			}
		}
		break
	}
	if failed != nil {
		return savedApp{}, failed
	}
	if !is {
		return savedApp{}, exit.NewProblem(exit.Usage, errors.New("which application? This directory was not deployed, and its discloud.config, if there is one, has no ID"),
			"Hint: name the application by its id or name; berth ls lists them.")
	}
	return known, nil
}

// completeApps completes the first argument to the id of an application.
func (c *caller) completeApps(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.appWords(cmd)
}

// appWords are the ids of the applications that the way in leads to, with their names. It
// reports nothing: without a way there is nothing to complete to.
func (c *caller) appWords(cmd *cobra.Command) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	words := []string{}
	if w, err := c.demanded(cmd); w == nil && err == nil && given(cmd, "account") == "" && c.Getenv("BERTH_ACCOUNT") == "" {
		if here, err := hostHere(ctx, c.Caller); here != nil && err == nil {
			all, _ := here.Apps(ctx) // none where they cannot be read
			for _, a := range all {
				words = append(words, cobra.CompletionWithDesc(a.ID, screen.Word(a.Name)))
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		}
	}
	w, err := c.way(ctx, cmd, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer w.Close()
	w.Notice = nil
	all, _ := w.Apps(ctx)
	for _, a := range all {
		words = append(words, cobra.CompletionWithDesc(screen.Word(a.ID), screen.Word(a.Name)))
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// leadsElsewhere reports whether the way in leads to another server than the host itself:
// one is demanded, or somebody else than root has a current context.
func (c *caller) leadsElsewhere(cmd *cobra.Command) bool {
	if given(cmd, "context") != "" || c.Getenv("BERTH_URL") != "" || given(cmd, "account") != "" {
		return true
	}
	if os.Geteuid() == 0 {
		return false
	}
	all, err := loadContexts()
	return err == nil && all.Current != ""
}
