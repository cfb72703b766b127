package host

import (
	"cmp"
	"context"
	"fmt"

	"berth/daemon/settings"
	"berth/web/proxy"
)

// proxySnippet prints it, for the domain of the settings or one that shows
// where yours goes.
func proxySnippet(_ context.Context, c *call) error {
	set := c.flags()
	from := settings.AddFlags(set, "proxy.domain", "proxy.listen")
	args, err := c.parse(set, 1, 1)
	if err != nil {
		return err
	}
	s, err := from.Load(c.getenv)
	if err != nil {
		return err
	}
	text, err := proxy.Snippet(args[0], cmp.Or(s.SitesDomain(), "apps.example.org"), s.SnippetAddress())
	if err != nil {
		return c.misuse("%w", err)
	}
	if s.Proxy.Mode != settings.ProxyBehind {
		fmt.Fprintf(c.stderr, "berth answers there when proxy.mode is %q; it is %q now.\n", settings.ProxyBehind, s.Proxy.Mode)
	}
	_, err = fmt.Fprint(c.stdout, text)
	return err
}
