package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/test/checkout"
)

var update = flag.Bool("update", false, "rewrite the table in ARCHITECTURE.md")

// room is a package: what it is for, and which packages of ours it may import.
type room struct {
	path, kind, does string
	imports          []string
}

// house is every package of the program, from the top floor down. ARCHITECTURE.md
// shows this table; a package that is not here does not exist yet.
var house = []room{
	{"main", "edge", "one of the daemon's helpers, or else the command line", []string{"cli"}},
	{"cli", "edge", "commands of every system; finds the command and returns its exit code", []string{"app", "app/build", "app/exit", "app/text", "cli/command", "cli/host", "cli/importer", "cli/screen", "client", "daemon/backup", "files/bundle", "files/icon", "host/runtimes", "proc", "systemd/fdstore"}},
	{"cli/host", "edge", "commands of the host, which need Linux: accounts, tokens, backup, install, serve", []string{"app", "app/build", "app/exit", "cli/command", "cli/screen", "cli/doctor", "daemon", "daemon/backup", "daemon/cluster", "daemon/keyring", "daemon/mover", "daemon/release", "daemon/settings", "db", "files", "files/archive", "files/bundle", "files/depot", "files/repository", "host", "host/account", "host/sizing", "systemd", "web/egress", "web/local", "web/proxy", "host/domain", "kube", "proc", "web/visit"}},
	{"cli/command", "edge", "what the commands share: the process around them, flags, tables, JSON, prompts", []string{"app", "app/build", "app/exit", "cli/screen"}},
	{"cli/screen", "edge", "what a terminal shows: its width, and what others' bytes may do on it", nil},
	{"cli/importer", "edge", "what PM2, systemd and the hosted service know of programs: which applications these become, and what is lost", []string{"app"}},
	{"client", "edge", "the API from outside, on every system: calls, uploads, streams of events", []string{"app"}},
	{"cli/doctor", "edge", "examines the host and says what it enforces", []string{"app", "app/build", "app/exit", "cgroup", "cli/screen", "daemon", "daemon/settings", "db", "files", "host", "host/runtimes", "proc", "proc/sandbox", "systemd"}},
	{"daemon", "wiring", "opens everything, serves, adopts running programs, upgrades in place", []string{
		"app", "app/build", "app/exit", "cgroup", "daemon/backup", "daemon/cluster", "daemon/keyring", "daemon/mover", "daemon/settings", "db", "files", "files/bundle", "files/depot", "files/icon", "files/repository", "host", "host/account", "host/domain", "host/notify", "host/runtimes", "host/sizing", "host/watch",
		"host/watch/metrics", "httpapi", "kube", "proc", "proc/logs", "proc/sandbox", "systemd", "systemd/fdstore", "web", "web/certs", "web/channel", "web/egress", "web/local", "web/metrics", "web/panel", "web/provider", "web/proxy", "web/terminal", "web/visit",
	}},
	{"daemon/cluster", "wiring", "runs programs as pods of a cluster, and keeps them from what is not theirs", []string{"app", "host", "host/runtimes", "kube", "proc/logs"}},
	{"daemon/backup", "wiring", "backs the host up into a repository, rehearses that, brings back the host or one application", []string{"app", "app/build", "app/exit", "daemon/keyring", "db", "files", "files/archive", "files/repository"}},
	{"daemon/keyring", "wiring", "the keys of the database's secrets, in files outside the data directory", []string{"db"}},
	{"daemon/mover", "wiring", "moves everything of this host to another one over one connection", []string{"app", "db", "files", "files/archive"}},
	{"daemon/settings", "wiring", "one table of settings: flags, environment, file", []string{"app", "app/build", "app/exit", "daemon/release", "host/account", "host/domain", "proc/sandbox", "web/certs", "web/channel", "web/provider"}},
	{"daemon/release", "mechanism", "what berth's makers publish: the signed manifest, and files by their sums", nil},
	{"httpapi", "edge", "the HTTP API: decode, ask, encode", []string{"app", "app/text", "httpapi/socket", "web", "web/local", "web/terminal"}},
	{"httpapi/socket", "edge", "the file in the frames of an upload over WebSocket", []string{"app"}},
	{"web", "edge", "what every edge does with connections and requests: limits, the call, its body, an upload, a stream of events", []string{"app"}},
	{"web/local", "edge", "the local socket: made, kept to root, and called by commands", []string{"app"}},
	{"web/panel", "edge", "the control panel: pages and forms", []string{"app", "app/diagnosis", "app/text", "docs", "examples", "web", "web/provider", "web/terminal"}},
	{"web/provider", "edge", "proves with Discord or an OpenID provider who somebody at a browser is", []string{"app"}},
	{"web/proxy", "edge", "brings requests of the web to sites, by host name; access logs", []string{"app", "web"}},
	{"web/certs", "edge", "gets certificates by ACME and renews them", []string{"app"}},
	{"web/terminal", "edge", "a session in an application over a WebSocket: bytes both ways, size, limits", []string{"app", "web"}},
	{"web/metrics", "edge", "what a monitoring system reads: /metrics for Prometheus, /healthz", []string{"app"}},
	{"web/egress", "edge", "the one client that fetches and posts for accounts: public addresses alone, bounded", []string{"app"}},
	{"web/channel", "edge", "writes messages at Discord, Slack, Telegram, ntfy, by e-mail and by Standard Webhooks", []string{"app", "app/text", "web/egress"}},
	{"web/visit", "edge", "proves that a name leads to this host, by a visit", nil},
	{"host", "policy", "keeps applications as their owners want them: deploy, start, restart, back off, refuse", []string{"app"}},
	{"host/account", "policy", "accounts, plans, tokens, permissions in a team, signed links", []string{"app"}},
	{"host/domain", "policy", "who owns a subdomain or a domain, and what proves it", []string{"app"}},
	{"host/notify", "policy", "what owners are told of what happens, in which words, when, and when again", []string{"app", "app/text"}},
	{"host/runtimes", "policy", "how a program of each language is prepared and started", []string{"app"}},
	{"host/sizing", "policy", "which RAM fits an application, and how much more a host can sell", []string{"app"}},
	{"host/watch", "policy", "measures what runs and publishes events to those who may see them", []string{"app"}},
	{"host/watch/metrics", "mechanism", "what applications used, in a ring for each", []string{"app"}},
	{"files", "mechanism", "applications on disk: uploads, live trees, commits and their undo, rollbacks, backups", []string{"app", "files/archive", "files/bundle"}},
	{"files/bundle", "mechanism", "the ZIP: checked, read, written; `discloud.config`", []string{"app"}},
	{"files/archive", "mechanism", "the format of a backup of the whole host", nil},
	{"files/icon", "mechanism", "makes the icon of an application from a picture: decoded within bounds, written anew", []string{"app"}},
	{"files/repository", "mechanism", "where backups are kept: a repository of restic, or a directory of archives", []string{"files/archive"}},
	{"files/depot", "mechanism", "runtimes of their publishers: downloaded, checked, unpacked, listed, removed", []string{"files"}},
	{"proc", "mechanism", "one run of one program and how it ended; commands and figures of the host", []string{"app", "cgroup", "proc/sandbox"}},
	{"proc/sandbox", "mechanism", "a program's walls: user, root directory, system calls, network", nil},
	{"proc/logs", "mechanism", "what programs print: stamped, bounded, rotated, tailed, held between daemons", []string{"app"}},
	{"cgroup", "mechanism", "one control group in the kernel: limits, counters, kill", nil},
	{"kube", "mechanism", "pods of a Kubernetes cluster, by plain REST: made, watched, read, resized, ended", nil},
	{"db", "mechanism", "what is remembered, in one SQLite file", []string{"app"}},
	{"systemd", "mechanism", "the service manager: notifications, sockets, unit files", nil},
	{"systemd/fdstore", "mechanism", "a process that keeps descriptors while no daemon lives", nil},
	{"docs", "vocabulary", "the documentation of this version, as pages, and a search in it", nil},
	{"app", "vocabulary", "an application, an account, a permission, a run, an exit, an error kind; the services that both edges call", nil},
	{"app/diagnosis", "vocabulary", "why a program ended, as far as the lines tell that it printed last, and what helps", []string{"app"}},
	{"app/text", "vocabulary", "sentences in several languages", nil},
	{"app/exit", "vocabulary", "how a command ends: exit codes, problems with a hint, what was probably meant", nil},
	{"app/build", "vocabulary", "the version of this build, and where its makers publish releases", nil},
	{"examples", "vocabulary", "small programs that the panel deploys with one click, as ZIPs", nil},
}

