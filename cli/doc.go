// Package cli is the command line: it finds the command that the arguments name,
// runs it and returns the exit code. What a command of the host does is in
// cli/host, which needs Linux; commands of every system are here.
package cli
