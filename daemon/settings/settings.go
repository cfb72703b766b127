package settings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"berth/app"
	"berth/host/account"
)

// Settings is everything an owner can set, checked. Flag beats environment
// beats file beats default.
type Settings struct {
	DataDir   string // absolute
	Listen    string // HOST:PORT
	BaseURL   string // without a slash at the end; empty: derived from the request
	RateLimit int    // requests a minute and token
	// Connections is how many there may be at once.
	Connections int

	Apps struct {
		RAMMin, RAMDefault   app.MB
		OOMGroup             bool
		PidsMax              int
		CPUMax               int    // percent of one processor; 0: none
		Disk                 app.MB // 0: no limit
		StopTimeout, OKDelay time.Duration
		UIDBase, UIDCount    int
		PortFirst, PortLast  int // both included
	}
	Host struct {
		Reserve    app.MB
		DiskFloor  app.MB // negative: by the size of the disk
		Overcommit float64
	}
	Build struct {
		RAM         app.MB
		Timeout     time.Duration
		Concurrency int
		Queue       int // builds that may wait
	}
	Upload struct {
		Max, MaxSocket, MaxUnpacked app.MB
		MaxFiles                    int
	}
	Logs struct {
		MaxFile app.MB
		Keep    int
		RateKB  int // KB a second and application
	}
	Backups struct{ TTL time.Duration }
	Deploys struct {
		Keep int
		Disk app.MB
	}
	Names struct {
		Domain     string // of which sites have subdomains; empty: not known
		Addresses  string // IP addresses with commas between them; empty: not known
		Resolver   string // HOST:PORT; empty: the host's own
		Proof      string // proofTXT or ProofAddress
		PerAccount int
	}
	Proxy struct {
		Mode        string // ProxyOff, ProxyBehind or ProxyEdge
		Domain      string // empty: Names.Domain; see sites
		Listen      string // HOST:PORT behind another proxy
		HTTP, HTTPS string // HOST:PORT at the edge
		Trusted     string // see trusted
		TLS         string // tlsFiles or TLSACME
		Cert, Key   string // paths; see proxy.LoadCertificates
		ACME        acmeSettings
		AccessLog   bool
		PerSite     int // requests of one site at once

		HealthTimeout, DrainTimeout time.Duration // of commits without a pause
	}
	Console struct{ Timeout time.Duration }
	Upgrade struct{ Patience time.Duration }
	Network struct{ Allow, Deny string } // see NetworkRules
	Sandbox struct {
		Require string // layers without which nothing is served: see parseLayers
		Paths   string // that programs see besides the system's own: see parsePaths
	}
	Panel struct {
		Enabled    bool
		SessionTTL time.Duration
		Insecure   bool // let people sign in over plain HTTP
	}
	Audit struct {
		Keep int // records
		Age  time.Duration
	}
}

const (
	// DefaultFile is the settings file that the service reads.
	DefaultFile = "/etc/berth/berth.toml"
	maxRAM      = int64(account.MaxRAM)
	maxUID      = math.MaxInt32 - 1
	nobody      = 65534 // the uid that the kernel shows for one it cannot map
)

// setting is one row of the table below. Its key is the key in the file; with
// '-' for '.' and '_' it is the flag, and BERTH_ with '_' the variable.
type setting struct {
	key   string
	value string // the default, as a person would write it
	help  string // `WORD` names the flag's value
	field func(*Settings) kind
}

func (s setting) flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.key)
}

