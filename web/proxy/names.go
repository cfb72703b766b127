package proxy

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// Names is the table of whole domains and the sites they lead to. The zero
// value is empty; it is safe for concurrent use, and readers never wait.
type Names struct {
	table atomic.Pointer[table]
}

type table struct {
	sites   map[string]string   // by domain
	domains map[string][]string // by site, in order
}

// Set replaces the table: ids of sites by domain, in lower case.
func (n *Names) Set(sites map[string]string) {
	t := &table{maps.Clone(sites), map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(t.sites)) {
		id := t.sites[name]
		t.domains[id] = append(t.domains[id], name)
	}
	n.table.Store(t)
}

// Of returns the domains that lead to a site, in order.
func (n *Names) Of(id string) []string {
	if t := n.table.Load(); t != nil {
		return slices.Clone(t.domains[id])
	}
	return nil
}

func (n *Names) find(domain string) (id string, ok bool) {
	if t := n.table.Load(); t != nil {
		id, ok = t.sites[domain]
	}
	return id, ok
}

// hostOf takes the host of a request apart: a name in lower case without a dot
// at its end, and what follows it, a colon and a port, or nothing. It is false
// for whatever is no name: addresses, and all that only looks like a name.
func hostOf(host string) (name, port string, ok bool) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host, port = host[:i], host[i:]
		if len(port) > 6 || strings.Trim(port[1:], "0123456789") != "" {
			return "", "", false
		}
	}
	name = strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "" || len(name) > 253 {
		return "", "", false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return "", "", false
		}
	}
	if port == ":" {
		port = ""
	}
	return name, port, true
}
