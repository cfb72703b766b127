// Package cgroup is one group in the kernel: limits, counters, kill, the facts
// of an out-of-memory kill, and an application's share of the processor.
//
// A Tree is the place below which all of berth's groups live; a Group is one
// run of one program. It works on unified cgroup v2 hosts and on hybrid ones,
// where v2 gives membership, kill and cpu time and the v1 hierarchies give the
// memory and pids limits and the shares; a host with neither is refused with a
// sentence.
//
// Shares are weights among siblings, so they belong to the application's own
// directory, which its runs and builds have in common. They limit nothing: a
// host without them runs programs all the same, and Tree.Weights says why.
//
// It decides nothing: whether a kill counts as "killed for its RAM" is judged
// by proc from the counters read here. It touches no group it did not make,
// but for enabling controllers on the way to its own group.
//
// Of containerd/cgroups it uses the managers with berth's own group as their
// mount point (with a higher one they write every ancestor's
// cgroup.subtree_control), never EventChan (it cannot be closed) and never
// Kill (its fallback reaps children of the caller).
package cgroup
