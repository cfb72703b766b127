package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"berth/app"
	"berth/kube"
)

// The states of machines.
const (
	MachineReady    = "ready"
	MachineCordoned = "takes no programs" // somebody has cordoned it
	MachineSilent   = "does not answer"
)

// Machine is a machine of the cluster, with the programs of one berth on it.
type Machine struct {
	Name     string
	State    string
	RAM      app.MB
	Programs []app.ID
}

// Machines returns the machines on which programs of a berth may run, in the order of their names.
func Machines(ctx context.Context, client *kube.Client, c Config) ([]Machine, error) {
	nodes, err := client.Nodes(ctx, selector(c.NodeSelector))
	if err != nil {
		return nil, err
	}
	pods, err := programsOf(ctx, client, c.Host)
	if err != nil {
		return nil, err
	}
	all := make([]Machine, len(nodes))
	for i, n := range nodes {
		m := Machine{Name: n.Metadata.Name, State: MachineReady, RAM: mebibytes(n.Status.Allocatable["memory"])}
		switch {
		case !n.Ready():
			m.State = MachineSilent
		case n.Spec.Unschedulable:
			m.State = MachineCordoned
		}
		for _, p := range pods {
			if p.Spec.NodeName == m.Name {
				m.Programs = append(m.Programs, app.ID(p.Metadata.Labels[appLabel]))
			}
		}
		slices.Sort(m.Programs)
		m.Programs = slices.Compact(m.Programs)
		all[i] = m
	}
	slices.SortFunc(all, func(a, b Machine) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all, nil
}

// programsOf are the pods of a berth's programs that have not ended.
func programsOf(ctx context.Context, client *kube.Client, host string) ([]kube.Pod, error) {
	pods, _, err := client.List(ctx, selector(map[string]string{hostLabel: host, kindLabel: runKind}))
	return slices.DeleteFunc(pods, over), err
}

// End ends every pod of a berth, also builds and console commands, and returns whose programs they were. It waits until they
// are gone, for a moment longer than programs may take to end: those on a machine that is silent are an error.
func End(ctx context.Context, client *kube.Client, c Config) (ended []app.ID, err error) {
	until := time.Now().Add(c.Grace + startTime)
	for asked := map[string]bool{}; ; sleep(ctx, againTime/10) {
		pods, _, err := client.List(ctx, selector(map[string]string{hostLabel: c.Host}))
		if err != nil {
			return ended, err
		}
		if len(pods) == 0 {
			return ended, nil
		}
		if time.Now().After(until) {
			return ended, fmt.Errorf("the program of %s on %s does not end", pods[0].Metadata.Labels[appLabel], pods[0].Spec.NodeName)
		}
		for _, p := range pods {
			if asked[p.Metadata.UID] {
				continue
			}
			asked[p.Metadata.UID] = true
			if err := client.Delete(ctx, p.Metadata.Name, p.Metadata.UID, c.Grace); err != nil && kube.CodeOf(err) != http.StatusNotFound {
				return ended, err
			}
			if p.Metadata.Labels[kindLabel] == runKind && !over(p) {
				ended = append(ended, app.ID(p.Metadata.Labels[appLabel]))
			}
		}
	}
}

// Forget makes the cluster forget the programs of a berth on a machine that is silent, and returns whose they were.
// Those that run there all the same go on until the machine hears of it.
func Forget(ctx context.Context, client *kube.Client, host, machine string) (forgotten []app.ID, err error) {
	pods, err := programsOf(ctx, client, host)
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		if p.Spec.NodeName != machine {
			continue
		}
		if err := client.Delete(ctx, p.Metadata.Name, p.Metadata.UID, 0); err != nil && kube.CodeOf(err) != http.StatusNotFound {
			return forgotten, err
		}
		forgotten = append(forgotten, app.ID(p.Metadata.Labels[appLabel]))
	}
	return forgotten, nil
}
