package host

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/app/exit"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/host/domain"
	"berth/proc"
	"berth/web/egress"
	"berth/web/local"
	"berth/web/visit"
)

// publishing is the part of setup that brings the panel, and sites, to where others reach
// them: it proves that a name leads here, sets the settings, and waits for the certificate.
// If there is none in the end, the settings become what they were.
type publishing struct {
	*setup
	name      string // a domain, or an IP address; "" for none
	sites     bool   // it is a domain, with sites below it
	auto      bool   // an SSH tunnel will do
	behind    bool   // another web server publishes everything already
	undecided bool   // a person is to be asked
}

// run publishes what was decided, or what a person says now.
func (p *publishing) run() error {
	if p.undecided {
		if err := p.askFor(); err != nil {
			return err
		}
	}
	switch {
	case p.behind:
		p.step("web", false, "another web server leads visitors to berth (proxy.mode is %q)", p.settings.Proxy.Mode)
		return nil
	case p.name == "":
		return p.unpublished()
	}
	err := p.publish()
	if err == nil {
		return nil
	}
	if failed := p.unpublished(); failed != nil || !p.auto {
		return errors.Join(err, failed)
	}
	p.step("address", false, "no HTTPS: %v", err)
	return nil
}

// decide finds out what is wanted, as far as flags and settings say it.
func (p *publishing) decide() error {
	f, s := p.flags, p.settings
	home := s.HomeName()
	switch {
	case f.domain != "":
		return p.take(f.domain)
	case f.ip != "":
		return p.takeAddress(f.ip)
	case f.noDomain:
		p.chooseAddress()
	case f.tunnel:
	case s.Proxy.Mode == settings.ProxyBehind:
		p.behind = true
	case s.Proxy.Mode == settings.ProxyEdge && home != "" && strings.HasPrefix(s.BaseURL, "https:"):
		p.name, p.sites = home, s.SitesDomain() == home
	case p.ask != nil:
		p.undecided = true
	case !f.yes:
		return exit.Misused("how do you reach the panel? Give --domain NAME, --ip ADDRESS, --no-domain or --tunnel")
	default:
		p.chooseAddress()
	}
	return nil
}

// chooseAddress takes the first public address of this host, or none.
func (p *publishing) chooseAddress() {
	p.auto = true
	if all := p.addresses(); len(all) > 0 {
		p.name = all[0].String()
	}
}

// take makes a domain the wanted name.
func (p *publishing) take(text string) error {
	name, err := domain.CheckDomain(text, nil)
	if err != nil {
		return exit.Misused("%w", err)
	}
	p.name, p.sites = name, true
	return nil
}

// takeAddress makes an IP address the wanted name.
func (p *publishing) takeAddress(text string) error {
	at, err := netip.ParseAddr(text)
	if err != nil || at.Zone() != "" || at.IsUnspecified() {
		return exit.Misused("%q is no IP address of a host", text)
	}
	p.name, p.sites = at.Unmap().String(), false
	return nil
}

// askFor lets a person choose.
func (p *publishing) askFor() error {
	q := p.ask
	q.say("How do you want to reach the panel?")
	q.say("1  at a domain of yours, such as apps.example.org, over HTTPS; sites are below it")
	q.say("2  at the public IP address of this host, over HTTPS; no sites")
	q.say("3  through an SSH tunnel; nothing is opened to the internet")
	for {
		answer, err := q.line("1, 2 or 3", "1")
		if err != nil {
			return err
		}
		switch answer {
		case "1":
			return p.askUntil("Domain", "", p.take)
		case "2":
			known := ""
			if all := p.addresses(); len(all) > 0 {
				known = all[0].String()
			}
			return p.askUntil("Public IP address", known, p.takeAddress)
		case "3":
			return nil
		}
	}
}

// askUntil asks until take takes the answer, and then for what the authority may know.
func (p *publishing) askUntil(question, byDefault string, take func(string) error) error {
	for {
		text, err := p.ask.line(question, byDefault)
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if err := take(text); err != nil {
			p.ask.say(err.Error())
			continue
		}
		if p.flags.email == "" && p.settings.Proxy.ACME.Email == "" {
			p.ask.say("berth asks " + authorityName(p.settings) + " for a certificate. If you go on, you agree to its terms.")
			p.flags.email, err = p.ask.line("Email address for it, or nothing", "")
		}
		return err
	}
}

