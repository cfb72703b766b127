package settings

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"berth/app"
	"berth/app/exit"
)

// ForPanel returns the settings that an administrator may change in the panel, in the order of the table, as the files
// say now. s are those with which the daemon runs.
func (s Settings) ForPanel() ([]app.HostSetting, error) {
	file, err := readFile(s.File, false)
	if err != nil {
		return nil, err
	}
	managed, err := readFile(ManagedFile(s.File), false)
	if err != nil {
		return nil, err
	}
	var all []app.HostSetting
	for _, row := range settings {
		k := row.field(&Settings{})
		if !k.panel {
			continue
		}
		h := app.HostSetting{
			Key: row.key, Section: row.section(), Default: row.value, Help: row.plainHelp(), Expects: k.expects, Words: k.words, Toggle: k.toggle,
			Value: cmp.Or(file[row.key].value, managed[row.key].value, row.value),
		}
		if from, value := s.decides(row.key); from != "" {
			h.Fixed, h.Value = from, value
		}
		if is := file[row.key]; h.Fixed == "" && is.path != "" {
			h.Fixed = is.place()
		}
		next := s
		h.Waits = h.Fixed == "" && row.field(&next).set(h.Value) && next != s
		all = append(all, h)
	}
	return all, nil
}

// decides says what decides a setting, if it is no file: a flag, or a variable; and its value.
func (s Settings) decides(key string) (from, value string) {
	for line := range strings.SplitSeq(s.Decided, "\n") {
		if is, ok := strings.CutPrefix(line, key+" "); ok {
			from, value, _ = strings.Cut(is, " ")
			break
		}
	}
	return from, value
}

// SetForPanel sets settings of ForPanel in the managed file, by their keys and as text, and returns those that changed, with the value of
// before in Default. A value that is the default is taken out of the file. It is everything or nothing: Forbidden for a setting that
// the panel may not change or that something else decides, Invalid for a bad value.
func (s Settings) SetForPanel(values map[string]string) (changed []app.HostSetting, err error) {
	all, err := s.ForPanel()
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	var unset []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := slices.IndexFunc(all, func(h app.HostSetting) bool { return h.Key == key })
		if at < 0 {
			return nil, app.Errorf(app.Forbidden, "the panel does not change %s", key)
		}
		is, value := all[at], strings.TrimSpace(values[key])
		row := settings[slices.IndexFunc(settings, func(r setting) bool { return r.key == key })]
		switch {
		case row.same(is.Value, value):
			continue
		case is.Fixed != "":
			return nil, app.Errorf(app.Forbidden, "%s is decided by %s", key, filepath.Base(is.Fixed))
		case !row.field(&Settings{}).set(value):
			return nil, app.Errorf(app.Invalid, "bad value %q for %s: expected %s", value, key, is.Expects)
		case row.same(value, row.value):
			unset = append(unset, key)
		default:
			set[key] = value
		}
		changed = append(changed, app.HostSetting{Key: key, Value: value, Default: is.Value})
	}
	if len(changed) == 0 {
		return nil, nil
	}
	_, err = Manage(s.File, set, unset...)
	if problem, ok := errors.AsType[*exit.Problem](err); ok {
		return nil, app.Errorf(app.Invalid, "the settings cannot be stored: %v", problem)
	}
	return changed, err
}
