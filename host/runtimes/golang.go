package runtimes

import (
	"path"
	"regexp"

	"berth/app"
)

var goProgram = program{binary: "go", title: "Go", apt: "golang-go", image: "go"}

// builtPath is where berth has programs of MAIN made, when it chooses.
const builtPath = ".berth/bin/app"

// golang is compiled at every deployment, with the modules that go.mod names.
var golang = language{
	name:     "go",
	title:    "Go",
	exts:     []string{".go"},
	mains:    []string{"main.go", "cmd/main.go", "cmd/bot/main.go", "cmd/app/main.go", "cmd/server/main.go", "src/main.go"},
	programs: []program{goProgram},
	manifest: goEntry,
	evidence: []string{"go.mod"},
	demand:   goDemand,
	outdated: app.Textf("upload the built program instead, or ask the owner to install a newer one in /usr/local/go, from https://go.dev/dl"),
	compile:  goBuild,
	built:    func(*project) string { return builtPath },
	argv:     func(*project) ([]string, error) { return []string{builtPath}, nil },
}

// goBuild compiles the package of MAIN, or without a module MAIN alone.
func goBuild(p *project) (app.Step, error) {
	command, err := p.need(goProgram)
	what := "./" + path.Dir(p.main)
	if !p.files.Exists("go.mod") {
		what = "./" + p.main
	}
	step := app.Step{
		Argv: []string{command, "build", "-o", builtPath, what},
		OnFail: app.Textf("go build failed; its output tells why. " +
			"A program of several files or with modules needs its go.mod in the root of the archive."),
	}
	if wants, have := goNewest(p), p.tools.Version(goProgram.binary); judge(wants, parseVersion(have)) == older {
		// With GOTOOLCHAIN=local in its go.env it gets no other one.
		step.OnFail = app.Textf("go build failed; its output tells why: maybe that go.mod asks for Go %s, and this host has %s: %s", wants, have, p.outdated())
	}
	return step, err
}

var (
	goModule = regexp.MustCompile(`(?m)^module\s+"?(?:\S*/)?([\w.-]+)"?\s*(?://.*)?$`)
	goWants  = regexp.MustCompile(`(?m)^(?:go\s+|toolchain\s+go)(\d+\.\d+(?:\.\d+)?)`)
)

// goEntry finds the command that is named after its module.
func goEntry(p *project) entry {
	text, err := p.read("go.mod")
	if m := goModule.FindStringSubmatch(text); m != nil && err == nil {
		for _, main := range []string{"main.go", "cmd/" + m[1] + "/main.go", m[1] + ".go"} {
			if p.files.Exists(main) {
				return entry{main: main}
			}
		}
	}
	return entry{}
}

// goDemand is the Go that go.mod asks for. Since 1.21 Go gets a newer one for
// itself, if it may.
func goDemand(p *project) demand {
	wants := goNewest(p)
	if wants == "" || judge(">=1.21", parseVersion(p.tools.Version(goProgram.binary))) != older {
		return demand{}
	}
	return demand{ranges: wants, file: "go.mod"}
}

// goNewest is the range from the newest Go that go.mod names, "" for none.
func goNewest(p *project) string {
	text, _ := p.read("go.mod") // go build tells what is wrong with it
	var most string
	for _, m := range goWants.FindAllStringSubmatch(text, -1) {
		if most == "" || parseVersion(m[1]).compare(parseVersion(most)) > 0 {
			most = m[1]
		}
	}
	if most == "" {
		return ""
	}
	return ">=" + most
}
