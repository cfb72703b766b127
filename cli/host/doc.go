// Package host holds the commands that work on the machine berth runs on: they
// open its data directory, its control groups and its service manager. Each file
// is one noun of the command line. A command parses, asks one mechanism or the
// daemon's package, and prints; it serves nobody and keeps nothing running.
//
// What programs read (ids, tokens, JSON) goes to stdout alone, everything else to
// stderr. Errors carry their exit code as a exit.Problem.
package host
