// Package sandbox is what a child may see and do: its user, its privileges,
// its limits, the mounts of its own. A Meter counts what it sends and receives.
//
// Enter is called in the child, between its birth in its cgroup and the
// execve of the program (see proc.Init), and cannot be undone. What the
// kernel refuses is an error: a program never runs with fewer walls than were
// asked for. It starts nothing and decides nothing.
package sandbox