// tests are the packages that only tests use.
var tests = map[string][]string{
	"test/attacks":              {"test/dns", "test/harness"},
	"test/bench":                {"cgroup", "proc", "proc/sandbox", "test/harness"}, // a module of its own; starts behind some walls, which the daemon never does
	"test/bench/heaps":          {"app", "cgroup", "host/runtimes", "proc"},
	"test/bench/heaps/programs": {},
	"test/browser":              {"test/harness"}, // a module of its own
	"test/ca":                   {"test/harness"},
	"test/checkout":             {},
	"test/clients":              {"test/harness"},
	"test/database":             {"db"},
	"test/dns":                  {},
	"test/docs":                 {"app/build", "app/exit", "cli", "cli/command", "daemon/settings", "host/notify", "test/checkout", "web/metrics"},
	"test/e2e":                  {"app", "app/exit", "host/watch/metrics", "test/harness"}, // a history of before
	"test/cluster":              {"kube", "test/harness"},
	"test/faults":               {"test/harness"},
	"test/openid":               {},
	"test/harness":              {},
	"test/services":             {},
	"test/packages":             {},
	"test/hosted":               {"app", "db", "files", "files/bundle", "web/certs"},
}

// homes are the libraries with one home each, and packages of the standard
// library that policy and edges must not reach for.
var homes = map[string][]string{
	"github.com/containerd/cgroups":       {"cgroup"},
	"github.com/opencontainers":           {"cgroup"},
	"github.com/mattn/go-sqlite3":         {"db"},
	"database/sql":                        {"db"},
	"github.com/julienschmidt/httprouter": {"httpapi"},
	"github.com/coder/websocket":          {"httpapi", "web/terminal", "client", "kube", "test/bench"},
	"github.com/shirou/gopsutil":          {"proc"},
	"github.com/BurntSushi/toml":          {"daemon/settings", "host/runtimes"},
	"github.com/cilium/ebpf":              {"proc/sandbox"},
	"aead.dev/minisign":                   {"daemon/release"},
	"github.com/spf13/cobra":              {"cli", "test/docs"},
	"github.com/spf13/pflag":              {"cli", "daemon/settings"},
	"github.com/coreos/go-oidc":           {"web/provider"},
	"golang.org/x/image":                  {"files/icon"},
	"golang.org/x/oauth2":                 {"web/provider"},
	"golang.org/x/term":                   {"cli"},
	"golang.org/x/text":                   {"cli"},
	"golang.org/x/crypto":                 {"db", "host/account", "web/certs"},
	"filippo.io/age":                      {"daemon/backup"},
	"github.com/go-webauthn/webauthn":     {"host/account"},
	"github.com/wneessen/go-mail":         {"web/channel"},
	"github.com/emersion":                 {"test"},
	"github.com/standard-webhooks":        {"test"},
	"rsc.io/qr":                           {"web/panel"},
	"github.com/yuin/goldmark":            {"docs"},
	"os":                                  {"cgroup", "cli", "client", "daemon", "db", "files", "host/watch/metrics", "httpapi", "kube", "main", "proc", "systemd", "web/local", "web/proxy", "test"},
	"os/exec":                             {"cli", "daemon", "files/icon", "files/repository", "proc", "test"},
	"syscall":                             {"cgroup", "cli", "daemon", "db", "files", "proc", "systemd/fdstore", "web/egress", "web/local", "web/proxy", "test"},
	"golang.org/x/sys/unix":               {"cgroup", "cli", "daemon", "files", "proc", "systemd", "web/local", "test"},
	"net/http":                            {"cli", "client", "daemon", "files/depot", "httpapi", "kube", "web", "test"},
	// What can be guessed or forged, reads types that a stranger names, or shows the inside.
	"math/rand":      {"db", "host", "web/certs", "test"}, // salts of a checksum, when to ask and to renew
	"text/template":  {"systemd"},
	"crypto/sha1":    {"host/account", "test"}, // TOTP (RFC 6238)
	"crypto/md5":     nil,
	"crypto/des":     nil,
	"crypto/rc4":     nil,
	"encoding/gob":   nil,
	"net/http/pprof": nil,
	"expvar":         nil,
}

