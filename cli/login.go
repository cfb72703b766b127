package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// login remembers a server and a token for it, once the server has accepted the token.
func (c *caller) login() *cobra.Command {
	cmd := command.New("login URL [--context NAME] [--days N] [--token] [--insecure-http]",
		"log in to a berth by a code that you type in its panel; without a terminal, by a token from the standard input or BERTH_TOKEN", 1, 1)
	name := command.Word(cmd, "context", "`NAME` of the context that is made or replaced; by default the host's name")
	days := command.Word(cmd, "days", "`N` days after which the token that the code brings ends, 365 at most; by default 90")
	byToken := command.Toggle(cmd, "token", "ask for a token in place of a code")
	plain := command.Toggle(cmd, "insecure-http", "let the token cross a network in plain HTTP, where everybody on the way can read it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return interruptible(cmd.Context(), func(ctx context.Context) error {
			address, err := client.ParseURL(args[0])
			if err != nil {
				return exit.Misused("%w", err)
			}
			if strings.HasPrefix(address, "http:") && !client.Loopback(address) && !*plain {
				return exit.NewProblem(exit.Usage, fmt.Errorf("cannot log in to %s: %w", address, client.ErrPlain),
					"Hint: use an https address; --insecure-http is for networks that you trust.")
			}
			lifetime, err := lifetimeOf(*days)
			if err != nil {
				return err
			}
			to := savedContext{URL: address, PlainToken: *plain}
			if c.Getenv("BERTH_TOKEN") == "" && !*byToken && c.atTerminal() {
				err = c.askCode(ctx, &to, lifetime)
			} else if lifetime > 0 {
				return exit.Misused("--days is for a token that a code brings; this token has its own end")
			} else {
				to.Token, err = c.askToken()
			}
			if err != nil {
				return err
			}
			return c.remember(ctx, cmp.Or(*name, contextName(address)), to)
		})
	}
	return cmd
}

