// Package proc is one run of one program: born in its control group, and how
// it ended.
//
// A Launcher starts a helper straight inside a fresh group, with a plan of system
// calls (package sandbox): they confine the child, and the last one makes it the
// program by execve, so the pid is the same all the way and nothing of berth stays
// behind. Run.Wait returns one value that says everything about
// the end. It restarts nothing: that is policy (package host).
//
// A Console is a command in the place of a program, or beside it: its output is kept
// (capture), or somebody reads and writes while it runs (session), at a terminal that the
// child makes for itself behind its walls (sandbox.Plan.Terminal; docs/adr/0051).
//
// The package also tells figures of the host (gopsutil), when its memory is short
// (Pressure), and where its commands
// are and which versions (Tools).
package proc
