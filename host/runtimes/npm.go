package runtimes

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"berth/app"
)

// manager is a package manager of JavaScript.
type manager struct {
	program
	other   string // another name of its command
	locks   []string
	mark    string                                           // what it leaves in node_modules
	install func(p *project, lock string, dev bool) []string // its arguments
	env     []string
}

// managers are told by their lock files; npm also does without one.
var managers = []*manager{
	{
		program: npm,
		locks:   []string{"package-lock.json", "npm-shrinkwrap.json"},
		mark:    "node_modules/.package-lock.json",
		install: func(_ *project, lock string, dev bool) []string {
			// A lock file that npm writes here would be in the way of the next commit.
			args := []string{"install", "--no-package-lock"}
			if lock != "" {
				args = []string{"ci"}
			}
			return given(append(args, "--no-audit", "--no-fund"), !dev, "--omit=dev")
		},
	},
	{
		program: program{binary: "pnpm", title: "pnpm", site: "https://pnpm.io"},
		locks:   []string{"pnpm-lock.yaml"},
		mark:    "node_modules/.modules.yaml",
		install: func(_ *project, _ string, dev bool) []string {
			return given([]string{"install", "--frozen-lockfile", "--config.confirmModulesPurge=false"}, !dev, "--prod")
		},
		// Its store is thrown away with the build's temporary directory.
		env: []string{"npm_config_package_import_method=copy"},
	},
	{
		program: program{binary: "yarn", title: "Yarn", apt: "yarnpkg"},
		other:   "yarnpkg", // Debian's name for it
		locks:   []string{"yarn.lock"},
		mark:    "node_modules/.yarn-integrity",
		install: func(p *project, lock string, dev bool) []string {
			if modernYarn(p, lock) {
				return []string{"install", "--immutable"}
			}
			return given([]string{"install", "--frozen-lockfile", "--non-interactive"}, !dev, "--production")
		},
		env: []string{"YARN_NODE_LINKER=node-modules"}, // programs are started by Node.js alone
	},
	{
		program: bunProgram,
		locks:   bunLocks,
		mark:    bunMark,
		install: func(_ *project, lock string, dev bool) []string {
			return given(given([]string{"install"}, lock != "", "--frozen-lockfile"), !dev, "--production")
		},
	},
}

// given appends what only some cases need.
func given(args []string, when bool, more ...string) []string {
	if when {
		return append(args, more...)
	}
	return args
}

// modernYarn tells lock files of Yarn 2 and newer from those of Yarn 1.
func modernYarn(p *project, lock string) bool {
	head, err := p.files.Read(lock, 4<<10)
	return err == nil && strings.Contains(string(head), "__metadata:")
}

// undoes matches a BUILD that may take away what was installed for it, which
// the next deployment needs again.
var undoes = regexp.MustCompile(`\b(prune|uninstall|remove|rm)\b`)

// nodePackages installs the packages, if package.json asks for any.
func nodePackages(p *project) (packages, error) {
	pkg, err := readPackage(p.source)
	if err != nil {
		return packages{}, err
	}
	// What runs TypeScript is a development package to most.
	dev := p.cfg.Build != "" || p.lang.name == "typescript" && p.start == "" && pkg.runner() != ""
	members, err := members(p.source, pkg)
	if err != nil {
		return packages{}, err
	}
	if wanted := members || asksFor(pkg.Deps, pkg.Optional, pkg.Peer) || dev && asksFor(pkg.Dev); !wanted {
		if p.start == npmStart && p.cfg.Start == "" {
			_, err = p.need(npm)
		}
		return packages{}, err
	}
	m, lock := managerOf(p)
	command, err := p.need(m.program)
	if err != nil {
		return packages{}, err
	}
	pk := packages{
		from: []string{"package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", "pnpm-workspace.yaml", ".pnpmfile.cjs", "bunfig.toml"},
		lock: lock, locks: m.locks, mark: m.mark, recipe: fmt.Sprint(m.title, " dev=", dev),
		unclear: members || pkg.ownFiles() || undoes.MatchString(p.cfg.Build),
	}
	step := app.Step{
		Argv: append([]string{command}, m.install(p, lock, dev)...), Env: m.env,
		OnFail: notInstalled(m.title, "package.json"),
	}
	if lock != "" {
		step.OnFail = app.Textf("%s could not install the packages: if package.json and %s do not match, "+
			"run %s install and upload both, or upload without the lock file.", m.title, lock, m.binary)
	}
	pk.steps = []app.Step{step}
	switch {
	case m.title == "Bun": // leaves nothing to know its work by
		pk.steps = append(pk.steps, marked(bunMark))
	case m.title == "Yarn" && modernYarn(p, lock):
		pk.mark = "node_modules/.yarn-state.yml"
	}
	return pk, nil
}

// pnpmMembers matches a pnpm-workspace.yaml that holds more than settings.
var pnpmMembers = regexp.MustCompile(`(?m)^packages\s*:`)

// members reports whether folders of the project are packages too, with
// packages of their own to install.
func members(s source, pkg packageJSON) (bool, error) {
	text, err := s.read("pnpm-workspace.yaml")
	return len(pkg.Workspaces) > 0 || pnpmMembers.MatchString(text), err
}

// managerOf returns what installs the packages, and the lock file it heeds. npm
// stands in for one that the host does not have.
func managerOf(p *project) (*manager, string) {
	if p.lang.name == "bun" {
		m := managers[len(managers)-1]
		return m, p.lockOf("package.json", m.locks...)
	}
	for _, m := range managers {
		lock := p.lockOf("package.json", m.locks...)
		if lock == "" {
			continue
		}
		found, wants := *m, m.title
		if !p.has(m.program) && m.other != "" {
			found.binary = m.other
		}
		able := p.has(found.program)
		if m.title == "Yarn" { // which does not read the other kind's lock file
			versions := "<2"
			if wants = "Yarn 1"; modernYarn(p, lock) {
				wants, versions = "Yarn 2 or newer", ">=2"
			}
			fit := judge(versions, parseVersion(p.tools.Version(found.binary)))
			able = able && (fit == fits || fit == unclear)
		}
		if able {
			return &found, lock
		}
		p.note("%s asks for %s, which this host does not have; npm installs the packages, in versions of its own choice.", lock, wants)
		break
	}
	return managers[0], ""
}

// marked is a step that leaves a file to know by that packages are there.
func marked(mark string) app.Step {
	return app.Step{
		Argv:   []string{sh, "-c", "mkdir -p " + path.Dir(mark) + " && : > " + mark},
		OnFail: app.Textf("the packages were installed, but %s cannot be written: upload without that folder.", mark),
	}
}