// lifetimeOf is what --days asks for, 0 for nothing.
func lifetimeOf(days string) (time.Duration, error) {
	n, err := strconv.Atoi(days)
	switch {
	case days == "":
		return 0, nil
	case err != nil || n < 1 || n > 365:
		return 0, exit.Misused("bad value %q for --days: expected a whole number from 1 to 365", days)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// atTerminal reports whether somebody can read what is asked, and answer.
func (c *caller) atTerminal() bool {
	f, is := c.Stdin.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}

// askCode gets a token by a code, which a person types in the panel.
func (c *caller) askCode(ctx context.Context, to *savedContext, lifetime time.Duration) error {
	config := c.config()
	config.URL = to.URL
	server := client.New(config)
	defer server.Close()
	d, err := server.AskDevice(ctx, machineName(), lifetime)
	if client.StatusOf(err) != 0 { // no panel, an older berth, plain HTTP, too many codes
		code, _ := verdict(err)
		return exit.NewProblem(code, fmt.Errorf("cannot log in by a code: %w", err),
			"Hint: berth login URL --token takes a token, which the panel makes, or berth token create on the host.")
	}
	if err != nil {
		return fmt.Errorf("cannot log in: %w", err)
	}
	c.Tell("Open this page in a browser, and type the code:\n\n    %s\n    %s\n", screen.Word(d.Page), screen.Word(d.Code))
	c.Tell("The code works for %d minutes. Waiting; Ctrl-C gives up.", int(d.Lasts.Minutes()))
	made, err := server.AwaitToken(ctx, d)
	if err != nil {
		return fmt.Errorf("cannot log in: %w", err)
	}
	to.Token, to.TokenID, to.Expires = made.Token, made.ID, made.Expires
	return nil
}

// machineName is the name of this machine, "" if it has none that a server would take.
func machineName() string {
	name, err := os.Hostname()
	if err != nil || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return name
}

// remember stores a context and makes it the current one, once the server has accepted its
// token.
func (c *caller) remember(ctx context.Context, name string, to savedContext) error {
	config := c.config()
	config.URL, config.Token, config.PlainToken = to.URL, to.Token, to.PlainToken
	server := client.New(config)
	defer server.Close()
	user, err := server.User(ctx)
	if err != nil {
		return fmt.Errorf("cannot log in: %w", err)
	}
	to.Account = user.Name
	err = changeContexts(func(all *contexts) error {
		all.Contexts[name], all.Current = to, name
		return nil
	})
	if err != nil {
		return err
	}
	c.Tell("logged in to %s as %s; the context %q is the current one", to.URL, screen.Word(user.Name), name)
	return nil
}

// contextName is the name of a server's host.
func contextName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

// readSecrets reads one after the other: from a terminal, which does not show them, or a line
// each of another standard input. Arguments are seen by every user of the machine.
func (c *caller) readSecrets(prompts ...string) ([]string, error) {
	lines := bufio.NewReader(io.LimitReader(c.Stdin, 16<<10))
	all := make([]string, len(prompts))
	for i, prompt := range prompts {
		var text []byte
		var err error
		if f, is := c.Stdin.(*os.File); is && c.atTerminal() {
			text, err = screen.AskSecret(f, c.Stderr, strings.ToUpper(prompt[:1])+prompt[1:]+": ")
			fmt.Fprintln(c.Stderr)
		} else {
			text, err = lines.ReadBytes('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("cannot read the %s: %w", prompt, err)
		}
		all[i] = strings.TrimSpace(string(text))
	}
	return all, nil
}

// askToken reads a token: from BERTH_TOKEN, or as readSecrets does.
func (c *caller) askToken() (string, error) {
	token := strings.TrimSpace(c.Getenv("BERTH_TOKEN"))
	if token == "" {
		read, err := c.readSecrets("token")
		if err != nil {
			return "", err
		}
		token = read[0]
	}
	switch {
	case token == "":
		return "", exit.NewProblem(exit.Usage, errors.New("cannot log in: there is no token on the standard input"),
			"Hint: berth token create ACCOUNT on the host makes one, and so does the panel.")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", exit.NewProblem(exit.Usage, errors.New("cannot log in: the token has characters that no token has"), "Hint: paste the token alone.")
	}
	return token, nil
}

// logout forgets a context.
func (c *caller) logout() *cobra.Command {
	cmd := command.New("logout [NAME]", "forget a context, the current one by default, and revoke the token that login got for it", 0, 1)
	cmd.ValidArgsFunction = completeContexts
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		return interruptible(cmd.Context(), func(ctx context.Context) error { return c.forget(ctx, name) })
	}
	return cmd
}

// forget removes a context, the current one for "", and revokes its token if login has made
// that for it.
func (c *caller) forget(ctx context.Context, name string) error {
	var gone savedContext
	err := changeContexts(func(all *contexts) error {
		if name == "" {
			name = all.Current
		}
		if name == "" {
			return exit.NewProblem(exit.NotFound, errors.New("cannot log out: there is no current context"), "Hint: berth context list shows the contexts.")
		}
		var known bool
		if gone, known = all.Contexts[name]; !known {
			return unknownContext(all, name)
		}
		delete(all.Contexts, name)
		maps.DeleteFunc(all.Applications, func(_ string, a savedApp) bool { return a.Context == name })
		if all.Current == name {
			all.Current = ""
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case gone.TokenID == 0:
		c.Tell("the context %q is forgotten; its token stays valid until somebody revokes it", name)
		return nil
	}
	config := c.config()
	config.URL, config.Token, config.PlainToken = gone.URL, gone.Token, gone.PlainToken
	server := client.New(config)
	defer server.Close()
	err = server.RevokeToken(ctx, gone.TokenID)
	status := client.StatusOf(err)
	over := status == http.StatusUnauthorized || status == http.StatusNotFound // expired, or revoked by somebody
	if err != nil && !over {
		return exit.NewProblem(exit.Incomplete, fmt.Errorf("the context %q is forgotten, but its token could not be revoked: %w", name, err),
			fmt.Sprintf("Hint: revoke the token %d on the page Account of the panel.", gone.TokenID))
	}
	c.Tell("the context %q is forgotten, and its token is revoked", name)
	return nil
}

func unknownContext(all *contexts, name string) error {
	meant := exit.DidYouMean(name, slices.Sorted(maps.Keys(all.Contexts)), "%q")
	return exit.NewProblem(exit.NotFound, fmt.Errorf("there is no context %q%s", name, meant), "Hint: berth context list shows the contexts.")
}

func completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := loadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(all.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// contextView is a context as "berth context list --json" prints it.
type contextView struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Account string `json:"account"` // name of the account, as the server said at login
	Current bool   `json:"current"`
}

// contextGroup are the commands for what login has made.
func (c *caller) contextGroup() *cobra.Command {
	list := command.New("list [--json]", "list the contexts that berth login has made", 0, 0)
	list.Aliases = []string{"ls"}
	asJSON := jsonFlag[[]contextView](list)
	list.RunE = func(*cobra.Command, []string) error {
		all, err := loadContexts()
		if err != nil {
			return err
		}
		views := []contextView{}
		for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
			to := all.Contexts[name]
			views = append(views, contextView{name, to.URL, to.Account, name == all.Current})
		}
		return c.Print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "NAME\tURL\tACCOUNT\tCURRENT")
			for _, v := range views {
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", screen.Word(v.Name), v.URL, screen.Word(v.Account), map[bool]string{true: "yes", false: "-"}[v.Current])
			}
		})
	}
	use := command.New("use NAME", "make a context the current one", 1, 1)
	use.ValidArgsFunction = completeContexts
	use.RunE = func(_ *cobra.Command, args []string) error {
		return changeContexts(func(all *contexts) error {
			if _, known := all.Contexts[args[0]]; !known {
				return unknownContext(all, args[0])
			}
			all.Current = args[0]
			return nil
		})
	}
	remove := command.New("remove NAME", "forget a context, as logout does", 1, 1)
	remove.Aliases, remove.ValidArgsFunction = []string{"rm"}, completeContexts
	remove.RunE = func(cmd *cobra.Command, args []string) error {
		return interruptible(cmd.Context(), func(ctx context.Context) error { return c.forget(ctx, args[0]) })
	}
	return command.Group("context", "manage the servers that you have logged in to", list, use, remove)
}

