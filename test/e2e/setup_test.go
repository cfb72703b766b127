package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"berth/test/ca"
	"berth/test/dns"
	"berth/test/harness"
)

const password = "correct horse battery"

// newcomer is a fresh berth on a host with an address of its own, whose ports 80 and 443 are
// free, a DNS and a certificate authority that look there.
type newcomer struct {
	*daemon
	at     string // the IP address
	names  *dns.Server
	ca     *ca.Server
	config string // the settings file of daemon and commands
	given  string // the root of the authority's certificates
}

var hosts atomic.Int32

// newNewcomer prepares all and starts them; change, which may be nil, makes another authority.
func newNewcomer(t *testing.T, change func(c *ca.Config)) *newcomer {
	t.Helper()
	harness.Ready(t, harness.Unready)
	n := &newcomer{names: dns.Start(t), at: fmt.Sprintf("127.0.80.%d", hosts.Add(1))}
	l, err := net.Listen("tcp", n.at+":80")
	if err != nil {
		t.Skipf("needs port 80 of %s: %v", n.at, err)
	}
	_ = l.Close()
	c := ca.Config{Resolver: n.names.Addr(), HTTP: 80, TLS: 443, Short: 6 * 24 * time.Hour}
	if change != nil {
		change(&c)
	}
	n.ca = ca.New(t, c)
	n.daemon = upgradable(t)
	n.config = filepath.Join(n.Root, "etc", "berth.toml")
	if err := os.Mkdir(filepath.Dir(n.config), 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Write(t, n.config, fmt.Sprintf("names.resolver = %q\nproxy.http = \"%[2]s:80\"\nproxy.https = \"%[2]s:443\"\nproxy.acme_directory = %[3]q\nproxy.acme_roots = %[4]q\nupgrade.patience = \"5s\"\n",
		n.names.Addr(), n.at, n.ca.Directory, n.ca.Roots))
	n.Env = append(n.Env, "BERTH_CONFIG="+n.config)
	n.ca.Start()
	n.given = filepath.Join(n.Root, "given.pem")
	harness.Write(t, n.given, n.ca.Given())
	n.Serve()
	return n
}

// leads makes a name, and all names below it as far as the test has to know them, lead to an
// address.
func (n *newcomer) leads(name, below string) {
	for who, at := range map[string]string{name: n.at, "*." + name: below} {
		if at != "" {
			n.names.SetHost(who, netip.MustParseAddr(at))
		}
	}
}

// command is berth setup with arguments.
func (n *newcomer) command(args ...string) *exec.Cmd {
	cmd := n.Command(append([]string{"setup", "--data-dir", n.Data}, args...)...)
	cmd.Env = append(harness.CleanEnv(), n.Env...)
	return cmd
}

// setup runs it with a password at the standard input.
func (n *newcomer) setup(args ...string) (code int, stdout, stderr string) {
	n.T.Helper()
	cmd := n.command(args...)
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(password+"\n"), &out, &problems
	_ = cmd.Run() // the code tells
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// result is what --json prints.
type result struct {
	Host, Account, Name, Panel, Link, Tunnel string
	Expires                                  *time.Time
	Steps                                    []struct {
		Step, Text string
		Changed    bool
	}
}

func (n *newcomer) read(path string) string {
	n.T.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		n.T.Fatal(err)
	}
	return string(text)
}

// must runs a setup that succeeds.
func (n *newcomer) must(args ...string) (r result) {
	n.T.Helper()
	code, stdout, stderr := n.setup(append(args, "--json")...)
	if code != 0 || json.Unmarshal([]byte(stdout), &r) != nil {
		n.T.Fatalf("berth setup %v: exit status %d, %s%s", args, code, stdout, stderr)
	}
	return r
}

// changed are the steps that were done, and not before.
func (r result) changed() (all []string) {
	for _, s := range r.Steps {
		if s.Changed {
			all = append(all, s.Step)
		}
	}
	return all
}

// curl asks for a page of the host over HTTPS, as somebody who trusts the authority.
func (n *newcomer) curl(name, path string) (string, error) {
	out, err := exec.Command("curl", "-sS", "--max-time", "20", "--noproxy", "*", "--cacert", n.given, "--resolve", name+":443:"+n.at, "https://"+name+path).CombinedOutput()
	return string(out), err
}

// state is everything that setup leaves: it must be the same however it came about.
func (n *newcomer) state() map[string]string {
	n.T.Helper()
	all := map[string]string{}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(n.config), "*", "*"))
	if err != nil {
		n.T.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // a new file that has taken its place
			continue
		}
		if err != nil {
			n.T.Fatal(err)
		}
		set := strings.TrimLeft(regexp.MustCompile("(?m)^#.*$").ReplaceAllString(string(text), ""), "\n")
		if set != "" { // behind the comment at its head
			all[filepath.Base(path)] = set
		}
	}
	var accounts []struct {
		Name       string
		TotalRAMMB int `json:"totalRamMb"`
	}
	if err := json.Unmarshal([]byte(n.CLI("account", "list", "--json")), &accounts); err != nil {
		n.T.Fatal(err)
	}
	all["accounts"] = fmt.Sprint(accounts)
	return all
}

