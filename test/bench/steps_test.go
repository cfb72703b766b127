package main

import (
	"maps"
	"testing"
)

func TestStepsOf(t *testing.T) {
	all := parseTrace(`# tracer: nop
            idle-70      [001] .....  10.000000: sched_process_exit: comm=idle pid=70 prio=120
           other-9       [000] .....  10.000050: sched_process_wait: comm=other pid=0 prio=120
           berth-31      [000] .....  10.000200: sched_process_wait: comm=berth pid=70 prio=120
            idle-70      [001] .....  10.000300: cgroup_notify_populated: root=0 id=9 level=3 path=/berth/a/apps/x/1 val=0
           berth-30      [000] .....  10.001000: sys_fdatasync -> 0x0
           berth-30      [000] .....  10.002000: cgroup_mkdir: root=0 id=10 level=3 path=/berth/a/apps/x/2
           berth-30      [000] .....  10.002500: cgroup_mkdir: root=1 id=10 level=3 path=/berth/a/apps/x/2
           berth-30      [000] .....  10.003000: sys_bpf -> 0x0
           berth-30      [000] .....  10.003250: sched_process_fork: comm=berth pid=30 child_comm=berth child_pid=71
               5-71      [001] .....  10.003500: sched_process_exec: filename=/proc/self/fd/5 pid=71 old_pid=71
               5-71      [001] .....  10.003600: sys_unshare(unshare_flags: 2000000)
               5-71      [001] .....  10.005000: sys_seccomp(op: 1, flags: 0, uargs: 100001a80)
            idle-71      [001] .....  10.005250: sched_process_exec: filename=/data/idle pid=71 old_pid=71
           berth-30      [000] .....  10.006000: sys_fdatasync -> 0x0
`)
	got, err := stepsOf(all, map[int]bool{30: true, 31: true}, 70, 71)
	for name, ms := range got {
		got[name] = float64(int(ms*1000+0.5)) / 1000
	}
	want := map[string]float64{
		"the exit is seen": 0.2, "its group is empty": 0.3, "the exit is recorded": 1, "new groups are there": 2.5,
		"network and sockets are attached": 3, "the helper is born": 3.25, "the helper runs": 3.5, "the first wall": 3.6,
		"the last wall": 5, "the program is executed": 5.25,
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := stepsOf(all, nil, 70, 72); err == nil {
		t.Error("a process was found that is not there")
	}
}
