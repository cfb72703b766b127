package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// imports is the house: what each package may import of ours. ARCHITECTURE.md
// says why; a package that is not here does not exist yet.
var imports = map[string][]string{
	"app":         {},
	"account":     {"app"},
	"domain":      {"app"},
	"host":        {"app"},
	"lang":        {"app"},
	"bundle":      {"app"},
	"archive":     {},
	"tree":        {"app", "archive", "bundle"},
	"proc":        {"app", "cgroup", "sandbox"},
	"cgroup":      {},
	"sandbox":     {},
	"logs":        {},
	"db":          {"app"},
	"keeper":      {},
	"systemd":     {},
	"httpapi":     {"app", "text"},
	"proxy":       {},
	"test/e2e":    {"test/harness"},
	"test/faults": {"test/harness"},
	"metrics":     {"app"},
	"watch":       {"app"},
	"text":        {},
	"panel":       {"app", "text"},
	"certs":       {"app"},

	"test/attacks": {"test/dns", "test/harness"},
	"test/clients": {"test/harness"},
	"test/browser": {"test/harness"},                              // a module of its own
	"test/bench":   {"cgroup", "proc", "sandbox", "test/harness"}, // starts behind some walls, which the daemon never does
	"test/dns":     {},
	"test/ca":      {"test/harness"},
	"test/harness": {},
	"test/summary": {},
}

// homes are the libraries with one home each, and packages of the standard
// library that policy and edges must not reach for.
var homes = map[string][]string{
	"github.com/containerd/cgroups":       {"cgroup"},
	"github.com/opencontainers":           {"cgroup"},
	"github.com/mattn/go-sqlite3":         {"db"},
	"database/sql":                        {"db"},
	"github.com/julienschmidt/httprouter": {"httpapi"},
	"github.com/coder/websocket":          {"httpapi", "test/bench"},
	"github.com/shirou/gopsutil":          {"proc"},
	"github.com/BurntSushi/toml":          {".", "lang"},
	"github.com/cilium/ebpf":              {"sandbox"},
	"golang.org/x/crypto":                 {"account", "certs"},
	"os":                                  {".", "bundle", "cgroup", "db", "httpapi", "keeper", "logs", "metrics", "proc", "proxy", "sandbox", "systemd", "tree", "test/bench", "test/ca", "test/e2e", "test/faults", "test/harness", "test/summary"},
	"os/exec":                             {".", "proc", "test/bench", "test/ca", "test/e2e", "test/faults", "test/harness"},
	"syscall":                             {".", "cgroup", "db", "keeper", "proc", "proxy", "sandbox", "logs", "tree", "test/bench", "test/e2e", "test/faults", "test/harness"},
	"golang.org/x/sys/unix":               {".", "cgroup", "keeper", "logs", "proc", "sandbox", "systemd", "tree"},
	"net/http":                            {".", "certs", "httpapi", "panel", "proxy", "test/bench", "test/ca", "test/e2e", "test/faults", "test/harness"},
}

const (
	maxFile      = 350
	maxFunc      = 60
	maxInterface = 5
)

// sources parses every file of the module that is not a test, by package
// directory ("." is main).
func sources(t *testing.T) (*token.FileSet, map[string]map[string]*ast.File) {
	t.Helper()
	set, all := token.NewFileSet(), map[string]map[string]*ast.File{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "examples" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if all[dir] == nil {
			all[dir] = map[string]*ast.File{}
		}
		all[dir][path] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return set, all
}

func TestArchitectureImports(t *testing.T) {
	_, all := sources(t)
	for dir, files := range all {
		allowed, known := imports[dir]
		if !known && dir != "." {
			t.Errorf("package %s is not in the table of the house", dir)
		}
		for path, f := range files {
			for _, spec := range f.Imports {
				name := strings.Trim(spec.Path.Value, `"`)
				if ours, ok := strings.CutPrefix(name, "berth/"); ok && dir != "." && !slices.Contains(allowed, ours) {
					t.Errorf("%s imports %s; %s may import only %v of ours", path, name, dir, allowed)
				}
				for lib, home := range homes {
					if (name == lib || strings.HasPrefix(name, lib+"/")) && !slices.Contains(home, dir) {
						t.Errorf("%s imports %s, which belongs to %v", path, name, home)
					}
				}
			}
		}
	}
	for dir := range maps.Keys(imports) {
		if all[dir] == nil && !strings.HasPrefix(dir, "test/") {
			t.Errorf("the table names %s, which does not exist", dir)
		}
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
		if _, err := os.Stat(filepath.Join(dir, "doc.go")); dir != "." && !strings.HasPrefix(dir, "test/") && err != nil {
			t.Errorf("package %s has no doc.go", dir)
		}
	}
}

// Programs change what is below their directories at any moment, so tree reaches
// nothing there by path. These calls are about directories of root's alone.
func TestArchitectureTreeUsesDescriptors(t *testing.T) {
	allowed := map[string]string{
		"Stat": "tree/reach.go", "MkdirAll": "tree/store.go", "Chmod": "tree/store.go", "OpenRoot": "tree/stage.go",
		"Geteuid": "", "NewFile": "", "IsNotExist": "",
	}
	_, all := sources(t)
	for path, f := range all["tree"] {
		ast.Inspect(f, func(n ast.Node) bool {
			c, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			if s, is := c.Fun.(*ast.SelectorExpr); is {
				if x, is := s.X.(*ast.Ident); is && x.Name == "os" {
					if file, known := allowed[s.Sel.Name]; !known || file != "" && file != path {
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
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if n := strings.Count(string(text), "\n"); n > maxFile {
			t.Errorf("%s has %d lines, more than %d", path, n, maxFile)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
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