// signs reports whether the account can sign in with the password.
func (n *newcomer) signs(name string) bool {
	n.T.Helper()
	jar := filepath.Join(n.Root, "jar")
	defer os.Remove(jar)
	out, err := exec.Command("curl", "-sS", "--noproxy", "*", "-c", jar, "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}",
		"--data-urlencode", "name="+name, "--data-urlencode", "password="+password, n.Base+"/login").CombinedOutput()
	if err != nil {
		n.T.Fatalf("%v: %s", err, out)
	}
	return strings.HasPrefix(string(out), "303 ")
}

// TestSetupDomain: from nothing to a panel at a domain with sites below it, and again.
func TestSetupDomain(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, nil)
	const name = "apps.example.org"
	n.leads(name, n.at)
	r := n.must("--account", "ana", "--ram", "300", "--password-file", "-", "--domain", "Apps.Example.Org.", "--email", "ana@example.org")
	if r.Account != "ana" || r.Name != name || r.Panel != "https://"+name || r.Link != "" || r.Tunnel != "" || r.Expires == nil || !strings.HasPrefix(r.Host, "ready") {
		t.Errorf("it says %+v", r)
	}
	if got := r.changed(); !slices.Equal(got, []string{"account", "visit", "https", "sites"}) {
		t.Errorf("it has done %v", got)
	}
	if out, err := n.curl(name, "/v2/user"); err != nil || !strings.Contains(out, `"statusCode":401`) {
		t.Errorf("the API: %s, %v", out, err)
	}
	if out, err := n.curl(name, "/login"); err != nil || !strings.Contains(out, "<form") {
		t.Errorf("the panel: %s, %v", out, err)
	}
	if !n.signs("ana") {
		t.Error("the password does not work")
	}
	before, orders := n.state(), n.ca.Said("POST /order-plz")
	if strings.Contains(fmt.Sprint(before), "setup.json") || !strings.Contains(before["managed.toml"], `base_url = "https://apps.example.org"`) {
		t.Errorf("it has left %v", before)
	}
	for _, again := range [][]string{{}, {"--domain", name}, {"--account", "ana", "--password-file", "-", "--domain", name, "--email", "ana@example.org"}} {
		if r := n.must(again...); len(r.changed()) > 0 || r.Panel != "https://"+name || r.Link != "" {
			t.Errorf("%v: %+v", again, r)
		}
	}
	if after := n.state(); !maps.Equal(before, after) || n.ca.Said("POST /order-plz") != orders {
		t.Errorf("run again, it has left %v", after)
	}
	// A site is at the address that setup has named.
	c := &client{n.clientOf("ana"), n.daemon}
	c.Upload(htmlSite("shop", "hello"))
	harness.Eventually(t, "the site answers", func() bool {
		out, err := n.curl("shop."+name, "/")
		return err == nil && out == "hello"
	})
}

// clientOf is a client with a token of an account that exists.
func (n *newcomer) clientOf(name string) *harness.Client {
	n.T.Helper()
	c := &harness.Client{T: n.T, Berth: n.Berth, Name: name, Token: n.CLI("token", "create", name)}
	n.Clients = append(n.Clients, c)
	return c
}

// TestSetupAddress: without a domain the panel is at the IP address, and a link sets the
// password. The way to a domain is open later.
func TestSetupAddress(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, nil)
	r := n.must("--account", "ana", "--ip", n.at)
	if r.Panel != "https://"+n.at || !strings.HasPrefix(r.Link, r.Panel+"/setup/") || r.Name != n.at || time.Until(*r.Expires) > 7*24*time.Hour {
		t.Errorf("it says %+v", r)
	}
	if out, err := n.curl(n.at, strings.TrimPrefix(r.Link, r.Panel)); err != nil || !strings.Contains(out, "<form") {
		t.Errorf("the link: %s, %v", out, err)
	}
	n.leads("apps.example.org", n.at)
	r = n.must("--domain", "apps.example.org", "--password-file", "-")
	if got := r.changed(); r.Link != "" || !slices.Equal(got, []string{"account", "visit", "https", "sites"}) || !n.signs("ana") {
		t.Errorf("it says %+v", r)
	}
}