func (s setting) env() string {
	return "BERTH_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

var settings = []setting{
	{"data_dir", "/var/lib/berth", "`DIR` of everything that is remembered and hosted", func(s *Settings) kind { return directory{&s.DataDir} }},
	{"listen", "127.0.0.1:8400", "`HOST:PORT` of the API", func(s *Settings) kind { return hostPort{&s.Listen} }},
	{"base_url", "", "`URL` under which clients reach the API, for links", func(s *Settings) kind { return webAddress{&s.BaseURL} }},
	{"rate_limit", "60", "`N` requests a minute for each token", func(s *Settings) kind { return whole(&s.RateLimit, 1, 1_000_000) }},
	{"connections", "1024", "most connections (`N`) at once; one address gets a quarter of them", func(s *Settings) kind { return whole(&s.Connections, 16, 1_000_000) }},
	{"apps.ram_min", "32", "least `MB` of an application", func(s *Settings) kind { return whole(&s.Apps.RAMMin, 1, maxRAM) }},
	{"apps.ram_default", "100", "`MB` of an application that asks for none", func(s *Settings) kind { return whole(&s.Apps.RAMDefault, 1, maxRAM) }},
	{"apps.oom_group", "true", "end the whole application when it needs more than its RAM", func(s *Settings) kind { return toggle{&s.Apps.OOMGroup} }},
	{"apps.pids_max", "256", "most processes and threads (`N`) of an application", func(s *Settings) kind { return whole(&s.Apps.PidsMax, 1, 1<<22) }},
	{"apps.cpu_max", "0", "most processor time (`PERCENT` of one processor) of an application; 0 for no limit", func(s *Settings) kind { return whole(&s.Apps.CPUMax, 0, 100_000) }},
	{"apps.disk", "2048", "most `MB` of disk of an application; 0 for no limit", func(s *Settings) kind { return whole(&s.Apps.Disk, 0, 1<<30) }},
	{"apps.stop_timeout", "10s", "`TIME` an application has to end by itself", func(s *Settings) kind { return span{&s.Apps.StopTimeout} }},
	{"apps.ok_delay", "2s", "`TIME` after which a started application counts as online", func(s *Settings) kind { return span{&s.Apps.OKDelay} }},
	{"apps.uid_base", "70000", "first user id (`N`) of applications", func(s *Settings) kind { return whole(&s.Apps.UIDBase, 1000, maxUID) }},
	{"apps.uid_count", "20000", "`N` user ids for applications", func(s *Settings) kind { return whole(&s.Apps.UIDCount, 1, maxUID) }},
	{"apps.port_first", "20000", "lowest `PORT` of applications", func(s *Settings) kind { return whole(&s.Apps.PortFirst, 1024, 65535) }},
	{"apps.port_last", "29999", "highest `PORT` of applications", func(s *Settings) kind { return whole(&s.Apps.PortLast, 1024, 65535) }},
	{"host.reserve", "256", "`MB` of the host that applications never get", func(s *Settings) kind { return whole(&s.Host.Reserve, 0, maxRAM) }},
	{"host.overcommit", "1.0", "`FACTOR` by which running applications may exceed the rest", func(s *Settings) kind { return ratio{&s.Host.Overcommit, 0.1, 100} }},
	{"host.disk_floor", "auto", "`MB` of the disk that stay free of uploads, builds and backups; auto: a twentieth of it, at most 1024", func(s *Settings) kind { return amount{&s.Host.DiskFloor, 1 << 30} }},
	{"build.ram", "512", "`MB` of a build", func(s *Settings) kind { return whole(&s.Build.RAM, 16, maxRAM) }},
	{"build.timeout", "10m", "`TIME` a build may take", func(s *Settings) kind { return span{&s.Build.Timeout} }},
	{"build.concurrency", "1", "`N` builds at a time", func(s *Settings) kind { return whole(&s.Build.Concurrency, 1, 64) }},
	{"build.queue", "32", "most builds (`N`) that wait for their turn", func(s *Settings) kind { return whole(&s.Build.Queue, 1, 1000) }},
	{"upload.max", "100", "most `MB` of an upload", func(s *Settings) kind { return whole(&s.Upload.Max, 1, 1<<20) }},
	{"upload.max_socket", "512", "most `MB` of an upload over WebSocket", func(s *Settings) kind { return whole(&s.Upload.MaxSocket, 1, 1<<20) }},
	{"upload.max_unpacked", "1024", "most `MB` that an upload may unpack to", func(s *Settings) kind { return whole(&s.Upload.MaxUnpacked, 1, 1<<24) }},
	{"upload.max_files", "20000", "most files (`N`) in an upload", func(s *Settings) kind { return whole(&s.Upload.MaxFiles, 1, 10_000_000) }},
	{"logs.max_file", "5", "`MB` at which a log begins a new file", func(s *Settings) kind { return whole(&s.Logs.MaxFile, 1, 1<<20) }},
	{"logs.keep", "2", "`N` old log files kept for each application", func(s *Settings) kind { return whole(&s.Logs.Keep, 1, 1000) }},
	{"logs.rate", "1024", "`KB` a second that an application may log", func(s *Settings) kind { return whole(&s.Logs.RateKB, 1, 1<<20) }},
	{"backups.ttl", "1h", "`TIME` a backup can be downloaded", func(s *Settings) kind { return span{&s.Backups.TTL} }},
	{"deploys.keep", "5", "`N` deploys of an application that are remembered, to be rolled back to", func(s *Settings) kind { return whole(&s.Deploys.Keep, 1, 100) }},
	{"deploys.disk", "1024", "most `MB` that is kept for the rollbacks of an application", func(s *Settings) kind { return whole(&s.Deploys.Disk, 0, 1<<24) }},
	{"names.domain", "", "`DOMAIN` below which sites have their subdomains", func(s *Settings) kind { return domainName{&s.Names.Domain} }},
	{"names.addresses", "", "`IP,...` of this host, for those who bring their own domain", func(s *Settings) kind { return addresses{&s.Names.Addresses} }},
	{"names.resolver", "", "`HOST:PORT` of the DNS server that proves domains; the host's own when empty", func(s *Settings) kind { return server{&s.Names.Resolver} }},
	{"names.proof", proofTXT, "what proves a domain: txt, or address for its A and AAAA records too", func(s *Settings) kind { return choice{&s.Names.Proof, []string{proofTXT, ProofAddress}} }},
	{"names.per_account", "10", "most subdomains (`N`) an account may reserve, and most domains it may bring", func(s *Settings) kind { return whole(&s.Names.PerAccount, 0, 10_000) }},
	{"network.allow", "", "`ADDRESS,...` of the host that programs may reach: with or without a port, or networks", func(s *Settings) kind { return networks{&s.Network.Allow, true} }},
	{"network.deny", "", "`ADDRESS,...` that programs may not reach: addresses or networks", func(s *Settings) kind { return networks{&s.Network.Deny, false} }},
	{"proxy.mode", "off", "`MODE` of the sites' proxy: off, behind (another web server) or edge (80 and 443 are its own)", func(s *Settings) kind { return choice{&s.Proxy.Mode, []string{ProxyOff, ProxyBehind, ProxyEdge}} }},
	{"proxy.domain", "", "`DOMAIN` below which sites are served; names.domain when empty", func(s *Settings) kind { return domainName{&s.Proxy.Domain} }},
	{"proxy.listen", "127.0.0.1:8401", "`HOST:PORT` of the sites in mode behind", func(s *Settings) kind { return hostPort{&s.Proxy.Listen} }},
	{"proxy.http", ":80", "`HOST:PORT` of the sites in mode edge, which leads to HTTPS", func(s *Settings) kind { return hostPort{&s.Proxy.HTTP} }},
	{"proxy.https", ":443", "`HOST:PORT` of the sites in mode edge", func(s *Settings) kind { return hostPort{&s.Proxy.HTTPS} }},
	{"proxy.trusted", "", "`ADDRESS,...` of proxies whose X-Forwarded-For is believed; in mode behind this machine when empty", func(s *Settings) kind { return networks{&s.Proxy.Trusted, false} }},
	{"proxy.cert", "", "`PATH` of the certificate for mode edge, or of a directory with NAME.crt and NAME.key", func(s *Settings) kind { return file{&s.Proxy.Cert} }},
	{"proxy.key", "", "`PATH` of the certificate's key; in the certificate's file when empty", func(s *Settings) kind { return file{&s.Proxy.Key} }},
	{"proxy.per_site", "512", "most requests (`N`) of one site at once, WebSockets included", func(s *Settings) kind { return whole(&s.Proxy.PerSite, 1, 1_000_000) }},
	{"proxy.tls", tlsFiles, "where certificates for mode edge come from: files, or acme for those that no file has", func(s *Settings) kind { return choice{&s.Proxy.TLS, []string{tlsFiles, TLSACME}} }},
	{"proxy.acme_directory", "letsencrypt", "`URL` of the directory of the certificate authority; or letsencrypt, or staging, whose certificates nobody trusts", func(s *Settings) kind { return acmeDirectory{&s.Proxy.ACME.Directory} }},
	{"proxy.acme_email", "", "`ADDRESS` for mail of the certificate authority", func(s *Settings) kind { return mailAddress{&s.Proxy.ACME.Email} }},
	{"proxy.acme_roots", "", "`PATH` of the root certificates of a certificate authority of your own", func(s *Settings) kind { return file{&s.Proxy.ACME.Roots} }},
	{"proxy.acme_binding", "", "`PATH` of a file with the key id and the MAC key that a certificate authority gave you (EAB)", func(s *Settings) kind { return file{&s.Proxy.ACME.Binding} }},
	{"proxy.acme_per_hour", "10", "most new names (`N`) in an hour for which certificates are asked for", func(s *Settings) kind { return whole(&s.Proxy.ACME.PerHour, 1, 10_000) }},
	{"proxy.acme_names", "1000", "most names (`N`) that have a certificate by ACME", func(s *Settings) kind { return whole(&s.Proxy.ACME.Names, 1, 100_000) }},
	{"proxy.access_log", "false", "write an access log for each site", func(s *Settings) kind { return toggle{&s.Proxy.AccessLog} }},
	{"panel.enabled", "true", "serve the control panel beside the API", func(s *Settings) kind { return toggle{&s.Panel.Enabled} }},
	{"panel.session_ttl", "168h", "`TIME` without a visit after which a session of the panel ends", func(s *Settings) kind { return span{&s.Panel.SessionTTL} }},
	{"panel.insecure", "false", "let people sign in to the panel over plain HTTP, where others can read along", func(s *Settings) kind { return toggle{&s.Panel.Insecure} }},
	{"proxy.health_timeout", "30s", "`TIME` in which a site's new code must be well, beside the old", func(s *Settings) kind { return span{&s.Proxy.HealthTimeout} }},
	{"proxy.drain_timeout", "30s", "`TIME` in which the old code's requests and WebSockets must end", func(s *Settings) kind { return span{&s.Proxy.DrainTimeout} }},
	{"console.timeout", "30s", "`TIME` a console command may take", func(s *Settings) kind { return span{&s.Console.Timeout} }},
	{"upgrade.patience", "30s", "`TIME` that requests under way may take before an upgrade interrupts them", func(s *Settings) kind { return span{&s.Upgrade.Patience} }},
	{"sandbox.require", "", "`LAYER,...` of the walls around programs without which berth does not serve, or all", func(s *Settings) kind { return layers{&s.Sandbox.Require} }},
	{"sandbox.paths", "/opt", "`DIR,...` that programs may read besides the system's own", func(s *Settings) kind { return paths{&s.Sandbox.Paths} }},
	{"audit.keep", "100000", "`N` records of the audit log that are kept", func(s *Settings) kind { return whole(&s.Audit.Keep, 1000, 100_000_000) }},
	{"audit.age", "2160h", "`TIME` that a record of the audit log is kept", func(s *Settings) kind { return span{&s.Audit.Age} }},
}

// Choices returns the words of each setting that takes one of a few, by its flag.
func Choices() map[string][]string {
	all := map[string][]string{}
	for _, s := range settings {
		if c, is := s.field(&Settings{}).(choice); is {
			all[s.flag()] = c.words
		}
	}
	return all
}

// keysAndSections returns every name that may stand in a file.
func keysAndSections() []string {
	var all []string
	for _, s := range settings {
		all = append(all, s.key)
		if section, _, dotted := strings.Cut(s.key, "."); dotted {
			all = append(all, section)
		}
	}
	return all
}

// Flags are the flags of some settings, and --config.
type Flags struct {
	config   text
	byKey    map[string]*text
	Fallback string // the file that is read when nobody names one
}

// AddFlags adds --config and the flag of each setting to set, or of
// those named only.
func AddFlags(set *pflag.FlagSet, only ...string) *Flags {
	f := &Flags{byKey: map[string]*text{}, Fallback: DefaultFile}
	for _, s := range settings {
		if len(only) > 0 && !slices.Contains(only, s.key) {
			continue
		}
		_, boolean := s.field(&Settings{}).(toggle)
		f.byKey[s.key] = &text{value: s.value, boolean: boolean}
		added := set.VarPF(f.byKey[s.key], s.flag(), "", s.help)
		if boolean {
			added.NoOptDefVal = "true"
		}
	}
	f.config.value = f.Fallback
	set.Var(&f.config, "config", "`FILE` with settings")
	return f
}

// Load puts all roads together. It fails with a problem whose exit code tells
// a flag from the rest.
func (f *Flags) Load(getenv func(string) string) (Settings, error) {
	path, named := f.File(getenv)
	file, err := ReadFile(path, named)
	if err != nil {
		return Settings{}, err
	}
	var s Settings
	for _, row := range settings {
		if err := row.apply(&s, row.value, "the default", ExitConfig); err != nil {
			return Settings{}, err
		}
		if v, ok := file[row.key]; ok {
			if err := row.apply(&s, v, path, ExitConfig); err != nil {
				return Settings{}, err
			}
		}
		if v := getenv(row.env()); v != "" {
			if err := row.apply(&s, v, row.env(), ExitConfig); err != nil {
				return Settings{}, err
			}
		}
		if v := f.byKey[row.key]; v != nil && v.given {
			if err := row.apply(&s, v.value, "--"+row.flag(), ExitUsage); err != nil {
				return Settings{}, err
			}
		}
	}
	return s, s.check()
}

// Load are the settings of a process without flags.
func Load(getenv func(string) string) (Settings, error) {
	return AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError)).Load(getenv)
}

