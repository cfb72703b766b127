package text

import (
	_ "embed" // for the catalogues
	"fmt"
	"strconv"
	"strings"
	"sync"
)

const english = "en-US" // of the keys

//go:embed pt-BR.txt
var portuguese string

//go:embed es.txt
var spanish string

// catalogues are those of all languages but English, which needs none. Rules of
// plurals, numbers and dates in text.go hold for these.
var catalogues = []*catalogue{newCatalogue("pt-BR", portuguese), newCatalogue("es", spanish)}

// catalogue is one language. It is read when it is first asked, for most hosts
// speak English alone.
type catalogue struct {
	tag  string
	read func() map[string]string // from the English
}

func newCatalogue(tag, file string) *catalogue {
	return &catalogue{tag, sync.OnceValue(func() map[string]string {
		entries, err := parse(file)
		if err != nil {
			panic("text: " + tag + err.Error()) // a mistake in this package, which its tests find
		}
		return entries
	})}
}

// translated returns the format in the catalogue's language.
func (c *catalogue) translated(format string) string {
	if own, ok := c.read()[format]; ok {
		return own
	}
	return format
}

// parse reads the file of a catalogue. It refuses whatever a line has besides an
// entry, and an entry that is not after the one before it.
func parse(file string) (map[string]string, error) {
	entries, last := map[string]string{}, ""
	n := 0
	for line := range strings.Lines(file) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, own, err := entry(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf(", line %d: %w", n, err)
		case key <= last:
			return nil, fmt.Errorf(", line %d: %q must come before %q, or is there twice", n, key, last)
		case own == "":
			return nil, fmt.Errorf(", line %d: %q says nothing", n, key)
		}
		entries[key], last = own, key
	}
	return entries, nil
}

// entry reads one line: "English" = "the other language".
func entry(line string) (key, own string, err error) {
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		return "", "", fmt.Errorf("no quoted sentence: %w", err)
	}
	rest, ok := strings.CutPrefix(line[len(quoted):], " = ")
	if !ok {
		return "", "", fmt.Errorf("no \" = \" after %s", quoted)
	}
	if key, err = strconv.Unquote(quoted); err == nil {
		own, err = strconv.Unquote(rest)
	}
	if err != nil {
		return "", "", fmt.Errorf("no quoted translation of %s: %w", quoted, err)
	}
	return key, own, nil
}
