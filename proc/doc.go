// Package proc is one run of one program: born in its control group, and how
// it ended.
//
// A Launcher starts berth's own binary as "app-init" straight inside a fresh
// group; Init, in that child, confines itself (package sandbox) and becomes
// the program by execve, so the pid is the same all the way and nothing of
// berth stays behind. Run.Wait returns one value that says everything about
// the end. It restarts nothing: that is policy (package host).
//
// The package also tells figures of the host (gopsutil), and where its commands
// are and which versions (Tools).
package proc