// whoView is what "berth whoami --json" prints.
type whoView struct {
	Account  string `json:"account"` // name
	ID       string `json:"id"`      // number of the account
	Way      string `json:"way"`     // "host", "context" or "environment"
	Context  string `json:"context"` // its name; "" for the other ways
	URL      string `json:"url"`     // of the server
	Plan     string `json:"plan"`
	Locale   string `json:"locale"`
	TotalRAM int64  `json:"totalRamMb"` // of all applications together
	UsedRAM  int64  `json:"ramUsedMb"`
}

// whoami shows the account that commands act for, and where.
func (c *caller) whoami() *cobra.Command {
	cmd := command.New("whoami [--json]", "show the server and the account that commands act for", 0, 0)
	asJSON := jsonFlag[whoView](cmd)
	return c.remote(cmd, func(ctx context.Context, w *way, _ []string) error {
		u, err := w.User(ctx)
		if err != nil {
			return err
		}
		v := whoView{u.Name, u.ID, w.kind, w.context, w.url, u.Plan, cmp.Or(u.Language, u.Locale), u.TotalRAM, u.UsedRAM}
		return c.Print(*asJSON, v, func(out io.Writer) {
			way := map[string]string{"host": "the socket of this host", "context": "the context " + w.context, "environment": "BERTH_URL and BERTH_TOKEN"}[w.kind]
			fmt.Fprintf(out, "account\t%s (%s)\nserver\t%s\nway\t%s\n", screen.Word(u.Name), screen.Word(u.ID), v.URL, screen.Word(way))
			fmt.Fprintf(out, "RAM\t%d MB, %d MB assigned\nplan\t%s\nlocale\t%s\n", v.TotalRAM, v.UsedRAM, screen.Word(v.Plan), screen.Word(v.Locale))
		})
	})
}
