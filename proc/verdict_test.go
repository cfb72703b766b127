package proc

import (
	"testing"
	"time"

	"berth/app"
	"berth/cgroup"
)

func TestVerdict(t *testing.T) {
	const mb = 1 << 20
	full := cgroup.Memory{Limit: 100 * mb, Peak: 100 * mb, Kills: 1, OOMs: 1}
	tests := []struct {
		name string
		f    facts
		code int
		oom  bool
	}{
		{"clean", facts{known: true, mem: cgroup.Memory{Limit: 100 * mb}}, 0, false},
		{"own exit", facts{known: true, status: 3 << 8}, 3, false},
		{"signal", facts{known: true, status: 15}, 143, false},
		{"SIGKILL without a count", facts{known: true, status: 9, mem: cgroup.Memory{Limit: 100 * mb, Peak: 100 * mb, OOMs: 4}}, 137, false},
		{"group kill", facts{known: true, status: 9, oomGroup: true, mem: full}, 137, true},
		{"group kill seen as an exit of a wrapper", facts{known: true, status: 1 << 8, oomGroup: true, mem: full}, 137, true},
		{"fresh kill, single process", facts{known: true, status: 9, fresh: true, sinceOOM: time.Hour, mem: full}, 137, true},
		{"wrapper right after its helper", facts{known: true, status: 1 << 8, sinceOOM: time.Second, mem: full}, 137, true},
		{"own exit long after a helper", facts{known: true, status: 1 << 8, sinceOOM: time.Minute, mem: full}, 1, false},
		{"unseen", facts{}, app.UnknownCode, false},
		{"unseen, but counted", facts{oomGroup: true, fresh: true, mem: full}, 137, true},
		{"SIGTERM long after a helper", facts{known: true, status: 15, sinceOOM: time.Minute, mem: full}, 143, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if e := verdict(tt.f); e.Code != tt.code || e.OOM != tt.oom || e.HostOOM {
				t.Errorf("verdict(%+v) = %+v, want code %d, OOM %t", tt.f, e, tt.code, tt.oom)
			}
		})
	}
}

// A kill for the host's lack of memory is told only of a program that was killed.
func TestVerdictOnTheHost(t *testing.T) {
	short := cgroup.Memory{Limit: 100 << 20, Peak: 60 << 20, Kills: 1}
	for name, tt := range map[string]struct {
		f    facts
		want bool
	}{
		"the program":                   {facts{known: true, status: 9, mem: short}, true},
		"the group":                     {facts{known: true, status: 9, oomGroup: true, mem: short}, true},
		"what its shell waited for":     {facts{known: true, status: 137 << 8, oomGroup: true, mem: short}, true},
		"a helper, and later an exit":   {facts{known: true, oomGroup: true, mem: short}, false},
		"a helper, and later a crash":   {facts{known: true, status: 1 << 8, fresh: true, mem: short}, false},
		"a helper, and an end unseen":   {facts{mem: short}, false},
		"somebody's SIGKILL":            {facts{known: true, status: 9}, false},
		"its own limit, and the host's": {facts{known: true, status: 9, oomGroup: true, mem: cgroup.Memory{Kills: 2, OOMs: 1}}, false},
	} {
		if e := verdict(tt.f); e.HostOOM != tt.want || e.OOM && e.HostOOM {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestHost(t *testing.T) {
	h, err := Host()
	if err != nil || h.RAM < 64 || h.Kernel == "" || h.System == "" {
		t.Errorf("Host() = %+v, %v", h, err)
	}
	if on, err := Disk("/"); err != nil || on.Free <= 0 || on.Total < on.Free || on.AllFiles < on.FreeFiles { // the type of some is unknown
		t.Errorf("Disk(/) = %+v, %v", on, err)
	}
	if _, err := Disk("/no/such"); err == nil {
		t.Error("Disk of nothing gave no error")
	}
}
