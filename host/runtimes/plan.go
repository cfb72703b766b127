package runtimes

import (
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"

	"berth/app"
)

// headSize is how much of a main file is looked at to tell what it is.
const headSize = 256

// project is one upload while its plan is made.
type project struct {
	source
	cfg  app.Config
	arch string // as in GOARCH

	prepared string // app.Code.Packages of the tree as it is

	main  string // clean and relative, empty when START alone is known
	start string // START, or the command that a manifest names
	head  []byte // the first bytes of main
	lang  *language
	path  []string // PATH with a runtime that the owner of the host installed; else nothing
	plan  app.Plan

	static   bool // MAIN is a page: nothing runs, and lang is what BUILD needs
	installs bool // the project asks for packages
}

// Plan decides how the tree behind files is prepared and started. found tells
// whether it holds a discloud.config. prepared is the app.Code.Packages of the
// tree as it is: packages that come from the same are left alone.
//
// A main file the config does not name is inferred, which a note admits. Every
// error but an unreadable tree is of kind app.Unusable and tells the user what
// to change. Plan calls files and tools only; it is safe for concurrent use if
// they are. It blocks while a tool is asked for its version.
func Plan(cfg app.Config, found bool, files app.Files, tools Tools, prepared string) (app.Plan, error) {
	p := &project{
		source: source{files, tools}, cfg: cfg, arch: runtime.GOARCH, prepared: prepared,
		start: strings.TrimSpace(cfg.Start),
	}
	return p.make(found)
}

// make fills in the plan.
func (p *project) make(found bool) (app.Plan, error) {
	if err := p.findMain(found); err != nil {
		return app.Plan{}, err
	}
	for _, step := range []func() error{p.detect, p.choose, p.checkSignal, p.addSteps, p.addStart} {
		if err := step(); err != nil {
			return app.Plan{}, err
		}
	}
	p.noteKeys()
	p.noteVersion()
	p.noteMissing("START", p.cfg.Start)
	p.noteMissing("BUILD", p.cfg.Build)
	p.noteAPT()
	code := &p.plan.Code
	code.Main, code.Lang, code.Start, code.Build, code.Health = p.main, p.lang.name, p.start, p.cfg.Build, p.cfg.Health
	code.MemorySignal, code.Stdin = p.cfg.MemorySignal, p.cfg.Stdin
	if p.static {
		code.Lang = static.name
	}
	if code.Version = p.cfg.Version; code.Version == "" {
		code.Version = "latest"
	}
	return p.plan, nil
}

// checkSignal refuses a signal that the language takes for something else.
func (p *project) checkSignal() error {
	if (p.lang == &javascript || p.lang == &typescript) && p.cfg.MemorySignal == "SIGUSR1" {
		return app.Errorf(app.Unusable, "cannot use MEMORY_SIGNAL=SIGUSR1 with Node.js, which starts its debugger at that signal: write MEMORY_SIGNAL=SIGUSR2")
	}
	return nil
}

// findMain takes MAIN from the config, or infers it.
func (p *project) findMain(found bool) error {
	if p.cfg.Main == "" {
		return p.inferMain(found)
	}
	main, ok := cleanPath(p.cfg.Main)
	if !ok {
		return app.Errorf(app.Unusable, "MAIN=%q is not a path inside the archive", p.cfg.Main)
	}
	p.main = main
	if p.files.Exists(main) {
		return nil
	}
	if p.cfg.Build != "" {
		p.note("MAIN=%q is not in the archive; BUILD is expected to make it.", main)
		return nil
	}
	return app.Errorf(app.Unusable, "cannot find MAIN=%q in the archive%s", main, p.hint(main))
}

// cleanPath returns s as a clean relative path, without a leading "./".
func cleanPath(s string) (string, bool) {
	control := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
	clean := path.Clean(s)
	// ValidPath refuses absolute paths, "..", and text that is not UTF-8.
	return clean, clean != "." && fs.ValidPath(clean) && !strings.ContainsFunc(s, control)
}

// hint names a file that the user may have meant instead of main.
func (p *project) hint(main string) app.Text {
	candidates := []string{strings.ToLower(main), path.Base(main), "src/" + main}
	if slices.Contains(javascript.exts, path.Ext(main)) && !slices.ContainsFunc(candidates, p.files.Exists) {
		if pkg, err := readPackage(p.source); err == nil && !pkg.buildHint().IsZero() {
			return pkg.buildHint()
		}
	}
	for _, l := range languages {
		if slices.Contains(l.exts, path.Ext(main)) {
			candidates = append(candidates, l.mains...)
		}
	}
	for _, l := range languages {
		candidates = append(candidates, l.mains...)
	}
	for _, c := range candidates {
		if c != main && p.files.Exists(c) {
			return app.Textf("; there is %s: did you mean MAIN=%s?", c, c)
		}
	}
	return app.Textf("; MAIN is the path of the file to start, from the root of the archive")
}