// Named reports whether the flag --config was given.
func (f *Flags) Named() bool { return f.config.given }

// File is the path of the settings file, and whether somebody named it.
func (f *Flags) File(getenv func(string) string) (path string, named bool) {
	if f.config.given {
		return f.config.value, true
	}
	path = getenv("BERTH_CONFIG")
	return cmp.Or(path, f.Fallback), path != ""
}

// Contradicts is an error when a flag says something else than a file does, as
// ReadFile returned it.
func (f *Flags) Contradicts(file map[string]string, path string) error {
	for _, s := range settings {
		v := f.byKey[s.key]
		if v == nil || !v.given {
			continue
		}
		is, ok := file[s.key]
		if !ok {
			is = s.value
		}
		if is != v.value {
			return NewProblem(ExitConfig, fmt.Errorf("cannot install: %s is %q in %s, and --%s says %q", s.key, is, path, s.flag(), v.value), "Hint: change it in the file, and install without the flag.")
		}
	}
	return nil
}

// NewFile is the settings file of a machine that has none.
func (f *Flags) NewFile() string {
	var b strings.Builder
	b.WriteString("# Settings of berth. berth serve --help tells of each; the service reads them when it starts.\n")
	for _, s := range settings {
		if v := f.byKey[s.key]; v != nil {
			value := s.value
			if v.given {
				value = v.value
			}
			fmt.Fprintf(&b, "%s = %q\n", s.key, value)
		}
	}
	return b.String()
}

