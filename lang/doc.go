// Package lang knows how a program of each language is prepared and started:
// the configuration and the uploaded files go in, an app.Plan comes out.
//
// It runs nothing, reads nothing but what app.Files hands it, and refuses to
// guess: when no main file can be found, or the host lacks the runtime, the
// error says what was looked for and what to do. What it can carry on without
// (a pinned VERSION, APT packages) becomes a note in the plan.
//
// Each language is one value in one file; the table in language.go lists them
// in the order in which they are considered. To add a language, add a row.
//
// Package host asks it for the plan of every upload and commit.
package lang