// The budgets are alarms: what is about one thing stays whole, and what they find is
// nearly always about several.
const (
	maxFile      = 600
	maxFunc      = 80
	maxWidth     = 140 // without strings, outside tables
	maxInterface = 12  // what one collaborator is asked for
)

// sources parses every file of the module that is not a test, by package
// directory.
func sources(t *testing.T) (*token.FileSet, map[string]map[string]*ast.File) {
	t.Helper()
	set, all := token.NewFileSet(), map[string]map[string]*ast.File{}
	list, err := checkout.Files(".", ".go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") || path.Dir(dir) == "examples" {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if dir == "." {
			dir = "main"
		}
		if all[dir] == nil {
			all[dir] = map[string]*ast.File{}
		}
		all[dir][name] = f
	}
	return set, all
}

func TestArchitectureImports(t *testing.T) {
	_, all := sources(t)
	may := map[string][]string{}
	for dir, imports := range tests {
		may[dir] = imports
	}
	for _, r := range house {
		may[r.path] = r.imports
		if all[r.path] == nil {
			t.Errorf("the table names %s, which does not exist", r.path)
		}
	}
	for dir, files := range all {
		allowed, known := may[dir]
		if !known {
			t.Errorf("package %s is not in the table of the house", dir)
		}
		for path, f := range files {
			for _, spec := range f.Imports {
				name := strings.Trim(spec.Path.Value, `"`)
				if ours, ok := strings.CutPrefix(name, "berth/"); ok && !slices.Contains(allowed, ours) {
					t.Errorf("%s imports %s; %s may import only %v of ours", path, name, dir, allowed)
				}
				for lib, home := range homes {
					if (name == lib || strings.HasPrefix(name, lib+"/")) && !slices.ContainsFunc(home, func(h string) bool { return within(dir, h) }) {
						t.Errorf("%s imports %s, which belongs to %v", path, name, home)
					}
				}
			}
		}
	}
}

