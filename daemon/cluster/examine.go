package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/app"
	"berth/kube"
)

// oldest is the minor version of Kubernetes from which on all is there that berth asks for: the memory of a running pod
// can be changed.
const oldest = 33

// Reach is the name of the findings about what programs reach.
const Reach = "reach"

// examination tries a cluster, in pods of its own.
type examination struct {
	*Engine
	mu   sync.Mutex
	list []app.Finding
}

// Examine tries what berth needs of a cluster, and what it must not allow, in pods that are removed again. It takes up
// to some minutes. What fails is a finding.
func Examine(ctx context.Context, client *kube.Client, c Config) []app.Finding {
	c.Host, c.Trusted, c.Grace = "doctor-"+strings.ToLower(rand.Text()[:10]), true, time.Second
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	e, err := Open(ctx, client, c)
	if err != nil {
		return []app.Finding{{Name: "cluster", Verdict: app.Bad, Text: err.Error(), Fix: "look at the settings of the section kubernetes, and apply deploy/kubernetes/berth.yaml"}}
	}
	x := &examination{Engine: e}
	x.version(ctx)
	x.machines()
	x.reach(ctx)
	x.fromMachines(ctx)
	x.kill(ctx)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer cancel()
	e.mu.Lock()
	clear(e.runs) // nobody waits for them any more
	e.mu.Unlock()
	e.EndOthers(ending)
	e.Close()
	return x.list
}

// finds adds a finding.
func (x *examination) finds(name, verdict, fix, format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, app.Finding{Name: name, Verdict: verdict, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (x *examination) version(ctx context.Context) {
	text, err := x.kube.Version(ctx)
	if err != nil {
		x.finds("cluster", app.Bad, "", "cannot ask the cluster for its version: %v", err)
		return
	}
	_, rest, _ := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	if n, err := strconv.Atoi(minor); err == nil && n < oldest {
		x.finds("cluster", app.Bad, "upgrade the cluster", "Kubernetes %s at %s; berth needs 1.%d or newer", text, x.Server, oldest)
		return
	}
	x.finds("cluster", app.Good, "", "Kubernetes %s at %s", text, x.Server)
}

func (x *examination) machines() {
	var away []string
	ready := 0
	for _, n := range x.nodes {
		switch {
		case !n.Ready():
			away = append(away, n.Metadata.Name)
		case !n.Spec.Unschedulable:
			ready++
		}
	}
	ram := x.RAM()
	switch {
	case ready == 0:
		x.finds("machines", app.Bad, "look at kubernetes.node_selector, and at: kubectl get nodes", "no machine of the cluster takes programs")
	case len(away) > 0:
		x.finds("machines", app.Dubious, "look at: kubectl describe node "+away[0], "%d machines with %d MB take programs; %s does not answer", ready, ram, strings.Join(away, ", "))
	default:
		x.finds("machines", app.Good, "", "%d machines with %d MB take programs", ready, ram)
	}
}

func (x *examination) reach(ctx context.Context) {
	const fix = "load deploy/kubernetes/berth.nft on each machine, and apply deploy/kubernetes/network-policy.yaml"
	open, _, err := x.tryAll(ctx)
	if err != nil {
		x.finds(Reach, app.Bad, "", "it is not known what programs reach: %v", err)
	}
	for _, machine := range slices.Sorted(maps.Keys(open)) {
		x.finds(Reach, app.Bad, fix, "a program on %s reaches %s", machine, strings.Join(open[machine], ", "))
	}
	if err == nil && len(open) == 0 {
		x.finds(Reach, app.Good, "", "no program reaches a machine, the API server, the server of the volume, metadata or berth")
	}
}

// look prints what a pod sees of its own limits and clock, on a line each. The bound of processes is the pod's, which shows
// in no file there, so it is tried: last, for then there may be no room for another process.
const look = `cat /sys/fs/cgroup/memory.oom.group 2>/dev/null || echo none
cat /sys/fs/cgroup/memory.swap.max 2>/dev/null || echo none
date +%s
type=; while read -r _ at is _; do case "$PWD/" in "$at"/*) type=$is;; esac; done </proc/mounts; echo "$type"
(i=0; while [ $i -lt 1100 ]; do sleep 60 >/dev/null & i=$((i+1)); echo $i; done) 2>/dev/null | tail -n 1`

// fromMachines tries in a pod on each machine what programs have there.
func (x *examination) fromMachines(ctx context.Context) {
	dir := filepath.Join(x.DataDir, "staging", x.Host)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, probeUser, probeUser)); err != nil {
		x.finds("volume", app.Bad, "start berth once, so that its directories are there", "cannot make a directory to try: %v", err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }() // the next boot removes it
	var work sync.WaitGroup
	for _, n := range x.nodes {
		if n.Ready() && !n.Spec.Unschedulable {
			work.Go(func() { x.fromMachine(ctx, n.Metadata.Name, dir) })
		}
	}
	work.Wait()
}

func (x *examination) fromMachine(ctx context.Context, machine, dir string) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	name, token := "volume "+machine, rand.Text()
	file := filepath.Join(dir, machine)
	// What berth puts in the place of a file, a program that starts then must see.
	put := func(text string) error {
		part := file + ".new"
		return errors.Join(os.WriteFile(part, []byte(text), 0o644), os.Chown(part, probeUser, probeUser), os.Rename(part, file))
	}
	say := func(script string) (string, error) {
		r, err := x.probe(ctx, machine, filepath.Join("staging", x.Host))
		if err != nil {
			return "", err
		}
		defer x.dismiss(r)
		var out, errs strings.Builder
		code, err := x.kube.Exec(ctx, r.name, box, kube.Command{Argv: []string{"/bin/sh", "-c", script}, Out: &out, Err: &errs})
		if err == nil && code != 0 {
			err = fmt.Errorf("it ends with %d: %s", code, clean(errs.String()))
		}
		return out.String(), err
	}
	first, err := "", put(token)
	if err == nil {
		first, err = say("cat " + machine + " && echo; echo " + token + " >" + machine + ".back; " + look)
	}
	if err != nil {
		x.finds(name, app.Bad, "look at: kubectl describe pods, and at kubernetes.claim", "a program there cannot use the volume: %v", err)
		return
	}
	lines := strings.Split(first, "\n")
	back, _ := os.ReadFile(file + ".back") // "" differs
	if lines[0] != token || strings.TrimSpace(string(back)) != token {
		x.finds(name, app.Bad, "let the claim have the directories apps and staging of data_dir", "what berth writes to its data directory, a program there does not see, or the other way round")
		return
	}
	again := rand.Text()
	second := ""
	if err = put(again); err == nil {
		second, err = say("cat " + machine)
	}
	switch {
	case err != nil:
		x.finds(name, app.Bad, "", "a program there cannot use the volume: %v", err)
	case strings.TrimSpace(second) != again:
		x.finds(name, app.Bad, "mount the volume with lookupcache=none", "a program that starts right after a commit sees files from before it")
	default:
		x.finds(name, app.Good, "", "programs see what berth writes, also right after a commit, and berth sees what they write")
	}
	x.limits(machine, lines[1:])
}

