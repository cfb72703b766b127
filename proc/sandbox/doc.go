// Package sandbox is what a child may see and do: its user, its privileges,
// its limits, and, as far as the kernel gives them, the layers around it: a
// root directory of its own, landlock, a filter of system calls. Judge finds
// out which can be had, by trying. A Meter counts what the child sends and
// receives.
//
// Enter is called in the child, between its birth in its cgroup and the
// execve of the program (see proc.Init), and cannot be undone. What the
// kernel refuses is an error: a program never runs with fewer walls than were
// asked for. It starts nothing and decides nothing.
package sandbox
