package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

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
	s, _, err := f.Explain(getenv)
	return s, err
}

// Explain is Load, and says where the values come from: it returns a Source for
// each setting that somebody gave another value than the default, in the order of
// the table.
func (f *Flags) Explain(getenv func(string) string) (Settings, []Source, error) {
	path, named := f.File(getenv)
	file, err := readFile(path, named)
	if err != nil {
		return Settings{}, nil, err
	}
	managed, err := readFile(ManagedFile(path), false)
	if err != nil {
		return Settings{}, nil, err
	}
	return settle(func(row setting) []source {
		all := []source{managed[row.key].source(), file[row.key].source(), {getenv(row.env()), row.env(), ExitConfig, getenv(row.env()) != ""}}
		if v := f.byKey[row.key]; v != nil {
			all = append(all, source{v.text, "--" + row.flag(), ExitUsage, v.given})
		}
		return all
	})
}

// Load are the settings of a process without flags.
func Load(getenv func(string) string) (Settings, error) {
	return AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError)).Load(getenv)
}

// Default are the settings of a machine where nobody set any.
func Default() (Settings, error) {
	s, _, err := settle(func(setting) []source { return nil })
	return s, err
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

// Contradicts is an error when a flag says something else than the settings file
// at path, which must be there, and the managed file beside it do.
func (f *Flags) Contradicts(path string) error {
	file, err := readFile(path, true)
	if err != nil {
		return err
	}
	managed, err := readFile(ManagedFile(path), false)
	if err != nil {
		return err
	}
	for _, s := range settings {
		v := f.byKey[s.key]
		if v == nil || !v.given {
			continue
		}
		is, ok := file[s.key]
		if !ok {
			is, ok = managed[s.key]
		}
		if !ok {
			is = written{value: s.value, path: path}
		}
		if !s.same(is.value, v.text) {
			return NewProblem(ExitConfig, fmt.Errorf("cannot install: %s is %q in %s, and --%s says %q", s.key, is.value, is.place(), s.flag(), v.text), "Hint: change it in the file, and install without the flag.")
		}
	}
	return nil
}

// NewFile is the settings file of a machine that has none. A setting whose flag was
// not given stands in it as a comment, so that the managed file may set it.
func (f *Flags) NewFile() string {
	var b strings.Builder
	b.WriteString("# Settings of berth. berth serve --help tells of each; the service reads them when it starts.\n")
	for _, s := range settings {
		v := f.byKey[s.key]
		switch {
		case v == nil:
		case v.given:
			fmt.Fprintf(&b, "%s = %s\n", s.key, literal(v.text))
		default:
			fmt.Fprintf(&b, "# %s = %s\n", s.key, literal(s.value))
		}
	}
	return b.String()
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
