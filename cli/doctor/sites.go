package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"berth/app"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/systemd"
)

// expirySoon is when a certificate from a file is told of. berth's own are
// renewed earlier.
const expirySoon = 14 * 24 * time.Hour

// checkSites looks at what visitors come through: nothing where berth serves no
// sites.
func checkSites(ctx context.Context, s settings.Settings) []finding {
	if s.Proxy.Mode == settings.ProxyOff {
		return nil
	}
	var list []finding
	for _, address := range s.Listens()[1:] { // the first is the API's
		list = append(list, checkPort(ctx, address))
	}
	if s.Proxy.Mode == settings.ProxyEdge {
		list = append(list, checkCertificates(ctx, s, time.Now()))
	}
	return list
}

// checkListen warns when tokens and passwords cross a network in plain HTTP.
func checkListen(s settings.Settings) finding {
	if t := s.Exposure(); !t.IsZero() {
		return finding{"listen", dubious, t.String(), settings.ExposureFix}
	}
	return finding{"listen", good, "only this host reaches the API and the panel at " + s.Listen + ", which has no encryption", ""}
}

// checkPort tries to listen where sites are served.
func checkPort(ctx context.Context, address string) finding {
	l, err := (&net.ListenConfig{}).Listen(ctx, daemon.NetworkOf(address), address)
	if err == nil {
		_ = l.Close()
		return finding{"port", good, address + " is free for the sites", ""}
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return portFinding(address, daemon.WhoListens(ctx, address))
	case errors.Is(err, os.ErrPermission):
		return finding{"port", bad, fmt.Sprintf("%s cannot be used: %v", address, err), "sudo berth doctor"}
	}
	return finding{"port", bad, fmt.Sprintf("%s cannot be used: %v", address, err), "set proxy.http, proxy.https or proxy.listen to an address of this host"}
}

// portFinding tells who has a port that is taken.
func portFinding(address string, who daemon.Takers) finding {
	for _, l := range who {
		switch {
		case l.Name == "berth":
			return finding{"port", good, fmt.Sprintf("%s is served by berth (pid %d)", address, l.Pid), ""}
		case l.Unit == systemd.DaemonUnit: // which is started again just now
			return finding{"port", good, fmt.Sprintf("%s is kept for %s by systemd", address, l.Unit), ""}
		}
	}
	return finding{
		"port", bad, address + " is in use by " + who.String() + ", so berth cannot serve the sites there",
		fmt.Sprintf("stop it, or set proxy.mode = %q and let it bring the sites to berth: berth proxy snippet", settings.ProxyBehind),
	}
}

// checkCertificates looks at those that visitors are shown.
func checkCertificates(ctx context.Context, s settings.Settings, now time.Time) finding {
	fail := func(err error) finding {
		return finding{"certificates", bad, err.Error(), "proxy.cert, proxy.key and proxy.acme_* in the settings"}
	}
	if s.UsesACME() {
		if _, err := s.Authority(); err != nil {
			return fail(err)
		}
	}
	d, err := daemon.OpenCurrent(ctx, s.DataDir, s.KeyFiles()...)
	switch {
	case err != nil:
		return fail(err)
	case d != nil:
		defer func() { _ = d.Close() }() // nothing was written
	case s.UsesACME(): // nothing is stored yet, or by an older berth
		return finding{"certificates", good, "will come from " + s.Proxy.ACME.Directory, ""}
	}
	all, err := daemon.Certificates(ctx, d, s, now)
	if err != nil {
		return fail(err)
	}
	return certificateFinding(all, now)
}

// certificateFinding is the worst of them in a line.
func certificateFinding(all []daemon.CertificateView, now time.Time) finding {
	var first *daemon.CertificateView // that expires
	var wrong []string
	f := finding{Name: "certificates", Verdict: good}
	have := 0
	for i, v := range all {
		switch v.Status {
		case app.CertificateIssued:
			have++
			if first == nil || v.Expires.Before(*first.Expires) {
				first = &all[i]
			}
			if v.From != settings.TLSACME && v.Expires.Sub(now) < expirySoon {
				f.Verdict, f.Fix = dubious, "put a new one in its place; it is read within seconds"
			}
		case app.CertificatePending:
			if v.Problem == "" {
				v.Problem = "its turn comes"
			}
			wrong = append(wrong, v.Name+": "+v.Problem)
		case app.CertificateFailed, app.CertificateExpired:
			why := v.Problem
			if why == "" {
				why = "it has expired"
			}
			wrong = append(wrong, v.Name+": "+why)
		}
	}
	f.Text = fmt.Sprintf("%d are valid", have)
	if first != nil {
		f.Text += fmt.Sprintf(", the first until %s (%s)", first.Expires.UTC().Format(time.DateOnly), first.Name)
	}
	if len(wrong) > 0 {
		f.Verdict, f.Fix = dubious, "berth proxy certificates tells of each"
		f.Text += fmt.Sprintf("; %d names have none: %s", len(wrong), wrong[0])
	}
	return f
}
