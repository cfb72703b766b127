package runtimes

import (
	"slices"

	"berth/app"
)

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
		if p.plan.Prepare, p.plan.Code.Packages, err = p.wants(pk); err != nil {
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
			err = p.suit()
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
		err = p.suit()
	}
	p.plan.Argv = argv
	return err
}

// env is what programs of the language and their preparation get beside what
// every program gets.
func (p *project) env() []string {
	if p.lang.env == nil {
		return nil
	}
	return p.lang.env(p)
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
		return p.pythonAlias()
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
