package runtimes

import (
	"path"
	"regexp"
	"strings"

	"berth/app"
)

var (
	rustc = program{binary: "rustc", title: "Rust", apt: "cargo", image: "rust"}
	cargo = program{binary: "cargo", title: "Cargo", apt: "cargo", image: "rust"}
)

// rust is compiled by Cargo at every deployment. What Cargo keeps in target
// stays in the tree, so that only what changed is compiled.
var rust = language{
	name:     "rust",
	title:    "Rust",
	exts:     []string{".rs"},
	mains:    []string{"src/main.rs"},
	programs: []program{rustc, cargo},
	manifest: rustEntry,
	evidence: []string{"Cargo.toml"},
	demand:   rustDemand,
	outdated: app.Textf("upload the built program instead, or require an older version there"),
	compile:  cargoBuild,
	built:    rustBuilt,
	argv: func(p *project) ([]string, error) {
		built := rustBuilt(p)
		if built == "" {
			return nil, app.Errorf(app.Unusable, "cannot tell what Cargo.toml makes of MAIN=%s: "+
				"the name of the package is missing; in a workspace, set BUILD=cargo build --release and START=target/release/ with the name of the program", p.main)
		}
		return []string{built}, nil
	},
}

// cargoTOML is what berth reads of Cargo.toml.
type cargoTOML struct {
	Package struct {
		Name       string `toml:"name"`
		Rust       any    `toml:"rust-version"` // or a table: the workspace's
		Edition    any    `toml:"edition"`      // as this
		DefaultRun string `toml:"default-run"`
	} `toml:"package"`
	Bin []struct {
		Name string `toml:"name"`
		Path string `toml:"path"`
	} `toml:"bin"`
}

// binary is the name of the program that Cargo makes of main: its target by
// path, by Cargo's own convention, or the only one.
func (c cargoTOML) binary(main string) string {
	for _, b := range c.Bin {
		if b.Path != "" && path.Clean(b.Path) == main {
			return b.Name
		}
	}
	if name, ok := strings.CutPrefix(main, "src/bin/"); ok {
		return strings.TrimSuffix(strings.TrimSuffix(name, ".rs"), "/main")
	}
	if len(c.Bin) == 1 && c.Bin[0].Path == "" {
		return c.Bin[0].Name
	}
	if c.Package.DefaultRun != "" {
		return c.Package.DefaultRun
	}
	return c.Package.Name
}

// rustBuilt is where Cargo puts the program of MAIN, "" when that is unknown.
func rustBuilt(p *project) string {
	var c cargoTOML
	if err := p.readTOML("Cargo.toml", &c); err != nil {
		return ""
	}
	name := c.binary(p.main)
	if clean, ok := cleanPath(name); !ok || path.Base(clean) != name {
		return ""
	}
	return "target/release/" + name
}

// cargoBuild compiles the program of MAIN.
func cargoBuild(p *project) (app.Step, error) {
	command, err := p.need(cargo, rustc)
	if err != nil {
		return app.Step{}, err
	}
	if !p.files.Exists("Cargo.toml") {
		return app.Step{}, app.Errorf(app.Unusable, "cannot compile MAIN=%s: there is no Cargo.toml in the root of the archive", p.main)
	}
	var c cargoTOML
	if err := p.readTOML("Cargo.toml", &c); err != nil {
		return app.Step{}, err
	}
	argv := []string{command, "build", "--release", "--bin", path.Base(rustBuilt(p))}
	if p.lockOf("Cargo.toml", "Cargo.lock") != "" {
		argv = append(argv, "--locked")
	}
	return app.Step{Argv: argv, OnFail: app.Textf("cargo build failed; its output tells why.")}, nil
}

// rustEntry takes the only program that Cargo.toml gives a path of its own.
func rustEntry(p *project) entry {
	var c cargoTOML
	if err := p.readTOML("Cargo.toml", &c); err != nil || len(c.Bin) != 1 {
		return entry{}
	}
	if main, ok := cleanPath(c.Bin[0].Path); ok && p.files.Exists(main) {
		return entry{main: main}
	}
	return entry{}
}

// lockVersion4 matches a Cargo.lock that older Cargos do not understand.
var lockVersion4 = regexp.MustCompile(`(?m)^version = 4\s*$`)

// rustDemand is the Rust that Cargo.toml asks for, in words or by its edition,
// or that Cargo.lock was made by.
func rustDemand(p *project) demand {
	var c cargoTOML
	if err := p.readTOML("Cargo.toml", &c); err != nil {
		return demand{}
	}
	have := parseVersion(p.tools.Version(rustc.binary))
	if wants, _ := c.Package.Rust.(string); wants != "" && judge(">="+wants, have) != fits {
		return demand{">=" + wants, "Cargo.toml", "rust-version"}
	}
	if c.Package.Edition == "2024" && judge(">=1.85", have) == older {
		return demand{">=1.85", "Cargo.toml", "edition"}
	}
	if lock, err := p.read("Cargo.lock"); err == nil && lockVersion4.MatchString(lock) {
		return demand{">=1.78", "Cargo.lock", "version"}
	}
	return demand{}
}
