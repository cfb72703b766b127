package runtimes

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"berth/app"
)

var (
	node = program{binary: "node", title: "Node.js", apt: "nodejs npm", runtime: "node"}
	npm  = program{binary: "npm", title: "npm", apt: "nodejs npm", runtime: "node"}
)

// javascript runs on Node.js; npm installs what package.json asks for.
var javascript = language{
	name:     "javascript",
	title:    "Node.js",
	exts:     []string{".js", ".mjs", ".cjs"},
	mains:    []string{"index.js", "main.js", "bot.js", "app.js", "server.js", "index.mjs", "index.cjs", "src/index.js", "src/main.js", "src/bot.js"},
	programs: []program{node, npm},
	shebangs: []string{"node", "nodejs"},
	manifest: packageEntry,
	evidence: []string{"package.json"},
	demand:   engine,
	packages: nodePackages,
	bin:      nodeBin,
	argv: func(p *project) ([]string, error) {
		path, err := p.need(node)
		return []string{path, p.argument()}, err
	},
}

const nodeBin = "node_modules/.bin"

// typescript runs on Node.js too: by a package of the project that knows how,
// or where Node.js does by itself.
var typescript = language{
	name:     "typescript",
	title:    "Node.js",
	exts:     []string{".ts", ".mts", ".cts", ".tsx"},
	mains:    []string{"index.ts", "main.ts", "bot.ts", "app.ts", "server.ts", "src/index.ts", "src/main.ts", "src/bot.ts"},
	programs: []program{node},
	evidence: []string{"tsconfig.json"},
	demand:   engine,
	packages: nodePackages,
	bin:      nodeBin,
	argv:     typescriptArgv,
}

// typescriptArgv finds what can run MAIN, or says how to get there.
func typescriptArgv(p *project) ([]string, error) {
	command, err := p.need(node)
	if err != nil {
		return nil, err
	}
	pkg, err := readPackage(p.source)
	if err != nil {
		return nil, err
	}
	switch pkg.runner() {
	case "tsx": // in the same process, which its own command is not
		return []string{command, "--import", "tsx", p.argument()}, nil
	case "ts-node":
		return []string{nodeBin + "/ts-node", p.argument()}, nil
	}
	have := p.tools.Version(node.binary)
	var lack app.Text
	if f := judge("^22.18 || >=23.6", parseVersion(have)); f == older || f == newer {
		lack = app.Textf("the host's Node.js %s cannot run TypeScript by itself, as 22.18 and newer can", have)
	}
	if strings.EqualFold(path.Ext(p.main), ".tsx") {
		lack = app.Textf("Node.js cannot run .tsx files by itself")
	}
	if !lack.IsZero() {
		return nil, app.Errorf(app.Unusable, "cannot run MAIN=%s: %s: add tsx to the dependencies in package.json, "+
			"or set BUILD to what compiles it (npx tsc) and MAIN to the .js file which that makes", p.main, lack)
	}
	return []string{command, p.argument()}, nil
}

// packageJSON is what berth reads of package.json. Fields of the wrong type
// are npm's business, so each is decoded when it is used.
type packageJSON struct {
	Main       json.RawMessage `json:"main"`
	Scripts    json.RawMessage `json:"scripts"`
	Engines    json.RawMessage `json:"engines"`
	Deps       json.RawMessage `json:"dependencies"`
	Optional   json.RawMessage `json:"optionalDependencies"`
	Peer       json.RawMessage `json:"peerDependencies"`
	Dev        json.RawMessage `json:"devDependencies"`
	Workspaces json.RawMessage `json:"workspaces"`
	Patched    json.RawMessage `json:"patchedDependencies"`
}

// readPackage reads package.json; an absent one is empty.
func readPackage(s source) (packageJSON, error) {
	var pkg packageJSON
	err := s.readJSON("package.json", &pkg)
	return pkg, err
}

// texts returns the texts of a JSON object, nil when there is anything else.
func texts(object json.RawMessage) map[string]string {
	var m map[string]string
	if json.Unmarshal(object, &m) != nil {
		return nil
	}
	return m
}

// runner returns the package of the project that runs TypeScript.
func (pkg packageJSON) runner() string {
	for _, name := range []string{"tsx", "ts-node"} {
		if texts(pkg.Deps)[name] != "" || texts(pkg.Dev)[name] != "" {
			return name
		}
	}
	return ""
}

// engine is the Node.js that package.json asks for.
func engine(p *project) demand {
	pkg, err := readPackage(p.source)
	if err != nil {
		return demand{}
	}
	return demand{texts(pkg.Engines)["node"], "package.json", "engines"}
}

// nodeStart matches a start script that does nothing but run a file.
var nodeStart = regexp.MustCompile(`^node\s+([\w./-]+)$`)

// packageEntry returns what package.json says to start. A script that only
// runs a file is not left to npm, which would stay in memory beside it.
func packageEntry(p *project) entry {
	pkg, err := readPackage(p.source)
	if err != nil {
		return entry{}
	}
	var main string
	if json.Unmarshal(pkg.Main, &main) == nil {
		if file := resolve(p.source, main); file != "" {
			return entry{main: file}
		}
	}
	start := pkg.script("start")
	if start == "" {
		return entry{}
	}
	if m := nodeStart.FindStringSubmatch(start); m != nil {
		if file := resolve(p.source, m[1]); file != "" {
			return entry{main: file}
		}
		if p.cfg.Build == "" {
			p.note("package.json starts %s, which is not in the archive%s.", m[1], pkg.buildHint())
		}
	}
	return entry{start: npmStart}
}

// resolve returns the file that Node.js runs for name, which may lack its
// ending or be a folder; "" when there is none.
func resolve(s source, name string) string {
	for _, file := range []string{name, name + ".js", path.Join(name, "index.js")} {
		if file, ok := cleanPath(file); ok && s.files.Exists(file) {
			return file
		}
	}
	return ""
}

// buildHint says how to have made what is missing, no text where nobody knows.
func (pkg packageJSON) buildHint() app.Text {
	if pkg.script("build") == "" {
		return app.Text{}
	}
	return app.Textf("; if the build script of package.json makes it, set BUILD=npm run build")
}

// script returns one of the scripts, "" when there is none.
func (pkg packageJSON) script(name string) string {
	var scripts map[string]any
	_ = json.Unmarshal(pkg.Scripts, &scripts)
	script, _ := scripts[name].(string)
	return script
}

// npmStart is the command that runs the start script of package.json.
const npmStart = "npm start"

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

// ownFiles reports whether what is installed depends on files of the project
// beside its manifests: packages in folders, scripts that run at the install.
func (pkg packageJSON) ownFiles() bool {
	if len(pkg.Patched) > 0 {
		return true
	}
	scripts := texts(pkg.Scripts)
	if len(pkg.Scripts) > 0 && scripts == nil {
		return true
	}
	for _, name := range []string{"preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare"} {
		if scripts[name] != "" {
			return true
		}
	}
	for _, section := range []json.RawMessage{pkg.Deps, pkg.Optional, pkg.Peer, pkg.Dev} {
		wanted := texts(section)
		if len(section) > 0 && wanted == nil {
			return true
		}
		for _, from := range wanted {
			if slices.ContainsFunc([]string{"file:", "link:", "portal:", "workspace:", "patch:", ".", "/", "~/"}, func(s string) bool { return strings.HasPrefix(from, s) }) {
				return true
			}
		}
	}
	return false
}