// limits tells of what look printed on a machine.
func (x *examination) limits(machine string, lines []string) {
	for len(lines) < 5 {
		lines = append(lines, "")
	}
	name := "limits " + machine
	const many = 1000
	if n, err := strconv.Atoi(lines[4]); err != nil || n > many {
		x.finds(name, app.Bad, "set podPidsLimit in the configuration of the kubelet there", "a program there may have more than %d processes, and leave none to others", many)
	} else {
		x.finds(name, app.Good, "", "a program there may have about %d processes", n)
	}
	if lines[0] == "0" || lines[0] == "none" {
		x.finds(name, app.Dubious, "", "out of memory ends one process of a program there, and not all of them")
	}
	if lines[1] != "0" && lines[1] != "none" {
		x.finds(name, app.Dubious, "set swapBehavior to NoSwap in the configuration of the kubelet there", "a program there may swap, and slow its machine down instead of being ended")
	}
	if at, err := strconv.ParseInt(strings.TrimSpace(lines[2]), 10, 64); err == nil {
		if skew := time.Since(time.Unix(at, 0)).Abs(); skew > 10*time.Second {
			x.finds("clock "+machine, app.Dubious, "let the machines ask a time server (chrony)", "its clock and that of this machine differ by about %s", skew.Round(time.Second))
		}
	}
	x.wal(machine, strings.TrimSpace(lines[3]))
}

// wal tells whether databases of SQLite may be in WAL mode: all that use one share memory, so they have to be on one machine
// (sqlite.org/wal.html), and a commit without a pause runs two programs on machines that the cluster chooses.
func (x *examination) wal(machine, fileSystem string) {
	name := "WAL " + machine
	switch {
	case fileSystem == "":
		x.finds(name, app.Dubious, "", "nobody knows what file system a program there has its files on")
	case slices.Contains(overNetwork, fileSystem) || strings.HasPrefix(fileSystem, "fuse."):
		x.finds(name, app.Dubious, "let sites with a database of SQLite use PRAGMA journal_mode = DELETE",
			"a program there has its files on %s, where SQLite's WAL mode loses data when two machines use one database, as during the commit of a site", fileSystem)
	default:
		x.finds(name, app.Good, "", "a program there has its files on %s, where SQLite's WAL mode holds", fileSystem)
	}
}

// overNetwork are file systems whose files no two machines can map into memory together.
var overNetwork = []string{"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "lustre", "afs", "beegfs", "glusterfs"}

// kill tries whether a program is ended that needs more than its RAM, and whether the cluster says so.
func (x *examination) kill(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	p := app.Program{App: "probe", Argv: []string{"/bin/sh", "-c", "exec tail /dev/zero"}, UID: probeUser, RAM: 32, Share: 32}
	image, err := x.Images.Of("")
	if err == nil {
		var r *run
		spec := x.bare(p, image, probeKind, otherName(p.App, probeKind))
		r = x.newRun(p, spec.Metadata.Name, nil)
		if err = x.create(ctx, r, spec); err == nil {
			r.ignoreOutput()
			defer x.dismiss(r)
			select {
			case <-r.done:
			case <-ctx.Done():
				err = errors.New("it goes on")
			}
			if e := r.Wait(); err == nil && !e.OOM {
				err = fmt.Errorf("it ended with code %d", e.Code)
			}
		}
	}
	if err != nil {
		x.finds("kill", app.Bad, "", "a program that needs more than its RAM is not told as killed for it: %v", err)
		return
	}
	x.finds("kill", app.Good, "", "a program that needed more than 32 MB was killed, and told so")
}
