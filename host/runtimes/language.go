package runtimes

import (
	"bytes"

	"berth/app"
)

// language is what berth knows of one language. Every function may be nil.
type language struct {
	name  string   // what the API calls it
	title string   // what people call it, in messages
	exts  []string // of a main file, with the dot
	mains []string // names to look for when the config gives no MAIN

	// programs are those of the host that it takes: first the one that runs or
	// compiles programs, then what installs their packages.
	programs []program

	// shebangs are the interpreters of this language, as after "#!".
	shebangs []string

	// claims reports whether a file that begins with head is of this language,
	// whatever its name.
	claims func(head []byte) bool

	// manifest infers from a manifest, such as package.json, what to start.
	manifest func(p *project) entry

	// evidence are the files that show this language where only START was
	// given, so that its packages are installed.
	evidence []string

	// check refuses a main file that cannot run here.
	check func(p *project) error

	// demand returns the versions that the project asks for.
	demand func(p *project) demand

	// outdated is what to do when the host's version is older than that.
	outdated app.Text

	// packages says how packages are installed, in no steps when the project
	// asks for none.
	packages func(p *project) (packages, error)

	// bin is the directory of the programs that come with the packages; START
	// and BUILD find them by name.
	bin string

	// compile makes the program of p.main, anew for every deployment.
	compile func(p *project) (app.Step, error)

	// built is where compile puts the program.
	built func(p *project) string

	// argv starts p.main.
	argv func(p *project) ([]string, error)

	env func(p *project) []string // of the program, and of what prepares it
}

// runEnv is for every program, and buildEnv for everything that prepares one:
// what START and BUILD name may be of another language than MAIN. A build gets
// no NODE_ENV, or npm would leave out the packages that builds need.
var (
	runEnv   = []string{"NODE_ENV=production", "PYTHONUNBUFFERED=1", "npm_config_update_notifier=false"}
	buildEnv = []string{
		"NO_COLOR=1", "PYTHONUNBUFFERED=1",
		"npm_config_update_notifier=false", "PIP_DISABLE_PIP_VERSION_CHECK=1", "CARGO_TERM_PROGRESS_WHEN=never",
		"COMPOSER_NO_INTERACTION=1", "COMPOSER_NO_AUDIT=1",
		// A compiler for each processor would need more memory than a build has.
		"GOFLAGS=-p=1 -buildvcs=false", "CARGO_BUILD_JOBS=1",
	}
)

// entry is what to start: a file, or a command instead.
type entry struct{ main, start string }

// languages is the table. Content goes before names (see detect); the order
// counts where a tree fits several.
var languages = []*language{
	&prebuilt, &javascript, &typescript, &python, &golang, &rust, &java, &php, &ruby, &deno, &bun, &shell, &static,
}

// java runs jars that were built before: what builds them needs more memory
// than most programs.
var java = language{
	name:     "java",
	title:    "Java",
	exts:     []string{".jar"},
	mains:    []string{"app.jar", "main.jar", "bot.jar", "server.jar"},
	programs: []program{{binary: "java", title: "Java", apt: "default-jre-headless", runtime: "java"}},
	argv: func(p *project) ([]string, error) {
		path, err := p.need(p.lang.programs[0])
		// The JVM sees its group's limit, in both versions of control groups. What
		// is not heap (code, stacks, classes) needs the rest. The second option is
		// the first one's for groups below about 250 MB.
		return []string{path, "-XX:MaxRAMPercentage=70", "-XX:MinRAMPercentage=70", "-jar", p.argument()}, err
	},
}

// shell is a script for /bin/sh, and whatever START alone describes.
var shell = language{
	name:     "shell",
	exts:     []string{".sh"},
	mains:    []string{"start.sh", "run.sh"},
	shebangs: []string{"sh", "dash", "ash", "bash"},
	argv: func(p *project) ([]string, error) {
		if bytes.Contains(p.head, []byte("\r\n")) {
			p.note("%s has the line ends of Windows (CRLF), which the shell takes for a part of the words: save it with those of Linux (LF).", p.main)
		}
		// The execute permission is often lost in a ZIP, so the interpreter is
		// named. A script for bash fails under sh in ways nobody understands.
		if bash, _ := p.tools.Find("bash"); bash != "" && interpreter(p.head) == "bash" {
			return []string{bash, p.argument()}, nil
		}
		return []string{sh, p.argument()}, nil
	},
}

// static is a site of files, which berth serves itself. There is no program,
// and no step but BUILD, with the packages of the language that its files show.
var static = language{
	name:  app.StaticLang,
	exts:  []string{".html", ".htm"},
	mains: []string{"index.html"},
}
