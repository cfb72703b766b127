package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// schema is what of a schema of OpenAPI has to do with its fields.
type schema struct {
	Ref        string `json:"$ref"`
	Properties map[string]json.RawMessage
	AnyOf      []schema
	OneOf      []schema
	AllOf      []schema
}

// content is a body by its type.
type content map[string]struct{ Schema schema }

// parameter is one of its own, or of those that several operations share.
type parameter struct {
	Ref      string `json:"$ref"`
	Name, In string
}

// operation is one row of the table.
type operation struct {
	path, method string
	own          bool // other hosts of the API do not have it, nor what is below it

	Summary     string
	Description string
	Tags        []string
	Parameters  []parameter
	RequestBody struct{ Content content }
	Responses   map[string]struct{ Content content }
}

// document is what of OpenAPI the table needs.
type document struct {
	Tags       []struct{ Name string }
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas map[string]schema
	}
}

// operations is the table of the API, by tag, in the order of the document.
func operations(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return "", err
	}
	byTag := map[string][]operation{}
	for path, methods := range doc.Paths {
		for method, raw := range methods {
			if !slices.Contains([]string{"get", "post", "put", "delete", "patch"}, method) {
				continue
			}
			o := operation{path: path, method: strings.ToUpper(method)}
			if err := json.Unmarshal(raw, &o); err != nil {
				return "", fmt.Errorf("%s %s: %w", method, path, err)
			}
			if o.Summary == "" || len(o.Tags) != 1 {
				return "", fmt.Errorf("%s %s has no summary, or not one tag", method, path)
			}
			byTag[o.Tags[0]] = append(byTag[o.Tags[0]], o)
		}
	}
	var b strings.Builder
	for _, tag := range doc.Tags {
		fmt.Fprintf(&b, "### %s\n\n| operation | what it does | request | answer |\n|---|---|---|---|\n", strings.ToUpper(tag.Name[:1])+tag.Name[1:])
		list := byTag[tag.Name]
		slices.SortFunc(list, func(a, b operation) int {
			at := func(o operation) int { return strings.Index(string(text), `"`+o.path+`"`) }
			return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.method, b.method))
		})
		for _, o := range list {
			o.own = slices.ContainsFunc(list, func(other operation) bool {
				return strings.HasPrefix(other.Description, "Of this server") && strings.HasPrefix(o.path+"/", other.path+"/")
			})
			fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s |\n", o.method, o.path, cell(o.does()), cell(o.request(doc)), cell(o.answer(doc)))
		}
		b.WriteString("\n")
		delete(byTag, tag.Name)
	}
	if len(byTag) > 0 {
		return "", fmt.Errorf("operations with tags that the document does not list: %v", slices.Sorted(maps.Keys(byTag)))
	}
	return b.String(), nil
}

// does is the summary, with what a client must know before it relies on it.
func (o operation) does() string {
	does := o.Summary
	for _, p := range o.Parameters {
		if strings.HasSuffix(p.Ref, "OrAll") {
			does += "; one or `all`"
		}
	}
	if o.own {
		does += " (berth's own)"
	}
	return does
}

// request names the fields of the body and of the query.
func (o operation) request(doc document) string {
	var parts []string
	for _, p := range o.Parameters {
		switch {
		case p.In == "query":
			parts = append(parts, "`?"+p.Name+"`")
		case strings.HasSuffix(p.Ref, "/WithVariables"):
			parts = append(parts, "`?env`")
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(o.RequestBody.Content)) {
		fields := doc.fields(o.RequestBody.Content[kind].Schema)
		if kind == "multipart/form-data" {
			parts = append(parts, "multipart: "+list(fields))
		} else {
			parts = append(parts, list(fields))
		}
	}
	return strings.Join(parts, " ")
}

// answer names the fields of an answer that are not in every one.
func (o operation) answer(doc document) string {
	var fields []string
	for _, kind := range slices.Sorted(maps.Keys(o.Responses["200"].Content)) {
		if kind != "application/json" {
			return kind
		}
		fields = doc.fields(o.Responses["200"].Content[kind].Schema)
	}
	return list(slices.DeleteFunc(fields, func(name string) bool { return slices.Contains([]string{"status", "statusCode", "message"}, name) }))
}

// fields are the names of all that a schema, or one of its forms, may have.
func (d document) fields(s schema) []string {
	all := map[string]bool{}
	var collect func(schema)
	collect = func(s schema) {
		// A refusal has the fields of every error.
		if name, is := strings.CutPrefix(s.Ref, "#/components/schemas/"); is && name != "Already" {
			collect(d.Components.Schemas[name])
		}
		for name := range s.Properties {
			all[name] = true
		}
		for _, form := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
			collect(form)
		}
	}
	collect(s)
	return slices.Sorted(maps.Keys(all))
}

func list(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