// TestSetupTunnel: where there is no public address, the exact command leads to the panel.
func TestSetupTunnel(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, func(c *ca.Config) { c.HTTP, c.TLS = 1, 1 })
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(n.Base, "http://"))
	check := func(r result) {
		t.Helper()
		if want := fmt.Sprintf("ssh -L %s:127.0.0.1:%s root@%s", port, port, name); r.Tunnel != want || r.Panel != n.Base || !strings.HasPrefix(r.Link, n.Base+"/setup/") {
			t.Errorf("it says %+v, want the tunnel %s", r, want)
		}
	}
	// The authority does not reach the address: a tunnel will do, and nothing is left.
	harness.Write(t, n.config, n.read(n.config)+"names.addresses = \""+n.at+"\"\n")
	r := n.must("--account", "ana", "--no-domain")
	check(r)
	if !strings.Contains(fmt.Sprint(r.Steps), "no HTTPS: cannot get a certificate for "+n.at+": the certificate authority refused") {
		t.Errorf("it says %+v", r.Steps)
	}
	if state := n.state(); strings.Contains(fmt.Sprint(state), "proxy") || strings.Contains(fmt.Sprint(state), "setup.json") {
		t.Errorf("it has left %v", state)
	}
	if c, err := net.Dial("tcp", n.at+":443"); err == nil {
		_ = c.Close()
		t.Error("port 443 is still served")
	}
	code, stdout, stderr := n.setup("--tunnel")
	if code != 0 || !strings.Contains(stdout, "ssh -L "+port) || !strings.Contains(stdout, "works once") {
		t.Errorf("for people it says %s%s", stdout, stderr)
	}
}

// TestSetupRefusals: each is a sentence and what to do, and nothing is changed.
func TestSetupRefusals(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, func(c *ca.Config) { c.Blocked = []string{"blocked.example.org"} })
	elsewhere := "127.0.81.1"
	serveAt(t, elsewhere+":80")
	n.leads("blocked.example.org", n.at)
	n.leads("half.example.org", "")
	n.leads("crooked.example.org", elsewhere)
	n.names.SetHost("away.example.org", netip.MustParseAddr(elsewhere))
	n.names.SetHost("*.away.example.org", netip.MustParseAddr(elsewhere))
	n.names.Fail("broken.example.org", dns.ServFail)
	n.CLI("account", "create", "ana", "--ram", "300")
	before := n.state()
	refused := func(code int, says, hint string, args ...string) {
		t.Helper()
		got, stdout, stderr := n.setup(args...)
		if got != code || !strings.HasPrefix(stderr, "berth: "+says) || !strings.Contains(stderr, hint) || strings.Count(strings.TrimSpace(stderr), "\n") != 1 {
			t.Errorf("%v: exit status %d, %s%s, want %d, %s, %s", args, got, stdout, stderr, code, says, hint)
		}
		if after := n.state(); !maps.Equal(before, after) {
			t.Errorf("%v has left %v", args, after)
		}
	}
	refused(1, "cannot use nowhere.example.org: the DNS has no address for it", "Hint: enter these records in the DNS", "--domain", "nowhere.example.org")
	refused(1, "cannot use half.example.org: the DNS has no address for names below it", "*.half.example.org A", "--domain", "half.example.org")
	refused(1, "cannot use crooked.example.org: names below it do not lead to this host: another web server answers at "+elsewhere, "*.crooked.example.org A", "--domain", "crooked.example.org")
	refused(1, "cannot get a certificate for blocked.example.org: the certificate authority refused", "Hint: ", "--domain", "blocked.example.org")
	// The visit proves nothing: the authority decides, and is asked once.
	refused(1, "cannot get a certificate for away.example.org: the certificate authority refused: http-01: ", "Hint: strangers must reach", "--domain", "away.example.org")
	refused(1, "cannot use broken.example.org: ", "Hint: enter these records", "--domain", "broken.example.org")
	refused(2, `"example" cannot be a domain`, "Usage: ", "--domain", "example")
	refused(2, `"localhost" is no IP address`, "Usage: ", "--ip", "localhost")
	refused(2, "--domain, --ip, --no-domain and --tunnel exclude each other", "Usage: ", "--domain", "a.example.org", "--no-domain")
	refused(2, `cannot create "bob" as the first account: this host has accounts`, "berth account create bob", "--account", "bob", "--no-domain")
	refused(2, "how do you reach the panel?", "Usage: ")
	short := filepath.Join(n.Root, "short")
	harness.Write(t, short, "short\n")
	refused(2, "a password must have at least 10 characters", "nothing was changed", "--password-file", short, "--no-domain")
	refused(2, "cannot read the password: open "+short+"er: no such file", "nothing was changed", "--password-file", short+"er", "--no-domain")

	// Another web server has the ports.
	l, err := net.Listen("tcp", n.at+":443")
	if err != nil {
		t.Fatal(err)
	}
	refused(1, "cannot serve visitors on "+n.at+":443: ", "berth proxy snippet", "--domain", "blocked.example.org")
	if _, _, stderr := n.setup("--domain", "blocked.example.org"); !strings.Contains(stderr, "(pid "+strconv.Itoa(os.Getpid())+")") {
		t.Errorf("who listens there: %s", stderr)
	}
	_ = l.Close()

	n.ca.Stop()
	n.leads("late.example.org", n.at)
	refused(1, "cannot get a certificate for late.example.org: the certificate authority does not work, or cannot be reached", "Hint: this host must reach the authority", "--domain", "late.example.org")

	other := filepath.Join(n.Root, "other")
	if code, out, stderr := n.run("setup", "--data-dir", other); code != 5 || !strings.Contains(stderr, "cannot find a database") {
		t.Errorf("another data directory: %d, %s%s", code, out, stderr)
	}
	if code := n.End(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit status %d", code)
	}
	got, _, stderr := n.setup("--domain", "late.example.org")
	if got != 1 || stderr != "berth: cannot set up this host: berth does not run\nHint: start it with systemctl start berth; if berth is no service yet, with berth install --now.\n" {
		t.Errorf("without a daemon: %d, %s", got, stderr)
	}
	n.Serve()
}

