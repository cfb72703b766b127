// Package exit is how a command ends: its exit code, and what it says when it cannot do
// what it was asked for. The commands, the settings and the daemon share it.
package exit
