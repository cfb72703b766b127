package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"berth/app"
	"berth/app/exit"
	"berth/daemon"
	"berth/daemon/settings"
)

const (
	// certificateTime is how long setup waits for a certificate.
	certificateTime = 3 * time.Minute
	// silentTime is how long setup waits for an authority that does not answer.
	silentTime = 20 * time.Second
	// lookEvery is the time between two looks.
	lookEvery = 200 * time.Millisecond
)

// certifying sets the settings with which the daemon gets a certificate, and waits for it.
type certifying struct {
	*setup
	*trial
	name string // a domain, or an IP address
}

// apply returns until when the certificate is valid. If there is none, or somebody interrupts
// it, the settings become what they were.
func (c *certifying) apply(set map[string]string) (expires time.Time, err error) {
	ctx, stop := signal.NotifyContext(c.ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := c.begin(c.ctx, set); err != nil {
		return expires, err
	}
	expires, err = c.obtain(ctx)
	if err == nil {
		return expires, c.keep()
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	why := fmt.Errorf("cannot get a certificate for %s: %w", c.name, err)
	if c.settings, err = c.goBack(context.WithoutCancel(c.ctx)); err != nil {
		return expires, errors.Join(why, fmt.Errorf("cannot restore the settings of before: %w", err))
	}
	return expires, exit.NewProblem(exit.Failure, fmt.Errorf("%w; the settings are as before", why), hintFor(why.Error()))
}

// hintFor is what the owner does about the reason why there is no certificate.
func hintFor(why string) string {
	switch why = strings.ToLower(why); {
	case strings.Contains(why, "interrupted"):
		return "Hint: run berth setup again."
	case strings.Contains(why, "caa"):
		return "Hint: a CAA record of the domain forbids this authority; add one that permits it, or set proxy.acme_directory to another authority."
	case strings.Contains(why, "rate limit") || strings.Contains(why, "too many") || strings.Contains(why, "its turn comes"):
		return "Hint: too many certificates were requested; run berth setup again later, or use another name."
	case strings.Contains(why, "cannot be reached"):
		return "Hint: this host must reach the authority over the internet; look at its network, then run berth setup again."
	case strings.Contains(why, "daemon"):
		return "Hint: journalctl -u berth -n 20 says why."
	}
	return "Hint: strangers must reach ports 80 and 443 of this host; look at the firewall, the router and the DNS, then run berth setup again."
}

// obtain lets the daemon take the settings and waits for the certificate.
func (c *certifying) obtain(ctx context.Context) (expires time.Time, err error) {
	s, err := c.load()
	if err != nil {
		return expires, err
	}
	if _, err := daemon.Check(ctx, s); err != nil {
		return expires, err
	}
	if err := c.forgetRefusal(s); err != nil {
		return expires, err
	}
	if c.served, err = reloadDaemon(ctx, s); err != nil {
		return expires, err
	}
	c.settings = s
	silent := time.Now() // since then
	for deadline := time.Now().Add(certificateTime); ; {
		if expires, ok := certified(ctx, s, c.name); ok {
			return expires, nil
		}
		is, err := c.stored(ctx, s)
		switch now := time.Now(); {
		case ctx.Err() != nil:
			return expires, ctx.Err()
		case err != nil:
			return expires, err
		case is.Failures > 0:
			return expires, errors.New(is.Problem)
		case is.Problem == "":
			silent = now
		case now.Sub(silent) > silentTime:
			return expires, errors.New(is.Problem)
		}
		if time.Now().After(deadline) {
			return expires, fmt.Errorf("there is none after %s", certificateTime)
		}
		if err := pause(ctx); err != nil {
			return expires, err
		}
	}
}

// stored is what berth remembers of the certificate of the name.
func (c *certifying) stored(ctx context.Context, s settings.Settings) (app.Certificate, error) {
	all, err := c.db.Certificates.Certificates(ctx, s.Proxy.ACME.Directory)
	for _, known := range all {
		if known.Name == c.name {
			return known, err
		}
	}
	return app.Certificate{}, err
}

// forgetRefusal lets the name be asked for at once, though the authority has refused it: its
// owner has mended something, and says so by this command.
func (c *certifying) forgetRefusal(s settings.Settings) error {
	is, err := c.stored(c.ctx, s)
	if err != nil || is.Failures == 0 || len(is.Chain) > 0 && time.Now().Before(is.Expires) {
		return err
	}
	return c.db.Certificates.DropCertificate(c.ctx, s.Proxy.ACME.Directory, c.name)
}

// certified returns until when the certificate is valid that the daemon shows a visitor of a name,
// and false if it shows none of that name.
func certified(ctx context.Context, s settings.Settings, name string) (expires time.Time, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	host, port, err := net.SplitHostPort(s.Proxy.HTTPS)
	if err != nil || strings.Trim(host, "0.:") == "" {
		host = "127.0.0.1"
	}
	// Whether browsers trust the authority is the owner's choice: only the name counts here.
	d := tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}} //nolint:gosec // see above
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return expires, false
	}
	defer func() { _ = c.Close() }()
	leaf := c.(*tls.Conn).ConnectionState().PeerCertificates[0]
	return leaf.NotAfter, leaf.VerifyHostname(name) == nil && time.Now().Before(leaf.NotAfter)
}

// pause waits until it is time to look again.
func pause(ctx context.Context) error {
	select {
	case <-time.After(lookEvery):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
