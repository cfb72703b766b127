package lang

import "berth/app"

// language is what berth knows of one language. Every function may be nil.
type language struct {
	name  string   // what the API calls it
	title string   // what people call it, in messages
	exts  []string // of a main file, with the dot
	mains []string // names to look for when the config gives no MAIN

	// needs are the programs of the host that starting takes.
	needs []program

	// shebangs are the interpreters of this language, as after "#!".
	shebangs []string

	// claims reports whether a file that begins with head is of this language,
	// whatever its name.
	claims func(head []byte) bool

	// manifest infers from a manifest, such as package.json, what to start.
	manifest func(files app.Files) entry

	// evidence is the file that shows this language where only START was
	// given, so that its packages are installed.
	evidence string

	// check refuses a main file that cannot run here.
	check func(p *project) error

	// prepare returns the steps that install packages.
	prepare func(p *project) ([]app.Step, error)

	// bin is the directory of the programs that prepare installs; START and
	// BUILD find them by name.
	bin string

	// argv starts p.main.
	argv func(p *project) []string

	buildEnv []string
}

// runEnv is for every program: what START names may be of another language
// than MAIN. A build gets no NODE_ENV, or npm would leave out the packages
// that builds need.
var runEnv = []string{"NODE_ENV=production", "PYTHONUNBUFFERED=1"}

// program is one that must be on the host, and what to tell the user when it
// is not.
type program struct{ binary, title, install string }

// entry is what to start: a file, or a command instead.
type entry struct{ main, start string }

// languages is the table. Content goes before names (see detect); the order
// counts where a tree fits several.
var languages = []*language{&prebuilt, &javascript, &python, &shell}
