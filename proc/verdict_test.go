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
	host := cgroup.Memory{Limit: 100 * mb, Peak: 100 * mb, Kills: 1} // a peak of file cache
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
		{"the host's lack of memory", facts{known: true, status: 9, oomGroup: true, mem: host}, 137, false},
		{"fresh kill, single process", facts{known: true, status: 9, fresh: true, sinceOOM: time.Hour, mem: full}, 137, true},
		{"wrapper right after its helper", facts{known: true, status: 1 << 8, sinceOOM: time.Second, mem: full}, 137, true},
		{"own exit long after a helper", facts{known: true, status: 1 << 8, sinceOOM: time.Minute, mem: full}, 1, false},
		{"unseen", facts{}, app.UnknownCode, false},
		{"unseen, but counted", facts{oomGroup: true, fresh: true, mem: full}, 137, true},
		{"SIGTERM long after a helper", facts{known: true, status: 15, sinceOOM: time.Minute, mem: full}, 143, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if e := verdict(tt.f); e.Code != tt.code || e.OOM != tt.oom {
				t.Errorf("verdict(%+v) = %+v, want code %d, OOM %t", tt.f, e, tt.code, tt.oom)
			}
		})
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
