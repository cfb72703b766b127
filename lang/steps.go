package lang

import (
	"slices"

	"berth/app"
)

// sh is the one interpreter that every host has.
const sh = "/bin/sh"

// addSteps adds what prepares the tree: the language's packages, then BUILD.
func (p *project) addSteps() error {
	if p.lang.prepare != nil {
		steps, err := p.lang.prepare(p)
		if err != nil {
			return err
		}
		p.plan.Prepare, p.installs = steps, len(steps) > 0
	}
	if p.cfg.Build != "" {
		p.plan.Prepare = append(p.plan.Prepare, app.Step{
			Argv:   p.command(p.cfg.Build),
			OnFail: "The command in BUILD failed; its output tells why.",
		})
	}
	for i := range p.plan.Prepare {
		p.plan.Prepare[i].Env = slices.Clone(p.lang.buildEnv)
	}
	return nil
}

// addStart adds the program and its environment.
func (p *project) addStart() error {
	p.plan.Env = slices.Clone(runEnv)
	if p.start != "" {
		p.plan.Argv = p.command(p.start)
		return nil
	}
	for _, needed := range p.lang.needs {
		if _, err := p.need(needed); err != nil {
			return err
		}
	}
	p.plan.Argv = p.lang.argv(p)
	return nil
}

// command runs a line of the config, which may be compound. When packages are
// installed, their programs go before the host's: "python bot.py" has to find
// the interpreter that knows the packages.
func (p *project) command(line string) []string {
	if p.installs {
		line = `PATH="$PWD/` + p.lang.bin + `:$PATH"; export PATH; ` + line
	}
	return []string{sh, "-c", line}
}

// need returns the path of a program of the host.
func (p *project) need(needed program) (string, error) {
	if path, ok := p.look(needed.binary); ok {
		return path, nil
	}
	return "", app.Errorf(app.Unusable, "this host has no %s: the owner can install it with: %s",
		needed.title, needed.install)
}

// argument returns main so that no program takes it for an option.
func (p *project) argument() string {
	if p.main[0] == '-' {
		return "./" + p.main
	}
	return p.main
}
