package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/daemon/settings"
	"berth/files"
	"berth/host/account"
	"berth/host/runtimes"
	"berth/proc"
	"berth/proc/sandbox"
)

func TestDoctorFindings(t *testing.T) {
	s, err := settings.Load(func(name string) string {
		return map[string]string{"BERTH_CONFIG": os.DevNull, "BERTH_DATA_DIR": filepath.Join(t.TempDir(), "data")}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Host.Reserve = account.MaxRAM
	tests := []struct {
		name string
		list []finding
		want string // "verdict name"
		says string
	}{
		{"unified", checkGroups(cgroup.Host{Mode: cgroup.Unified, Controllers: []string{"memory"}}), "ok cgroups", "unified"},
		{"hybrid", checkGroups(cgroup.Host{Mode: cgroup.Hybrid, V1Memory: "/m", V1Pids: "/p"}), "ok cgroups", "hybrid"},
		{"hybrid without pids", checkGroups(cgroup.Host{Mode: cgroup.Hybrid, V1Memory: "/m"}), "warn pids", "up to 1,024 processes more than apps.pids_max"},
		{"hybrid with buffers that nothing bounds", checkGroups(cgroup.Host{Mode: cgroup.Hybrid, V1Memory: "/m"}), "warn buffers", "systemd.unified_cgroup_hierarchy=1"},
		{"unified that counts no buffers", checkGroups(cgroup.Host{Mode: cgroup.Unified}), "warn buffers", "nosocket"},
		{"no cgroups", checkGroups(cgroup.Host{Mode: cgroup.Unusable, Reason: "mount it"}), "FAIL cgroups", "mount it"},
		{"limit on such a host", []finding{checkLimit(cgroup.Host{Mode: cgroup.Unusable, Reason: "mount it"}, s)}, "FAIL limit", "mount it"},
		{"weights on such a host", []finding{checkWeights(cgroup.Host{Mode: cgroup.Unusable, Reason: "mount it"})}, "warn cpu", "one application can take a busy processor from the others"},
		{"sockets on such a host", []finding{checkSockets(cgroup.Host{Mode: cgroup.Unusable, Reason: "mount it"}, s)}, "warn sockets", "one program can open so many connections"},
		{"sockets that nobody can try just now", []finding{unloaded(s, sandbox.Counted, "no limit: ", syscall.EMFILE)}, "FAIL sockets", "too many open files\n                    fix: give berth more processes"},
		{"no sockets", []finding{unloaded(s, sandbox.Counted, "no limit: ", &sandbox.Missing{Err: syscall.EPERM})}, "warn sockets", "no limit: operation not permitted\n                    fix: it needs root (CAP_BPF, CAP_NET_ADMIN) on a real or virtual machine"},
		{"traffic on such a host", []finding{checkTraffic(cgroup.Host{Mode: cgroup.Unusable, Reason: "mount it"})}, "warn netIO", "the traffic of programs will show 0B"},
		{"nothing left for applications", checkHost(s, cgroup.Host{}), "FAIL memory", "host.reserve"},
		{"no landlock", judgeWalls([]sandbox.Verdict{{Layer: sandbox.Landlock, Err: errors.New("no")}}, counted{}), "warn landlock", "lsm="},
		{"a wall", judgeWalls([]sandbox.Verdict{{Layer: sandbox.Mounts}}, counted{required: sandbox.Layers}), "ok mounts", "a system of their own"},
		{"no wall that is required", judgeWalls([]sandbox.Verdict{{Layer: sandbox.Seccomp, Err: errors.New("no")}}, counted{required: sandbox.Layers}), "FAIL seccomp", "CONFIG_SECCOMP_FILTER"},
		{"a wall that is gone", judgeWalls([]sandbox.Verdict{{Layer: sandbox.Seccomp, Err: errors.New("no")}}, counted{had: sandbox.Layers}), "FAIL seccomp", "programs had this wall when berth started last, and it does not start without: no"},
		{"a wall that is spared", judgeWalls([]sandbox.Verdict{{Layer: sandbox.Seccomp, Err: errors.New("no")}}, counted{had: sandbox.Layers, spared: sandbox.Layers}), "warn seccomp", "programs may ask the kernel for everything, which eases attacks on it: no"},
		{"ports of connections", checkPorts(proc.ConnectionPorts{First: 29990, Last: 60999}, nil, 20000, 29999), "warn ports", "10 of the ports of applications (20000 to 29999) to connections of anybody: an application whose port is taken cannot start\n                    fix: set apps.port_first and apps.port_last below 29990, or net.ipv4.ip_local_reserved_ports=20000-29999"},
		{"ports nobody told", checkPorts(proc.ConnectionPorts{}, errors.New("no /proc"), 20000, 29999), "warn ports", "no /proc"},
		{"enough files", []finding{checkFiles(4096, nil)}, "ok files", "4096 files"},
		{"few files", []finding{checkFiles(4095, nil)}, "warn files", "LimitNOFILE="},
		{"walls on such a host", checkWalls(t.Context(), cgroup.Host{Mode: cgroup.Unusable, Reason: "mount it"}, s), "FAIL walls", "mount it"},
		{"no ebpf", checkKernel(sandbox.Features{BPF: errors.New("no")}), "warn ebpf", "as root"},
		{"no disk", checkData(t.Context(), "/proc/self/fd/999/x", 0), "ok disk", "free"},
		{"a floor above it", checkData(t.Context(), "/", 1<<30), "warn disk", "host.disk_floor"},
		{"a disk", []finding{diskFinding(proc.DiskFigures{Type: "ext4", Free: 90 << 30, Total: 100 << 30, FreeFiles: 600_000, AllFiles: 655_360}, -1)}, "ok disk", "ext4, 92160 of 102400 MB free, and room for 600000 of 655360 files"},
		{"a disk without inodes", []finding{diskFinding(proc.DiskFigures{Type: "ext4", Free: 90 << 30, Total: 100 << 30, FreeFiles: 3, AllFiles: 655_360}, -1)}, "warn disk", "room for 3 of 655360 files; uploads, builds and backups are refused"},
		{"a disk that makes inodes", []finding{diskFinding(proc.DiskFigures{Type: "btrfs", Free: 90 << 30, Total: 100 << 30}, -1)}, "ok disk", "MB free"},
		{"shares on such a host", checkShares(cgroup.Host{Mode: cgroup.Unusable, Reason: "mount it"}, s), "none io", "mount it"},
		{"quota of ext4", []finding{quotaFinding(files.Quota{Project: true}, nil, "ext4", 100)}, "ok quota", "the kernel holds each application to 100 MB, by the project of its files"},
		{"quota of users", []finding{quotaFinding(files.Quota{User: true}, nil, "ext4", 100)}, "ok quota", "by the owner of its files"},
		{"no limit", []finding{quotaFinding(files.Quota{User: true}, nil, "ext4", 0)}, "ok quota", "apps.disk is 0"},
		{"no quota on ext4", []finding{quotaFinding(files.Quota{Why: errors.New("off")}, nil, "ext4", 100)}, "warn quota", "an application can fill the disk before berth, which measures every 5m0s, ends it for more than 100 MB: off\n                    fix: stop berth and berth-apps, unmount it, tune2fs -O project,quota -Q prjquota its device"},
		{"no quota on the ext4 of the host", []finding{quotaFinding(files.Quota{Why: errors.New("off")}, nil, "ext4 of the host", 100)}, "warn quota", "fix: put data_dir on a disk of its own, such as a volume of your provider: mkfs.ext4 -O project,quota DEVICE"},
		{"no quota on the XFS of the host", []finding{quotaFinding(files.Quota{Why: errors.New("off")}, nil, "xfs of the host", 100)}, "warn quota", "fix: add rootflags=prjquota to GRUB_CMDLINE_LINUX"},
		{"no quota on XFS", []finding{quotaFinding(files.Quota{Why: errors.New("off")}, nil, "xfs", 100)}, "warn quota", "fix: mount it with the option prjquota"},
		{"no quota elsewhere", []finding{quotaFinding(files.Quota{Why: errors.New("off")}, nil, "btrfs", 100)}, "warn quota", "fix: put data_dir on a disk of its own"},
		{"no look for quotas", []finding{quotaFinding(files.Quota{}, errors.New("cannot look"), "ext4", 100)}, "warn quota", "cannot look"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Report(&out, rows(tt.list), false); err != nil {
				t.Fatal(err)
			}
			verdict, name, _ := strings.Cut(tt.want, " ")
			for _, f := range tt.list {
				if f.Name == name && f.Verdict == verdict {
					if !strings.Contains(out.String(), tt.says) {
						t.Errorf("the table does not say %q:\n%s", tt.says, out.String())
					}
					return
				}
			}
			t.Errorf("no %q in\n%s", tt.want, out.String())
		})
	}
}

// hostTools is a host: the path of each command, or in front of it "hidden ".
type hostTools map[string]string

func (h hostTools) Find(name string) (path, hidden string) {
	if hidden, ok := strings.CutPrefix(h[name], "hidden "); ok {
		return "", hidden
	}
	return h[name], ""
}

func (h hostTools) Version(string) string { return "1.2.3" }

func (h hostTools) Installed(string) []string { return nil }

func (h hostTools) With(string, string) runtimes.Tools { return h }

func (hostTools) Images() bool { return false }

func (hostTools) Path() string { return "/usr/bin" }

func (h hostTools) Lacks(packages []string) ([]string, bool) { return packages, false }

func TestDoctorRuntimes(t *testing.T) {
	var out bytes.Buffer
	tools := hostTools{"node": "/usr/bin/node", "python3": "/bin/false", "cargo": "hidden /root/.cargo/bin/cargo"}
	if err := Report(&out, rows(checkRuntimes(t.Context(), tools)), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		" ok    node         /usr/bin/node 1.2.3\n",
		" warn  venv         not found; Python programs cannot have packages\n                    fix: apt install python3-venv\n",
		" warn  cargo        found at /root/.cargo/bin/cargo, which programs cannot use: it is in a home directory, closed to others, or not in sandbox.paths\n                    fix: apt install cargo\n",
		" none  go           not found; uploads that need Go are refused\n                    fix: apt install golang-go\n",
		" none  deno         not found; uploads that need Deno are refused\n                    fix: berth runtime install deno 2\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, out.String())
		}
	}
	// Without Python there is nothing to say of its environments.
	for _, f := range checkRuntimes(t.Context(), hostTools{}) {
		if f.Name == "venv" || f.Verdict != absent {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorJSON(t *testing.T) {
	var out bytes.Buffer
	if err := Report(&out, rows([]finding{{"a", good, "b", ""}, {"c", bad, "d", "e"}}), true); err != nil {
		t.Fatal(err)
	}
	var got []app.Finding
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 2 || got[1].Fix != "e" {
		t.Errorf("%s: %v", out.String(), err)
	}
}

func TestVerdict(t *testing.T) {
	for want, verdicts := range map[string][]string{
		"ready": {good, absent}, "ready, 1 warning": {good, dubious}, "ready, 2 warnings": {dubious, dubious},
		"not ready: port": {good, bad}, "not ready: port; 1 warning": {bad, dubious, bad}, "not ready: port; 2 warnings": {dubious, bad, dubious},
	} {
		var list []app.Finding
		for _, v := range verdicts {
			list = append(list, app.Finding{Name: "port", Verdict: v})
		}
		var table strings.Builder
		if err := Report(&table, list, false); app.Verdict(list).String() != want || err != nil || !strings.HasSuffix(table.String(), "\n"+want+"\n") {
			t.Errorf("%v: %q at the end of %s, %v; want %q", verdicts, app.Verdict(list), &table, err, want)
		}
	}
}

// A host that holds its programs says why, and what to do.
func TestDoctorHold(t *testing.T) {
	for why, fix := range map[app.HoldReason]string{app.HoldRestored: "berth resume", app.HoldMoved: "berth uninstall", app.HoldEngine: "berth engine move", "": ""} {
		hold := app.Hold{Why: why, Peer: "other", At: time.Now()}
		list := holdFindings(hold)
		if why == "" {
			if len(list) > 0 {
				t.Errorf("without a hold: %v", list)
			}
			continue
		}
		if len(list) != 1 || list[0].Verdict != dubious || list[0].Text != hold.Text().String() || !strings.Contains(list[0].Fix, fix) {
			t.Errorf("%s: %v", why, list)
		}
	}
}

// A kernel that does not tell of a lack of memory is no failure, and what berth does
// instead is said.
func TestDoctorPressure(t *testing.T) {
	if f := checkPressure(nil, errors.New("no such file")); f.Verdict != dubious || f.Fix == "" || !strings.Contains(f.Text, "every 15s") || !strings.Contains(f.Text, "no such file") {
		t.Errorf("%+v", f)
	}
	if p, err := proc.OpenPressure(); err == nil {
		if f := checkPressure(p, nil); f.Verdict != good || f.Fix != "" || !strings.Contains(f.Text, " MB are available") {
			t.Errorf("%+v", f)
		}
	}
}
