package settings

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"berth/app"
	"berth/app/exit"
	"berth/web/certs"
)

// loadFrom loads the settings as berth serve does: with a flag for each.
func loadFrom(t *testing.T, file string, env map[string]string, args ...string) (Settings, error) {
	t.Helper()
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	from := AddFlags(set)
	from.Fallback = filepath.Join(t.TempDir(), "berth.toml")
	if file != "" {
		if err := os.WriteFile(from.Fallback, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.Parse(args); err != nil {
		return Settings{}, err
	}
	return from.Load(func(name string) string { return env[name] })
}

func mustLoad(t *testing.T, file string, env map[string]string, args ...string) Settings {
	t.Helper()
	s, err := loadFrom(t, file, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	s.Keys, s.File, s.BackupKey, s.Decided = "", "", "", "" // they follow from where the files are: TestKeyFiles, TestBackupKeyFile, TestSetForPanel
	return s
}

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "berth.toml")
	beside := filepath.Join(dir, "berth.d", "berth.key")
	for _, c := range []struct {
		text string
		env  map[string]string
		args []string
		want []string
	}{
		{"", nil, nil, []string{"/run/credentials/berth.service/berth.key", beside, "/var/lib/berth.key"}},
		{`data_dir = "/srv/b"`, nil, nil, []string{"/run/credentials/berth.service/berth.key", beside, "/srv/b.key"}},
		{"", map[string]string{"CREDENTIALS_DIRECTORY": "/run/c"}, []string{"--data-dir=/var/lib/berth"}, []string{"/run/c/berth.key", beside, "/var/lib/berth.key"}},
		{"", nil, []string{"--data-dir=/srv/other"}, []string{"/srv/other.key"}}, // the settings are of another berth
		{"", map[string]string{"BERTH_CONFIG": "/dev/null"}, nil, []string{"/run/credentials/berth.service/berth.key", "/var/lib/berth.key"}},
		{`key_file = "/etc/k"`, nil, []string{"--data-dir=/srv/other"}, []string{"/etc/k"}},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		from := AddFlags(set)
		from.Fallback = file
		if err := set.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		s, err := from.Load(func(name string) string { return c.env[name] })
		if err != nil {
			t.Fatal(err)
		}
		if got := s.KeyFiles(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	var want Settings
	want.DataDir, want.RuntimeDir, want.Listen, want.RateLimit = "/var/lib/berth", "/run/berth", "127.0.0.1:8400", 60
	want.Connections = 1024
	want.Engine, want.Kubernetes = Machine, kubernetesSettings{TokenFile: "/etc/berth/kubernetes.token", Namespace: "berth-apps", Claim: "berth-apps"}
	want.Apps.RAMMin, want.Apps.RAMDefault, want.Apps.OOMGroup, want.Apps.PidsMax = 32, 100, true, 256
	want.Apps.DailyStarts = 200
	want.Apps.StopTimeout, want.Apps.OKDelay = 10*time.Second, 2*time.Second
	want.Apps.UIDBase, want.Apps.UIDCount, want.Apps.PortFirst, want.Apps.PortLast = 70000, 20000, 20000, 29999
	want.Apps.Disk, want.Host.DiskFloor = 2048, -1
	want.Host.Reserve, want.Host.Overcommit = 256, 1
	want.Build.RAM, want.Build.Timeout, want.Build.Concurrency, want.Build.Queue = -1, 10*time.Minute, 1, 32
	want.Upload.Max, want.Upload.MaxSocket, want.Upload.MaxUnpacked, want.Upload.MaxFiles = 100, 512, 1024, 20000
	want.Logs.MaxFile, want.Logs.Keep, want.Logs.RateKB = 5, 2, 1024
	want.Backups.TTL, want.Deploys.Keep, want.Deploys.Disk = time.Hour, 5, 1024
	want.Backups.At, want.Backups.Daily, want.Backups.Weekly, want.Backups.Monthly, want.Backups.Rehearse = "03:15", 7, 4, 6, 7*24*time.Hour
	want.Names.PerAccount, want.Names.Proof = 10, "txt"
	want.Console.Timeout = 30 * time.Second
	want.Upgrade.Patience = 30 * time.Second
	want.Sandbox.Paths = "/opt"
	want.Proxy.Mode, want.Proxy.Listen, want.Proxy.HTTP, want.Proxy.HTTPS, want.Proxy.PerSite = "off", "127.0.0.1:8401", ":80", ":443", 512
	want.Panel.Enabled, want.Panel.SessionTTL = true, 7*24*time.Hour
	want.Proxy.HealthTimeout, want.Proxy.DrainTimeout = 30*time.Second, 30*time.Second
	want.Proxy.TLS, want.Proxy.ACME = "files", acmeSettings{Directory: certs.LetsEncrypt, PerHour: 10, Names: 1000}
	want.SignIn.OpenIDName = "OpenID"
	want.Notify.SMTPTLS = "starttls"
	want.Audit.Keep, want.Audit.Age = 100000, 90*24*time.Hour
	if got := mustLoad(t, "", nil); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// others is for each setting a good value that is not the default.
var others = map[string]string{
	"data_dir": "/srv/berth", "runtime_dir": "/run/berth-2", "key_file": "/etc/berth.key", "listen": ":9000", "base_url": "https://apps.example.org", "rate_limit": "61", "connections": "1025",
	"apps.ram_min": "33", "apps.ram_default": "101", "apps.oom_group": "false", "apps.pids_max": "257",
	"apps.cpu_max": "150", "apps.daily_starts": "7", "apps.disk": "4096", "host.disk_floor": "500",
	"apps.stop_timeout": "11s", "apps.ok_delay": "3s", "apps.uid_base": "70001", "apps.uid_count": "20001",
	"apps.port_first": "20001", "apps.port_last": "29998", "host.reserve": "0", "host.overcommit": "1.5",
	"build.ram": "513", "build.timeout": "11m", "build.concurrency": "2", "build.queue": "33", "upload.max": "101",
	"upload.max_socket": "513", "upload.max_unpacked": "1025", "upload.max_files": "20001", "logs.max_file": "6", "logs.keep": "7",
	"logs.rate": "1025", "backups.ttl": "2h", "backups.repository": "s3:https://s3.example.org/backups", "backups.environment": "/etc/berth/s3", "backups.key_file": "/etc/berth/backup-key",
	"backups.at": "23:59", "backups.keep_daily": "8", "backups.keep_weekly": "0", "backups.keep_monthly": "7", "backups.rehearse": "24h", "deploys.keep": "6", "deploys.disk": "1025", "names.domain": "apps.example.org",
	"names.addresses": "192.0.2.1,2001:db8::1", "names.resolver": "192.0.2.53:53", "names.per_account": "11", "names.proof": "address",
	"panel.enabled": "false", "panel.session_ttl": "24h", "panel.insecure": "true", "panel.passwords": "/etc/berth/passwords.txt",
	"console.timeout": "31s", "upgrade.patience": "31s", "upgrade.base": "https://mirror.example.org/berth", "upgrade.key": "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3", "network.allow": "127.0.0.1:5432, [::1]:5432,10.0.0.0/8", "network.deny": "192.168.0.0/16,fd00::1",
	"runtimes.node": "https://m.example.org/node", "runtimes.python": "https://m.example.org/python", "runtimes.java": "https://m.example.org/java",
	"runtimes.deno": "https://m.example.org/deno", "runtimes.bun": "http://127.0.0.1:8080/bun",
	"sandbox.require": "mounts, seccomp", "sandbox.without": "landlock,network", "sandbox.paths": "/opt,/srv/models",
	"sign_in.discord_client": "1234567890", "sign_in.discord_secret": "/etc/berth/discord", "sign_in.openid_issuer": "https://id.example.org/", "sign_in.openid_name": "Example",
	"sign_in.openid_client": "berth", "sign_in.openid_secret": "/etc/berth/openid", "sign_in.openid_roots": "/etc/berth/roots.pem", "sign_in.signup_ram": "512",
	"metrics.token": "/etc/berth/metrics-token", "notify.smtp": "mail.example.org:587", "notify.smtp_user": "berth", "notify.smtp_password": "/etc/berth/smtp", "notify.smtp_from": "berth@example.org",
	"notify.smtp_tls": "tls", "notify.allow": "127.0.0.1:8080, [fd00::1]:443",
	"engine": "kubernetes", "kubernetes.server": "https://10.0.0.1:6443", "kubernetes.ca_file": "/etc/berth/ca.pem", "kubernetes.token_file": "/etc/berth/token",
	"kubernetes.namespace": "shop", "kubernetes.claim": "shop-files", "kubernetes.images": "default debian:12-slim +php +composer, node 22.11.0 example.org:5000/node@sha256:0f",
	"kubernetes.node_selector": "disk=fast,example.org/zone=", "kubernetes.runtime_class": "gvisor", "kubernetes.closed": "10.0.0.9:2049", "kubernetes.trusted": "true",
	"audit.keep": "100001", "audit.age": "24h",
	"proxy.mode": "behind", "proxy.domain": "sites.example.org", "proxy.listen": ":9001", "proxy.http": ":9080", "proxy.https": ":9443",
	"proxy.trusted": "10.0.0.0/8,::1", "proxy.cert": "/etc/berth/cert.pem", "proxy.key": "/etc/berth/key.pem", "proxy.access_log": "true", "proxy.per_site": "100",
	"proxy.health_timeout": "20s", "proxy.drain_timeout": "40s",
	"proxy.tls": "acme", "proxy.acme_directory": "https://ca.example.org/dir", "proxy.acme_email": "ana@example.org", "proxy.acme_roots": "/etc/berth/roots.pem",
	"proxy.acme_binding": "/etc/berth/eab", "proxy.acme_per_hour": "3", "proxy.acme_names": "50",
}

// inFile writes a setting as an owner would: a word in quotes, a number without.
func inFile(key, value string) string {
	if strings.Trim(value, "0123456789.") != "" && value != "true" && value != "false" {
		value = fmt.Sprintf("%q", value)
	}
	section, name, dotted := strings.Cut(key, ".")
	if !dotted {
		return key + " = " + value + "\n"
	}
	return "[" + section + "]\n" + name + " = " + value + "\n"
}

// fields returns every value in a Settings by its place.
func fields(s Settings) map[string]any {
	found := map[string]any{}
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		if v.Kind() != reflect.Struct {
			found[prefix] = v.Interface()
			return
		}
		for i := range v.NumField() {
			walk(prefix+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
	walk("", reflect.ValueOf(s))
	return found
}

// TestEverySettingByThreeRoads also proves that no two rows of the table share
// a field, and that no field lacks a row.
func TestEverySettingByThreeRoads(t *testing.T) {
	needs := map[string][]string{"engine": {"--kubernetes-server=https://a", "--kubernetes-images=default a"}}
	standard := fields(mustLoad(t, "", nil))
	reached := map[string]string{}
	for _, row := range settings {
		t.Run(row.key, func(t *testing.T) {
			value, ok := others[row.key]
			if !ok {
				t.Fatal("the test has no value for it")
			}
			with := needs[row.key]
			standard := fields(mustLoad(t, "", nil, with...))
			env := "BERTH_" + strings.ToUpper(strings.ReplaceAll(row.key, ".", "_"))
			flag := "--" + strings.ReplaceAll(strings.ReplaceAll(row.key, ".", "-"), "_", "-")
			byFile := mustLoad(t, inFile(row.key, value), nil, with...)
			byEnv := mustLoad(t, "", map[string]string{env: value}, with...)
			byFlag := mustLoad(t, "", nil, append(slices.Clone(with), flag+"="+value)...)
			if byFile != byEnv || byEnv != byFlag {
				t.Errorf("the roads differ:\nfile %+v\nenv  %+v\nflag %+v", byFile, byEnv, byFlag)
			}
			var changed []string
			for place, got := range fields(byFlag) {
				if got != standard[place] {
					changed = append(changed, place)
				}
			}
			if len(changed) != 1 || reached[changed[0]] != "" {
				t.Fatalf("it changed %v; taken already are %v", changed, reached)
			}
			reached[changed[0]] = row.key

			// Now all at once, from the weakest to the strongest.
			file, envs := inFile(row.key, value), map[string]string{env: value}
			if got := mustLoad(t, file, envs, append(slices.Clone(with), flag+"="+row.value)...); fields(got)[changed[0]] != standard[changed[0]] {
				t.Errorf("the flag does not beat the environment: %v", fields(got)[changed[0]])
			}
			if row.value != "" {
				envs[env] = row.value
				if got := mustLoad(t, file, envs, with...); fields(got)[changed[0]] != standard[changed[0]] {
					t.Errorf("the environment does not beat the file: %v", fields(got)[changed[0]])
				}
			}
		})
	}
	for place := range standard {
		if reached[place] == "" && !slices.Contains([]string{".Keys", ".File", ".BackupKey", ".Decided"}, place) {
			t.Errorf("no setting reaches %s", place)
		}
	}
	for key := range others {
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.key == key }) {
			t.Errorf("there is no setting %q", key)
		}
	}
}

func TestBadValues(t *testing.T) {
	bad := map[string][]string{
		"data_dir": {""}, "runtime_dir": {""}, "key_file": {"a\x00b"}, "listen": {"", "8400", "localhost", "a:b", "a:70000", "a/b:80", "::1:80"},
		"base_url":   {"example.org", "ftp://example.org", "https://", "https://a/?q", "https://a/#f", "https://u:p@a/"},
		"rate_limit": {"", "0", "-1", "1e3", "60 ", "1000001", "many"}, "connections": {"15", "many"}, "apps.ram_min": {"0", "64KB", "1.5", "many"}, "apps.ram_default": {"0"},
		"apps.oom_group": {"yes", "1", "True"}, "apps.pids_max": {"0", "4194305"}, "apps.stop_timeout": {"0s", "-1s", "0", "10 s", "soon"},
		"apps.ok_delay": {"0"}, "apps.uid_base": {"0", "999", "2147483647"}, "apps.uid_count": {"0"}, "apps.port_first": {"80", "65536"},
		"apps.port_last": {"0"}, "host.reserve": {"-1"}, "host.disk_floor": {"-1", "Auto", "1.5"}, "apps.disk": {"-1", "auto"}, "apps.cpu_max": {"-1", "50%"}, "apps.daily_starts": {"-1", "many"}, "host.overcommit": {"0", "-1", "NaN", "Inf", "101", "x"}, "build.ram": {"1", "-1", "half"},
		"build.timeout": {"0s", "10"}, "build.concurrency": {"0", "65"}, "build.queue": {"0", "1001"}, "upload.max": {"0"}, "upload.max_socket": {"0"}, "upload.max_unpacked": {"0"},
		"upload.max_files": {"0"}, "logs.max_file": {"0"}, "logs.keep": {"0"}, "logs.rate": {"0"}, "backups.ttl": {"0h", "1 day", "3600"},
		"backups.repository": {"backups", "-o", "archives:backups", "s3:", "http://example.org", "/mnt\n"}, "backups.environment": {"a\x00b"}, "backups.key_file": {"a\x00b"},
		"backups.at": {"", "3:15", "24:00", "03:15:00", "noon"}, "backups.keep_daily": {"0", "x"}, "backups.keep_weekly": {"-1"}, "backups.keep_monthly": {"10001"}, "backups.rehearse": {"0s", "7"},
		"deploys.keep": {"0", "101"}, "deploys.disk": {"-1", "x"},
		"names.domain":    {"localhost", "192.0.2.1", "https://example.org", "*.example.org", "a b.example.org", "exämple.org"},
		"names.addresses": {"example.org", "192.0.2.1,", "192.0.2.1 192.0.2.2", "fe80::1%eth0", "0.0.0.0"},
		"names.resolver":  {"192.0.2.53", ":53", "192.0.2.53:0", "192.0.2.53:x", "a/b:53"}, "names.per_account": {"-1", "10001", "x"}, "names.proof": {"", "TXT", "a"},
		"sign_in.discord_client": {"a\x00"}, "sign_in.discord_secret": {"a\x00"}, "sign_in.openid_issuer": {"http://id.example.org", "x"}, "sign_in.openid_name": {"a\nb", strings.Repeat("a", 201)},
		"sign_in.openid_client": {"\x00"}, "sign_in.openid_secret": {"a\x00"}, "sign_in.openid_roots": {"a\x00"}, "sign_in.signup_ram": {"-1", "much"},
		"panel.enabled": {"yes"}, "panel.session_ttl": {"0s", "7", "0d"}, "panel.insecure": {"1"}, "panel.passwords": {"a\x00"},
		"console.timeout": {"0s", "1.5"}, "upgrade.patience": {"0s", "-30"}, "upgrade.base": {"http://example.org", "http://localhost", "example.org", "https://", "https://u:p@a/", "https://a/?q"},
		"upgrade.key": {"RW", "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO", "XXQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"}, "network.allow": {"localhost", "127.0.0.1:0", "10.0.0.0/33", "1.2.3.4,", "fe80::1%eth0", "10.0.0.0/8:80"},
		"network.deny":  {"localhost", "10.0.0.1:80", "10.0.0.0/40"},
		"runtimes.node": {"nodejs.org", "http://m.example.org/node", "http://localhost/node"}, "runtimes.python": {"https://a:b@m.example.org"},
		"runtimes.java": {"https://m.example.org/?x"}, "runtimes.deno": {"/deno"}, "runtimes.bun": {"ftp://m.example.org"},
		"sandbox.require": {"mount", "mounts;proc", "all,proc"},
		"sandbox.without": {"mount", "landlock;proc", "none"},
		"sandbox.paths":   {"opt", "/", "/opt,/", "/etc", "/tmp", "/tmp/x", "/proc/self", "/usr/local", "/opt/../sys", "/o\x00"},
		"proxy.mode":      {"", "on", "Edge"}, "proxy.domain": {"localhost", "*.example.org"}, "proxy.listen": {"8401", ""}, "proxy.http": {"80"}, "proxy.https": {"443"},
		"proxy.trusted": {"10.0.0.1:80", "proxy"}, "proxy.cert": {"a\x00"}, "proxy.key": {"a\x00"}, "proxy.access_log": {"yes"}, "proxy.per_site": {"0", "many"},
		"proxy.health_timeout": {"0s", "soon"}, "proxy.drain_timeout": {"-1s"},
		"proxy.tls": {"", "file", "ACME"}, "proxy.acme_directory": {"", "production", "http://ca.example.org/dir", "https://", "https://a:b@ca.example.org/", "ftp://x"},
		"proxy.acme_email": {"ana", "Ana <ana@example.org>", "ana@example.org, bob@example.org", "mailto:ana@example.org?cc=x", "\"a b\"@example.org"},
		"proxy.acme_roots": {"a\x00"}, "proxy.acme_binding": {"a\x00"}, "proxy.acme_per_hour": {"0", "-1", "x"}, "proxy.acme_names": {"0", "1000000"},
		"metrics.token": {"a\x00"}, "notify.smtp": {"mail.example.org", ":587", "mail.example.org:0"}, "notify.smtp_user": {"a\x00"}, "notify.smtp_password": {"a\x00"},
		"notify.smtp_from": {"ana", "Ana <ana@example.org>", "a@example.org,b@example.org"}, "notify.smtp_tls": {"", "ssl", "TLS"},
		"notify.allow": {"127.0.0.1", "localhost:80", "127.0.0.1:0", "10.0.0.0/8:80", "0.0.0.0:80", "[fe80::1%eth0]:80", "127.0.0.1:80,"},
		"engine":       {"", "docker", "Kubernetes"}, "kubernetes.server": {"10.0.0.1:6443", "http://10.0.0.1:6443", "https://", "https://a/x", "https://u:p@a", "https://a/?q"},
		"kubernetes.ca_file": {"a\x00"}, "kubernetes.token_file": {"a\x00"}, "kubernetes.namespace": {"Shop", "-a", "a/b"}, "kubernetes.claim": {"a_b"}, "kubernetes.runtime_class": {"A"},
		"kubernetes.images":        {"debian:12", "default", "default debian:12,"},
		"kubernetes.node_selector": {"disk", "=fast", "disk=fast,", "disk=-x", "a b=c"}, "kubernetes.closed": {"10.0.0.1", "nfs:2049"}, "kubernetes.trusted": {"yes"},
		"audit.keep": {"0", "999", "all"}, "audit.age": {"0s", "90", "-1d", "99999d"},
	}
	for _, row := range settings {
		if len(bad[row.key]) == 0 {
			t.Errorf("no bad value for %s is tried", row.key)
		}
		for _, value := range bad[row.key] {
			flag := "--" + row.flag()
			_, err := loadFrom(t, "", nil, flag+"="+value)
			wantProblem(t, err, exit.Usage, fmt.Sprintf("bad value %q for %s in %s: expected ", value, row.key, flag))
			_, err = loadFrom(t, strings.Replace(inFile(row.key, "@"), `"@"`, fmt.Sprintf("%q", value), 1), nil)
			wantProblem(t, err, exit.Config, fmt.Sprintf("bad value %q for %s in ", value, row.key))
			if value != "" { // an empty variable is one that is not set
				_, err = loadFrom(t, "", map[string]string{row.env(): value})
				wantProblem(t, err, exit.Config, fmt.Sprintf("bad value %q for %s in %s: expected ", value, row.key, row.env()))
			}
		}
	}
}

func wantProblem(t *testing.T, err error, code int, text string) {
	t.Helper()
	var p *exit.Problem
	if !errors.As(err, &p) || p.Code != code || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want exit code %d and %q", err, code, text)
	}
}

// Sizes and times may be written as people do.
func TestHumanValues(t *testing.T) {
	s := mustLoad(t, "[apps]\nram_min = \"64MB\"\nstop_timeout = 20\nok_delay = \"3\"\n[build]\nram = \"1.5GB\"\n[host]\nreserve = \"1GB\"\ndisk_floor = \"2gb\"\n",
		nil, "--upload-max=1G", "--upload-max-unpacked=2TB", "--audit-age=90d", "--build-timeout=1h30m")
	if s.Apps.RAMMin != 64 || s.Apps.StopTimeout != 20*time.Second || s.Apps.OKDelay != 3*time.Second || s.Build.RAM != 1536 ||
		s.Host.Reserve != 1024 || s.Host.DiskFloor != 2048 || s.Upload.Max != 1024 || s.Upload.MaxUnpacked != 2<<20 ||
		s.Audit.Age != 90*24*time.Hour || s.Build.Timeout != 90*time.Minute {
		t.Errorf("got %+v", s)
	}
	for arg, says := range map[string]string{
		"--build-timeout=10":   `bad value "10" for build.timeout in --build-timeout: expected a time above zero with its unit, such as "10m", "1h" or "7d"`,
		"--apps-ok-delay=soon": `bad value "soon" for apps.ok_delay in --apps-ok-delay: expected a time above zero such as 10 (seconds), "10s", "5m" or "1h"`,
		"--build-ram=1KB":      `bad value "1KB" for build.ram in --build-ram: expected a size from 16 to 1073741824 MB such as 512, "512MB" or "1.5GB", or "auto"`,
	} {
		_, err := loadFrom(t, "", nil, arg)
		wantProblem(t, err, exit.Usage, says)
	}
	var ram app.MB
	if v := RAM(&ram); v.Set("2GB") != nil || ram != 2048 || !v.Given() {
		t.Errorf("--ram 2GB is %d", ram)
	}
}

func TestSettingsThatContradict(t *testing.T) {
	for text, args := range map[string][]string{
		"apps.ram_default (100) must not be below apps.ram_min (101)":          {"--apps-ram-min=101"},
		"apps.port_last (1999) must not be below apps.port_first (20000)":      {"--apps-port-last=1999"},
		"go beyond the largest user id":                                        {"--apps-uid-base=2147483646"},
		`proxy.mode "edge" needs proxy.cert`:                                   {"--proxy-mode=edge"},
		"127.0.0.1:8400 is there twice":                                        {"--proxy-mode=behind", "--proxy-listen=127.0.0.1:8400"},
		"must not contain 65534, which is nobody":                              {"--apps-uid-base", "60000"},
		"key_file (/var/lib/berth/k) must not be in data_dir":                  {"--key-file=/var/lib/berth/k"},
		"upload.max_unpacked (1024) must not be below upload.max (2000)":       {"--upload-max", "2000"},
		`engine "kubernetes" needs kubernetes.server`:                          {"--engine=kubernetes"},
		`engine "kubernetes" needs kubernetes.namespace and kubernetes.claim`:  {"--engine=kubernetes", "--kubernetes-server=https://a", "--kubernetes-claim="},
		`engine "kubernetes" needs a default image in kubernetes.images`:       {"--engine=kubernetes", "--kubernetes-server=https://a", "--kubernetes-images=node 22 node:22"},
		"apps.uid_base (65534) and apps.uid_count (1) must not contain 65534,": {"--apps-uid-base=65534", "--apps-uid-count=1"},
	} {
		_, err := loadFrom(t, "", nil, args...)
		wantProblem(t, err, exit.Config, text)
	}
	mustLoad(t, "", nil, "--apps-uid-base=65535", "--apps-uid-count=1")
	edge := []string{"--proxy-mode=edge", "--proxy-tls=acme"}
	for _, name := range []string{"", "--base-url=http://berth.example.org", "--base-url=https://localhost", "--proxy-acme-email=ana@example.org"} {
		_, err := loadFrom(t, "", nil, append(edge, strings.Fields(name)...)...)
		wantProblem(t, err, exit.Config, `proxy.tls "acme" needs a name to get a certificate for: set proxy.domain, the domain of the sites, or base_url, the https address of the panel, or, for custom domains alone, names.addresses (proxy.tls is from --proxy-tls`)
	}
	for _, name := range []string{
		"--proxy-domain=apps.example.org", "--names-domain=apps.example.org", "--base-url=https://berth.example.org", "--base-url=https://203.0.113.7",
		"--names-addresses=203.0.113.7", "--proxy-cert=/etc/berth/certificates",
	} {
		mustLoad(t, "", nil, append(edge, name)...)
	}
	mustLoad(t, "", nil, "--apps-uid-base=65533", "--apps-uid-count=1")
}

func TestFlagsOfEverySetting(t *testing.T) {
	got := mustLoad(t, "[apps]\noom_group = false", nil, "--apps-oom-group", "--data-dir", ".", "--base-url", "https://a.example/x//")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if !got.Apps.OOMGroup || got.DataDir != here || got.BaseURL != "https://a.example/x" {
		t.Errorf("got %+v", got)
	}
}

func TestConfigFileNames(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for path, limit := range map[string]string{one: "1", two: "2"} {
		if err := os.WriteFile(path, []byte("rate_limit = "+limit), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"BERTH_CONFIG": one}
	if got := mustLoad(t, "rate_limit = 3", nil).RateLimit; got != 3 {
		t.Errorf("the usual file: %d", got)
	}
	if got := mustLoad(t, "rate_limit = 3", env).RateLimit; got != 1 {
		t.Errorf("the file of the environment: %d", got)
	}
	if got := mustLoad(t, "rate_limit = 3", env, "--config", two).RateLimit; got != 2 {
		t.Errorf("the file of the flag: %d", got)
	}
	_, err := loadFrom(t, "", map[string]string{"BERTH_CONFIG": filepath.Join(dir, "none")})
	wantProblem(t, err, exit.Config, "cannot read the configuration: ")
	_, err = loadFrom(t, "", nil, "--config", dir)
	wantProblem(t, err, exit.Config, "cannot read the configuration: ")
}

func TestLineOf(t *testing.T) {
	const file = "# a comment = 1\nlisten = 'x'\n\n[ apps ] # here\n  ram_min=1\n\"ram_default\" = 2\n[[apps.list]]\nx = 1\n[build]\nram = 1\nhost.reserve = 3\n"
	for key, want := range map[string]int{
		"listen": 2, "apps": 4, "apps.ram_min": 5, "apps.ram_default": 6, "apps.list": 7, "apps.list.x": 8,
		"build.ram": 10, "build.host.reserve": 11, "nothing": 0, "ram": 0,
	} {
		if got := lineOf(file, key); got != want {
			t.Errorf("%s: line %d, want %d", key, got, want)
		}
	}
}

func TestOddFiles(t *testing.T) {
	for file, text := range map[string]string{
		"apps = 5":                                      `unknown key "apps"`,
		"[[apps]]\nram_min = 5":                         `unknown key "apps"`,
		"[listen]\nx = 1":                               "bad value for listen",
		"listen.x = 1":                                  `unknown key "listen.x"`,
		"rate_limit = 1979-05-27":                       "bad value for rate_limit",
		"host.overcommit = nan":                         `bad value "NaN"`,
		"rate_limit = 1\nrate_limit = 2":                "line 2 is not TOML",
		"[names]\n\ndomain = apps.example.org # ours\n": `berth.toml line 3: the value of domain needs quotes: domain = "apps.example.org"`,
		"listen = 127.0.0.1:8400":                       `berth.toml line 1: the value of listen needs quotes: listen = "127.0.0.1:8400"`,
		"listen = [::1]:80\nrate_limit = 5":             `berth.toml line 1: the value of listen needs quotes: listen = "[::1]:80"`,
		"[apps]\nstop_timeout=20s\r\n":                  `berth.toml line 2: the value of stop_timeout needs quotes: stop_timeout = "20s"`,
		"[proxy]\nmode = off":                           `berth.toml line 2: the value of mode needs quotes: mode = "off"`,
		"base_url = \"https://x":                        "line 1 is not TOML",
		"base_url =\nrate_limit = 5":                    "line 1 is not TOML",
		"a = 1\nlisten = 'x'":                           `unknown key "a"`,
		"apps = {ram_min = 5, ram_mx = 1}":              `unknown key "apps.ram_mx"`,
	} {
		_, err := loadFrom(t, file, nil)
		wantProblem(t, err, exit.Config, text)
	}
	if got := mustLoad(t, "apps = {ram_min = 5}\nhost.overcommit = 2\n[logs]\n", nil); got.Apps.RAMMin != 5 || got.Host.Overcommit != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range settings {
		for _, name := range []string{row.key, row.flag(), row.env()} {
			if seen[name] && name != row.key { // a key without dot or line is its own flag
				t.Errorf("%s is used twice", name)
			}
			seen[name] = true
		}
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	some := AddFlags(set, "data_dir", "listen")
	if got := slices.Sorted(maps.Keys(some.byKey)); !slices.Equal(got, []string{"data_dir", "listen"}) {
		t.Errorf("flags of %v, want those asked for", got)
	}
}

func TestStrangeVariables(t *testing.T) {
	got := StrangeVariables([]string{"BERTH_LISTN=x", "BERTH_LISTEN=y", "BERTH_CONFIG=z", "BERTH_APPS_RAM_MNI=1", "BERTH_HOLDER=x", "PATH=/bin", "BERTH=1"}, "BERTH_HOLDER")
	if want := []strange{{"BERTH_LISTN", "BERTH_LISTEN"}, {"BERTH_APPS_RAM_MNI", "BERTH_APPS_RAM_MIN"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
