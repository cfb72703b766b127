package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// panelCookie begins the names of all cookies of berth's own panel.
const panelCookie = "__host-berth"

// clean removes what no program may see or believe. Programs that know headers
// as variables take '_' for '-', so both are.
func clean(h http.Header) {
	for name := range h {
		plain := name // as the server has written it: canonical
		if strings.IndexByte(name, '_') >= 0 {
			plain = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		}
		switch {
		case plain == "Api-Token", plain == "X-Real-Ip", plain == "Forwarded", plain == "Proxy", strings.HasPrefix(plain, "X-Forwarded-"):
			delete(h, name)
		}
	}
	if lines := h["Cookie"]; len(lines) > 0 {
		var kept []string
		for _, line := range lines {
			for part := range strings.SplitSeq(line, ";") {
				if part = strings.TrimSpace(part); part != "" && !isPanels(part) {
					kept = append(kept, part)
				}
			}
		}
		if h["Cookie"] = []string{strings.Join(kept, "; ")}; len(kept) == 0 {
			delete(h, "Cookie")
		}
	}
}

// isPanels reports whether a cookie, as it is sent or set, is one of the panel.
func isPanels(cookie string) bool {
	cookie = strings.TrimSpace(cookie)
	return len(cookie) >= len(panelCookie) && strings.EqualFold(cookie[:len(panelCookie)], panelCookie)
}

// trace finds out where a request comes from.
func (p *Proxy) trace(a *asked, r *http.Request) {
	if a.proto = "http"; r.TLS != nil {
		a.proto = "https"
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	peer, _ := netip.ParseAddr(host)
	peer = peer.Unmap().WithZone("")
	a.client, a.peer = peer, peer.String()
	if !p.trusts(peer) {
		return
	}
	if proto := r.Header["X-Forwarded-Proto"]; len(proto) == 1 && (proto[0] == "http" || proto[0] == "https") {
		a.proto = proto[0]
	}
	// What the trusted proxy was told by others may be false, but who reached it
	// is the last of the list, and so on while that is trusted too.
	told := strings.Join(r.Header["X-Forwarded-For"], ",")
	if told == "" {
		return
	}
	a.via = told + ", "
	for told != "" && p.trusts(a.client) {
		i := strings.LastIndexByte(told, ',')
		next, err := netip.ParseAddr(strings.TrimSpace(told[i+1:]))
		if err != nil {
			return
		}
		a.client, told = next.Unmap().WithZone(""), told[:max(i, 0)]
	}
}

func (p *Proxy) trusts(a netip.Addr) bool {
	for _, n := range p.Trusted {
		if n.Contains(a) {
			return true
		}
	}
	return false
}
