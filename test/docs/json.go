package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli"
)

// views are the types that commands print as JSON, by the name of their package and their
// own.
type views map[string]*ast.StructType

// readViews reads the packages that have such types.
func readViews(root string) (views, error) {
	all := views{}
	for _, dir := range []string{"cli", "cli/command", "client"} {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			for _, decl := range f.Decls {
				types, is := decl.(*ast.GenDecl)
				if !is {
					continue
				}
				for _, spec := range types.Specs {
					if t, is := spec.(*ast.TypeSpec); is {
						if s, is := t.Type.(*ast.StructType); is {
							all[f.Name.Name+"."+t.Name.Name] = s
						}
					}
				}
			}
		}
	}
	return all, nil
}

// printed is the table of what a command prints with --json; "" if that is not documented.
func (all views) printed(cmd *cobra.Command) (string, error) {
	name := cli.JSONOf(cmd)
	if name == "" {
		return "", nil
	}
	of, list := strings.CutPrefix(name, "[]")
	var b strings.Builder
	what := "an object"
	if list {
		what = "an array of objects"
	}
	fmt.Fprintf(&b, "\nWith `--json`, %s:\n\n| field | type | meaning |\n|---|---|---|\n", what)
	if err := all.fields(&b, of, ""); err != nil {
		return "", fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	return b.String(), nil
}

// fields writes a row for each field of a type, those of inner types behind a prefix.
func (all views) fields(b *strings.Builder, name, prefix string) error {
	s := all[name]
	if s == nil {
		return fmt.Errorf("there is no type %s", name)
	}
	pack, _, _ := strings.Cut(name, ".")
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			return fmt.Errorf("%s has a field without a name in JSON", name)
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return err
		}
		key, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		kind, inner := jsonType(f.Type, pack)
		meaning := strings.TrimSpace(f.Comment.Text())
		if strings.Contains(options, "omit") {
			meaning = strings.TrimPrefix(meaning+"; may be missing", "; ")
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", prefix, key, kind, cell(meaning))
		if inner != "" && all[inner] != nil {
			if err := all.fields(b, inner, prefix+key+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// jsonType is how a field crosses in JSON, and the type of the fields in it, if it has such.
func jsonType(t ast.Expr, pack string) (kind, inner string) {
	switch t := t.(type) {
	case *ast.StarExpr:
		kind, inner = jsonType(t.X, pack)
		return kind + " or null", inner
	case *ast.ArrayType:
		kind, inner = jsonType(t.Elt, pack)
		return "array of " + kind + "s", inner
	case *ast.MapType:
		kind, _ = jsonType(t.Value, pack)
		return "object of " + kind + "s", ""
	case *ast.SelectorExpr:
		name := t.X.(*ast.Ident).Name + "." + t.Sel.Name
		switch name {
		case "time.Time":
			return "time", ""
		case "app.AccountID", "app.MB":
			return "number", ""
		}
		return "text", name
	case *ast.Ident:
		switch {
		case t.Name == "string":
			return "text", ""
		case t.Name == "bool":
			return "true or false", ""
		case strings.HasPrefix(t.Name, "int"), strings.HasPrefix(t.Name, "float"):
			return "number", ""
		}
		return "object", pack + "." + t.Name
	}
	return "value", ""
}

// exitTable is the table of the exit statuses.
func exitTable() string {
	var b strings.Builder
	b.WriteString("| exit status | meaning |\n|---|---|\n")
	for _, c := range exit.Codes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, cell(c.Means))
	}
	return b.String()
}
