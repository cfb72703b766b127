package host

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth/daemon/settings"
	"berth/web/proxy"
)

// proxySnippet prints it, for the domain of the settings or one that shows
// where yours goes.
func proxySnippet(c *Caller) *cobra.Command {
	cmd := command("snippet nginx|caddy [--proxy-domain DOMAIN] [--proxy-listen HOST:PORT] [--config FILE]", "print the configuration that nginx or Caddy needs in front of berth", 1, 1)
	cmd.ValidArgs = []string{"nginx", "caddy"}
	return c.withSettings(cmd, func(_ context.Context, s settings.Settings, args []string) error {
		text, err := proxy.Snippet(args[0], cmp.Or(s.SitesDomain(), "apps.example.org"), s.SnippetAddress())
		if err != nil {
			return misuse("%w", err)
		}
		if s.Proxy.Mode != settings.ProxyBehind {
			fmt.Fprintf(c.Stderr, "berth answers there when proxy.mode is %q; it is %q now.\n", settings.ProxyBehind, s.Proxy.Mode)
		}
		_, err = fmt.Fprint(c.Stdout, text)
		return err
	}, "proxy.domain", "proxy.listen")
}
