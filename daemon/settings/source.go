package settings

import (
	"errors"
	"fmt"
	"strings"

	"berth/app/exit"
)

// Source says where the value of a setting comes from.
type Source struct {
	Key   string `json:"key"`
	Value string `json:"value"` // as it is written there
	From  string `json:"from"`  // "FILE line N", a variable or "--flag"

	// Over are the values that this one overrides, the strongest first.
	Over []Source `json:"over,omitempty"`
}

// String is the sentence for a person.
func (s Source) String() string {
	text := fmt.Sprintf("%s is %q, from %s", s.Key, s.Value, s.From)
	for i, o := range s.Over {
		text += fmt.Sprintf("%s %q from %s", map[bool]string{true: " instead of", false: " and"}[i == 0], o.Value, o.From)
	}
	return text
}

// source is a value that may be given for a setting.
type source struct {
	text  string
	from  string // what Source.From is
	code  int    // the exit code when it is bad
	given bool
}

// settle makes settings of what of returns for each of them, the weakest first, and
// compares them with each other.
func settle(of func(row setting) []source) (Settings, []Source, error) {
	var s Settings
	var all []Source
	from := map[string]string{}
	for _, row := range settings {
		if err := row.apply(&s, row.value, "the default", exit.Config); err != nil {
			return Settings{}, nil, err
		}
		var now Source
		other := false // than the default
		for _, v := range of(row) {
			if !v.given {
				continue
			}
			if err := row.apply(&s, v.text, v.from, v.code); err != nil {
				return Settings{}, nil, err
			}
			over := now.Over
			if now.From != "" {
				over = append([]Source{{Key: row.key, Value: now.Value, From: now.From}}, over...)
			}
			now = Source{row.key, v.text, v.from, over}
			from[row.key] = v.from
			other = other || !row.same(v.text, row.value)
		}
		if other {
			all = append(all, now)
		}
	}
	err := s.check()
	if c, ok := errors.AsType[*conflict](err); ok {
		err = wrong("%w%s", c, c.origins(from))
	}
	return s, all, err
}

// conflict is an error about settings that do not go together.
type conflict struct{ text string }

// clash returns a conflict. Its text names the keys of the settings that it is about.
func clash(format string, args ...any) error { return &conflict{fmt.Sprintf(format, args...)} }

// Error implements error.
func (c *conflict) Error() string { return c.text }

// origins says where the settings of a conflict come from, but for the defaults.
func (c *conflict) origins(from map[string]string) string {
	var all []string
	for _, word := range strings.FieldsFunc(c.text, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz_.", r) }) {
		if from[word] != "" {
			all = append(all, word+" is from "+from[word])
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

// wrong is a problem of the settings.
func wrong(format string, args ...any) error {
	return exit.NewProblem(exit.Config, fmt.Errorf(format, args...), "")
}
