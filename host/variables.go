package host

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/app"
)

// Bounds of what owners may put into an environment: execve(2) takes 128 KB
// for one string, and for all of them with the arguments a quarter of the
// stack's limit, 2 MB mostly.
const (
	maxVariables     = 128
	maxVariableName  = 64       // characters
	maxVariableValue = 16 << 10 // bytes
	maxEnvironment   = 64 << 10 // bytes of names and values together
)

// reserved are what berth sets for a program about its place, and what it relies
// on itself. Others are the owner's to change, LD_PRELOAD and PATH too: berth
// starts programs by their path, as a user without privileges, and whatever
// these do, the program could do to itself.
var reserved = []string{"HOME", "PORT", "TMPDIR"}

const reservedPrefix = "BERTH_"

// ChangeVariables changes the variables of an application, by name: a nil value
// removes one, if there is one of that name. It fails with app.Invalid for a
// name or a value that cannot be, and with app.Exhausted when there would be
// too many or too much of them; no error holds a value.
func ChangeVariables(set map[string]string, change map[string]*string) error {
	if len(change) == 0 {
		return app.Errorf(app.Invalid, "name at least one variable")
	}
	grows := false
	for _, name := range slices.Sorted(maps.Keys(change)) {
		value := change[name]
		if err := checkVariable(name, value); err != nil {
			return err
		}
		if value == nil {
			delete(set, name)
			continue
		}
		set[name], grows = *value, true
	}
	if !grows {
		return nil
	}
	if n := len(set); n > maxVariables {
		return app.Errorf(app.Exhausted, "an application may have %d variables, and this one would have %d", maxVariables, n)
	}
	total := 0
	for name, value := range set {
		total += len(name) + len(value) + len("=\x00")
	}
	if total > maxEnvironment {
		return app.Errorf(app.Exhausted, "the variables of an application may take %d KB together, and these would take %d bytes more", maxEnvironment>>10, total-maxEnvironment)
	}
	return nil
}

// RemoveVariables removes those with these names, or fails with app.NotFound
// when one is not there.
func RemoveVariables(set map[string]string, names ...string) error {
	for _, name := range names {
		if _, there := set[name]; !there {
			return app.Errorf(app.NotFound, "there is no variable %s", display(name))
		}
		delete(set, name)
	}
	return nil
}

func checkVariable(name string, value *string) error {
	switch {
	case !validVariable(name):
		return app.Errorf(app.Invalid, "%s cannot be the name of a variable: letters, digits and _, no digit at its beginning, at most %d characters", display(name), maxVariableName)
	case slices.Contains(reserved, name):
		return app.Errorf(app.Invalid, "%s is set by berth, to what is true for the program: it cannot be changed", name)
	case strings.HasPrefix(name, reservedPrefix):
		return app.Errorf(app.Invalid, "%s cannot be changed: names that begin with %s are berth's own", name, reservedPrefix)
	case value == nil:
		return nil
	case !utf8.ValidString(*value) || strings.Contains(*value, "\x00"):
		return app.Errorf(app.Invalid, "the value of %s is not text: it must be UTF-8 without NUL", name)
	case len(*value) > maxVariableValue:
		return app.Errorf(app.Invalid, "the value of %s is longer than %d KB", name, maxVariableValue>>10)
	}
	return nil
}

func validVariable(name string) bool {
	if name == "" || len(name) > maxVariableName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// display is a name that may be none: what follows a "=" in it was meant to be
// a value.
func display(name string) string {
	name, _, _ = strings.Cut(name, "=")
	if len(name) > maxVariableName {
		name = strings.ToValidUTF8(name[:maxVariableName], "") + "..."
	}
	return strconv.Quote(name)
}
