package runtimes

import (
	"regexp"
	"strings"

	"berth/app"
)

var (
	rubyProgram = program{binary: "ruby", title: "Ruby", apt: "ruby", image: "ruby"}
	bundler     = program{binary: "bundle", title: "Bundler", apt: "ruby-bundler", image: "ruby"}
)

// ruby runs main files as they are, or with the gems of the Gemfile, which
// Bundler installs in the tree.
var ruby = language{
	name:     "ruby",
	title:    "Ruby",
	exts:     []string{".rb"},
	mains:    []string{"main.rb", "bot.rb", "app.rb", "index.rb", "src/main.rb", "src/bot.rb"},
	programs: []program{rubyProgram, bundler},
	shebangs: []string{"ruby"},
	evidence: []string{"Gemfile"},
	demand:   rubyDemand,
	packages: gems,
	bin:      "vendor/bundle/bin",
	argv: func(p *project) ([]string, error) {
		path, err := p.need(rubyProgram)
		if err != nil || !p.installs {
			return []string{path, p.argument()}, err
		}
		bundle, err := p.need(bundler)
		return []string{bundle, "exec", path, p.argument()}, err
	},
	env: func(p *project) []string {
		env := []string{"BUNDLE_PATH=vendor/bundle", "BUNDLE_BIN=vendor/bundle/bin"}
		return given(env, p.cfg.Build == "", "BUNDLE_WITHOUT=development:test")
	},
}

const gemMark = "vendor/bundle/.berth"

var (
	gemLine    = regexp.MustCompile(`(?m)^\s*(gem[\s("']|gemspec|eval_gemfile|instance_eval)`)
	gemFiles   = regexp.MustCompile(`\bgemspec\b|\bpath\b|\beval|\bFile\b|\bDir\b|(?m:^\s*require)|\bplugin\b`)
	rubySeries = regexp.MustCompile(`^\s*(?:ruby-)?(\d+\.\d+)`)
	rubyWants  = regexp.MustCompile(`(?m)^\s*ruby[\s(]+["']([^"']+)["']`)
)

// gems installs what the Gemfile names.
func gems(p *project) (packages, error) {
	text, err := p.read("Gemfile")
	if err != nil || !gemLine.MatchString(text) {
		return packages{}, err
	}
	command, err := p.need(bundler, rubyProgram)
	if err != nil {
		return packages{}, err
	}
	var lock string
	if p.files.Exists("Gemfile.lock") { // Bundler mends one that does not fit
		lock = "Gemfile.lock"
	}
	return packages{
		steps: []app.Step{
			{
				Argv: []string{command, "install"},
				OnFail: app.Textf("Bundler could not install the gems of the Gemfile; its output tells why. " +
					"Gems that are compiled need gcc, make and ruby-dev, which are the owner's to install."),
			},
			marked(gemMark),
		},
		recipe: strings.Join(p.env(), " "), from: []string{"Gemfile"}, lock: lock, locks: []string{"Gemfile.lock"},
		mark: gemMark, unclear: gemFiles.MatchString(text) || undoes.MatchString(p.cfg.Build),
	}, nil
}

// rubyDemand is the Ruby that the Gemfile asks for, which Bundler insists on. A
// .ruby-version names what was developed with: newer ones do, and other patches.
func rubyDemand(p *project) demand {
	if text, err := p.read("Gemfile"); err == nil {
		if m := rubyWants.FindStringSubmatch(text); m != nil {
			return demand{ranges: m[1], file: "Gemfile"}
		}
	}
	text, err := p.read(".ruby-version")
	if m := rubySeries.FindStringSubmatch(text); m != nil && err == nil {
		return demand{ranges: ">=" + m[1], file: ".ruby-version"}
	}
	return demand{}
}
