package importer

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"berth/app"
)

// MaxDump bounds PM2's dump, in bytes. Each process in it has the whole environment of its
// shell.
const MaxDump = 16 << 20

// maxPrograms bounds how many programs a description has.
const maxPrograms = 1000

// process is what PM2's dump, of its versions 4 to 7, has of one process. What is a text in one
// version or setting may be something else in another.
type process struct {
	Name        string                     `json:"name"`
	Exec        string                     `json:"pm_exec_path"`
	Dir         string                     `json:"pm_cwd"`
	Interpreter string                     `json:"exec_interpreter"`
	Mode        string                     `json:"exec_mode"`
	Args        json.RawMessage            `json:"args"`
	NodeArgs    json.RawMessage            `json:"node_args"`
	MaxMemory   json.RawMessage            `json:"max_memory_restart"`
	Watch       json.RawMessage            `json:"watch"`
	Cron        json.RawMessage            `json:"cron_restart"`
	AutoRestart *bool                      `json:"autorestart"`
	Instances   json.RawMessage            `json:"instances"`
	PIDFile     string                     `json:"pm_pid_path"`
	Env         map[string]json.RawMessage `json:"env"`
	WaitReady   bool                       `json:"wait_ready"`
}

// PM2 reads the dump that "pm2 save" writes. Processes of one name and directory are instances
// of one program. The error says that it is no such dump.
func PM2(text []byte, m Machine) ([]Candidate, error) {
	if len(text) > MaxDump {
		return nil, errTooLarge
	}
	var all []process
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("it is no dump of PM2, which is a list in JSON: %w", tidy(err))
	}
	var list []Candidate
	at := map[[3]string]int{}
	count := map[int]int{}
	for i, p := range all {
		if p.Name == "" && p.Exec == "" {
			return nil, fmt.Errorf("it is no dump of PM2: entry %d has neither a name nor a program", i+1)
		}
		key := [3]string{p.Name, p.Dir, p.Exec}
		if n, known := at[key]; known {
			count[n]++
			list[n].addPID(p.PIDFile)
			continue
		}
		if len(list) == maxPrograms {
			return nil, fmt.Errorf("it has more than %d programs", maxPrograms)
		}
		at[key], count[len(list)] = len(list), 1
		list = append(list, p.candidate(m))
	}
	for n, instances := range count {
		if instances > 1 {
			list[n].note("PM2 runs %d instances of it; berth runs one, with all of its RAM.", instances)
		}
	}
	return list, nil
}

// tidy is an error of the decoder without what it has read: that may be a secret.
func tidy(err error) error {
	switch e := err.(type) { //nolint:errorlint // the decoder's own, which it never wraps
	case *json.SyntaxError:
		return fmt.Errorf("there is a mistake at byte %d", e.Offset)
	case *json.UnmarshalTypeError:
		return fmt.Errorf("%s at byte %d has another form", e.Field, e.Offset)
	}
	return err
}

func (c *Candidate) addPID(file string) {
	if path.IsAbs(file) {
		c.PIDFiles = append(c.PIDFiles, path.Clean(file))
	}
}

func (p process) candidate(m Machine) Candidate {
	c := Candidate{From: p.Name, Stop: "pm2 delete " + quote(p.Name, false)}
	if c.From == "" {
		c.From = path.Base(p.Exec)
	}
	c.Config = app.Config{Name: nameOf(c.From), AutoRestart: p.AutoRestart == nil || *p.AutoRestart}
	c.addPID(p.PIDFile)
	if n := number(p.MaxMemory); n > 0 {
		c.Config.RAM, c.RAMFrom = megabytes(n), "max_memory_restart"
	} else if mb, ok := app.ParseMB(word(p.MaxMemory)); ok && mb > 0 {
		c.Config.RAM, c.RAMFrom = mb, "max_memory_restart"
	}
	env := map[string]string{}
	for name, raw := range p.Env {
		var text string
		if name != p.Name && json.Unmarshal(raw, &text) == nil {
			env[name] = text
		} else if n := strings.TrimSpace(string(raw)); name != p.Name && numeral.MatchString(n) {
			env[name] = n
		}
	}
	c.take(env)
	p.notes(&c)
	if !path.IsAbs(p.Exec) {
		c.refuse("its program %q is no absolute path", p.Exec)
		return c
	}
	l := line{cwd: p.Dir, argv: p.argv(&c)}
	if !slices.Contains(systemBins, path.Dir(p.Exec)) {
		l.script = path.Clean(p.Exec)
	}
	c.start(m, l)
	return c
}

var numeral = regexp.MustCompile(`^(-?[0-9]+(\.[0-9]+)?|true|false)$`)

// argv is the command line that PM2 runs.
func (p process) argv(c *Candidate) []string {
	own := words(p.NodeArgs)
	args := words(p.Args)
	switch name := base(p.Exec); {
	case slices.Contains([]string{"npm", "npx", "yarn", "pnpm", "bun"}, name) && slices.Contains(systemBins, path.Dir(p.Exec)), p.Interpreter == "none":
		return append([]string{p.Exec}, args...)
	case p.Interpreter == "":
		p.Interpreter = "node"
	}
	if slices.Contains(systemBins, path.Dir(p.Exec)) { // a program of the system, by an interpreter
		c.note("PM2 runs %s by %s.", p.Exec, path.Base(p.Interpreter))
	}
	return slices.Concat([]string{p.Interpreter}, own, []string{p.Exec}, args)
}

// notes says what of PM2 berth has not.
func (p process) notes(c *Candidate) {
	if strings.HasPrefix(p.Mode, "cluster") {
		c.note("It runs in PM2's cluster mode, where PM2 shares one port among instances; berth runs the program itself.")
	}
	if set(p.Watch) {
		c.note("PM2 restarts it when a file changes (watch); berth does at each deploy.")
	}
	if set(p.Cron) {
		c.note("PM2 restarts it at fixed times (cron_restart); berth has no such times.")
	}
	if p.WaitReady {
		c.note("PM2 waits until it says that it is ready (wait_ready); berth waits for its port, or a few seconds.")
	}
}

// set reports whether a setting is anything but absent, false, empty or 0.
func set(raw json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false", `""`, "[]", "{}", "0", `"0"`}, string(raw))
}

// words are arguments: a list, or a text with spaces between them.
func words(raw json.RawMessage) []string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		var all []string
		for _, one := range list {
			all = append(all, word(one))
		}
		return all
	}
	return strings.Fields(word(raw))
}

// word is a text, or a number as one.
func word(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if numeral.MatchString(string(raw)) {
		return string(raw)
	}
	return ""
}

// number is a number; 0 for what is none.
func number(raw json.RawMessage) int64 {
	var n float64
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > 1<<50 {
		return 0
	}
	return int64(n)
}

// megabytes rounds up.
func megabytes(bytes int64) app.MB { return app.MB((bytes + 1<<20 - 1) >> 20) }
