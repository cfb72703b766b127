package runtimes

import (
	"path"
	"slices"
	"strings"

	"berth/app"
)

// Tools are the commands of the host.
type Tools interface {
	// Find returns the path of a command that every application may run. When
	// there is none, hidden is where one lies that they may not use.
	Find(name string) (path, hidden string)
	// Version returns what a command says of its version, "20.20.2" for
	// instance, and "" when it does not say. It runs the command.
	Version(name string) string
	// Lacks returns those of the Debian packages that are not installed. It
	// does not know where there is no dpkg.
	Lacks(packages []string) (missing []string, known bool)
}

// program is a command that must be on the host, and where it comes from.
type program struct {
	binary, title string
	apt           string // Debian packages
	site          string // for what Debian does not have
}

// install says how the owner gets it.
func (c program) install() string {
	if c.apt != "" {
		return "apt install " + c.apt
	}
	return "install it in /usr/local/bin, from " + c.site
}

// Runtime is a command that some language needs, for the owner of the host.
type Runtime struct {
	Command string
	Title   string
	Install string // how to get it
}

// Runtimes returns what programs of every language need, in the order of the
// table, without package managers that can be done without.
func Runtimes() []Runtime {
	var list []Runtime
	for _, l := range languages {
		for _, c := range l.programs {
			if r := (Runtime{c.binary, c.title, c.install()}); !slices.Contains(list, r) {
				list = append(list, r)
			}
		}
	}
	return list
}

// need returns the path of a command of the host.
func (p *project) need(c program) (string, error) {
	found, hidden := p.tools.Find(c.binary)
	if found != "" {
		return found, nil
	}
	lack := app.Textf("this host has no %s", c.title)
	if hidden != "" {
		lack = app.Textf("this host has %s only where programs cannot use it: %s", c.title, place(hidden))
	}
	if c.apt != "" {
		return "", app.Errorf(app.Unusable, "%s: the owner can install it with: %s", lack, c.install())
	}
	return "", app.Errorf(app.Unusable, "%s: the owner can install it in /usr/local/bin, from %s", lack, c.site)
}

// noteMissing says that a command of the config begins with a runtime that the
// host lacks. The command may still bring its own.
func (p *project) noteMissing(key, command string) {
	words := strings.Fields(command)
	for _, l := range languages {
		for _, c := range l.programs {
			if len(words) == 0 || words[0] != c.binary {
				continue
			}
			if _, err := p.need(c); err != nil {
				p.note("%s runs %s, and %v.", key, c.binary, err)
			}
			return
		}
	}
}

// has reports whether programs can use a command of the host.
func (p *project) has(c program) bool {
	found, _ := p.tools.Find(c.binary)
	return found != ""
}

// place says where a command lies, but not in whose home.
func place(file string) app.Text {
	dir := path.Dir(file)
	if rest, ok := strings.CutPrefix(dir, "/root/"); ok {
		return app.Textf("in a home directory (~/%s)", rest)
	}
	if rest, ok := strings.CutPrefix(dir, "/home/"); ok {
		_, rest, _ = strings.Cut(rest, "/")
		return app.Textf("in a home directory (~/%s)", rest)
	}
	return app.Textf("in %s, which is closed to them, or open to changes by everybody", dir)
}

// demand is what a project says of the version it needs.
type demand struct {
	ranges string
	file   string // that says so
	key    string // in the file, "" when that is clear
}

// suit refuses an upload that asks for a newer version than the host has. One
// older than the host's may do. What runs already goes on starting, whatever
// became of the host.
func (p *project) suit() error {
	if p.lang.demand == nil {
		return nil
	}
	d := p.lang.demand(p)
	if d.ranges == "" || !p.files.Brought(d.file) {
		return nil
	}
	where := d.file
	if d.key != "" {
		where += " (" + d.key + ")"
	}
	have := p.tools.Version(p.lang.programs[0].binary)
	asked := d.ranges[:min(len(d.ranges), 60)]
	switch judge(d.ranges, parseVersion(have)) {
	case older:
		remedy := p.lang.outdated
		if remedy.IsZero() {
			remedy = app.Textf("ask the owner of this host for a newer one, or ask for less there if that will do")
		}
		return app.Errorf(app.Unusable, "%s asks for %s %s, and this host has %s: %s", where, p.lang.title, asked, have, remedy)
	case newer:
		p.note("%s asks for %s %s; this host runs %s.", where, p.lang.title, asked, have)
	case unclear, fits:
	}
	return nil
}

// noteVersion says that VERSION is not what runs. The words for "what there
// is" ask for nothing.
func (p *project) noteVersion() {
	asked := p.cfg.Version
	switch asked {
	case "", "latest", "current", "lts", "suja":
		return
	}
	if len(p.lang.programs) == 0 {
		p.note("VERSION=%s was asked for; it means nothing here.", asked)
		return
	}
	have := p.tools.Version(p.lang.programs[0].binary)
	switch {
	case judge(asked, parseVersion(have)) == fits:
	case have == "":
		p.note("VERSION=%s was asked for; this host runs its one installed version of %s.", asked, p.lang.title)
	default:
		p.note("VERSION=%s was asked for; this host runs %s %s.", asked, p.lang.title, have)
	}
}
