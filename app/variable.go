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

// Wishes are system packages that an application asks for. berth installs none.
type Wishes struct {
	Names   []string // groups and packages, each once, as they are remembered
	Lacking []string // the packages of Debian that the host lacks for them
	Unknown bool     // berth does not know what the host has; Lacking is what may be missing
}