// run runs a command as it is.
func (n *newcomer) run(args ...string) (code int, stdout, stderr string) {
	n.T.Helper()
	cmd := n.Command(args...)
	cmd.Env = append(harness.CleanEnv(), n.Env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	_ = cmd.Run() // the code tells
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// serveAt is a web server of somebody else.
func serveAt(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("needs %s: %v", address, err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a router") }))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// TestSetupKilled: killed at ten points and run again, it ends as one that nobody disturbed.
func TestSetupKilled(t *testing.T) {
	t.Parallel()
	const name = "apps.example.org"
	args := []string{"--account", "ana", "--ram", "300", "--password-file", "-", "--domain", name}
	there := func(parts ...string) func(n *newcomer) bool {
		return func(n *newcomer) bool {
			_, err := os.Stat(filepath.Join(append([]string{filepath.Dir(n.config), "berth.d"}, parts...)...))
			return err == nil
		}
	}
	points := []struct {
		name    string
		reached func(n *newcomer) bool
	}{
		{"at its start", func(*newcomer) bool { return true }},
		{"the account exists", func(n *newcomer) bool { return strings.Contains(n.CLI("account", "list"), "ana") }},
		{"the password works", func(n *newcomer) bool { return strings.Contains(n.CLI("audit"), "password.set") }},
		{"it answers visits", func(n *newcomer) bool { return listensAt(n.at + ":80") }},
		{"the journal exists", there("setup.json")},
		{"the settings are set", there("managed.toml")},
		{"the daemon reloads", func(n *newcomer) bool { return strings.Contains(n.Out.String(), "msg=upgrading") }},
		{"the daemon serves visitors", func(n *newcomer) bool { return listensAt(n.at + ":443") }},
		{"the authority is asked", func(n *newcomer) bool { return n.ca.Said("POST /order-plz") > 0 }},
		{"the certificate is there", func(n *newcomer) bool { return strings.Contains(n.Out.String(), "a certificate was obtained") }},
	}
	undisturbed := newNewcomer(t, nil)
	undisturbed.leads(name, undisturbed.at)
	undisturbed.must(args...)
	want := undisturbed.state()
	for _, point := range points {
		t.Run(point.name, func(t *testing.T) {
			t.Parallel()
			n := newNewcomer(t, nil)
			n.leads(name, n.at)
			cmd := n.command(args...)
			cmd.Stdin = strings.NewReader(password + "\n")
			var out harness.Output
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = cmd.Wait() }() // it is killed
			harness.Eventually(t, point.name, func() bool {
				select {
				case <-ended:
					return true
				default:
					return point.reached(n)
				}
			})
			_ = cmd.Process.Signal(syscall.SIGKILL) // unless it has ended
			<-ended
			if cmd.ProcessState.Exited() {
				t.Logf("it had ended before: %s", out.String())
			}
			r := n.must(args...)
			if got := n.state(); !maps.Equal(got, want) || r.Panel != "https://"+name || r.Link != "" || !n.signs("ana") {
				t.Errorf("it ends with %v and %+v, want %v", got, r, want)
			}
			if out, err := n.curl(name, "/v2/user"); err != nil || !strings.Contains(out, "401") {
				t.Errorf("the API: %s, %v", out, err)
			}
		})
	}
}

// TestSetupKilledAndGoneBack: after a kill, a setup that fails goes back to what was before the
// first one.
func TestSetupKilledAndGoneBack(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, func(c *ca.Config) { c.Blocked = []string{"blocked.example.org"} })
	n.must("--account", "ana", "--ip", n.at)
	before := n.state()
	n.leads("blocked.example.org", n.at)
	again := func(says string) {
		t.Helper()
		if code, out, stderr := n.setup("--domain", "blocked.example.org"); code != 1 || !strings.Contains(stderr, says) {
			t.Errorf("exit status %d, %s%s", code, out, stderr)
		}
		if after := n.state(); !maps.Equal(before, after) {
			t.Errorf("it has left %v, want %v", after, before)
		}
		if out, err := n.curl(n.at, "/v2/user"); err != nil || !strings.Contains(out, "401") {
			t.Errorf("the panel of before: %s, %v", out, err)
		}
	}
	killed := func() {
		t.Helper()
		cmd := n.command("--domain", "blocked.example.org", "--json")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "the settings are set", func() bool {
			return strings.Contains(n.state()["managed.toml"], "blocked.example.org")
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	killed()
	again("the settings are as before")
	killed()
	n.names.SetHost("blocked.example.org") // no address any more
	again("the DNS has no address for it")
}

func listensAt(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// TestSetupAtATerminal: a person answers, on a wide and on a narrow terminal, and every line
// fits.
func TestSetupAtATerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []uint16{80, 40} {
		t.Run(strconv.Itoa(int(columns)), func(t *testing.T) {
			t.Parallel()
			n := newNewcomer(t, nil)
			p := harness.OpenTerminal(t, n.command(), columns)
			p.Answer("Name of your account [admin]:", "Ana!")
			p.Answer("Name of your account [admin]:", "ana")
			p.Answer("in MB [", "many")
			p.Answer("in MB [", "300")
			p.Answer("Password (empty: a link sets it later):", "short")
			p.Answer("Password (empty: a link sets it later):", password)
			p.Answer("Again:", "another one")
			p.Answer("Password (empty: a link sets it later):", password)
			p.Answer("Again:", password)
			p.Answer("1, 2 or 3 [1]:", "")
			p.Answer("Domain:", "apps.example.org")
			p.Answer("or nothing:", "")
			p.Answer("Enter to try again, or another name:", "")
			p.Wait("Enter to try again, or another name:")
			n.leads("apps.example.org", n.at)
			p.Type("")
			if code := p.End(); code != 0 {
				t.Errorf("exit status %d: %s", code, p.Out.String())
			}
			said := strings.ReplaceAll(p.Out.String(), "\r", "")
			if !strings.Contains(said, "https://apps.example.org") || strings.Contains(said, password) || !n.signs("ana") {
				t.Errorf("the terminal shows %s", said)
			}
			for line := range strings.Lines(said) {
				if words := strings.Fields(line); utf8.RuneCountInString(strings.TrimRight(line, "\n")) > int(columns) && len(words) > 2 {
					t.Errorf("%d columns at %d: %q", utf8.RuneCountInString(line), columns, line)
				}
			}
			t.Logf("the terminal of %d columns shows\n%s", columns, said)
		})
	}
}

// TestSetupEnded: a person who goes away leaves nothing half-done.
func TestSetupEnded(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, nil)
	p := harness.OpenTerminal(t, n.command(), 80)
	p.Answer("Name of your account [admin]:", "\x04") // the end of the input
	if code := p.End(); code != 1 || !strings.Contains(p.Out.String(), "the input ended before the answer") {
		t.Errorf("exit status %d: %s", code, p.Out.String())
	}
	if state := n.state(); !maps.Equal(state, map[string]string{"accounts": "[]"}) {
		t.Errorf("it has left %v", state)
	}
}
