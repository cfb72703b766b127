package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"berth/app/exit"
)

// written is a value in a settings file.
type written struct {
	value string // as text
	path  string // of the file; "" when the file has no such value
	line  int    // 0 when it is written in a way that only a full parser sees through
}

// place is where the value is.
func (w written) place() string {
	if w.line == 0 {
		return w.path
	}
	return fmt.Sprintf("%s line %d", w.path, w.line)
}

func (w written) source() source { return source{w.value, w.place(), exit.Config, w.path != ""} }

// readFile returns the values in a file by key. A file that nobody named may be
// missing.
func readFile(path string, named bool) (map[string]written, error) {
	content, err := os.ReadFile(path)
	switch {
	case !named && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, exit.NewProblem(exit.Permission, fmt.Errorf("cannot read the configuration: %w", err), "Hint: run the command as root, or name another file with --config.")
	case err != nil:
		return nil, wrong("cannot read the configuration: %w", err)
	}
	return parseFile(path, string(content))
}

// parseFile returns the values in the content of the file at path.
func parseFile(path, content string) (map[string]written, error) {
	var tree map[string]any
	meta, err := toml.Decode(content, &tree)
	if broken, ok := errors.AsType[toml.ParseError](err); ok {
		if key, value := unquoted(content, broken.Position.Line); key != "" {
			return nil, wrong("%s line %d: the value of %s needs quotes: %[3]s = %s", path, broken.Position.Line, key, literal(value))
		}
		return nil, wrong("%s line %d is not TOML: %s", path, broken.Position.Line, cmp.Or(broken.Message, broken.Error()))
	}
	if err != nil {
		return nil, wrong("cannot read %s: %w", path, err)
	}
	values := map[string]written{}
	for _, key := range meta.Keys() { // in the order of the file, so that its first mistake is told
		if err := readKey(values, tree, key, path, content); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// bare is a line whose value begins with no quote, without its comment. No setting
// is a list or a table, so that such a value can only be a word that lacks quotes.
var bare = regexp.MustCompile(`^\s*([A-Za-z0-9_.]+)\s*=\s*([^"'\s#][^"'#]*?)\s*(?:#.*)?$`)

// unquoted returns the key and the value of a line whose value lacks quotes, or "".
func unquoted(content string, line int) (key, value string) {
	lines := strings.Split(content, "\n")
	if line < 1 || line > len(lines) {
		return "", ""
	}
	found := bare.FindStringSubmatch(lines[line-1])
	if found == nil || literal(found[2]) == found[2] { // the mistake is another one
		return "", ""
	}
	return found[1], found[2]
}

// readKey puts the value of one key into values, or says why it cannot.
func readKey(values map[string]written, tree map[string]any, key toml.Key, path, content string) error {
	name := strings.Join(key, ".")
	at := slices.IndexFunc(settings, func(s setting) bool { return s.key == name })
	section := slices.ContainsFunc(settings, func(s setting) bool { return strings.HasPrefix(s.key, name+".") })
	var value any = tree
	for _, part := range key {
		table, ok := value.(map[string]any)
		if !ok { // inside an array of tables; the array itself was refused
			return nil
		}
		value = table[part]
	}
	found := written{path: path, line: lineOf(content, name)}
	table, isTable := value.(map[string]any)
	switch {
	case isTable && (section || at < 0 && len(table) > 0):
		return nil // its keys come next
	case at < 0:
		return wrong("unknown key %q in %s%s", name, found.place(), exit.DidYouMean(name, keysAndSections(), "%q"))
	}
	switch value.(type) {
	case string, int64, float64, bool:
		found.value = fmt.Sprint(value)
		values[name] = found
		return nil
	}
	expected := settings[at].field(&Settings{}).expects
	return wrong("bad value for %s in %s: expected %s", name, found.place(), expected)
}

// keysAndSections returns every name that may stand in a file.
func keysAndSections() []string {
	var all []string
	for _, s := range settings {
		all = append(all, s.key)
		if section, _, dotted := strings.Cut(s.key, "."); dotted {
			all = append(all, section)
		}
	}
	return all
}

// lineOf returns the line that sets a key, 0 when it is written in a way that
// only a full parser sees through.
func lineOf(content, key string) int {
	clean := strings.NewReplacer(" ", "", "\t", "", `"`, "", "'", "").Replace
	section := ""
	for i, line := range strings.Split(content, "\n") {
		line = clean(line)
		if name, found := strings.CutPrefix(line, "["); found {
			name, _, _ = strings.Cut(strings.Trim(name, "["), "]")
			if name == key {
				return i + 1
			}
			section = name + "."
			continue
		}
		if name, _, found := strings.Cut(line, "="); found && section+name == key {
			return i + 1
		}
	}
	return 0
}

var plainValue = regexp.MustCompile(`^(true|false|(0|[1-9][0-9]{0,15})(\.[0-9]+)?)$`)

// literal is a value as it stands in a file.
func literal(text string) string {
	if plainValue.MatchString(text) {
		return text
	}
	line, err := toml.Marshal(map[string]string{"x": text})
	if err != nil { // it encodes every string
		panic(err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(line), "x = "), "\n")
}

// Example is a settings file with every setting as a comment that has its default.
func Example() string {
	var b strings.Builder
	b.WriteString("# Every setting of berth with its default. berth reads " + DefaultFile + ", and before it what berth\n" +
		"# writes itself, berth.d/managed.toml beside it. To change a setting, put its line into " + DefaultFile + "\n" +
		"# without the \"# \", below the line with its [section]; then run: systemctl restart berth\n" +
		"# \"berth check\" says where each value comes from.\n")
	eachSection(func(section string, rows []setting) {
		if section != "" {
			fmt.Fprintf(&b, "\n[%s]\n", section)
		}
		for _, s := range rows {
			fmt.Fprintf(&b, "\n# %s\n# %s = %s\n", s.plainHelp(), s.name(), literal(s.value))
		}
	})
	return b.String()
}

// eachSection calls visit for the settings of each section of a file, those that are
// in none first.
func eachSection(visit func(section string, rows []setting)) {
	of := map[string][]setting{}
	var names []string
	for _, s := range settings {
		section := s.section()
		if of[section] == nil {
			names = append(names, section)
		}
		of[section] = append(of[section], s)
	}
	slices.Sort(names)
	for _, name := range names {
		visit(name, of[name])
	}
}
