package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
	"berth/web/proxy"
)

// proxySnippet prints it, for the domain of the settings or one that shows
// where yours goes.
func proxySnippet(c *caller) *cobra.Command {
	cmd := command.New("snippet nginx|caddy [--proxy-domain DOMAIN] [--proxy-listen HOST:PORT] [--config FILE]", "print the configuration that nginx or Caddy needs in front of berth", 1, 1)
	cmd.ValidArgs = []string{"nginx", "caddy"}
	return c.withSettings(cmd, func(_ context.Context, s settings.Settings, args []string) error {
		text, err := proxy.Snippet(args[0], cmp.Or(s.SitesDomain(), "apps.example.org"), s.SnippetAddress())
		if err != nil {
			return exit.Misused("%w", err)
		}
		if s.Proxy.Mode != settings.ProxyBehind {
			c.Tell("berth answers there when proxy.mode is %q; it is %q now.", settings.ProxyBehind, s.Proxy.Mode)
		}
		_, err = fmt.Fprint(c.Stdout, text)
		return err
	}, "proxy.domain", "proxy.listen")
}

// proxyCertificates lists them, from the files and from the database: the daemon
// need not run.
func proxyCertificates(c *caller) *cobra.Command {
	cmd := command.New("certificates [--json] [--data-dir DIR] [--config FILE] [flags]", "list the certificates of sites, and why a name has none", 0, 0)
	asJSON := command.JSON(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, _ []string) error {
		all, err := daemon.Certificates(ctx, d, s, time.Now())
		if err != nil {
			return err
		}
		if !*asJSON && s.Proxy.Mode != settings.ProxyEdge {
			c.Tell("berth needs certificates when proxy.mode is %q; it is %q now.", settings.ProxyEdge, s.Proxy.Mode)
		}
		return c.Print(*asJSON, all, func(out io.Writer) {
			fmt.Fprintln(out, "NAME\tFROM\tSTATUS\tEXPIRES\tNEXT\tWHY")
			for _, v := range all {
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", screen.Word(v.Name), v.From, v.Status, moment(v.Expires), moment(v.Next), cmp.Or(screen.Word(v.Problem), "-"))
			}
		})
	}, "base_url", "names.domain", "proxy.domain", "proxy.mode", "proxy.tls", "proxy.cert", "proxy.key", "proxy.acme_directory")
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return command.When(*t)
}
