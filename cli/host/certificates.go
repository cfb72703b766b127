package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"berth/daemon"
	"berth/daemon/settings"
)

// proxyCertificates lists them, from the files and from the database: the daemon
// need not run.
func proxyCertificates(ctx context.Context, c *call) (err error) {
	set := c.flags()
	asJSON := jsonFlag(set)
	from := settings.AddFlags(set, "data_dir", "base_url", "names.domain", "proxy.domain", "proxy.mode", "proxy.tls", "proxy.cert", "proxy.key", "proxy.acme_directory")
	if _, err := c.parse(set, 0, 0); err != nil {
		return err
	}
	s, err := from.Load(c.getenv)
	if err != nil {
		return err
	}
	d, err := daemon.OpenDatabase(ctx, s.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	all, err := daemon.Certificates(ctx, d, s, time.Now())
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(all)
	}
	if s.Proxy.Mode != settings.ProxyEdge {
		fmt.Fprintf(c.stderr, "berth needs certificates when proxy.mode is %q; it is %q now.\n", settings.ProxyEdge, s.Proxy.Mode)
	}
	out := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "NAME\tFROM\tSTATUS\tEXPIRES\tNEXT\tWHY")
	for _, v := range all {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Name, v.From, v.Status, moment(v.Expires), moment(v.Next), cmp.Or(v.Problem, "-"))
	}
	return out.Flush()
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return when(*t)
}