// within reports whether a package is a home or below it.
func within(dir, home string) bool { return dir == home || strings.HasPrefix(dir, home+"/") }

// The table in ARCHITECTURE.md is this one.
func TestArchitectureTable(t *testing.T) {
	const begin, end = "<!-- the house: go test -run TestArchitectureTable -update . -->\n", "<!-- end of the house -->"
	var b strings.Builder
	b.WriteString("| package | kind | what it does | imports of ours |\n|---|---|---|---|\n")
	for _, r := range house {
		ours := "-"
		switch {
		case r.kind == "wiring" && len(r.imports) > 10:
			ours = "everything below"
		case len(r.imports) > 0:
			ours = strings.Join(r.imports, ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.path, r.kind, r.does, ours)
	}
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	is, after, found := strings.Cut(rest, end)
	switch {
	case !found:
		t.Fatalf("ARCHITECTURE.md has no %q and %q", begin, end)
	case *update:
		if err := os.WriteFile("ARCHITECTURE.md", []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case is != b.String():
		t.Error("the table in ARCHITECTURE.md is not that of arch_test.go: go test -run TestArchitectureTable -update .")
	}
}

func TestArchitectureBudgets(t *testing.T) {
	set, all := sources(t)
	for dir, files := range all {
		documented := false
		for path, f := range files {
			documented = documented || f.Doc != nil
			if n := set.File(f.Pos()).LineCount(); n > maxFile {
				t.Errorf("%s has %d lines, more than %d", path, n, maxFile)
			}
			ast.Inspect(f, func(n ast.Node) bool { checkNode(t, set, n); return true })
		}
		if !documented {
			t.Errorf("package %s has no package comment", dir)
		}
		if _, err := os.Stat(filepath.Join(dir, "doc.go")); dir != "main" && !within(dir, "test") && err != nil {
			t.Errorf("package %s has no doc.go", dir)
		}
	}
}

// A line that is wider than a screen hides what it ends with. Rows of tables may be
// as wide as they need, and a sentence stays whole, so that it can be searched for.
func TestArchitectureWidth(t *testing.T) {
	set, all := sources(t)
	for _, files := range all {
		for path, f := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			free := map[int]int{} // by line: what does not count
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit: // a number is short
					for i, part := range strings.Split(n.Value, "\n") {
						free[set.Position(n.Pos()).Line+i] += len(part)
					}
				case *ast.CompositeLit:
					if _, of := n.Type.(*ast.ArrayType); of {
						for line := set.Position(n.Lbrace).Line + 1; line < set.Position(n.Rbrace).Line; line++ {
							free[line] = len(text)
						}
					}
				}
				return true
			})
			n := 0
			for line := range strings.Lines(string(text)) {
				if n++; len(line)-1-free[n] > maxWidth {
					t.Errorf("%s:%d has %d columns without its strings, more than %d", path, n, len(line)-1-free[n], maxWidth)
				}
			}
		}
	}
}