// apply sets the field of a setting; source says where the value was written.
func (s setting) apply(to *Settings, value, source string, code int) error {
	k := s.field(to)
	if k.set(value) {
		return nil
	}
	return &Problem{Code: code, Err: fmt.Errorf("bad value %q for %s in %s: expected %s", value, s.key, source, k.expects())}
}

// check compares settings with each other.
func (s *Settings) check() error {
	a := &s.Apps
	wrong := func(format string, args ...any) error {
		return &Problem{Code: ExitConfig, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case a.RAMDefault < a.RAMMin:
		return wrong("apps.ram_default (%d) must not be below apps.ram_min (%d)", a.RAMDefault, a.RAMMin)
	case a.PortLast < a.PortFirst:
		return wrong("apps.port_last (%d) must not be below apps.port_first (%d)", a.PortLast, a.PortFirst)
	case a.UIDCount > maxUID-a.UIDBase:
		return wrong("apps.uid_base (%d) and apps.uid_count (%d) go beyond the largest user id", a.UIDBase, a.UIDCount)
	case a.UIDBase <= nobody && nobody < a.UIDBase+a.UIDCount:
		return wrong("apps.uid_base (%d) and apps.uid_count (%d) must not contain %d, which is nobody", a.UIDBase, a.UIDCount, nobody)
	case s.Upload.MaxUnpacked < s.Upload.Max:
		return wrong("upload.max_unpacked (%d) must not be below upload.max (%d)", s.Upload.MaxUnpacked, s.Upload.Max)
	}
	return s.checkProxy(wrong)
}

// strange is an environment variable that is no setting.
type strange struct {
	Name, Meant string // and the setting that was probably meant
}

// StrangeVariables returns those of the environment that look like a mistyped
// setting. They are no error: programs that start berth have variables of
// their own. Others are what berth reads besides.
func StrangeVariables(environ []string, others ...string) []strange {
	known := append([]string{"BERTH_CONFIG"}, others...)
	for _, s := range settings {
		known = append(known, s.env())
	}
	var all []strange
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "BERTH_") || slices.Contains(known, name) {
			continue
		}
		if meant := nearest(name, known); meant != "" {
			all = append(all, strange{name, meant})
		}
	}
	return all
}