// authorityName is the host of the authority's directory.
func authorityName(s settings.Settings) string {
	name := strings.TrimPrefix(s.Proxy.ACME.Directory, "https://")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// addresses are the public addresses of this host as far as it knows them: those of the
// settings, or those of its interfaces. Behind a router it knows none.
func (p *publishing) addresses() []netip.Addr {
	if own := p.settings.OwnAddresses(); len(own) > 0 {
		return own
	}
	all, _ := net.InterfaceAddrs() // none are known then
	var found []netip.Addr
	for _, a := range all {
		n, is := a.(*net.IPNet)
		if !is {
			continue
		}
		if at, ok := netip.AddrFromSlice(n.IP); ok && egress.Public(at) {
			found = append(found, at.Unmap())
		}
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first
	return found
}

// publish does it, unless it is done.
func (p *publishing) publish() error {
	if expires, done := p.done(); done {
		p.published(expires, false)
		return nil
	}
	if err := p.portsAreFree(); err != nil {
		return err
	}
	if err := p.prove(); err != nil {
		return err
	}
	c := &certifying{setup: p.setup, trial: p.trial(), name: p.name}
	expires, err := c.apply(p.wanted())
	if err != nil {
		return err
	}
	p.published(expires, true)
	return nil
}

// published says that the name has its certificate.
func (p *publishing) published(expires time.Time, now bool) {
	p.report.Name, p.report.Expires = p.name, &expires
	renews := "; berth renews it"
	if p.settings.Proxy.Cert != "" { // it may be from that file
		renews = ""
	}
	p.step("https", now, "%s has a certificate until %s%s", p.name, expires.UTC().Format(time.DateOnly), renews)
	if p.sites {
		p.step("sites", now, "a site with ID=shop is at https://shop.%s", p.settings.SitesDomain())
	}
}

// unpublished leaves everything as it is, but for what an earlier setup has left half-done.
func (p *publishing) unpublished() error {
	t := p.trial()
	_, interrupted, err := t.read()
	if err == nil && interrupted {
		p.settings, err = t.goBack(p.ctx)
	}
	return err
}

// trial is what an earlier setup may have left on trial.
func (p *publishing) trial() *trial {
	path, _ := p.from.File(p.Getenv)
	return &trial{path: path, load: func() (settings.Settings, error) { return p.from.Load(p.Getenv) }}
}

// baseURL is that of the wanted name.
func (p *publishing) baseURL() string {
	if strings.Contains(p.name, ":") {
		return "https://[" + p.name + "]"
	}
	return "https://" + p.name
}

// wanted are the settings that publish the name.
func (p *publishing) wanted() map[string]string {
	set := map[string]string{"proxy.mode": settings.ProxyEdge, "proxy.tls": settings.TLSACME, "base_url": p.baseURL()}
	if p.sites {
		set["names.domain"] = p.name
		if p.settings.Proxy.Domain != "" { // it goes before names.domain
			set["proxy.domain"] = p.name
		}
	}
	if p.flags.email != "" {
		set["proxy.acme_email"] = p.flags.email
	}
	return set
}

// done returns until when the certificate is valid that visitors are shown already.
func (p *publishing) done() (expires time.Time, done bool) {
	s := p.settings
	_, interrupted, err := p.trial().read()
	if err != nil || interrupted || s.Proxy.Mode != settings.ProxyEdge || s.BaseURL != p.baseURL() || p.served.BaseURL != s.BaseURL ||
		p.sites && s.SitesDomain() != p.name || p.flags.email != "" && p.flags.email != s.Proxy.ACME.Email {
		return expires, false
	}
	return certified(p.ctx, s, p.name)
}

// portsAreFree refuses if another process has a port that visitors come to.
func (p *publishing) portsAreFree() error {
	for _, address := range []string{p.settings.Proxy.HTTP, p.settings.Proxy.HTTPS} {
		l, err := (&net.ListenConfig{}).Listen(p.ctx, daemon.NetworkOf(address), address)
		if err == nil {
			_ = l.Close()
			continue
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("cannot serve visitors: %w", err)
		}
		who := daemon.WhoListens(p.ctx, address)
		if !slices.ContainsFunc(who, func(l proc.Listener) bool { return l.Pid == p.served.PID }) && !p.serves(address) {
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot serve visitors on %s: %s listens there", address, who),
				"Hint: stop it and run berth setup again, or let it lead visitors to berth: see berth proxy snippet --help.")
		}
	}
	return nil
}

// serves reports whether the daemon serves sites on the port of an address. It waits for a
// daemon that hands over to its next image, whose descriptors cannot be seen for a moment.
func (p *publishing) serves(address string) bool {
	d, err := local.Ask(p.ctx, p.settings.RuntimeDir)
	_, port, _ := net.SplitHostPort(address)
	return err == nil && slices.ContainsFunc(d.Sites, func(at string) bool { return strings.HasSuffix(at, ":"+port) })
}

// prove visits the name, and one below it, as a stranger does. What is certainly wrong is
// refused; where a visit only fails, the certificate authority will say what is right.
func (p *publishing) prove() error {
	stop, prover, err := p.answerVisits()
	if err != nil {
		return err
	}
	defer stop()
	for {
		wrong := p.visit(prover)
		switch {
		case wrong.why == "":
			what := "leads to this host"
			if p.sites {
				what = "and all names below it lead to this host"
			}
			p.step("visit", true, "%s %s", p.name, what)
			return nil
		case p.ask == nil && !wrong.certain:
			p.step("visit", false, "%s: %s. The certificate authority decides", p.name, wrong.why)
			return nil
		case p.ask == nil:
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot use %s: %s", p.name, wrong.why), p.remedy())
		}
		p.ask.say(fmt.Sprintf("%s does not lead to this host yet: %s.", p.name, wrong.why))
		p.showRecords()
		question := "Enter to try again, or another name"
		if !wrong.certain {
			question = "Enter to try again, another name, or \"go\" to let the certificate authority decide"
		}
		answer, err := p.ask.line(question, "")
		switch {
		case err != nil:
			return err
		case answer == "go" && !wrong.certain:
			return nil
		case answer == "":
		case net.ParseIP(answer) != nil:
			err = p.takeAddress(answer)
		default:
			err = p.take(answer)
		}
		if err != nil {
			p.ask.say(err.Error())
		}
	}
}

// unproved is why a visit proved nothing; "" if it did. It is certain if no authority could
// see it otherwise.
type unproved struct {
	why     string
	certain bool
}

// visit visits the name, and a random one below it if sites are there.
func (p *publishing) visit(prover *visit.Prover) unproved {
	_, err := prover.Prove(p.ctx, p.name)
	if errors.Is(err, visit.ErrNoAddress) {
		return unproved{err.Error(), true}
	}
	if p.sites {
		b := make([]byte, 6)
		_, _ = rand.Read(b) // never fails
		_, below := prover.Prove(p.ctx, "berth-"+hex.EncodeToString(b)+"."+p.name)
		switch {
		case errors.Is(below, visit.ErrNoAddress):
			return unproved{"the DNS has no address for names below it, and sites are there", true}
		case err == nil && below != nil:
			return unproved{fmt.Sprintf("names below it do not lead to this host: %v", below), true}
		}
	}
	if err != nil {
		return unproved{err.Error(), false}
	}
	return unproved{}
}

// remedy is what the owner does about a name that does not lead here.
func (p *publishing) remedy() string {
	if !p.sites {
		return "Hint: open port 80 in the firewall, and forward ports 80 and 443 of your router to this host; then run berth setup again."
	}
	return "Hint: enter these records in the DNS, and run berth setup again; a new record may take some minutes: " + strings.Join(p.records(), "; ")
}

// records are those that lead a domain here.
func (p *publishing) records() (all []string) {
	addresses := p.addresses()
	for _, name := range []string{p.name, "*." + p.name} {
		for _, a := range addresses {
			kind := "A"
			if a.Is6() {
				kind = "AAAA"
			}
			all = append(all, fmt.Sprintf("%s %s %s", name, kind, a))
		}
		if len(addresses) == 0 {
			all = append(all, name+" A (the public address of this host)")
		}
	}
	return all
}

// showRecords shows them to a person, a line each.
func (p *publishing) showRecords() {
	if !p.sites {
		p.ask.say(strings.TrimPrefix(p.remedy(), "Hint: "))
		return
	}
	p.ask.say("The DNS needs these records; new ones may take some minutes:")
	for _, r := range p.records() {
		p.ask.say("  " + r)
	}
}

// answerVisits answers visits on port 80 until stop, unless the daemon does so there.
func (p *publishing) answerVisits() (stop func(), prover *visit.Prover, err error) {
	secret, err := p.db.LinkKey(p.ctx)
	if err != nil {
		return nil, nil, err
	}
	prover = &visit.Prover{Secret: secret, Resolver: daemon.NewResolver(p.settings.Names.Resolver)}
	address := p.settings.Proxy.HTTP
	l, err := (&net.ListenConfig{}).Listen(p.ctx, daemon.NetworkOf(address), address)
	if errors.Is(err, syscall.EADDRINUSE) { // by the daemon: see portsAreFree
		return func() {}, prover, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot answer visits: %w", err)
	}
	server := &http.Server{Handler: visit.Answer(secret, http.NotFoundHandler()), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }() // until it is closed
	return func() { _ = server.Close(); <-done }, prover, nil
}
