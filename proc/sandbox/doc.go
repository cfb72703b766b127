// Package sandbox is what a child may see and do: its user, its privileges,
// its limits, and, as far as the kernel gives them, the layers around it: a
// root directory of its own, landlock, a filter of system calls. Judge finds
// out which can be had, by trying. A Meter counts what the child sends and
// receives.
//
// A Plan lists the system calls of a child between its birth in its group and the
// program; Confine adds the walls to it. The child makes them by helper/helper.c, or by
// Execute, and cannot undo them. What the kernel refuses is an error: a program never
// runs with fewer walls than were asked for. The package starts nothing and decides
// nothing.
package sandbox
