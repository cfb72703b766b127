// Package runtimes knows how a program of each language is prepared and started: the
// configuration and the uploaded files go in, an app.Plan comes out.
//
// It runs nothing, reads nothing but what app.Files and Tools hand it, and refuses to
// guess: when no main file can be found, or the host lacks the runtime or has one that is
// too old, the error says what was looked for and what to do. What it can carry on
// without (another VERSION, APT packages that the host lacks) becomes a note in the plan.
// What it does not understand of a manifest it leaves to the language's own tools.
//
// Packages that were installed from the same manifests are left alone (packages.go).
//
// Each language is one value, the larger ones in files of their own; the table in
// language.go lists them in the order in which they are considered. To add a language, add a row. Tools is what the
// package asks of the host, dpkg's list of packages included (proc.Tools answers); apt.go
// is the one table of APT's groups.
//
// Where programs run in images (Tools.Images), each has one runtime and nothing of the host's:
// every runtime is chosen as those of berth runtime install are, and a command is a name alone.
//
// Package host asks it for the plan of every upload and commit.
package runtimes
