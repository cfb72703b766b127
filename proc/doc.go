// Package proc is one run of one program: born in its control group, and how
// it ended.
//
// A Launcher starts a helper straight inside a fresh group, with a plan of system
// calls (package sandbox): they confine the child, and the last one makes it the
// program by execve, so the pid is the same all the way and nothing of berth stays
// behind. Run.Wait returns one value that says everything about
// the end. It restarts nothing: that is policy (package host).
//
// The package also tells figures of the host (gopsutil), and where its commands
// are and which versions (Tools).
package proc
