package settings

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"berth/app/exit"
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
	s, from, err := settle(func(row setting) []source {
		all := []source{managed[row.key].source(), file[row.key].source(), {getenv(row.env()), row.env(), exit.Config, getenv(row.env()) != ""}}
		if v := f.byKey[row.key]; v != nil {
			all = append(all, source{v.text, "--" + row.flag(), exit.Usage, v.given})
		}
		return all
	})
	if err != nil {
		return s, from, err
	}
	s.Decided = f.decided(getenv)
	// Another data directory than the files say is that of another berth, with keys of its own.
	s.File, s.Keys, s.BackupKey = path, keyFiles(s, "", ""), backupKeyFile(s, "")
	if s.DataDir == cmp.Or(file["data_dir"].value, managed["data_dir"].value, settings[0].value) {
		s.Keys = keyFiles(s, path, cmp.Or(getenv("CREDENTIALS_DIRECTORY"), serviceCredentials))
		s.BackupKey = backupKeyFile(s, path)
	}
	return s, from, nil
}

// decided are those of the panel's settings that a flag or a variable decides: see Settings.Decided.
func (f *Flags) decided(getenv func(string) string) string {
	var all []string
	for _, row := range settings {
		if !row.field(&Settings{}).panel {
			continue
		}
		if v := f.byKey[row.key]; v != nil && v.given {
			all = append(all, row.key+" --"+row.flag()+" "+v.text)
		} else if text := getenv(row.env()); text != "" {
			all = append(all, row.key+" "+row.env()+" "+text)
		}
	}
	return strings.Join(all, "\n")
}

// serviceCredentials is where systemd puts the credentials of the service; a command of the
// host's owner finds them there.
const serviceCredentials = "/run/credentials/berth.service"

// keyFiles are the places of the keys of the secrets, none of them in the data directory: who
// copies that has no key. config is the path of the settings file, and credentials the directory
// of systemd's; "" is none.
func keyFiles(s Settings, config, credentials string) string {
	const name = "berth.key"
	if s.KeyFile != "" {
		return s.KeyFile
	}
	var all []string
	if credentials != "" {
		all = append(all, filepath.Join(credentials, name))
	}
	if info, err := os.Stat(config); config != "" && (err != nil || info.Mode().IsRegular()) {
		all = append(all, filepath.Join(filepath.Dir(ManagedFile(config)), name))
	}
	return strings.Join(append(all, s.DataDir+".key"), "\n")
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
			return exit.NewProblem(exit.Config, fmt.Errorf("cannot install: %s is %q in %s, and --%s says %q", s.key, is.value, is.place(), s.flag(), v.text), "Hint: change it in the file, and install without the flag.")
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
	known := append([]string{"BERTH_CONFIG", "BERTH_URL", "BERTH_TOKEN", "BERTH_ACCOUNT"}, others...)
	for _, s := range settings {
		known = append(known, s.env())
	}
	var all []strange
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "BERTH_") || slices.Contains(known, name) {
			continue
		}
		if meant := exit.Nearest(name, known); meant != "" {
			all = append(all, strange{name, meant})
		}
	}
	return all
}
