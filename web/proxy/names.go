package proxy

import (
	"maps"
	"strings"
	"sync/atomic"
)

// Names is the table of whole domains and the sites they lead to. The zero
// value is empty; it is safe for concurrent use, and readers never wait.
type Names struct {
	table atomic.Pointer[map[string]string]
}

// Set replaces the table: ids of sites by domain, in lower case.
func (n *Names) Set(table map[string]string) {
	table = maps.Clone(table)
	n.table.Store(&table)
}

func (n *Names) find(domain string) (id string, ok bool) {
	if t := n.table.Load(); t != nil {
		id, ok = (*t)[domain]
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
