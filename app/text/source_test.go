package text

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/test/checkout"
)

// sayers are the functions that take sentences, as "directory.name", and which of
// their arguments are. One of them may hand on what it was given.
var sayers = map[string][]int{
	"app.Errorf":          {1},
	"app.Textf":           {0},
	"app.Words":           {0},
	"files/bundle.refuse": {1},
	"db.explain":          {0},
	"db.get":              {2},
	"db.getAll":           {2},
	"db.put":              {2},
	"db.read":             {1},
	"db.transact":         {2},
	"db.update":           {1},
	"db.write":            {1},
	"host/domain.wrong":   {0},
	"host.busy":           {0},
	"httpapi.counted":     {1, 2},
	"httpapi.say":         {0},
	"httpapi.wrong":       {0},
	"files.Refused":       {0},
	"files.cannot":        {0},
	"files.noEntry":       {1},
	"files.prepare":       {1},
	"files.unlessSaid":    {1},
	"(method).Count":      {1, 2}, // of a Language, wherever
	"(method).CheckFree":  {0},    // of the trees, through an interface
	"(method).Say":        {0},
	"(method).editing":    {3}, // of the trees
	"template.t":          {0}, // "template" stands for those of the panel
	"template.count":      {1, 2},
}

// source is what the program says: each sentence and where, and what is wrong.
type source struct {
	t      *testing.T
	wrong  []string
	set    *token.FileSet
	consts map[string]ast.Expr // by "directory.name"
	said   map[string]string   // the sentence: where
	called map[string]bool     // those of sayers that are
}

// function is one that encloses a call: its name in sayers, and its parameters.
type function struct {
	name   string
	params []string
}

// read reads every source file of the module that is no test, and every template.
func (s *source) read(root string) {
	templates, err := checkout.Files(root, ".html")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range templates {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			s.t.Fatal(err)
		}
		s.template(name, string(content))
	}
	list, err := checkout.Files(root, ".go")
	if err != nil {
		s.t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range list {
		// Its own functions hand on what they are given.
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "examples/") || path.Dir(name) == "app/text" {
			continue
		}
		if files[name], err = parser.ParseFile(s.set, filepath.Join(root, name), nil, parser.SkipObjectResolution); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, f := range files {
		s.constants(path.Dir(name), f)
	}
	for name, f := range files {
		s.calls(path.Dir(name), f)
	}
}

func (s *source) refuse(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// constants keeps those of a package; others could have the name of a variable
// elsewhere.
func (s *source) constants(dir string, f *ast.File) {
	for _, decl := range f.Decls {
		d, is := decl.(*ast.GenDecl)
		if !is || d.Tok != token.CONST {
			continue
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i < len(v.Values) {
					s.consts[dir+"."+name.Name] = v.Values[i]
				}
			}
		}
	}
}

// calls finds the calls of sayers in one file.
func (s *source) calls(dir string, f *ast.File) {
	packages := map[string]string{} // by the name they have here; "" for those of others
	for _, spec := range f.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		ours, is := strings.CutPrefix(imported, "berth/")
		if !is {
			ours = ""
		}
		packages[name] = ours
	}
	var stack []ast.Node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		if call, is := n.(*ast.CallExpr); is {
			s.call(dir, packages, call, around(dir, stack))
		}
		return true
	})
}

// around returns the functions that enclose what is at the top of a stack.
func around(dir string, stack []ast.Node) []function {
	var all []function
	for i, n := range stack {
		var name string
		var kind *ast.FuncType
		switch n := n.(type) {
		case *ast.FuncDecl:
			name, kind = n.Name.Name, n.Type
		case *ast.FuncLit:
			kind = n.Type
			if a, is := stack[i-1].(*ast.AssignStmt); is && len(a.Lhs) == 1 {
				if id, is := a.Lhs[0].(*ast.Ident); is {
					name = id.Name
				}
			}
		default:
			continue
		}
		own := function{name: dir + "." + name}
		for _, field := range kind.Params.List {
			for _, param := range field.Names {
				own.params = append(own.params, param.Name)
			}
		}
		all = append(all, own)
	}
	return all
}

// call takes the sentences of one call.
func (s *source) call(dir string, packages map[string]string, call *ast.CallExpr, within []function) {
	key := ""
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		key = dir + "." + fun.Name
	case *ast.SelectorExpr:
		x, _ := fun.X.(*ast.Ident)
		if x != nil {
			if ours, imported := packages[x.Name]; imported {
				key = ours + "." + fun.Sel.Name
				break
			}
		}
		if key = dir + "." + fun.Sel.Name; sayers[key] == nil {
			key = "(method)." + fun.Sel.Name
		}
	}
	for _, i := range sayers[key] {
		s.called[key] = true
		if i >= len(call.Args) {
			s.refuse("%s: %s has no argument %d: is it another function?", s.set.Position(call.Pos()), key, i)
			continue
		}
		where := s.set.Position(call.Args[i].Pos()).String()
		if sentence, known := s.literal(dir, packages, call.Args[i]); known {
			s.said[sentence] = where
		} else if !handedOn(call.Args[i], within) {
			s.refuse("%s: what %s says must be a literal, or its sentence cannot be in a catalogue", where, key)
		}
	}
}

// literal returns a text that the source alone tells.
func (s *source) literal(dir string, packages map[string]string, e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, one := s.literal(dir, packages, e.X)
		right, two := s.literal(dir, packages, e.Y)
		return left + right, one && two && e.Op == token.ADD
	case *ast.ParenExpr:
		return s.literal(dir, packages, e.X)
	case *ast.Ident:
		value, known := s.consts[dir+"."+e.Name]
		if !known {
			return "", false
		}
		return s.literal(dir, packages, value)
	case *ast.SelectorExpr:
		if x, is := e.X.(*ast.Ident); is && packages[x.Name] != "" {
			if value, known := s.consts[packages[x.Name]+"."+e.Sel.Name]; known {
				return s.literal(packages[x.Name], nil, value)
			}
		}
	}
	return "", false
}

// handedOn reports whether an argument is a parameter of a sayer around it, of
// which the callers' literals are read.
func handedOn(e ast.Expr, within []function) bool {
	id, is := e.(*ast.Ident)
	if !is {
		return false
	}
	for _, f := range within {
		indexes := sayers[f.name]
		if indexes == nil {
			_, name, _ := strings.Cut(f.name, ".")
			indexes = sayers["(method)."+name]
		}
		for _, i := range indexes {
			if i < len(f.params) && f.params[i] == id.Name {
				return true
			}
		}
	}
	return false
}
