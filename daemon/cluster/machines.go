package cluster

import (
	"context"
	"net/http"
	"slices"

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
