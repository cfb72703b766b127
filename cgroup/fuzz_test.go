package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FuzzParseMounts: a mode stands for the mounts that it needs, and lines about
// other file systems change nothing.
func FuzzParseMounts(f *testing.F) {
	f.Add(unifiedMounts, "memory pids")
	f.Add(hybridMounts, "hugetlb")
	f.Add("a b c d /x - cgroup2 x x\n - \nx - cgroup", "")
	f.Add("1 2 3 4 /s\\040p/memory - cgroup c rw,memory,pids\n1 2 3 4 /m - cgroup2 c rw", "")
	f.Fuzz(func(t *testing.T, mounts, controllers string) {
		h := parseMounts(mounts)
		const other = "22 1 254:0 / /x rw - ext4 /dev/vda rw,memory\n"
		if again := parseMounts(other + mounts); fmt.Sprint(again) != fmt.Sprint(h) {
			t.Errorf("with another line %+v, without %+v", again, h)
		}
		h.Controllers = strings.Fields(controllers)
		switch h = classify(h); h.Mode {
		case Unified:
			if h.V2 == "" || h.V1Memory != "" || h.V1Pids != "" || h.V1CPU != "" {
				t.Errorf("unified with %+v", h)
			}
		case Hybrid:
			if h.V2 == "" || filepath.Base(h.V1Memory) != "memory" {
				t.Errorf("hybrid with %+v", h)
			}
		case Unusable:
			if h.Reason == "" || h.Check() == nil {
				t.Errorf("unusable without a reason: %q", mounts)
			}
		}
	})
}

// FuzzOwnGroup: the group is one line's, whatever hierarchies stand before it.
func FuzzOwnGroup(f *testing.F) {
	f.Add("0::/system.slice/berth.service\n")
	f.Add("4:memory:/x\n0::/\n0::/y\n")
	f.Add("0::/a 0::/b\r\n")
	f.Add("0::/../../outside (deleted)")
	f.Fuzz(func(t *testing.T, text string) {
		own := ownGroup(text)
		if again := ownGroup("9:name=systemd:/0::/x\n" + text); again != own {
			t.Errorf("behind another hierarchy %q, else %q", again, own)
		}
		if strings.Contains(own, "\n") || own != "/" && !strings.Contains(text, "0::"+own) {
			t.Errorf("%q is no group of %q", own, text)
		}
	})
}

// FuzzGroupFiles reads files of a group that the kernel would not write so:
// whatever they hold, there is an error or a figure that can be true.
func FuzzGroupFiles(f *testing.F) {
	f.Add("12\n13\n", "populated 0\nfrozen 0\n", "4096\n", "8192\n", "inactive_file 100\nanon 7\n", "oom 1\noom_kill 2\noom_group_kill 1\n")
	f.Add("", "populated 0", "x", "max\n", "inactive_file\n", "low 0\noom\n")
	f.Add("-1\n0\n", "\npopulated 0", "", "", "inactive_file 18446744073709551615\n", "oom_kill -1\n")
	f.Add("1 2\t3", "frozen populated 0", "100", "50", "inactive_file 1e3", "oom_kill 18446744073709551615")
	root := f.TempDir()
	tree := &Tree{layout: layout{host: Host{Mode: Unified, V2: root}, root: root}}
	dir := filepath.Join(root, "apps", "x", "1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, procs, events, current, limit, stat, memoryEvents string) {
		for name, text := range map[string]string{
			"cgroup.procs": procs, "cgroup.events": events, "memory.current": current, "memory.max": limit,
			"memory.stat": stat, "memory.events": memoryEvents,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g := tree.group("apps/x/1")
		if m, err := g.Memory(); err == nil {
			if now, err := strconv.ParseInt(strings.TrimSpace(current), 10, 64); m.Used < 0 || err == nil && now >= 0 && m.Used > now {
				t.Errorf("%d bytes are in use of %q", m.Used, current)
			}
		}
		pids, err := g.Procs()
		if words := strings.Fields(procs); err == nil && len(pids) != len(words) {
			t.Errorf("%d processes of %q", len(pids), procs)
		} else if err != nil && !slices.ContainsFunc(words, func(w string) bool { _, err := strconv.Atoi(w); return err != nil }) {
			t.Errorf("%q was refused: %v", procs, err)
		}
	})
}
