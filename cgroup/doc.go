// Package cgroup is one group in the kernel: limits, counters, kill, the facts of an
// out-of-memory kill, and an application's share of the processor.
//
// A Tree is the place below which all of berth's groups live; a Group is one run of one
// program. It works on unified cgroup v2 hosts and on hybrid ones, where v2 gives
// membership, kill and cpu time and the v1 hierarchies give the memory and pids limits
// and the shares. It refuses a host with neither, and says why. The interface memory has
// one implementation for v1 and one for v2; the same tests run on both.
//
// # The groups
//
// The tree of a daemon is berth/NAME below the root group of each hierarchy in use, where
// the daemon stores NAME in its database. A daemon claims its place with a lock and marks
// whose it is; Places finds those of every berth on the machine. If systemd delegated a group to berth, the v2 part
// of the tree is below that group. A hybrid host uses v2 and the v1 hierarchy memory, and
// also pids, cpu and blkio where they exist and are of use.
//
//	apps/ID/RUN              one run of a program, with the limits of the run
//	apps/ID/build-N          one step of a build
//	apps/ID/RUN/console-N    a console command beside the program
//	apps/ID/console-N        a console command of an offline application, with limits of
//	                         its own
//
// Limits belong to a run. The weights for the processor (cpu.weight, v1 cpu.shares) and
// for disks (io.bfq.weight, io.weight, v1 blkio.bfq.weight) and the most processor time
// (cpu.max, v1 cpu.cfs_quota_us) belong to apps/ID, so an application's runs and builds
// have them in common. Weights limit nothing. A host without them runs programs all the
// same, and Tree.Weights says why it has none.
//
// Work of berth's own that everything else goes before is in a group with cpu.idle: berth-idle-NAME below the
// root group, or idle beside apps in the group of a unit. See Tree.GiveWay.
//
// The console's group below a run is a group of v2 alone and has no controller. The
// kernel charges its memory and processes to the run, and yet berth can kill it alone.
//
// Tree.Rank sets how soon the kernel ends the processes of a run when the host has no memory
// left: that is no file of a group, and every process has its own.
//
// # How full a group is
//
// OnFill wakes its caller when the memory of a group may have reached what the caller
// waits for: by the kernel's thresholds on v1, by looks whose distance the caller says on
// v2 (docs/adr/0061). What can be reclaimed is not in it.
//
// # What it leaves to others
//
// It decides nothing: proc judges from the counters whether a kill counts as
// "killed for its RAM". It touches no group it did not make, but for enabling controllers
// on the way to its own group.
//
// Of containerd/cgroups it uses the managers for limits and counters, but does not let them make
// groups (they write every ancestor's cgroup.subtree_control), and never EventChan
// (it cannot be closed) and never Kill (its fallback reaps children of the caller).
package cgroup
