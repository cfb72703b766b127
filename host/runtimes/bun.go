package runtimes

import (
	"slices"

	"berth/app"
)

// Deno and Bun run JavaScript and TypeScript. A project is theirs when it holds
// a file of theirs (ofAnother), or its main file names them.

var (
	denoProgram = program{binary: "deno", title: "Deno", runtime: "deno", line: "2"}
	bunProgram  = program{binary: "bun", title: "Bun", runtime: "bun", line: "1"}

	bunLocks = []string{"bun.lock", "bun.lockb"}
)

// bunMark tells that Bun has installed packages.
const bunMark = "node_modules/.berth"

var bun = language{
	name:     "bun",
	title:    "Bun",
	programs: []program{bunProgram},
	shebangs: []string{"bun"},
	evidence: append(slices.Clone(bunLocks), "bunfig.toml"),
	packages: nodePackages,
	bin:      nodeBin,
	argv: func(p *project) ([]string, error) {
		path, err := p.need(bunProgram)
		return []string{path, "run", "./" + p.main}, err // or it may be the name of a script
	},
}

var deno = language{
	name:     "deno",
	title:    "Deno",
	programs: []program{denoProgram},
	shebangs: []string{"deno"},
	evidence: []string{"deno.json", "deno.jsonc", "deno.lock"},
	argv: func(p *project) ([]string, error) {
		path, err := p.need(denoProgram)
		return []string{path, "run", "--allow-all", p.argument()}, err
	},
	// What the code imports is known to the code alone, so Deno is asked every
	// time; it fetches what is not in DENO_DIR, which the program reads too.
	compile: func(p *project) (app.Step, error) {
		path, err := p.need(denoProgram)
		// Since 2.0 Deno asks before it imports from most hosts.
		asks := judge(">=2", parseVersion(p.tools.Version(denoProgram.binary))) == fits
		return app.Step{
			Argv:   append(given([]string{path, "cache"}, asks, "--allow-import"), p.argument()),
			OnFail: app.Textf("Deno could not fetch what MAIN imports: check the names and addresses."),
		}, err
	},
	built: func(*project) string { return "" }, // the runtime is needed in any case
	env: func(*project) []string {
		return []string{"DENO_DIR=.berth/deno", "DENO_NO_UPDATE_CHECK=1", "DENO_TLS_CA_STORE=mozilla,system"}
	},
}