// inferMain looks for what to start in the manifests and then under the usual
// names.
func (p *project) inferMain(found bool) error {
	if p.start != "" {
		// START says what to run. A main file only tells the language then.
		p.main = p.usualMain()
		return nil
	}
	e := p.inferEntry()
	if e == (entry{}) {
		missing := app.Textf("there is no discloud.config")
		if found {
			missing = app.Textf("discloud.config does not set MAIN")
		}
		var names []string
		for _, l := range languages {
			names = append(names, l.mains[:min(len(l.mains), 1)]...)
		}
		return app.Errorf(app.Unusable, "cannot tell what to start: %s, and there is none of %s or other usual names: write MAIN= and the path of the file to start into discloud.config in the root of the archive",
			missing, strings.Join(names, ", "))
	}
	p.main, p.start = e.main, e.start
	missing := "There is no discloud.config"
	if found {
		missing = "discloud.config does not set MAIN"
	}
	if e.start != "" {
		p.note("%s; START=%s is assumed.", missing, e.start)
	} else {
		p.note("%s; MAIN=%s is assumed.", missing, e.main)
	}
	return nil
}

// inferEntry asks the manifests first: they were written on purpose.
func (p *project) inferEntry() entry {
	for _, l := range languages {
		if l.manifest == nil {
			continue
		}
		if e := l.manifest(p); e != (entry{}) {
			return e
		}
	}
	return entry{main: p.usualMain()}
}

// usualMain returns the first usual name that exists, "" when none does.
func (p *project) usualMain() string {
	for _, l := range languages {
		for _, name := range l.mains {
			if p.files.Exists(name) {
				return name
			}
		}
	}
	return ""
}

// sh is the one interpreter that every host has.
const sh = "/bin/sh"

// addSteps adds what prepares the tree: the language's packages, BUILD, and
// what makes the program of MAIN.
func (p *project) addSteps() error {
	if p.lang.packages != nil {
		pk, err := p.lang.packages(p)
		if err != nil {
			return err
		}
		p.installs = len(pk.steps) > 0
		if p.plan.Prepare, p.plan.Code.Packages, err = pk.wanted(p); err != nil {
			return err
		}
	}
	if p.cfg.Build != "" {
		p.plan.Prepare = append(p.plan.Prepare, app.Step{
			Argv:   p.command(p.cfg.Build),
			Text:   p.cfg.Build,
			OnFail: app.Textf("the command in BUILD failed; its output tells why."),
		})
	}
	if p.lang.compile != nil && p.start == "" && !p.static {
		step, err := p.lang.compile(p)
		if err == nil {
			err = suit(p)
		}
		if err != nil && (app.KindOf(err) != app.Unusable || !p.files.Exists(p.lang.built(p))) {
			return err
		}
		// What was built once starts without the compiler: it is only missed by
		// the next deployment.
		if err != nil {
			step = app.Step{Argv: []string{"/bin/false"}, OnFail: app.Textf("%v", err)}
		}
		p.plan.Prepare = append(p.plan.Prepare, step)
	}
	for i, s := range p.plan.Prepare {
		p.plan.Prepare[i].Env = slices.Concat(buildEnv, p.env(), s.Env)
	}
	return nil
}

// addStart adds the program and its environment.
func (p *project) addStart() error {
	p.plan.Env = slices.Concat(runEnv, p.env())
	p.plan.Prelude = p.prelude()
	if p.static {
		return nil
	}
	if p.start != "" {
		p.plan.Argv = p.command(p.start)
		return nil
	}
	argv, err := p.lang.argv(p)
	if err == nil && p.lang.compile == nil {
		err = suit(p)
	}
	p.plan.Argv = argv
	return err
}

// env is what programs of the language and their preparation get beside what
// every program gets.
func (p *project) env() []string {
	if p.lang.env == nil {
		return p.path
	}
	return append(p.lang.env(p), p.path...)
}

// command runs a line of the config, which may be compound. When packages are
// installed, their programs go before the host's: "python bot.py" has to find
// the interpreter that knows the packages.
func (p *project) command(line string) []string {
	return []string{sh, "-c", p.prelude() + line}
}

// prelude is what goes before a line of the config or of a console.
func (p *project) prelude() string {
	switch {
	case p.installs:
		return `PATH="$PWD/` + p.lang.bin + `:$PATH"; export PATH; `
	case p.lang == &python:
		return pythonAlias(p.source)
	}
	return ""
}

// argument returns main so that no program takes it for an option.
func (p *project) argument() string {
	if p.main[0] == '-' {
		return "./" + p.main
	}
	return p.main
}
