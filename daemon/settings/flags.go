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
	"github.com/spf13/pflag"
)

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

// Flags are the flags of some settings, and --config.
type Flags struct {
	config   Value
	byKey    map[string]*Value
	Fallback string // the file that is read when nobody names one
}

// AddFlags adds --config and the flag of each setting to set, or of
// those named only.
func AddFlags(set *pflag.FlagSet, only ...string) *Flags {
	later := func(string) bool { return true } // it is read when its turn among the other sources has come
	f := &Flags{byKey: map[string]*Value{}, Fallback: DefaultFile, config: Value{kind: kind{set: later}, text: DefaultFile}}
	var none Settings // nothing is set in it
	for _, s := range settings {
		if len(only) > 0 && !slices.Contains(only, s.key) {
			continue
		}
		toggle := s.field(&none).toggle
		f.byKey[s.key] = &Value{kind: kind{set: later, toggle: toggle}, text: s.value}
		added := set.VarPF(f.byKey[s.key], s.flag(), "", s.help)
		if toggle {
			added.NoOptDefVal = "true"
		}
	}
	set.Var(&f.config, "config", "settings `FILE`")
	return f
}

// Load puts all roads together. It fails with a problem whose exit code tells
// a flag from the rest.
func (f *Flags) Load(getenv func(string) string) (Settings, error) {
	path, named := f.File(getenv)
	file, err := ReadFile(path, named)
	if err != nil {
		return Settings{}, err
	}
	var s Settings
	for _, row := range settings {
		if err := row.apply(&s, row.value, "the default", ExitConfig); err != nil {
			return Settings{}, err
		}
		if v, ok := file[row.key]; ok {
			if err := row.apply(&s, v, path, ExitConfig); err != nil {
				return Settings{}, err
			}
		}
		if v := getenv(row.env()); v != "" {
			if err := row.apply(&s, v, row.env(), ExitConfig); err != nil {
				return Settings{}, err
			}
		}
		if v := f.byKey[row.key]; v != nil && v.given {
			if err := row.apply(&s, v.text, "--"+row.flag(), ExitUsage); err != nil {
				return Settings{}, err
			}
		}
	}
	return s, s.check()
}

// Load are the settings of a process without flags.
func Load(getenv func(string) string) (Settings, error) {
	return AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError)).Load(getenv)
}

// Named reports whether the flag --config was given.
func (f *Flags) Named() bool { return f.config.given }

// File is the path of the settings file, and whether somebody named it.
func (f *Flags) File(getenv func(string) string) (path string, named bool) {
	if f.config.given {
		return f.config.text, true
	}
	path = getenv("BERTH_CONFIG")
	return cmp.Or(path, f.Fallback), path != ""
}

// Contradicts is an error when a flag says something else than a file does, as
// ReadFile returned it.
func (f *Flags) Contradicts(file map[string]string, path string) error {
	for _, s := range settings {
		v := f.byKey[s.key]
		if v == nil || !v.given {
			continue
		}
		is, ok := file[s.key]
		if !ok {
			is = s.value
		}
		if is != v.text {
			return NewProblem(ExitConfig, fmt.Errorf("cannot install: %s is %q in %s, and --%s says %q", s.key, is, path, s.flag(), v.text), "Hint: change it in the file, and install without the flag.")
		}
	}
	return nil
}

// NewFile is the settings file of a machine that has none.
func (f *Flags) NewFile() string {
	var b strings.Builder
	b.WriteString("# Settings of berth. berth serve --help tells of each; the service reads them when it starts.\n")
	for _, s := range settings {
		if v := f.byKey[s.key]; v != nil {
			value := s.value
			if v.given {
				value = v.text
			}
			fmt.Fprintf(&b, "%s = %q\n", s.key, value)
		}
	}
	return b.String()
}

// apply sets the field of a setting; source says where the value was written.
func (s setting) apply(to *Settings, value, source string, code int) error {
	k := s.field(to)
	if k.set(value) {
		return nil
	}
	return NewProblem(code, fmt.Errorf("bad value %q for %s in %s: expected %s", value, s.key, source, k.expects), "")
}

// ReadFile returns the values in a file by key, as text. A file that nobody
// named may be missing.
func ReadFile(path string, named bool) (map[string]string, error) {
	content, err := os.ReadFile(path)
	switch {
	case !named && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, NewProblem(ExitPermission, fmt.Errorf("cannot read the configuration: %w", err), "Hint: run the command as root, or name another file with --config.")
	case err != nil:
		return nil, wrong("cannot read the configuration: %w", err)
	}
	var tree map[string]any
	meta, err := toml.Decode(string(content), &tree)
	if broken, ok := errors.AsType[toml.ParseError](err); ok {
		return nil, wrong("%s line %d is not TOML: %s", path, broken.Position.Line, cmp.Or(broken.Message, broken.Error()))
	}
	if err != nil {
		return nil, wrong("cannot read %s: %w", path, err)
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
		return wrong("unknown key %q in %s%s", name, where, DidYouMean(name, keysAndSections(), "%q"))
	}
	switch value.(type) {
	case string, int64, float64, bool:
		values[name] = fmt.Sprint(value)
		return nil
	}
	expected := settings[at].field(&Settings{}).expects
	return wrong("bad value for %s in %s: expected %s", name, where, expected)
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

// strange is an environment variable that is no setting.
type strange struct {
	Name, Meant string // and the setting that was probably meant
}

// StrangeVariables returns those of the environment that look like a mistyped
// setting. They are no error: programs that start berth have variables of
// their own. Others are what berth reads besides.
func StrangeVariables(environ []string, others ...string) []strange {
	known := append([]string{"BERTH_CONFIG"}, others...)
	for _, s := range settings {
		known = append(known, s.env())
	}
	var all []strange
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "BERTH_") || slices.Contains(known, name) {
			continue
		}
		if meant := nearest(name, known); meant != "" {
			all = append(all, strange{name, meant})
		}
	}
	return all
}

// nearest returns the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	best, least := "", len(name)/2+1 // further away is no likely slip
	for _, c := range candidates {
		d := distance(name, c)
		if strings.HasSuffix(c, "."+name) || strings.HasSuffix(c, "-"+name) || strings.HasSuffix(c, " "+name) {
			d = 1 // only the section was forgotten
		}
		if d < least {
			best, least = c, d
		}
	}
	return best
}

// DidYouMean completes an error about a name that is unknown; format is how the
// better name is written.
func DidYouMean(name string, candidates []string, format string) string {
	if c := nearest(name, candidates); c != "" {
		return fmt.Sprintf("; did you mean "+format+"?", c)
	}
	return ""
}

// distance counts the characters to insert, drop, replace or swap with their
// neighbour to make b of a.
func distance(a, b string) int {
	var before []int // two rows up
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			replace := row[j]
			if a[i] != b[j] {
				replace++
			}
			next[j+1] = min(replace, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
