package runtimes

import (
	"regexp"
	"slices"
	"strings"

	"berth/app"
)

// choose lets the project use the runtime that its VERSION means: the newest that fits,
// of those that the owner of the host installed and the distribution's own. Words for
// "what there is" mean the distribution's own, and without one the newest that is
// installed.
//
// It refuses an upload whose VERSION names a number that nothing here has. What was
// deployed before goes on with what the host has, if it has any. In images nothing of the
// host's is left for it.
func (p *project) choose() error {
	l := p.runtimeLanguage()
	if l == nil {
		return nil
	}
	c := l.programs[0]
	runtime := c.provided(p.tools)
	version, found := pick(c, p.cfg.Version, p.tools)
	if l == &python {
		if kept := p.keptPython(); kept != "" {
			version, found = kept, true
		}
	}
	if found {
		if version != "" {
			p.tools = p.tools.With(runtime, version)
			p.plan.Runtime = runtime + " " + version
			p.path = []string{"PATH=" + p.tools.Path()}
		}
		return nil
	}
	own, _ := p.tools.Find(c.binary)
	if !p.files.Brought("discloud.config") && (own != "" || p.start != "" && !p.tools.Images() || p.static) {
		return nil // a note says so
	}
	asked, number := shortened(p.cfg.Version), wantedNumber(p.cfg.Version)
	remedy := app.Textf("ask its owner to install it with: berth runtime install %s %s", runtime, number)
	if p.tools.Images() {
		remedy = app.Textf("ask its owner to add an image of it to kubernetes.images")
	}
	if has := offered(c, p.tools); has != "" {
		return app.Errorf(app.Unusable, "VERSION=%s asks for %s, and this host has %s: %s; VERSION=latest takes what there is", asked, l.title, has, remedy)
	}
	return app.Errorf(app.Unusable, "VERSION=%s asks for %s, and this host has none: %s", asked, l.title, remedy)
}

// runtimeLanguage is the language whose runtime the project needs: that of its files, or
// the one whose command START begins with. It is nil for one that the owner cannot choose.
func (p *project) runtimeLanguage() *language { return languageOf(p.lang, p.start, p.tools) }

func languageOf(l *language, start string, tools Tools) *language {
	if words := strings.Fields(start); len(l.programs) == 0 && len(words) > 0 {
		if named := first(func(l *language) bool {
			return slices.ContainsFunc(l.programs, func(c program) bool {
				return c.provided(tools) != "" && (c.binary == words[0] || c.binary == words[0]+"3") // python
			})
		}); named != nil {
			l = named
		}
	}
	if len(l.programs) == 0 || l.programs[0].provided(tools) == "" {
		return nil
	}
	return l
}

// pick returns the installed version that an asked one means, "" for the host's own or
// none; found is false when it names a number that nothing here has.
func pick(c program, asked string, tools Tools) (version string, found bool) {
	installed := tools.Installed(c.provided(tools))
	own, _ := tools.Find(c.binary)
	if !number.MatchString(asked) { // a word
		if own == "" && len(installed) > 0 {
			return newest(installed), true
		}
		return "", true
	}
	installed = slices.DeleteFunc(slices.Clone(installed), func(v string) bool { return judge(asked, parseVersion(v)) != fits })
	version = newest(installed)
	if own == "" {
		return version, version != ""
	}
	has := parseVersion(tools.Version(c.binary))
	switch judge(asked, has) {
	case fits:
		if version != "" && parseVersion(version).compare(has) > 0 {
			return version, true
		}
		return "", true
	case unclear: // the range, or what the host has
		return version, true
	case older, newer:
	}
	return version, version != ""
}

// number matches a VERSION that asks for one, or for some.
var number = regexp.MustCompile(`^[\s<>=^~v]*(\d+(?:\.\d+)*)`)

// wantedNumber is the number that a VERSION begins with.
func wantedNumber(asked string) string { return number.FindStringSubmatch(asked)[1] }

// newest returns the newest of some versions, "" of none.
func newest(versions []string) string {
	if len(versions) == 0 {
		return ""
	}
	return slices.MaxFunc(versions, func(a, b string) int { return parseVersion(a).compare(parseVersion(b)) })
}

// fitting returns the newest installed version of a range, "" for none.
func (p *project) fitting(ranges string) string { return p.fittingOf(p.lang.programs[0], ranges) }

func (p *project) fittingOf(c program, ranges string) string {
	installed := slices.Clone(p.tools.Installed(c.provided(p.tools)))
	return newest(slices.DeleteFunc(installed, func(v string) bool { return judge(ranges, parseVersion(v)) != fits }))
}

// offered lists what the host has of a runtime, the newest first; "" for nothing.
func offered(c program, tools Tools) string {
	list := slices.Clone(tools.Installed(c.provided(tools)))
	if own, _ := tools.Find(c.binary); own != "" {
		list = append(list, tools.Version(c.binary))
	}
	slices.SortFunc(list, func(a, b string) int { return parseVersion(b).compare(parseVersion(a)) })
	return strings.Join(slices.Compact(list), ", ")
}

// Uses returns the installed runtime with which an application would start now; ok is
// false for one that needs none of these. It blocks as Plan does.
func Uses(code app.Code, tools Tools) (runtime, version string, ok bool) {
	l := first(func(l *language) bool { return l.name == code.Lang })
	if l == nil {
		return "", "", false
	}
	if l = languageOf(l, code.Start, tools); l == nil {
		return "", "", false
	}
	version, _ = pick(l.programs[0], code.Version, tools)
	return l.programs[0].provided(tools), version, version != ""
}
