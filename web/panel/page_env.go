package panel

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/app"
)

// maxBlock bounds the form of a pasted block of variables, in bytes.
const maxBlock = 512 << 10

// envPage is the data of env.html.
type envPage struct {
	Variables []app.Variable
	Shown     string // the one whose value is shown
	Value     string // its value; each other is masked
	Name      string // what was typed; never a value
}

// env lists the variables of an application, masked.
func (s *server) env(c *call) (answer, error) {
	all, err := s.Settings.Variables(c.Request.Context(), c.owner, c.app.ID)
	if err != nil {
		return answer{}, err
	}
	page := envPage{Variables: all}
	if c.problem != "" && c.Request.PostForm != nil {
		page.Name = c.Request.PostForm.Get("name")
	}
	return show("env", page)
}

// revealVariable shows one value on the page that it answers with, and nowhere
// else.
func (s *server) revealVariable(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	name := f.Get("name")
	c.audit.Note("env=%.64q", name)
	all, err := s.Settings.Variables(c.Request.Context(), c.owner, c.app.ID)
	if err != nil {
		return answer{}, err
	}
	i := slices.IndexFunc(all, func(v app.Variable) bool { return v.Name == name })
	if i < 0 {
		return answer{}, app.Errorf(app.NotFound, "there is no such variable")
	}
	return show("env", envPage{Variables: all, Shown: name, Value: all[i].Value})
}

// setVariables takes one variable by name and value, or a block of them.
func (s *server) setVariables(c *call) (answer, error) {
	f, err := c.formWithin(maxBlock)
	if err != nil {
		return answer{}, err
	}
	change := map[string]*string{}
	if f.Has("block") {
		if change, err = parseBlock(f.Get("block")); err != nil {
			return answer{}, err
		}
	} else {
		value := f.Get("value")
		change[f.Get("name")] = &value
	}
	names := slices.Sorted(maps.Keys(change))
	for i, name := range names {
		name, _, _ = strings.Cut(name, "=") // what follows was meant to be a value
		names[i] = strings.ToValidUTF8(name[:min(len(name), 64)], "")
	}
	c.audit.Note("env=%s", strings.Join(names, ","))
	if err := s.Settings.SetVariables(c.Request.Context(), c.owner, c.app.ID, change); err != nil {
		return answer{}, err
	}
	return done(c.at("env"), c.lang.Count(len(change), "%d variable was set, in effect from the next start.",
		"%d variables were set, in effect from the next start.", len(change)))
}

func (s *server) removeVariable(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	name := f.Get("name")
	c.audit.Note("env=%.64q", name)
	if err := s.Settings.RemoveVariable(c.Request.Context(), c.owner, c.app.ID, name); err != nil {
		return answer{}, err
	}
	return done(c.at("env"), c.lang.Say("The variable %s was removed, in effect from the next start.", name))
}

// parseBlock reads lines of NAME=VALUE as .env files have them: empty lines, lines
// that begin with #, "export " before a name, and quotes around a value, of which
// double ones know \n, \" and \\. No error repeats a value.
func parseBlock(text string) (map[string]*string, error) {
	change, n := map[string]*string{}, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok {
			return nil, app.Errorf(app.Invalid, "line %d of the block is not NAME=VALUE", n)
		}
		value = strings.TrimSpace(value)
		if len(value) > 0 && (value[0] == '"' || value[0] == '\'') {
			quote := value[:1]
			inner, closed := strings.CutSuffix(value[1:], quote)
			if !closed {
				return nil, app.Errorf(app.Invalid, "the quotes in line %d of the block do not close", n)
			}
			if value = inner; quote == `"` {
				value = strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\\`, `\`).Replace(inner)
			}
		}
		name = strings.TrimSpace(name)
		if change[name] != nil {
			return nil, app.Errorf(app.Invalid, "line %d of the block sets a variable for the second time", n)
		}
		change[name] = &value
	}
	if len(change) == 0 {
		return nil, app.Errorf(app.Invalid, "the block has no line with NAME=VALUE")
	}
	return change, nil
}

// whole is a number of a form; what is none is refused by what it is for.
func whole(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
