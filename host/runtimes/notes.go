package runtimes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/app"
)

// note adds a sentence for the user to the plan.
func (p *project) note(format string, args ...any) {
	p.plan.Notes = append(p.plan.Notes, fmt.Sprintf(format, args...))
}

// elsewhere are keys of the hosted service that nothing here answers to.
var elsewhere = map[string]string{
	"VLAN":     "programs here share no private network",
	"HOSTNAME": "programs here share no private network",
	"STORAGE":  "a program's own directory is its storage",
}

// noteKeys names the keys that mean nothing: a mistyped one would else be
// missed without a word.
func (p *project) noteKeys() {
	for _, key := range p.cfg.Keys {
		if slices.Contains(app.ConfigKeys, key) {
			continue
		}
		why := elsewhere[key]
		if why == "" {
			why = "berth knows " + strings.Join(app.ConfigKeys, ", ")
		}
		p.note("%s: %s is ignored: %s.", p.cfg.Where(key), shortened(key), why)
	}
}

// shortened keeps a stranger's word from filling the note.
func shortened(word string) string {
	const most = 40
	if r := []rune(word); len(r) > most {
		return string(r[:most]) + "..."
	}
	return word
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

// noteVersion says that VERSION is not what runs. The words for "what there
// is" ask for nothing.
func (p *project) noteVersion() {
	asked := p.cfg.Version
	switch asked {
	case "", "latest", "current", "lts", "suja":
		return
	}
	l := cmp.Or(p.runtimeLanguage(), p.lang)
	if len(l.programs) == 0 {
		p.note("VERSION=%s was asked for; it means nothing here.", asked)
		return
	}
	have := p.tools.Version(l.programs[0].binary)
	remedy := "."
	switch name := l.programs[0].provided(p.tools); {
	case name == "" || !number.MatchString(asked):
	case p.tools.Images():
		remedy = "; ask the owner of this host to add an image of it to kubernetes.images"
	default:
		remedy = "; ask the owner of this host to install it with: berth runtime install " + name + " " + wantedNumber(asked)
	}
	was := len(p.plan.Notes)
	switch {
	case judge(asked, parseVersion(have)) == fits:
	case have == "":
		p.note("VERSION=%s was asked for; this host runs its one installed version of %s%s", asked, l.title, remedy)
	default:
		p.note("VERSION=%s was asked for; this host runs %s %s%s", asked, l.title, have, remedy)
	}
	if len(p.plan.Notes) > was {
		p.plan.Runs = p.plan.Notes[was]
	}
}

// noteAPT remembers what APT asks for, and notes what the host lacks of it. A word
// that is no package's name refuses no upload.
func (p *project) noteAPT() {
	var list []string
	for _, word := range p.cfg.APT {
		name := strings.ToLower(strings.TrimSpace(word))
		if !packageName(name) {
			p.note("APT names %q, which is not the name of a system package.", word[:min(len(word), maxWish)])
			continue
		}
		if slices.Contains(list, name) {
			continue
		}
		if len(list) == maxWishes {
			p.note("APT names more than %d system packages; those after %s are left out.", maxWishes, list[maxWishes-1])
			break
		}
		list = append(list, name)
	}
	w, err := Wish(list, p.tools)
	if err != nil { // an empty list
		return
	}
	p.plan.Apts = w.Names
	asked := strings.Join(w.Names, ",")
	switch {
	case w.Unknown:
		p.note("APT=%s was asked for; berth installs no system packages: ask the owner of this host for them.", asked)
	case len(w.Lacking) > 0:
		p.note("APT=%s was asked for, and this host lacks %s; berth installs no system packages: the owner of this host can, with: apt-get install %s",
			asked, strings.Join(w.Lacking, ", "), strings.Join(w.Lacking, " "))
	}
}
