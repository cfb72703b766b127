package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// ReadFile returns the values in a file by key, as text. A file that nobody
// named may be missing.
func ReadFile(path string, named bool) (map[string]string, error) {
	content, err := os.ReadFile(path)
	switch {
	case !named && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, &Problem{Code: ExitPermission, Err: fmt.Errorf("cannot read the configuration: %w", err), Hint: "Hint: run the command as root, or name another file with --config."}
	case err != nil:
		return nil, &Problem{Code: ExitConfig, Err: fmt.Errorf("cannot read the configuration: %w", err)}
	}
	var tree map[string]any
	meta, err := toml.Decode(string(content), &tree)
	if broken, ok := errors.AsType[toml.ParseError](err); ok {
		return nil, &Problem{Code: ExitConfig, Err: fmt.Errorf("%s line %d is not TOML: %s", path, broken.Position.Line, cmp.Or(broken.Message, broken.Error()))}
	}
	if err != nil {
		return nil, &Problem{Code: ExitConfig, Err: fmt.Errorf("cannot read %s: %w", path, err)}
	}
	values := map[string]string{}
	for _, key := range meta.Keys() { // in the order of the file, so that its first mistake is told
		if err := readKey(values, tree, key, path, string(content)); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// readKey puts the value of one key into values, or says why it cannot.
func readKey(values map[string]string, tree map[string]any, key toml.Key, path, content string) error {
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
	where := path
	if line := lineOf(content, name); line > 0 {
		where = fmt.Sprintf("%s line %d", path, line)
	}
	table, isTable := value.(map[string]any)
	switch {
	case isTable && (section || at < 0 && len(table) > 0):
		return nil // its keys come next
	case at < 0:
		return &Problem{Code: ExitConfig, Err: fmt.Errorf("unknown key %q in %s%s", name, where, DidYouMean(name, keysAndSections(), "%q"))}
	}
	switch value.(type) {
	case string, int64, float64, bool:
		values[name] = fmt.Sprint(value)
		return nil
	}
	expected := settings[at].field(&Settings{}).expects()
	return &Problem{Code: ExitConfig, Err: fmt.Errorf("bad value for %s in %s: expected %s", name, where, expected)}
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
