package cgroup

import (
	"slices"
	"strings"
	"testing"
)

const (
	unifiedMounts = `22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
`
	hybridMounts = `30 22 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 30 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
`
)

func TestClassify(t *testing.T) {
	tests := []struct {
		name, mounts string
		controllers  string
		want         Mode
		memory       string
		reason       string
	}{
		{"unified", unifiedMounts, "cpu memory pids", Unified, "", ""},
		{"hybrid", hybridMounts, "hugetlb", Hybrid, "/sys/fs/cgroup/memory", ""},
		{"v2 owns memory though v1 is mounted", hybridMounts, "memory", Unified, "", ""},
		{"v1 alone", "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "", Unusable, "", "cgroup v2 is not mounted"},
		{"no memory anywhere", unifiedMounts, "cpu pids", Unusable, "", "cgroup_enable=memory"},
		{"nothing", "", "", Unusable, "", "cgroup v2 is not mounted"},
		{"nonsense", "a b c\n - \nx - cgroup2\n", "", Unusable, "", "cgroup v2 is not mounted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := parseMounts(tt.mounts)
			h.Controllers = strings.Fields(tt.controllers)
			h = classify(h)
			if h.Mode != tt.want || (tt.want != Unusable && h.V1Memory != tt.memory) {
				t.Errorf("got %+v, want mode %s and memory at %q", h, tt.want, tt.memory)
			}
			cpu := ""
			if h.Mode == Hybrid {
				cpu = "/sys/fs/cgroup/cpu,cpuacct"
			}
			if tt.want != Unusable && h.V1CPU != cpu {
				t.Errorf("the cpu hierarchy is %q, want %q", h.V1CPU, cpu)
			}
			err := h.Check()
			if (err != nil) != (tt.want == Unusable) {
				t.Fatalf("Check() = %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("the sentence %q does not say %q", err, tt.reason)
			}
		})
	}
}

func TestOpenRefusesAnUnusableHost(t *testing.T) {
	if _, err := Open(Host{Mode: Unusable, Reason: "no kernel"}, "x"); err == nil || !strings.Contains(err.Error(), "no kernel") {
		t.Errorf("Open = %v, want the reason", err)
	}
}

func TestOwnGroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/berth.service\n": "/system.slice/berth.service",
		"4:memory:/x\n0::/\n":              "/",
		"":                                 "/",
	} {
		if got := ownGroup(text); got != want {
			t.Errorf("ownGroup(%q) = %q, want %q", text, got, want)
		}
	}
}

// Of v1 hierarchies without a limit those are remembered that Java looks for,
// and none on a unified host.
func TestDetectSeen(t *testing.T) {
	const mounts = `30 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
31 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 25 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
34 25 0:31 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
`
	h := parseMounts(mounts)
	if got := classify(h); !slices.Equal(got.V1Seen, []string{"/sys/fs/cgroup/cpuset"}) || got.V1CPU != "/sys/fs/cgroup/cpu,cpuacct" {
		t.Errorf("got %+v", got)
	}
	h.Controllers = []string{"memory"}
	if got := classify(h); got.V1Seen != nil {
		t.Errorf("on a unified host %+v", got)
	}
}

// A group shows its own directories where runtimes look for them.
func TestViews(t *testing.T) {
	tree := &Tree{layout: layout{root: "/v2/berth/x"}}
	if got := tree.group("apps/a/1").Views(); !slices.Equal(got, []View{{"/v2/berth/x/apps/a/1", "/sys/fs/cgroup"}}) {
		t.Errorf("unified: %v", got)
	}
	both := place{"pids", "/c/pids,cpu", "/c/pids,cpu/berth/x"}
	tree.v1 = []place{both, {"cpu", both.mount, both.root}}
	tree.seen = []View{{"/c/cpuset/berth/x", "/sys/fs/cgroup/cpuset"}}
	want := []View{
		{"/v2/berth/x/apps/a/1", "/sys/fs/cgroup/unified"},
		{"/c/pids,cpu/berth/x/apps/a/1", "/sys/fs/cgroup/pids,cpu"},
		{"/c/cpuset/berth/x", "/sys/fs/cgroup/cpuset"},
	}
	if got := tree.group("apps/a/1").Views(); !slices.Equal(got, want) {
		t.Errorf("hybrid: %v, want %v", got, want)
	}
}