// Programs change what is below their directories at any moment, so files reaches
// nothing there by path. These calls are about directories of root's alone.
func TestArchitectureFilesUsesDescriptors(t *testing.T) {
	allowed := map[string][]string{
		"Stat": {"files/datadir.go"}, "MkdirAll": {"files/store.go"}, "Chmod": {"files/store.go"}, "OpenRoot": {"files/stage.go"},
		"OpenFile": {"files/datadir.go"}, "Remove": {"files/datadir.go"}, "Lstat": {"files/datadir.go"},
		"ReadFile": {"files/datadir.go"}, "SameFile": nil,
		"Geteuid": nil, "NewFile": nil, "IsNotExist": nil,
	}
	_, all := sources(t)
	for path, f := range all["files"] {
		ast.Inspect(f, func(n ast.Node) bool {
			c, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			if s, is := c.Fun.(*ast.SelectorExpr); is {
				if x, is := s.X.(*ast.Ident); is && x.Name == "os" {
					if where, known := allowed[s.Sel.Name]; !known || where != nil && !slices.Contains(where, path) {
						t.Errorf("%s calls os.%s, which goes by path", path, s.Sel.Name)
					}
				}
			}
			return true
		})
	}
}

// Tests are read too, so their files keep the budget as well.
func TestArchitectureTestFiles(t *testing.T) {
	list, err := checkout.Files(".", "_test.go")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	for _, name := range list {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > maxFile {
			t.Errorf("%s has %d lines, more than %d", name, n, maxFile)
		}
	}
}

// The root shows the product, not its files.
func TestArchitectureRoot(t *testing.T) {
	out, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range out {
		if name := e.Name(); name != ".git" && name != ".cache" && name != "berth" && name != "dist" { // which git does not keep
			list = append(list, name)
		}
	}
	if len(list) > 32 {
		t.Errorf("the root has %d entries, more than 32: %v", len(list), list)
	}
}

func checkNode(t *testing.T, set *token.FileSet, n ast.Node) {
	t.Helper()
	switch n := n.(type) {
	case *ast.FuncDecl:
		if lines := set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1; lines > maxFunc {
			t.Errorf("%s: %s has %d lines, more than %d", set.Position(n.Pos()), n.Name.Name, lines, maxFunc)
		}
	case *ast.InterfaceType:
		if n.Methods != nil && len(n.Methods.List) > maxInterface {
			t.Errorf("%s: an interface has %d methods, more than %d", set.Position(n.Pos()), len(n.Methods.List), maxInterface)
		}
	}
}
