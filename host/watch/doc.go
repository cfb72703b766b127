// Package watch tells people what happens to applications while it happens, and
// measures what runs.
//
// The Hub takes events from the units of the host and hands them to those who
// may see them. The last ones of each application are kept, so that somebody
// whose connection broke is told what was missed. Telling never waits: who reads
// too slowly misses events and is told that, and how many. With nobody watching
// the hub is a map and a ring for each application: no goroutine, no timer.
//
// The Sampler has one timer for all applications: at each full minute while a
// program runs, every two seconds more for those whose figures somebody watches,
// and none while nothing runs. What it measures becomes a point of history for
// each minute.
//
// It is policy: it makes no system call, and reaches applications, teams, logs
// and the history through the functions and interfaces of its Config. main wires
// it; httpapi and the panel serve what it tells.
package watch
