package db

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// statementAt says which argument of a call is the statement; a dot is before the methods.
var statementAt = map[string]int{
	".channels": 0, ".exec": 0, ".changed": 0, ".insert": 0, ".change": 1, ".update": 3, "allByKey": 1, "number": 1, "numbers": 1, "all": 2, "one": 3, "getAll": 4,
	".Exec": 0, ".Query": 0, ".QueryRow": 0, ".Prepare": 0,
	".ExecContext": 1, ".QueryContext": 1, ".QueryRowContext": 1, ".PrepareContext": 1,
}

// made are the functions whose statements are not constant as they stand, and why nobody's
// words are in them.
var made = map[string]string{
	"Records": "its clauses are constants",
	"Record":  "as many question marks as columns, and what was prepared of them",
	"drop":    "the clauses of Prune, which are constants",
	"Reset":   "the tables that it lists",
	"secrets": "names of sealedColumns",
	"reseal":  "names of sealedColumns",
	"forget":  "names of sealedColumns",
	"step":    "the files of package migration, and a number",
	"count":   "a number",
}

// No statement has a word in it that came from outside: it is a constant, and all else are
// arguments in the places of its question marks.
func TestStatementsAreConstants(t *testing.T) {
	set := token.NewFileSet()
	paths, err := filepath.Glob("*.go")
	must(t, err)
	var files []*ast.File
	constants := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, 0)
		must(t, err)
		files = append(files, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if d, is := n.(*ast.GenDecl); is && d.Tok == token.CONST {
				for _, s := range d.Specs {
					for _, name := range s.(*ast.ValueSpec).Names {
						constants[name.Name] = true
					}
				}
			}
			return true
		})
	}
	var constant func(e ast.Expr, params []string) bool
	constant = func(e ast.Expr, params []string) bool {
		switch e := e.(type) {
		case *ast.BasicLit:
			return true
		case *ast.Ident:
			return constants[e.Name] || slices.Contains(params, e.Name)
		case *ast.BinaryExpr:
			return constant(e.X, params) && constant(e.Y, params)
		}
		return false
	}
	calls, used := 0, map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is || fn.Body == nil {
				continue
			}
			var params []string // of the helpers above, whose callers are looked at
			_, helper := statementAt[fn.Name.Name]
			if _, method := statementAt["."+fn.Name.Name]; helper || method {
				params = []string{"statement", "query"}
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				c, is := n.(*ast.CallExpr)
				if !is {
					return true
				}
				name := called(c.Fun)
				at, known := statementAt[name]
				if !known || len(c.Args) <= at {
					return true
				}
				calls++
				if made[fn.Name.Name] != "" {
					used[fn.Name.Name] = true
				} else if !constant(c.Args[at], params) {
					t.Errorf("%s: the statement of %s in %s is not constant", set.Position(c.Pos()), name, fn.Name.Name)
				}
				return true
			})
		}
	}
	for name := range made {
		if !used[name] {
			t.Errorf("%s makes no statement", name)
		}
	}
	if calls < 150 {
		t.Errorf("only %d statements were found", calls)
	}
}

// called is the name of what a call calls, with a dot before that of a method.
func called(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return "." + e.Sel.Name
	case *ast.IndexExpr:
		return called(e.X)
	case *ast.IndexListExpr:
		return called(e.X)
	}
	return ""
}
