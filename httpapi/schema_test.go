package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// schemas checks values against the part of JSON Schema that openapi.json uses.
// A keyword that it does not know is an error, so nothing passes unchecked.
type schemas struct {
	root map[string]any
	// exact is for what berth sends today: a field that is not described is an error
	// also where a client has to expect more of them.
	exact bool
}

func (s schemas) check(schema any, v any, at string) error {
	m, isObject := schema.(map[string]any)
	if !isObject {
		return fmt.Errorf("%s: the schema is %T", at, schema)
	}
	for _, keyword := range slices.Sorted(mapKeys(m)) {
		if err := s.keyword(m, keyword, v, at); err != nil {
			return err
		}
	}
	return nil
}

func mapKeys(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (s schemas) keyword(m map[string]any, keyword string, v any, at string) error {
	arg := m[keyword]
	switch keyword {
	case "description":
		return nil
	case "$ref":
		target, err := s.resolve(arg.(string))
		if err != nil {
			return err
		}
		return s.check(target, v, at)
	case "type":
		return checkType(arg, v, at)
	case "const":
		if !reflect.DeepEqual(arg, v) {
			return fmt.Errorf("%s: %v is not %v", at, v, arg)
		}
		return nil
	case "enum":
		if !slices.ContainsFunc(arg.([]any), func(e any) bool { return reflect.DeepEqual(e, v) }) {
			return fmt.Errorf("%s: %v is not one of %v", at, v, arg)
		}
		return nil
	case "oneOf", "anyOf":
		return s.choice(keyword, arg.([]any), v, at)
	case "properties", "required", "additionalProperties":
		object, isObject := v.(map[string]any)
		if !isObject {
			return nil // "type" complains
		}
		return s.object(m, keyword, object, at)
	case "items":
		list, _ := v.([]any)
		for i, item := range list {
			if err := s.check(arg, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	default:
		return checkScalar(keyword, arg, v, at)
	}
}

func (s schemas) object(m map[string]any, keyword string, v map[string]any, at string) error {
	properties, _ := m["properties"].(map[string]any)
	switch keyword {
	case "properties":
		for name, schema := range properties {
			if value, there := v[name]; there {
				if err := s.check(schema, value, at+"."+name); err != nil {
					return err
				}
			}
		}
		if s.exact {
			return undescribed(properties, v, at)
		}
	case "required":
		for _, name := range m["required"].([]any) {
			if _, there := v[name.(string)]; !there {
				return fmt.Errorf("%s: %v is missing", at, name)
			}
		}
	case "additionalProperties":
		if m[keyword] != false {
			return fmt.Errorf("%s: additionalProperties other than false", at)
		}
		return undescribed(properties, v, at)
	}
	return nil
}

// undescribed reports a field of v that is not among properties.
func undescribed(properties, v map[string]any, at string) error {
	for name := range v {
		if properties[name] == nil {
			return fmt.Errorf("%s: %s is not described", at, name)
		}
	}
	return nil
}

func (s schemas) choice(keyword string, options []any, v any, at string) error {
	matched, reasons := 0, []string{}
	for _, option := range options {
		if err := s.check(option, v, at); err != nil {
			reasons = append(reasons, err.Error())
		} else {
			matched++
		}
	}
	if matched == 0 || keyword == "oneOf" && matched > 1 {
		return fmt.Errorf("%s: %d of %s match: %s", at, matched, keyword, strings.Join(reasons, "; "))
	}
	return nil
}

// resolve follows a reference inside the document.
func (s schemas) resolve(ref string) (any, error) {
	var v any = s.root
	path, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil, fmt.Errorf("%s is not in the document", ref)
	}
	for name := range strings.SplitSeq(path, "/") {
		m, _ := v.(map[string]any)
		if v = m[name]; v == nil {
			return nil, fmt.Errorf("%s does not exist", ref)
		}
	}
	return v, nil
}

func checkType(arg, v any, at string) error {
	names, several := arg.([]any)
	if !several {
		names = []any{arg}
	}
	for _, name := range names {
		if name == typeOf(v) || name == "number" && typeOf(v) == "integer" {
			return nil
		}
	}
	return fmt.Errorf("%s: %v is %s, not %v", at, v, typeOf(v), arg)
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

func checkScalar(keyword string, arg, v any, at string) error {
	text, isText := v.(string)
	n, isNumber := v.(float64)
	failed := fmt.Errorf("%s: %v does not keep %s %v", at, v, keyword, arg)
	switch keyword {
	case "pattern":
		re, err := regexp.Compile(arg.(string))
		if err != nil {
			return err
		}
		if isText && !re.MatchString(text) {
			return failed
		}
	case "format":
		if arg != "date-time" {
			return fmt.Errorf("%s: unknown format %v", at, arg)
		}
		if _, err := time.Parse(time.RFC3339, text); isText && err != nil {
			return failed
		}
	case "minLength":
		if isText && float64(utf8.RuneCountInString(text)) < arg.(float64) {
			return failed
		}
	case "maxLength":
		if isText && float64(utf8.RuneCountInString(text)) > arg.(float64) {
			return failed
		}
	case "minimum":
		if isNumber && n < arg.(float64) {
			return failed
		}
	default:
		return fmt.Errorf("%s: unknown keyword %s", at, keyword)
	}
	return nil
}

func TestSchemas(t *testing.T) {
	parse := func(s string) (v any) {
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return v
	}
	root := parse(`{"defs":{"word":{"type":"string","pattern":"^[a-z]+$"}}}`).(map[string]any)
	for _, tt := range []struct {
		schema, value string
		ok            bool
	}{
		{`{"type":"object"}`, `{}`, true},
		{`{"type":"object"}`, `[]`, false},
		{`{"type":"object"}`, `null`, false},
		{`{"type":["string","null"]}`, `null`, true},
		{`{"type":["string","null"]}`, `1`, false},
		{`{"type":"integer"}`, `1`, true},
		{`{"type":"integer"}`, `1.5`, false},
		{`{"type":"number"}`, `1`, true},
		{`{"properties":{"a":{"type":"string"}}}`, `{"a":1}`, false},
		{`{"properties":{"a":{"type":"string"}}}`, `{}`, true},
		{`{"required":["a"]}`, `{"b":1}`, false},
		{`{"required":["a"]}`, `{"a":null}`, true},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"b":1}`, false},
		{`{"additionalProperties":true}`, `{"b":1}`, false},
		{`{"items":{"type":"integer"}}`, `[1,2]`, true},
		{`{"items":{"type":"integer"}}`, `[1,"2"]`, false},
		{`{"enum":["a",1]}`, `1`, true},
		{`{"enum":["a",1]}`, `2`, false},
		{`{"const":"ok"}`, `"ok"`, true},
		{`{"const":"ok"}`, `"no"`, false},
		{`{"$ref":"#/defs/word"}`, `"abc"`, true},
		{`{"$ref":"#/defs/word"}`, `"ABC"`, false},
		{`{"$ref":"#/defs/none"}`, `"abc"`, false},
		{`{"$ref":"other.json"}`, `"abc"`, false},
		{`{"oneOf":[{"type":"string"},{"type":"integer"}]}`, `1`, true},
		{`{"oneOf":[{"type":"string"}]}`, `1`, false},
		{`{"oneOf":[{"type":"number"},{"type":"integer"}]}`, `1`, false},
		{`{"anyOf":[{"type":"number"},{"type":"integer"}]}`, `1`, true},
		{`{"format":"date-time"}`, `"2026-11-20T09:31:02.123Z"`, true},
		{`{"format":"date-time"}`, `"today"`, false},
		{`{"format":"email"}`, `"a@b"`, false},
		{`{"minimum":1}`, `0`, false},
		{`{"minimum":1}`, `1`, true},
		{`{"minLength":1}`, `""`, false},
		{`{"maxLength":1}`, `"éé"`, false},
		{`{"maxLength":1}`, `"é"`, true},
		{`{"multipleOf":2}`, `4`, false},
		{`{"description":"x"}`, `4`, true},
		{`{"pattern":"("}`, `"x"`, false},
		{`true`, `1`, false},
	} {
		err := schemas{root: root}.check(parse(tt.schema), parse(tt.value), "value")
		if (err == nil) != tt.ok {
			t.Errorf("%s against %s: %v", tt.value, tt.schema, err)
		}
	}
	open := parse(`{"properties":{"a":{"properties":{"b":{}}}}}`)
	for value, exactly := range map[string]bool{`{"a":{"b":1}}`: true, `{"c":1}`: false, `{"a":{"c":1}}`: false} {
		wide, exact := schemas{root: root}.check(open, parse(value), "value"), schemas{root: root, exact: true}.check(open, parse(value), "value")
		if wide != nil || (exact == nil) != exactly {
			t.Errorf("%s: %v, and exactly: %v", value, wide, exact)
		}
	}
}
