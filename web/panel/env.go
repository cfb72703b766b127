package panel

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"berth/app"
)

// maxBlock bounds the form of a pasted block of variables, in bytes.
const maxBlock = 512 << 10

// envPages are the environment variables of an application.
type envPages struct{ settings app.Settings }

// envPage is the data of env.html.
type envPage struct {
	Variables []app.Variable
	Shown     string // the one whose value is shown
	Value     string // its value; each other is masked
}

// show lists the variables of an application, masked.
func (p envPages) show(c *call) (answer, error) {
	all, err := p.settings.Variables(c.ctx(), c.owner, c.app.ID)
	return show("env", envPage{Variables: all}), err
}

// reveal shows one value on the page that it answers with, and nowhere else.
func (p envPages) reveal(c *call, f url.Values) (answer, error) {
	name := f.Get("name")
	c.audit.Note("env=%.64q", name)
	all, err := p.settings.Variables(c.ctx(), c.owner, c.app.ID)
	if err != nil {
		return answer{}, err
	}
	i := slices.IndexFunc(all, func(v app.Variable) bool { return v.Name == name })
	if i < 0 {
		return answer{}, app.Errorf(app.NotFound, "there is no such variable")
	}
	return show("env", envPage{Variables: all, Shown: name, Value: all[i].Value}), nil
}

// set sets one variable by name and value, or a block of them.
func (p envPages) set(c *call, f url.Values) (answer, error) {
	change := map[string]*string{f.Get("name"): new(f.Get("value"))}
	if f.Has("block") {
		var err error
		if change, err = app.ParseEnv(f.Get("block")); err != nil {
			return answer{}, err
		}
	}
	c.audit.Note("env=%s", strings.Join(sayableNames(slices.Sorted(maps.Keys(change))), ","))
	err := p.settings.SetVariables(c.ctx(), c.owner, c.app.ID, change)
	return changed(c.at("env"), c.lang.Count(len(change), "%d variable was set, in effect from the next start.",
		"%d variables were set, in effect from the next start.", len(change))), err
}

// sayableNames are names of variables as the audit log may have them.
func sayableNames(names []string) []string {
	for i, name := range names {
		name, _, _ = strings.Cut(name, "=") // what follows was meant to be a value
		names[i] = strings.ToValidUTF8(name[:min(len(name), 64)], "")
	}
	return names
}

// variablesOf reads the lines of a .env file, by name.
func variablesOf(text string) ([]app.Variable, error) {
	change, err := app.ParseEnv(text)
	if err != nil {
		return nil, err
	}
	all := make([]app.Variable, 0, len(change))
	for _, name := range slices.Sorted(maps.Keys(change)) {
		all = append(all, app.Variable{Name: name, Value: *change[name]})
	}
	return all, nil
}

// variableNames are the names alone.
func variableNames(all []app.Variable) []string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = v.Name
	}
	return sayableNames(names)
}

func (p envPages) remove(c *call, f url.Values) (answer, error) {
	name := f.Get("name")
	c.audit.Note("env=%.64q", name)
	err := p.settings.RemoveVariable(c.ctx(), c.owner, c.app.ID, name)
	return changed(c.at("env"), c.lang.Say("The variable %s was removed, in effect from the next start.", name)), err
}
