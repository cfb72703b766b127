package host

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
)

// proxyCertificates lists them, from the files and from the database: the daemon
// need not run.
func proxyCertificates(c *Caller) *cobra.Command {
	cmd := command("certificates [--json] [--data-dir DIR] [--config FILE] [flags]", "list the certificates of sites, and why a name has none", 0, 0)
	asJSON := jsonFlag(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, _ []string) error {
		all, err := daemon.Certificates(ctx, d, s, time.Now())
		if err != nil {
			return err
		}
		if *asJSON {
			return c.printJSON(all)
		}
		if s.Proxy.Mode != settings.ProxyEdge {
			fmt.Fprintf(c.Stderr, "berth needs certificates when proxy.mode is %q; it is %q now.\n", settings.ProxyEdge, s.Proxy.Mode)
		}
		out := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "NAME\tFROM\tSTATUS\tEXPIRES\tNEXT\tWHY")
		for _, v := range all {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Name, v.From, v.Status, moment(v.Expires), moment(v.Next), cmp.Or(v.Problem, "-"))
		}
		return out.Flush()
	}, "base_url", "names.domain", "proxy.domain", "proxy.mode", "proxy.tls", "proxy.cert", "proxy.key", "proxy.acme_directory")
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return when(*t)
}
