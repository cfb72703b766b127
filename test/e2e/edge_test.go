package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/test/ca"
	"berth/test/dns"
	"berth/test/harness"
)

// edge is a daemon that has both ports, and an authority that looks there.
type edge struct {
	*daemon
	http, https string
	names       *dns.Server
	ca          *ca.Server
	given       string // the root of what it gives, once it is started
}

// atTheEdge prepares both; change, which may be nil, makes another authority.
func atTheEdge(t *testing.T, change func(c *ca.Config), args ...string) *edge {
	t.Helper()
	harness.Ready(t, harness.Unready)
	e := &edge{http: harness.Address(t), https: harness.Address(t), names: dns.Start(t)}
	c := ca.Config{Resolver: e.names.Addr(), HTTP: ca.Port(t, e.http), TLS: ca.Port(t, e.https), Nonces: 10}
	if change != nil {
		change(&c)
	}
	e.ca = ca.New(t, c)
	e.daemon = upgradable(t, append([]string{
		"--proxy-mode", "edge", "--proxy-tls", "acme", "--proxy-http", e.http, "--proxy-https", e.https, "--proxy-domain", "apps.example.org",
		"--proxy-acme-directory", e.ca.Directory, "--proxy-acme-roots", e.ca.Roots, "--names-resolver", e.names.Addr(), "--names-addresses", "127.0.0.1",
	}, args...)...)
	return e
}

// trust starts the authority and believes it.
func (e *edge) trust() {
	e.T.Helper()
	e.ca.Start()
	e.given = filepath.Join(e.Root, "given.pem")
	harness.Write(e.T, e.given, e.ca.Given())
}

// leads makes names lead to this machine.
func (e *edge) leads(names ...string) {
	for _, name := range names {
		e.names.SetHost(name, netip.MustParseAddr("127.0.0.1"))
	}
}

// curl asks for a path over HTTPS, as a visitor who trusts the authority.
func (e *edge) curl(name, path string, options ...string) (string, error) {
	e.T.Helper()
	port := strconv.Itoa(ca.Port(e.T, e.https))
	args := append([]string{"-sS", "--max-time", "20", "--noproxy", "*", "--cacert", e.given, "--resolve", name + ":" + port + ":127.0.0.1"}, options...)
	out, err := exec.Command("curl", append(args, "https://"+net.JoinHostPort(name, port)+path)...).CombinedOutput()
	return string(out), err
}

// untilCurl waits for an answer.
func (e *edge) untilCurl(name, want string) {
	e.T.Helper()
	harness.Eventually(e.T, name+" answers "+want+" over HTTPS", func() bool {
		out, err := e.curl(name, "/")
		return err == nil && strings.Contains(out, want)
	})
}

// dialer shakes hands for a name, as somebody who trusts the authority.
func (e *edge) dialer(name string) (*tls.Dialer, error) {
	pool := x509.NewCertPool()
	text, err := os.ReadFile(e.given)
	pool.AppendCertsFromPEM(text)
	return &tls.Dialer{NetDialer: &net.Dialer{Timeout: harness.Patience}, Config: &tls.Config{ServerName: name, RootCAs: pool}}, err
}

// visitor is a client whose requests, wherever they lead, go to a name at the edge.
func (e *edge) visitor(name string) *http.Client {
	e.T.Helper()
	d, err := e.dialer(name)
	if err != nil {
		e.T.Fatal(err)
	}
	t := &http.Transport{DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", e.https) }}
	e.T.Cleanup(t.CloseIdleConnections)
	return &http.Client{Timeout: harness.Web.Timeout, Transport: leading(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host, r.Host = "https", name, name
		return t.RoundTrip(r)
	})}
}

// leading is a http.RoundTripper.
type leading func(*http.Request) (*http.Response, error)

func (l leading) RoundTrip(r *http.Request) (*http.Response, error) { return l(r) }

// visit shakes hands and returns the certificate.
func (e *edge) visit(name string) (*x509.Certificate, error) {
	d, err := e.dialer(name)
	if err != nil {
		return nil, err
	}
	c, err := d.Dial("tcp", e.https)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

func (e *edge) mustVisit(name string) *x509.Certificate {
	e.T.Helper()
	c, err := e.visit(name)
	if err != nil {
		e.T.Fatalf("%s: %v", name, err)
	}
	return c
}

// refused shakes hands for names that have no certificate.
func (e *edge) refused(names ...string) {
	e.T.Helper()
	for _, name := range names {
		if c, err := e.visit(name); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
			e.T.Errorf("%s is shown %v, %v", name, c, err)
		}
	}
}

// listed is what berth proxy certificates tells, by name.
func (e *edge) listed(data string) map[string]string {
	e.T.Helper()
	args := []string{"proxy", "certificates", "--json", "--data-dir", data}
	for i, arg := range e.Args {
		if arg == "--proxy-mode" || arg == "--proxy-tls" || arg == "--proxy-domain" || arg == "--proxy-acme-directory" || arg == "--proxy-cert" || arg == "--proxy-key" || arg == "--base-url" {
			args = append(args, arg, e.Args[i+1])
		}
	}
	cmd := e.Command(args...)
	cmd.Env = harness.CleanEnv()
	out, err := cmd.Output()
	var list []struct{ Name, Status, Problem string }
	if err = errors.Join(err, json.Unmarshal(out, &list)); err != nil {
		e.T.Fatalf("%v: %s", err, out)
	}
	all := map[string]string{}
	for _, c := range list {
		all[c.Name] = strings.TrimSpace(c.Status + " " + c.Problem)
	}
	return all
}

// claim brings a domain to a site and proves it.
func (e *edge) claim(c *client, id, name string) {
	e.T.Helper()
	a := c.ask("POST", "/customdomain/create", fmt.Sprintf(`{"appID":%q,"domainName":%q}`, id, name)).Want(200, "domain.dns_status", "unverified")
	e.names.Set("_berth."+name, []string{proofOf(a, "_berth."+name, "A "+name+" 127.0.0.1")})
	c.Get("/customdomain/"+name+"/verify").Want(200, "domain.dns_status", "verified")
}

func htmlSite(id, text string) harness.Files {
	return harness.Files{"discloud.config": harness.Config("TYPE=site", "ID="+id, "MAIN=index.html", "RAM=32"), "index.html": text}
}
