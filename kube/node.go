package kube

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Node is a machine of the cluster.
type Node struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Unschedulable bool `json:"unschedulable"`
		Taints        []struct {
			Key    string `json:"key"`
			Effect string `json:"effect"`
		} `json:"taints"`
	} `json:"spec"`
	Status struct {
		Allocatable map[string]string `json:"allocatable"`
		Conditions  []Condition       `json:"conditions"`
		Addresses   []struct {
			Type    string `json:"type"`
			Address string `json:"address"`
		} `json:"addresses"`
		DaemonEndpoints struct {
			KubeletEndpoint struct {
				Port int `json:"Port"`
			} `json:"kubeletEndpoint"`
		} `json:"daemonEndpoints"`
		NodeInfo struct {
			KubeletVersion string `json:"kubeletVersion"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

// Ready reports whether the machine answers its cluster.
func (n Node) Ready() bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// Address is the machine's own, "" if the cluster does not know it.
func (n Node) Address() string {
	for _, a := range n.Status.Addresses {
		if a.Type == "InternalIP" {
			return a.Address
		}
	}
	return ""
}

// Nodes returns the machines that a selector of labels chooses, "" for all.
func (c *Client) Nodes(ctx context.Context, selector string) ([]Node, error) {
	var list struct{ Items []Node }
	err := c.call(ctx, request{method: http.MethodGet, path: "/api/v1/nodes", query: url.Values{"labelSelector": {selector}}}, &list)
	return list.Items, err
}

// Used is what a container uses, as its machine measured it.
type Used struct {
	Pod       string // its name
	At        time.Time
	CPU       time.Duration // of processors, since its start
	Memory    int64         // bytes that it cannot do without (working set)
	Rx, Tx    int64         // bytes since its start; 0 where the machine does not know them
	Processes int64
}

// Stats asks the kubelet of a machine what the containers of the namespace use: one request for all of them. It goes
// to the machine and not through the API server, for that asks for a right to everything there (nodes/proxy).
func (c *Client) Stats(ctx context.Context, n Node) ([]Used, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	port := n.Status.DaemonEndpoints.KubeletEndpoint.Port
	server := "https://" + net.JoinHostPort(n.Address(), strconv.Itoa(port))
	resp, err := c.send(ctx, c.kubelets, server, request{method: http.MethodGet, path: "/stats/summary"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	var summary struct {
		Pods []struct {
			PodRef     struct{ Name, Namespace string }
			Containers []struct {
				CPU struct {
					Time                 time.Time
					UsageCoreNanoSeconds int64
				}
				Memory struct{ WorkingSetBytes int64 }
			}
			Network struct{ RxBytes, TxBytes int64 }
			// The name is the kubelet's.
			ProcessStats struct {
				Count int64 `json:"process_count"`
			} `json:"process_stats"`
		}
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&summary); err != nil {
		return nil, broken(ctx, err)
	}
	var all []Used
	for _, p := range summary.Pods {
		if p.PodRef.Namespace != c.namespace || len(p.Containers) == 0 {
			continue
		}
		box := p.Containers[0]
		all = append(all, Used{
			Pod: p.PodRef.Name, At: box.CPU.Time, CPU: time.Duration(box.CPU.UsageCoreNanoSeconds), Memory: box.Memory.WorkingSetBytes,
			Rx: p.Network.RxBytes, Tx: p.Network.TxBytes, Processes: p.ProcessStats.Count,
		})
	}
	return all, nil
}

// Version returns that of the API server, such as v1.36.3.
func (c *Client) Version(ctx context.Context) (string, error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	err := c.call(ctx, request{method: http.MethodGet, path: "/version"}, &v)
	return v.GitVersion, err
}
