package settings

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/app"
	"berth/app/build"
	"berth/app/exit"
	"berth/host/account"
	"berth/host/domain"
	"berth/proc/sandbox"
	"berth/web/certs"
	"berth/web/channel"
)

// Settings is everything an owner can set, checked. Flag beats environment
// beats file beats default.
type Settings struct {
	DataDir string // absolute
	// RuntimeDir is where the local socket is, absolute.
	RuntimeDir string
	// KeyFile is the file with the keys of the secrets, absolute; "" leaves it to Keys.
	KeyFile   string
	Listen    string // HOST:PORT
	BaseURL   string // without a slash at the end; empty: derived from the request
	RateLimit int    // requests a minute and token
	// Keys are the files that may hold the keys of the secrets, one a line; berth makes
	// a new file at the first place where it can. It is no setting: it follows from KeyFile, and
	// from where the settings are.
	Keys string
	// Decided are those of ForPanel that a flag or a variable of the environment decides, one a line: KEY FROM VALUE.
	Decided string
	// File is the path of the settings file, which need not be there, and BackupKey that of the
	// file with the key of the backups. They are no settings.
	File, BackupKey string
	// Connections is how many there may be at once.
	Connections int
	Engine      string // Machine or Kubernetes
	Kubernetes  kubernetesSettings

	Apps struct {
		RAMMin, RAMDefault   app.MB
		OOMGroup             bool
		PidsMax              int
		CPUMax               int    // percent of one processor; 0: none
		DailyStarts          int    // 0: any number
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
		RAM         app.MB // negative: by the RAM of the host
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
	Backups struct {
		TTL time.Duration // of the ZIP of an application

		// Of the host; see Repository and BackupPolicy.
		Repository, Environment, KeyFile string
		At                               string
		Daily, Weekly, Monthly           int
		Rehearse                         time.Duration
	}
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
	Upgrade struct {
		Patience  time.Duration
		Base, Key string // see Releases
	}
	Network  struct{ Allow, Deny string }                   // see NetworkRules
	Runtimes struct{ Node, Python, Java, Deno, Bun string } // base addresses of publishers; empty: their own
	Sandbox  struct {
		Require string // layers without which nothing is served: see parseLayers
		Without string // layers that may be missing although they were there before: see parseLayers
		Paths   string // that programs see besides the system's own: see parsePaths
	}
	Panel struct {
		Enabled    bool
		SessionTTL time.Duration
		Insecure   bool   // let people sign in over plain HTTP
		Passwords  string // path; see KnownPassword
	}
	SignIn signInSettings
	Notify notifySettings

	Metrics struct {
		Token string // a path
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

// The modes of the proxy.
const (
	ProxyOff    = "off"
	ProxyBehind = "behind"
	ProxyEdge   = "edge"
)

// Where certificates come from.
const (
	tlsFiles = "files"
	TLSACME  = "acme"
)

// acmeSettings are those of the certificate authority.
type acmeSettings struct {
	Directory      string // an https address
	Email          string // may be empty
	Roots, Binding string // paths, may be empty; see authority
	PerHour, Names int
}

// What proves that a domain is an account's.
const (
	proofTXT     = "txt"
	ProofAddress = "address" // besides
)

// setting is one row of the table below. Its key is the key in the file; with
// '-' for '.' and '_' it is the flag, and BERTH_ with '_' the variable.
type setting struct {
	key   string
	value string // the default, as a person would write it
	help  string // `WORD` names the flag's value
	field func(*Settings) kind
}

// section is the part of the key before the dot; "" without one.
func (s setting) section() string {
	section, _, dotted := strings.Cut(s.key, ".")
	if !dotted {
		return ""
	}
	return section
}

// name is the key within its section.
func (s setting) name() string { return strings.TrimPrefix(s.key, s.section()+".") }

// plainHelp is the help for readers of a file.
func (s setting) plainHelp() string {
	return strings.ReplaceAll(strings.ReplaceAll(s.help, " (`N`)", ""), "`", "")
}

// same reports whether two texts, which may be bad values, mean the same.
func (s setting) same(a, b string) bool {
	var one, other Settings
	return a == b || s.field(&one).set(a) && s.field(&other).set(b) && one == other
}

// apply sets the field of a setting; from says where the value was written.
func (s setting) apply(to *Settings, value, from string, code int) error {
	k := s.field(to)
	if k.set(value) {
		return nil
	}
	return exit.NewProblem(code, fmt.Errorf("bad value %q for %s in %s: expected %s", value, s.key, from, k.expects), "")
}

func (s setting) flag() string { return dashes.Replace(s.key) }

var dashes = strings.NewReplacer(".", "-", "_", "-")

func (s setting) env() string {
	return "BERTH_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

var settings = []setting{
	{"data_dir", "/var/lib/berth", "`DIR` with everything that berth stores: the database, applications, logs", func(s *Settings) kind { return directory(&s.DataDir) }},
	{"runtime_dir", "/run/berth", "`DIR` of the local socket, on which root uses the API; a second daemon needs its own", func(s *Settings) kind { return directory(&s.RuntimeDir) }},
	{"key_file", "", "`PATH` of the file with the keys that seal secrets in the database; empty means the systemd credential berth.key, else berth.d/berth.key beside the settings file, else a file beside data_dir", func(s *Settings) kind { return file(&s.KeyFile) }},
	{"listen", "127.0.0.1:8400", "`HOST:PORT` of the API and the panel", func(s *Settings) kind { return hostPort(&s.Listen) }},
	{"base_url", "", "`URL` that clients use to reach the API; berth puts it into links", func(s *Settings) kind { return webAddress(&s.BaseURL) }},
	{"rate_limit", "60", "maximum number (`N`) of requests per minute for each token", func(s *Settings) kind { return inPanel(whole(&s.RateLimit, 1, 1_000_000)) }},
	{"connections", "1024", "maximum number (`N`) of open connections at each address that berth listens on; one client address gets at most a sixteenth", func(s *Settings) kind { return whole(&s.Connections, 16, 1_000_000) }},
	{"engine", Machine, "where programs run: machine means this machine, kubernetes the cluster of the section kubernetes", func(s *Settings) kind {
		return choice(&s.Engine, Machine, Kubernetes)
	}},
	{"apps.ram_min", "32", "smallest RAM in `MB` that an application may have", func(s *Settings) kind { return inPanel(size(&s.Apps.RAMMin, 1, maxRAM)) }},
	{"apps.ram_default", "100", "RAM in `MB` of an application whose discloud.config has no RAM", func(s *Settings) kind { return inPanel(size(&s.Apps.RAMDefault, 1, maxRAM)) }},
	{"apps.daily_starts", "200", "how often (`N`) berth starts an application in 24 hours without being asked; then it waits, for Discord ends the token of a bot that connects 1,000 times; a start by a person always works; 0 means no limit", func(s *Settings) kind { return inPanel(whole(&s.Apps.DailyStarts, 0, 100_000)) }},
	{"apps.oom_group", "true", "true means that the kernel kills all processes of an application that runs out of memory, false only one of them", func(s *Settings) kind { return inPanel(toggle(&s.Apps.OOMGroup)) }},
	{"apps.pids_max", "256", "maximum number (`N`) of processes and threads of an application", func(s *Settings) kind { return inPanel(whole(&s.Apps.PidsMax, 1, 1<<22)) }},
	{"apps.cpu_max", "0", "maximum processor time of an application, in `PERCENT` of one processor; 0 means no limit", func(s *Settings) kind { return inPanel(whole(&s.Apps.CPUMax, 0, 100_000)) }},
	{"apps.disk", "2048", "maximum disk space of an application in `MB`; 0 means no limit", func(s *Settings) kind { return inPanel(size(&s.Apps.Disk, 0, 1<<30)) }},
	{"apps.stop_timeout", "10s", "`TIME` that an application gets to stop before berth kills it", func(s *Settings) kind { return inPanel(seconds(&s.Apps.StopTimeout)) }},
	{"apps.ok_delay", "2s", "`TIME` that a started application must run to count as online", func(s *Settings) kind { return inPanel(seconds(&s.Apps.OKDelay)) }},
	{"apps.uid_base", "70000", "first user id (`N`) that berth gives to applications", func(s *Settings) kind { return whole(&s.Apps.UIDBase, 1000, maxUID) }},
	{"apps.uid_count", "20000", "number (`N`) of user ids for applications", func(s *Settings) kind { return whole(&s.Apps.UIDCount, 1, maxUID) }},
	{"apps.port_first", "20000", "first `PORT` that berth gives to applications", func(s *Settings) kind { return whole(&s.Apps.PortFirst, 1024, 65535) }},
	{"apps.port_last", "29999", "last `PORT` that berth gives to applications", func(s *Settings) kind { return whole(&s.Apps.PortLast, 1024, 65535) }},
	{"host.reserve", "256", "RAM in `MB` that berth never gives to applications", func(s *Settings) kind { return inPanel(size(&s.Host.Reserve, 0, maxRAM)) }},
	{"host.overcommit", "1.0", "running applications together may have the RAM of the host, without host.reserve, times this `FACTOR`", func(s *Settings) kind { return inPanel(ratio(&s.Host.Overcommit, 0.1, 100)) }},
	{"host.disk_floor", "auto", "free disk space in `MB` below which berth refuses uploads, commits, builds and backups; auto means a twentieth of the disk, at most 1024", func(s *Settings) kind { return inPanel(amount(&s.Host.DiskFloor, 0, 1<<30)) }},
	{"build.ram", "auto", "RAM in `MB` of a build; auto means half of the host's RAM, at least 128 and at most 512", func(s *Settings) kind { return inPanel(amount(&s.Build.RAM, 16, maxRAM)) }},
	{"build.timeout", "10m", "maximum `TIME` of a build", func(s *Settings) kind { return inPanel(span(&s.Build.Timeout)) }},
	{"build.concurrency", "1", "maximum number (`N`) of builds at the same time", func(s *Settings) kind { return inPanel(whole(&s.Build.Concurrency, 1, 64)) }},
	{"build.queue", "32", "maximum number (`N`) of waiting builds", func(s *Settings) kind { return inPanel(whole(&s.Build.Queue, 1, 1000)) }},
	{"upload.max", "100", "maximum size of an uploaded ZIP in `MB`", func(s *Settings) kind { return inPanel(size(&s.Upload.Max, 1, 1<<20)) }},
	{"upload.max_socket", "512", "maximum size of a ZIP uploaded over WebSocket in `MB`", func(s *Settings) kind { return inPanel(size(&s.Upload.MaxSocket, 1, 1<<20)) }},
	{"upload.max_unpacked", "1024", "maximum size in `MB` of all files of an uploaded ZIP after unpacking", func(s *Settings) kind { return inPanel(size(&s.Upload.MaxUnpacked, 1, 1<<24)) }},
	{"upload.max_files", "20000", "maximum number (`N`) of files and directories in an uploaded ZIP", func(s *Settings) kind { return inPanel(whole(&s.Upload.MaxFiles, 1, 10_000_000)) }},
	{"logs.max_file", "5", "size in `MB` at which berth starts a new log file", func(s *Settings) kind { return inPanel(size(&s.Logs.MaxFile, 1, 1<<20)) }},
	{"logs.keep", "2", "number (`N`) of old log files that berth keeps for each application", func(s *Settings) kind { return inPanel(whole(&s.Logs.Keep, 1, 1000)) }},
	{"logs.rate", "1024", "maximum log output of an application in `KB` per second", func(s *Settings) kind { return inPanel(whole(&s.Logs.RateKB, 1, 1<<20)) }},
	{"backups.ttl", "1h", "`TIME` after which berth deletes the backup of an application", func(s *Settings) kind { return inPanel(span(&s.Backups.TTL)) }},
	{"backups.repository", "", "`PLACE` where berth backs the host up every night: a repository of restic, such as s3:https://HOST/BUCKET, sftp:USER@HOST:/PATH or /PATH, or archives:/PATH for a directory of plain archives; empty means that berth makes no backups", func(s *Settings) kind { return repositoryPlace(&s.Backups.Repository) }},
	{"backups.environment", "", "`PATH` of a file with environment variables for restic, one NAME=VALUE in each line, such as the credentials of the place", func(s *Settings) kind { return file(&s.Backups.Environment) }},
	{"backups.key_file", "", "`PATH` of the file with the key that opens the backups; empty means backup.key in berth.d beside the settings file", func(s *Settings) kind { return file(&s.Backups.KeyFile) }},
	{"backups.at", "03:15", "`HH:MM` of the nightly backup, in the host's time", func(s *Settings) kind { return timeOfDay(&s.Backups.At) }},
	{"backups.keep_daily", "7", "number (`N`) of days of which berth keeps the newest backup", func(s *Settings) kind { return whole(&s.Backups.Daily, 1, 10_000) }},
	{"backups.keep_weekly", "4", "number (`N`) of weeks of which berth keeps the newest backup", func(s *Settings) kind { return whole(&s.Backups.Weekly, 0, 10_000) }},
	{"backups.keep_monthly", "6", "number (`N`) of months of which berth keeps the newest backup", func(s *Settings) kind { return whole(&s.Backups.Monthly, 0, 10_000) }},
	{"backups.rehearse", "168h", "`TIME` between two rehearsals of the newest backup", func(s *Settings) kind { return span(&s.Backups.Rehearse) }},
	{"deploys.keep", "5", "number (`N`) of deploys that berth remembers for each application", func(s *Settings) kind { return inPanel(whole(&s.Deploys.Keep, 1, 100)) }},
	{"deploys.disk", "1024", "maximum disk space in `MB` for the rollbacks of an application", func(s *Settings) kind { return inPanel(size(&s.Deploys.Disk, 0, 1<<24)) }},
	{"names.domain", "", "`DOMAIN` under which sites get subdomains", func(s *Settings) kind { return domainName(&s.Names.Domain) }},
	{"names.addresses", "", "public `IP,...` addresses of this host, which berth shows to owners of custom domains", func(s *Settings) kind { return addresses(&s.Names.Addresses) }},
	{"names.resolver", "", "`HOST:PORT` of the DNS server that berth asks to verify domains; empty means the DNS servers of the host", func(s *Settings) kind { return server(&s.Names.Resolver) }},
	{"names.proof", proofTXT, "`PROOF` that berth accepts for a custom domain: txt (a TXT record), or address (also A and AAAA records)", func(s *Settings) kind { return choice(&s.Names.Proof, proofTXT, ProofAddress) }},
	{"names.per_account", "10", "maximum number (`N`) of reserved subdomains of an account, and maximum number of its custom domains", func(s *Settings) kind { return inPanel(whole(&s.Names.PerAccount, 0, 10_000)) }},
	{"network.allow", "", "`ADDRESS,...` that berth opens to programs: addresses of the host or of other machines, addresses with a port, or networks", func(s *Settings) kind { return networksWithPorts(&s.Network.Allow) }},
	{"network.deny", "", "`ADDRESS,...` that berth closes to programs: addresses or networks", func(s *Settings) kind { return networks(&s.Network.Deny) }},
	{"proxy.mode", "off", "`MODE` of the proxy for sites: off, behind (another web server passes requests on) or edge (berth listens on 80 and 443)", func(s *Settings) kind { return choice(&s.Proxy.Mode, ProxyOff, ProxyBehind, ProxyEdge) }},
	{"proxy.domain", "", "`DOMAIN` under which berth serves sites; empty means names.domain", func(s *Settings) kind { return domainName(&s.Proxy.Domain) }},
	{"proxy.listen", "127.0.0.1:8401", "`HOST:PORT` for sites in mode behind", func(s *Settings) kind { return hostPort(&s.Proxy.Listen) }},
	{"proxy.http", ":80", "`HOST:PORT` for HTTP in mode edge; berth redirects to HTTPS", func(s *Settings) kind { return hostPort(&s.Proxy.HTTP) }},
	{"proxy.https", ":443", "`HOST:PORT` for HTTPS in mode edge", func(s *Settings) kind { return hostPort(&s.Proxy.HTTPS) }},
	{"proxy.trusted", "", "`ADDRESS,...` of proxies whose X-Forwarded-For and X-Forwarded-Proto berth believes; empty means the host itself in mode behind, and no proxy in the other modes", func(s *Settings) kind { return networks(&s.Proxy.Trusted) }},
	{"proxy.cert", "", "`PATH` of the certificate for mode edge, or of a directory with NAME.crt and NAME.key files", func(s *Settings) kind { return file(&s.Proxy.Cert) }},
	{"proxy.key", "", "`PATH` of the certificate's key; empty means that the certificate's file holds it", func(s *Settings) kind { return file(&s.Proxy.Key) }},
	{"proxy.per_site", "512", "maximum number (`N`) of requests and WebSockets of one site at the same time", func(s *Settings) kind { return inPanel(whole(&s.Proxy.PerSite, 1, 1_000_000)) }},
	{"proxy.tls", tlsFiles, "`SOURCE` of certificates for mode edge: files, or acme (for names that no file covers)", func(s *Settings) kind { return choice(&s.Proxy.TLS, tlsFiles, TLSACME) }},
	{"proxy.acme_directory", "letsencrypt", "directory `URL` of the certificate authority, or a word for it: letsencrypt, or staging for tests", func(s *Settings) kind { return acmeDirectory(&s.Proxy.ACME.Directory) }},
	{"proxy.acme_email", "", "email `ADDRESS` to which the certificate authority may write", func(s *Settings) kind { return mailAddress(&s.Proxy.ACME.Email) }},
	{"proxy.acme_roots", "", "`PATH` of the root certificates of your own certificate authority", func(s *Settings) kind { return file(&s.Proxy.ACME.Roots) }},
	{"proxy.acme_binding", "", "`PATH` of a file with the key id and the MAC key of your account at the certificate authority (EAB)", func(s *Settings) kind { return file(&s.Proxy.ACME.Binding) }},
	{"proxy.acme_per_hour", "10", "maximum number (`N`) of new certificates requested per hour", func(s *Settings) kind { return whole(&s.Proxy.ACME.PerHour, 1, 10_000) }},
	{"proxy.acme_names", "1000", "maximum number (`N`) of names with a certificate from ACME", func(s *Settings) kind { return whole(&s.Proxy.ACME.Names, 1, 100_000) }},
	{"proxy.access_log", "false", "write an access log for each site", func(s *Settings) kind { return inPanel(toggle(&s.Proxy.AccessLog)) }},
	{"panel.enabled", "true", "serve the panel at the address of the API", func(s *Settings) kind { return toggle(&s.Panel.Enabled) }},
	{"panel.session_ttl", "168h", "`TIME` without a visit after which a session of the panel ends", func(s *Settings) kind { return inPanel(span(&s.Panel.SessionTTL)) }},
	{"panel.insecure", "false", "allow sign-in to the panel over plain HTTP; others on the network can then read passwords", func(s *Settings) kind { return toggle(&s.Panel.Insecure) }},
	{"panel.passwords", "", "`PATH` of a list of passwords that nobody may choose, one in each line, such as the most common of stolen ones", func(s *Settings) kind { return file(&s.Panel.Passwords) }},
	{"sign_in.discord_client", "", "client `ID` of your application at Discord, with which people may sign in to the panel", func(s *Settings) kind { return plainText(&s.SignIn.DiscordClient) }},
	{"sign_in.discord_secret", "", "`PATH` of a file with the client secret of that application", func(s *Settings) kind { return file(&s.SignIn.DiscordSecret) }},
	{"sign_in.openid_issuer", "", "`URL` of an OpenID provider with which people may sign in to the panel, exactly as it writes its issuer", func(s *Settings) kind { return issuer(&s.SignIn.OpenIDIssuer) }},
	{"sign_in.openid_name", "OpenID", "`NAME` of that provider on the panel", func(s *Settings) kind { return plainText(&s.SignIn.OpenIDName) }},
	{"sign_in.openid_client", "", "client `ID` that the provider gave berth", func(s *Settings) kind { return plainText(&s.SignIn.OpenIDClient) }},
	{"sign_in.openid_secret", "", "`PATH` of a file with the client secret that the provider gave berth", func(s *Settings) kind { return file(&s.SignIn.OpenIDSecret) }},
	{"sign_in.openid_roots", "", "`PATH` of the root certificates of your own OpenID provider", func(s *Settings) kind { return file(&s.SignIn.OpenIDRoots) }},
	{"sign_in.signup_ram", "0", "RAM in `MB` of the account that berth makes for everybody whom a provider knows and who has none; 0 means that berth makes none", func(s *Settings) kind { return size(&s.SignIn.SignUpRAM, 0, maxRAM) }},
	{"metrics.token", "", "`PATH` of a file with the token that opens /metrics and nothing else; empty means that only the local socket has /metrics", func(s *Settings) kind { return file(&s.Metrics.Token) }},
	{"notify.smtp", "", "`HOST:PORT` of the mail server through which berth sends notifications; empty means that this host sends no mail", func(s *Settings) kind { return server(&s.Notify.SMTP) }},
	{"notify.smtp_user", "", "user `NAME` of berth at the mail server; empty means that berth does not sign in there", func(s *Settings) kind { return plainText(&s.Notify.SMTPUser) }},
	{"notify.smtp_password", "", "`PATH` of a file with the password of that user", func(s *Settings) kind { return file(&s.Notify.SMTPPassword) }},
	{"notify.smtp_from", "", "email `ADDRESS` from which berth writes", func(s *Settings) kind { return mailAddress(&s.Notify.SMTPFrom) }},
	{"notify.smtp_tls", channel.MailStartTLS, "`ENCRYPTION` of the mail server: starttls, tls (from the first byte, usually port 465), or none (only for a mail server on this host)", func(s *Settings) kind {
		return choice(&s.Notify.SMTPTLS, channel.MailStartTLS, channel.MailTLS, channel.MailPlain)
	}},
	{"notify.allow", "", "`ADDRESS:PORT,...` of private receivers to which channels of the host's administrator may send, such as a service on this host", func(s *Settings) kind { return endpoints(&s.Notify.Allow) }},
	{"proxy.health_timeout", "30s", "`TIME` that a site's new code has to pass its health check while the old code serves", func(s *Settings) kind { return inPanel(seconds(&s.Proxy.HealthTimeout)) }},
	{"proxy.drain_timeout", "30s", "`TIME` that requests and WebSockets of the old code have to finish", func(s *Settings) kind { return inPanel(seconds(&s.Proxy.DrainTimeout)) }},
	{"console.timeout", "30s", "maximum `TIME` of a console command", func(s *Settings) kind { return inPanel(seconds(&s.Console.Timeout)) }},
	{"upgrade.patience", "30s", "`TIME` that running requests get before an upgrade interrupts them", func(s *Settings) kind { return inPanel(seconds(&s.Upgrade.Patience)) }},
	{"upgrade.base", "", "`URL` from which berth upgrade downloads releases, such as a mirror; empty means that of the makers of your berth", func(s *Settings) kind { return downloads(&s.Upgrade.Base) }},
	{"upgrade.key", "", "public `KEY` of minisign that signs those releases; empty means that of the makers of your berth", func(s *Settings) kind { return releaseKey(&s.Upgrade.Key) }},
	{"runtimes.node", "", "base `URL` from which berth runtime install gets Node.js; empty means https://nodejs.org/dist", func(s *Settings) kind { return downloads(&s.Runtimes.Node) }},
	{"runtimes.python", "", "base `URL` of Python; empty means the releases of astral-sh/python-build-standalone on GitHub", func(s *Settings) kind { return downloads(&s.Runtimes.Python) }},
	{"runtimes.java", "", "base `URL` of Java; empty means Eclipse Temurin, https://api.adoptium.net", func(s *Settings) kind { return downloads(&s.Runtimes.Java) }},
	{"runtimes.deno", "", "base `URL` of Deno; empty means the releases of denoland/deno on GitHub", func(s *Settings) kind { return downloads(&s.Runtimes.Deno) }},
	{"runtimes.bun", "", "base `URL` of Bun; empty means the releases of oven-sh/bun on GitHub", func(s *Settings) kind { return downloads(&s.Runtimes.Bun) }},
	{"sandbox.require", "", "`LAYER,...` of walls around programs: mounts, proc, cgroup, landlock, seccomp, network, sockets, or all; berth refuses to serve without them", func(s *Settings) kind { return layers(&s.Sandbox.Require) }},
	{"sandbox.without", "", "`LAYER,...` of walls that programs had before and may run without now, by the same names, or all", func(s *Settings) kind { return layers(&s.Sandbox.Without) }},
	{"sandbox.paths", "/opt", "`DIR,...` that programs may read besides the directories of the system", func(s *Settings) kind { return paths(&s.Sandbox.Paths) }},
	{"kubernetes.server", "", "`URL` of the cluster's API server, such as https://10.0.0.1:6443", func(s *Settings) kind { return apiServer(&s.Kubernetes.Server) }},
	{"kubernetes.ca_file", "", "`PATH` of the certificate that signs the API server's; empty means those that this machine trusts", func(s *Settings) kind { return file(&s.Kubernetes.CAFile) }},
	{"kubernetes.token_file", "/etc/berth/kubernetes.token", "`PATH` of the token of berth's account on the cluster", func(s *Settings) kind { return file(&s.Kubernetes.TokenFile) }},
	{"kubernetes.namespace", "berth-apps", "namespace (`NAME`) in which programs run; another berth needs another one", func(s *Settings) kind { return objectName(&s.Kubernetes.Namespace) }},
	{"kubernetes.claim", "berth-apps", "`NAME` of the persistent volume claim with the directories apps and staging of data_dir", func(s *Settings) kind { return objectName(&s.Kubernetes.Claim) }},
	{"kubernetes.images", "", "`IMAGE,...` that programs run in, each as \"RUNTIME VERSION IMAGE\", such as \"node 22.11.0 docker.io/library/node:22.11.0-slim\"; \"default IMAGE\" is for all other programs; commands that an image has beside the usual ones stand behind it, such as +git", func(s *Settings) kind { return imageTable(&s.Kubernetes.Images) }},
	{"kubernetes.node_selector", "", "`LABEL=VALUE,...` of the machines on which programs run; empty means all", func(s *Settings) kind { return labels(&s.Kubernetes.NodeSelector) }},
	{"kubernetes.runtime_class", "", "runtime class (`NAME`) of the pods; empty means the cluster's default", func(s *Settings) kind { return objectName(&s.Kubernetes.RuntimeClass) }},
	{"kubernetes.closed", "", "`ADDRESS:PORT,...` that no program may reach, beside the machines of the cluster, such as the server of the volume", func(s *Settings) kind { return endpoints(&s.Kubernetes.Closed) }},
	{"kubernetes.trusted", "false", "true means that all accounts of this host trust each other: programs start even where they can reach each other's files", func(s *Settings) kind { return toggle(&s.Kubernetes.Trusted) }},
	{"audit.keep", "100000", "number (`N`) of records that the audit log keeps", func(s *Settings) kind { return whole(&s.Audit.Keep, 1000, 100_000_000) }},
	{"audit.age", "2160h", "`TIME` that the audit log keeps a record", func(s *Settings) kind { return span(&s.Audit.Age) }},
}

// Row is a setting as documents show it.
type Row struct {
	Key, Flag, Env string
	Default, Help  string
}

// Rows returns every setting, in the order of the table.
func Rows() []Row {
	all := make([]Row, len(settings))
	for i, s := range settings {
		all[i] = Row{s.key, s.flag(), s.env(), s.value, s.plainHelp()}
	}
	return all
}

// Choices returns the words of each setting that takes one of a few, by its flag.
// The map is shared.
var Choices = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, s := range settings {
		if words := s.field(&Settings{}).words; words != nil {
			all[s.flag()] = words
		}
	}
	return all
})

// check compares settings with each other. Its error is a conflict.
func (s *Settings) check() error {
	a := &s.Apps
	switch {
	case a.RAMDefault < a.RAMMin:
		return clash("apps.ram_default (%d) must not be below apps.ram_min (%d)", a.RAMDefault, a.RAMMin)
	case a.PortLast < a.PortFirst:
		return clash("apps.port_last (%d) must not be below apps.port_first (%d)", a.PortLast, a.PortFirst)
	case a.UIDCount > maxUID-a.UIDBase:
		return clash("apps.uid_base (%d) and apps.uid_count (%d) go beyond the largest user id", a.UIDBase, a.UIDCount)
	case a.UIDBase <= nobody && nobody < a.UIDBase+a.UIDCount:
		return clash("apps.uid_base (%d) and apps.uid_count (%d) must not contain %d, which is nobody", a.UIDBase, a.UIDCount, nobody)
	case s.KeyFile != "" && strings.HasPrefix(s.KeyFile+"/", s.DataDir+"/"):
		return clash("key_file (%s) must not be in data_dir (%s): a copy of that would hold the key of its own secrets", s.KeyFile, s.DataDir)
	case s.Upload.MaxUnpacked < s.Upload.Max:
		return clash("upload.max_unpacked (%d) must not be below upload.max (%d)", s.Upload.MaxUnpacked, s.Upload.Max)
	}
	if err := s.checkKubernetes(); err != nil {
		return err
	}
	return s.checkProxy()
}

// KeyFiles are the files that may hold the keys of the secrets, for daemon.Keys.
func (s Settings) KeyFiles() []string { return strings.Split(s.Keys, "\n") }

// SitesDomain is the domain below which sites are served.
func (s Settings) SitesDomain() string { return cmp.Or(s.Proxy.Domain, s.Names.Domain) }

// checkProxy looks for what its mode needs.
func (s *Settings) checkProxy() error {
	if s.Proxy.Mode == ProxyEdge && s.Proxy.Cert == "" && s.Proxy.TLS == tlsFiles {
		return clash("proxy.mode %q needs proxy.cert, the certificate of the sites, or proxy.tls %q", s.Proxy.Mode, TLSACME)
	}
	// berth would listen, have no name to get a certificate for, and refuse every visitor.
	unnamed := s.SitesDomain() == "" && s.Names.Addresses == "" && (s.HomeName() == "" || !strings.HasPrefix(s.BaseURL, "https:"))
	if s.UsesACME() && s.Proxy.Cert == "" && unnamed {
		return clash("proxy.tls %q needs a name to get a certificate for: set proxy.domain, the domain of the sites, or base_url, the https address of the panel, or, for custom domains alone, names.addresses", s.Proxy.TLS)
	}
	all := s.Listens()
	for i, address := range all {
		if !strings.HasSuffix(address, ":0") && slices.Contains(all[:i], address) {
			return clash("listen and the addresses of proxy must differ: %s is there twice", address)
		}
	}
	return nil
}

// Releases returns where berth upgrade finds releases, and the public key that signs them:
// what the owner set, or what this build was made with. Both may be empty.
func (s Settings) Releases() (base, key string) {
	base, key = build.Releases()
	return cmp.Or(s.Upgrade.Base, base), cmp.Or(s.Upgrade.Key, key)
}

// Listens are those that berth listens on.
func (s Settings) Listens() []string {
	switch s.Proxy.Mode {
	case ProxyBehind:
		return []string{s.Listen, s.Proxy.Listen}
	case ProxyEdge:
		return []string{s.Listen, s.Proxy.HTTP, s.Proxy.HTTPS}
	}
	return []string{s.Listen}
}

// TrustedProxies are the networks of proxies that are believed: in mode behind this
// machine, if the owner names none.
func (s Settings) TrustedProxies() []netip.Prefix {
	text := s.Proxy.Trusted
	if text == "" && s.Proxy.Mode == ProxyBehind {
		text = "127.0.0.0/8,::1"
	}
	rules, _ := parseRules(text) // checked when it was set
	var all []netip.Prefix
	for _, r := range rules {
		all = append(all, r.Net)
	}
	return all
}

// SnippetAddress is where a web server on this host finds the sites.
func (s Settings) SnippetAddress() string {
	if host, port, err := net.SplitHostPort(s.Proxy.Listen); err == nil && strings.Trim(host, "0.:") == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return s.Proxy.Listen
}

// OwnAddresses are those at which others can reach this host.
func (s Settings) OwnAddresses() []netip.Addr {
	all, _ := parseAddresses(s.Names.Addresses) // checked when it was set
	return all
}

// HomeDomain is the domain of base_url; "" when it has none.
func (s Settings) HomeDomain() string {
	u, err := url.Parse(s.BaseURL)
	if err != nil {
		return ""
	}
	name, err := domain.CheckDomain(u.Hostname(), nil)
	if err != nil {
		return ""
	}
	return name
}

// HomeName is the host of base_url as a certificate names it: its domain, or its IP
// address; "" when it has neither.
func (s Settings) HomeName() string {
	u, err := url.Parse(s.BaseURL)
	if err != nil {
		return ""
	}
	if address, err := netip.ParseAddr(u.Hostname()); err == nil && address.Zone() == "" {
		return address.Unmap().String()
	}
	return s.HomeDomain()
}

// NetworkRules are the owner's, which were checked when they were read.
func (s Settings) NetworkRules() sandbox.Rules {
	allow, _ := parseRules(s.Network.Allow)
	deny, _ := parseRules(s.Network.Deny)
	return sandbox.Rules{Allow: allow, Deny: deny}
}

// RequiredLayers are the layers that the owner requires.
func (s Settings) RequiredLayers() []sandbox.Layer {
	list, _ := parseLayers(s.Sandbox.Require) // was checked when it was read
	return list
}

// SparedLayers are the layers that the owner does without where they were there
// before.
func (s Settings) SparedLayers() []sandbox.Layer {
	list, _ := parseLayers(s.Sandbox.Without) // was checked when it was read
	return list
}

// Publishers are the base addresses of runtimes, by language; empty means the publisher's.
func (s Settings) Publishers() map[string]string {
	r := s.Runtimes
	return map[string]string{"node": r.Node, "python": r.Python, "java": r.Java, "deno": r.Deno, "bun": r.Bun}
}

// ShownPaths are what the owner lets programs see.
func (s Settings) ShownPaths() []string {
	list, _ := parsePaths(s.Sandbox.Paths) // was checked when it was read
	return list
}

// UsesACME reports whether certificates come from an authority.
func (s Settings) UsesACME() bool { return s.Proxy.Mode == ProxyEdge && s.Proxy.TLS == TLSACME }

// Authority reads the files that the settings name.
func (s Settings) Authority() (certs.CA, error) {
	a := s.Proxy.ACME
	ca := certs.CA{Directory: a.Directory, Email: a.Email, Agent: "berth/" + build.Version()}
	var err error
	if ca.Roots, err = readRoots("proxy.acme_roots", a.Roots); err != nil || a.Binding == "" {
		return ca, err
	}
	text, err := os.ReadFile(a.Binding)
	if err != nil {
		return ca, fmt.Errorf("cannot read proxy.acme_binding: %w", err)
	}
	ca.KeyID, ca.MAC, err = parseBinding(string(text))
	if err != nil {
		return ca, fmt.Errorf("cannot use proxy.acme_binding: %w", err)
	}
	return ca, nil
}

// parseBinding reads a key id and a MAC key in base64url, as authorities give
// them.
func parseBinding(text string) (id string, mac []byte, err error) {
	words := strings.Fields(text)
	if len(words) != 2 {
		return "", nil, errors.New("the file must hold the key id and, behind a space or on the next line, the MAC key")
	}
	mac, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(words[1], "="))
	if err != nil || len(mac) == 0 {
		return "", nil, errors.New("the MAC key must be written in base64url") // not what it is
	}
	return words[0], mac, nil
}
