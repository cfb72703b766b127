package settings

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app/exit"
)

// ManagedFile is the path of the file that berth writes itself, for the settings
// file at path. Its values are weaker than those of the settings file.
func ManagedFile(path string) string {
	return filepath.Join(filepath.Dir(path), "berth.d", "managed.toml")
}

const managedHead = "# berth writes this file (berth setup and the panel). Your own settings belong into\n" +
	"# %s, which wins over this file. Comments here get lost.\n"

// Manage sets settings in the managed file of the settings file at path, by their
// keys and as text, and takes the keys of unset out of it. The other keys of the file
// stay. It reports whether the file changed; the daemon reads it at its next start.
//
// Manage writes everything or nothing. It refuses an unknown key, a value that no
// daemon could start with, and a value that the settings file overrides. Two calls at
// the same time wait for each other.
func Manage(path string, set map[string]string, unset ...string) (changed bool, err error) {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		at := slices.IndexFunc(settings, func(s setting) bool { return s.key == key })
		if at < 0 {
			return false, wrong("cannot set %q: there is no such setting%s", key, exit.DidYouMean(key, keysAndSections(), "%q"))
		}
		var s Settings
		if k := settings[at].field(&s); !k.set(set[key]) {
			return false, wrong("cannot set %s to %q: expected %s", key, set[key], k.expects)
		}
	}
	if err := Manageable(path, set); err != nil {
		return false, err
	}
	file, err := readFile(path, false)
	if err != nil {
		return false, err
	}
	managed := ManagedFile(path)
	unlock, err := lockManaged(filepath.Dir(managed))
	if err != nil {
		return false, fmt.Errorf("cannot write the settings: %w", err)
	}
	defer unlock()
	now, err := readFile(managed, false)
	if err != nil {
		return false, err
	}
	next := maps.Clone(now)
	if next == nil {
		next = map[string]written{}
	}
	for _, key := range unset {
		delete(next, key)
	}
	for key, value := range set {
		next[key] = written{value: value, path: managed}
	}
	_, _, err = settle(func(row setting) []source { return []source{next[row.key].source(), file[row.key].source()} })
	if err != nil {
		return false, fmt.Errorf("cannot write the settings: %w", err)
	}
	return replaceManaged(managed, managedText(path, next))
}

// Managed returns what the managed file of the settings file at path sets, by key and as text.
func Managed(path string) (map[string]string, error) {
	file, err := readFile(ManagedFile(path), false)
	all := map[string]string{}
	for key, value := range file {
		all[key] = value.value
	}
	return all, err
}

// Manageable is the error with which Manage would refuse values that the settings file at path overrides.
func Manageable(path string, set map[string]string) error {
	file, err := readFile(path, false)
	if err != nil {
		return err
	}
	return overridden(file, set)
}

// overridden refuses values that the settings file overrides.
func overridden(file map[string]written, set map[string]string) error {
	for _, row := range settings {
		value, ok := set[row.key]
		if is := file[row.key]; ok && is.path != "" && !row.same(is.value, value) {
			return exit.NewProblem(exit.Config, fmt.Errorf("cannot set %s to %q: %s says %q, and that file wins", row.key, value, is.place(), is.value),
				"Hint: remove the line from "+is.path+", or change it there.")
		}
	}
	return nil
}

// managedText is the content of the managed file of the settings file at path.
func managedText(path string, values map[string]written) string {
	var b strings.Builder
	fmt.Fprintf(&b, managedHead, path)
	eachSection(func(section string, rows []setting) {
		rows = slices.DeleteFunc(rows, func(s setting) bool { return values[s.key].path == "" })
		if section != "" && len(rows) > 0 {
			fmt.Fprintf(&b, "\n[%s]\n", section)
		}
		for _, s := range rows {
			fmt.Fprintf(&b, "%s = %s\n", s.name(), literal(values[s.key].value))
		}
	})
	return b.String()
}

// lockManaged makes the directory of the managed file and keeps other writers off
// until unlock is called.
func lockManaged(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	err = os.Mkdir(dir, 0o755)
	if err == nil {
		err = os.Chmod(dir, 0o755) // whatever the umask is
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return func() { _ = d.Close() }, nil // which also unlocks
}

// replaceManaged puts text in the place of a file at once, unless it is there.
func replaceManaged(path, text string) (changed bool, err error) {
	if is, err := os.ReadFile(path); err == nil && string(is) == text {
		return false, nil
	}
	temp := path + ".new" // the next call replaces what a crash leaves
	err = writeDurably(temp, text)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(temp) // it may be there
		return false, fmt.Errorf("cannot write the settings: %w", err)
	}
	return true, nil
}

// writeDurably writes a file and waits until it is on the disk.
func writeDurably(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
}

// syncDir waits until a rename in a directory is on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
