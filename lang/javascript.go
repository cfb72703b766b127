package lang

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"berth/app"
)

var (
	node = program{"node", "Node.js", "apt install nodejs npm"}
	npm  = program{"npm", "npm", "apt install nodejs npm"}
)

// javascript runs on Node.js; npm installs what package.json asks for.
var javascript = language{
	name:     "javascript",
	title:    "Node.js",
	exts:     []string{".js", ".mjs", ".cjs"},
	mains:    []string{"index.js", "main.js", "bot.js", "app.js", "server.js", "index.mjs", "index.cjs", "src/index.js", "src/main.js", "src/bot.js"},
	needs:    []program{node},
	shebangs: []string{"node", "nodejs"},
	manifest: packageEntry,
	evidence: "package.json",
	prepare:  npmSteps,
	bin:      "node_modules/.bin",
	argv: func(p *project) []string {
		path, _ := p.look(node.binary)
		return []string{path, p.argument()}
	},
	// Only when it runs: with it, npm would leave out devDependencies, which
	// BUILD needs.
	buildEnv: []string{"npm_config_update_notifier=false"},
}

// manifestLimit is more than any package.json written by a person.
const manifestLimit = 1 << 20

// packageJSON is what berth reads of package.json. Fields of the wrong type
// are npm's business, so each is decoded when it is used.
type packageJSON struct {
	Main     json.RawMessage `json:"main"`
	Scripts  json.RawMessage `json:"scripts"`
	Deps     json.RawMessage `json:"dependencies"`
	Optional json.RawMessage `json:"optionalDependencies"`
	Peer     json.RawMessage `json:"peerDependencies"`
	Dev      json.RawMessage `json:"devDependencies"`
}

// readPackage reads package.json; an absent one is empty.
func readPackage(files app.Files) (packageJSON, error) {
	var pkg packageJSON
	if !files.Exists("package.json") {
		return pkg, nil
	}
	text, err := files.Read("package.json", manifestLimit)
	if err != nil {
		return pkg, fmt.Errorf("cannot read package.json: %w", err)
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if err := json.Unmarshal(text, &pkg); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			line := bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte{'\n'}) + 1
			return pkg, app.Errorf(app.Unusable, "package.json is not valid JSON, line %d: %v", line, syntax)
		}
		return pkg, app.Errorf(app.Unusable, "package.json is not a JSON object")
	}
	return pkg, nil
}

// nodeStart matches a start script that does nothing but run a file.
var nodeStart = regexp.MustCompile(`^node\s+([\w./-]+)$`)

// packageEntry returns what package.json says to start. A script that only
// runs a file is not left to npm, which would stay in memory beside it.
func packageEntry(files app.Files) entry {
	pkg, err := readPackage(files)
	if err != nil {
		return entry{}
	}
	var main string
	if json.Unmarshal(pkg.Main, &main) == nil {
		if main, ok := cleanPath(main); ok && files.Exists(main) {
			return entry{main: main}
		}
	}
	var scripts map[string]any
	_ = json.Unmarshal(pkg.Scripts, &scripts)
	start, _ := scripts["start"].(string)
	if m := nodeStart.FindStringSubmatch(start); m != nil {
		if main, ok := cleanPath(m[1]); ok && files.Exists(main) {
			return entry{main: main}
		}
	}
	if start == "" {
		return entry{}
	}
	return entry{start: npmStart}
}

// npmStart is the command that runs the start script of package.json.
const npmStart = "npm start"

// npmSteps installs the packages, if package.json asks for any.
func npmSteps(p *project) ([]app.Step, error) {
	pkg, err := readPackage(p.files)
	if err != nil {
		return nil, err
	}
	wanted := asksFor(pkg.Deps, pkg.Optional, pkg.Peer) || (p.cfg.Build != "" && asksFor(pkg.Dev))
	if !wanted && (p.start != npmStart || p.cfg.Start != "") {
		return nil, nil
	}
	path, err := p.need(npm)
	if err != nil || !wanted {
		return nil, err
	}
	// A lock file that npm writes here would be in the way of the next commit.
	step := app.Step{
		Argv:   []string{path, "install", "--no-package-lock"},
		OnFail: "npm could not install the packages of package.json: check their names and versions.",
	}
	if locked(p.files) {
		step.Argv = []string{path, "ci"}
		step.OnFail = "npm could not install the packages: if package.json and its lock file do not match, " +
			"run npm install and upload both, or upload without the lock file."
	}
	step.Argv = append(step.Argv, "--no-audit", "--no-fund")
	if p.cfg.Build == "" {
		step.Argv = append(step.Argv, "--omit=dev")
	}
	return []app.Step{step}, nil
}

// locked reports whether there is a lock file for the package.json there is: a
// commit that brings the one without the other leaves an old one behind.
func locked(files app.Files) bool {
	for _, lock := range []string{"package-lock.json", "npm-shrinkwrap.json"} {
		if files.Brought(lock) || files.Exists(lock) && !files.Brought("package.json") {
			return true
		}
	}
	return false
}

// asksFor reports whether one of the sections names a package.
func asksFor(sections ...json.RawMessage) bool {
	for _, s := range sections {
		var packages map[string]json.RawMessage
		if json.Unmarshal(s, &packages) == nil && len(packages) > 0 {
			return true
		}
	}
	return false
}
