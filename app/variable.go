package app

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Variable is an environment variable that an owner set for an application.
// Its value is a secret: printed by any of fmt's verbs for values, encoded or
// logged, a Variable shows only what Masked does.
type Variable struct{ Name, Value string }

// VariablesFile is where a backup holds the variables, for whoever asks for
// them. No upload unpacks a file of this name, at the top or further down, and
// no backup takes one from the application's files.
const VariablesFile = ".berth/env"

const (
	// mask stands for what is not shown of a value.
	mask = "****"
	// shown is how many characters of a long value are, and longValue how many
	// make a value long: of a short one even the end would help to guess it.
	shown     = 4
	longValue = 20
)

// Masked is the value as it may be shown: "****", and of a value of twenty
// characters or more the last four as well, if all of them are visible.
func (v Variable) Masked() string {
	if utf8.RuneCountInString(v.Value) < longValue {
		return mask
	}
	end := len(v.Value)
	for range shown {
		_, size := utf8.DecodeLastRuneInString(v.Value[:end])
		end -= size
	}
	tail := v.Value[end:]
	if strings.ContainsFunc(tail, func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }) {
		return mask
	}
	return mask + tail
}

// String returns NAME=VALUE with the masked value.
func (v Variable) String() string { return v.Name + "=" + v.Masked() }

// GoString is String, for %#v.
func (v Variable) GoString() string { return v.String() }

// MarshalText is String, for encoders and logs.
func (v Variable) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// ParseEnv reads lines of NAME=VALUE as .env files have them: empty lines, lines that begin with #,
// "export " before a name, and quotes around a value. A # behind a space begins a comment, but not
// between quotes. A value between quotes may have several lines. Double quotes know \n, \r, \", \$, \`
// and \\. ParseEnv expands nothing. It fails with Invalid on any other line, on a name that comes twice,
// and on a text without variables. No error repeats a value.
func ParseEnv(text string) (map[string]*string, error) {
	change := map[string]*string{}
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	for n := 1; text != ""; {
		line, rest, _ := strings.Cut(text, "\n")
		first, trimmed := n, strings.TrimSpace(line)
		text, n = rest, n+1
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		before, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, Errorf(Invalid, "line %d is not NAME=VALUE", first)
		}
		name := strings.TrimSpace(before)
		if word, exported, is := strings.Cut(name, " "); is && word == "export" {
			name = strings.TrimSpace(exported)
		}
		if change[name] != nil {
			return nil, Errorf(Invalid, "line %d sets a variable for the second time", first)
		}
		if quoted := strings.TrimLeft(value, " \t"); quoted != "" && strings.Contains(`"'`, quoted[:1]) {
			whole := quoted + "\n" + rest
			end := closing(whole)
			if end < 0 {
				return nil, Errorf(Invalid, "the quotes in line %d do not close", first)
			}
			note, after, _ := strings.Cut(whole[end+1:], "\n")
			if note = strings.TrimSpace(note); note != "" && note[0] != '#' {
				return nil, Errorf(Invalid, "line %d has more than a comment behind the quotes", first+strings.Count(whole[:end], "\n"))
			}
			text, n = after, first+strings.Count(whole[:end], "\n")+1
			if value = whole[1:end]; whole[0] == '"' {
				value = unescape.Replace(value)
			}
		} else {
			value = strings.TrimSpace(uncommented(value))
		}
		change[name] = &value
	}
	if len(change) == 0 {
		return nil, Errorf(Invalid, "there is no line with NAME=VALUE")
	}
	return change, nil
}

// closing returns where the quote closes that s begins with, -1 where it does not. A backslash
// keeps a double one open.
func closing(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return i
		case s[i] == '\\' && s[0] == '"':
			i++
		}
	}
	return -1
}

// uncommented returns a value without quotes around it up to its comment. What it has between
// quotes, as JSON does, is no comment; an apostrophe within a word is no quote.
func uncommented(value string) string {
	before := '='
	for i := 0; i < len(value); i++ {
		c := rune(value[i])
		switch {
		case c == '#' && (before == ' ' || before == '\t'):
			return value[:i]
		case (c == '"' || c == '\'') && !unicode.IsLetter(before) && !unicode.IsDigit(before):
			i += max(closing(value[i:]), 0)
		}
		before = c
	}
	return value
}

var (
	escape   = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "$", `\$`, "`", "\\`")
	unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\r`, "\r", `\$`, "$", "\\`", "`")
)

// FormatEnv writes variables as ParseEnv reads them: one NAME='value' a line, a value with a
// quote or an end of line as NAME="value". Shells and other readers of .env files take the
// first form as it is meant, and run nothing of the second: it has no $ and no backquote that is
// not escaped.
func FormatEnv(all []Variable) string {
	var b strings.Builder
	for _, v := range all {
		if strings.ContainsAny(v.Value, "'\n\r") {
			b.WriteString(v.Name + `="` + escape.Replace(v.Value) + "\"\n")
			continue
		}
		b.WriteString(v.Name + "='" + v.Value + "'\n")
	}
	return b.String()
}

// Wishes are system packages that an application asks for. berth installs none.
type Wishes struct {
	Names   []string // groups and packages, each once, as they are remembered
	Lacking []string // the packages of Debian that the host lacks for them
	Unknown bool     // berth does not know what the host has; Lacking is what may be missing
}
