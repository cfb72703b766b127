package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"text/tabwriter"
	"time"

	"berth/app"
	"berth/db"
	"berth/proxy"
)

// certificateView is one certificate as it is shown.
type certificateView struct {
	Name    string                `json:"name"`
	From    string                `json:"from"` // a file, or acme
	Status  app.CertificateStatus `json:"status"`
	Expires *time.Time            `json:"expires,omitempty"`
	Next    *time.Time            `json:"next,omitempty"` // when it is tried again, or renewed
	Problem string                `json:"problem,omitempty"`
}

// proxyCertificates lists them, from the files and from the database: the daemon
// need not run.
func proxyCertificates(ctx context.Context, c *call) (err error) {
	set := c.flags()
	asJSON := jsonFlag(set)
	from := addSettingFlags(set, "data_dir", "base_url", "names.domain", "proxy.domain", "proxy.mode", "proxy.tls", "proxy.cert", "proxy.key", "proxy.acme_directory")
	if _, err := c.parse(set, 0, 0); err != nil {
		return err
	}
	s, err := from.load(c.getenv)
	if err != nil {
		return err
	}
	d, err := openDatabase(ctx, s.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	all, err := certificatesOf(ctx, d, s, time.Now())
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(all)
	}
	if s.Proxy.Mode != proxyEdge {
		fmt.Fprintf(c.stderr, "berth needs certificates when proxy.mode is %q; it is %q now.\n", proxyEdge, s.Proxy.Mode)
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

// certificatesOf are those of the files, and those by ACME of names that lead to
// a site.
func certificatesOf(ctx context.Context, d *db.DB, s Settings, now time.Time) ([]certificateView, error) {
	all := []certificateView{}
	covers := func(string) bool { return false }
	if s.Proxy.Cert != "" {
		files, err := proxy.LoadCertificates(s.Proxy.Cert, s.Proxy.Key, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, &problem{exitConfig, err, "Hint: proxy.cert and proxy.key name the files."}
		}
		covers = files.Covers
		for _, f := range files.List() {
			v := certificateView{Name: f.Name, From: f.Path, Status: app.CertificateIssued, Expires: &f.Expires}
			if !now.Before(f.Expires) {
				v.Status = app.CertificateExpired
			}
			all = append(all, v)
		}
	}
	if s.Proxy.TLS != tlsACME {
		return all, nil
	}
	wanted, err := wantedNames(ctx, d, s)
	if err != nil {
		return nil, err
	}
	known, err := d.Certificates(ctx, s.Proxy.ACME.Directory)
	if err != nil {
		return nil, err
	}
	byName := map[string]app.Certificate{}
	for _, c := range known {
		byName[c.Name] = c
	}
	for _, name := range wanted {
		if covers(name) {
			continue
		}
		c := byName[name] // pending, when nobody has looked yet
		v := certificateView{Name: name, From: tlsACME, Status: c.Status(now), Problem: c.Problem}
		if len(c.Chain) > 0 {
			v.Expires = &c.Expires
		}
		if !c.Next.IsZero() {
			v.Next = &c.Next
		}
		all = append(all, v)
	}
	return all, nil
}

// wantedNames are those for which the daemon wants certificates.
func wantedNames(ctx context.Context, d *db.DB, s Settings) ([]string, error) {
	ids, err := d.Sites(ctx)
	if err != nil {
		return nil, err
	}
	domains, err := d.VerifiedDomains(ctx)
	if err != nil {
		return nil, err
	}
	return s.shown(ids, domains), nil
}
