package proxy

import (
	"net/http"
	"slices"
	"strings"

	"berth/web"
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

// cleanAnswer removes what a site may not tell browsers: its cookies are its own. One for
// a parent of all sites would be sent to the others, and take the place of theirs; and
// nobody clears theirs. domain is what the site is below, "" for a domain of its own.
func cleanAnswer(h http.Header, domain string) {
	keep(h, "Set-Cookie", h["Set-Cookie"], func(text string) bool { return !isPanels(text) && !reachesOthers(text, domain) })
	if domain != "" { // a domain of its own is its owner's whole
		keep(h, "Clear-Site-Data", strings.Split(strings.Join(h["Clear-Site-Data"], ","), ","), isOwn)
	}
}

// keep leaves those values of a header that are fine, in lines of their own.
func keep(h http.Header, name string, values []string, fine func(string) bool) {
	if len(h[name]) == 0 {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(values), func(text string) bool { return !fine(text) })
	if h[name] = kept; len(kept) == 0 {
		delete(h, name)
	}
}

// isOwn reports whether one of the things that Clear-Site-Data names is the site's
// alone. Cookies are cleared of the whole domain that the site is below: those of the
// other sites and of the panel too (Clear Site Data, 4.2.3). What it will name one day
// is not known.
func isOwn(what string) bool {
	switch strings.TrimSpace(what) {
	case `"cache"`, `"storage"`, `"executionContexts"`, `"clientHints"`, `"prefetchCache"`, `"prerenderCache"`:
		return true
	}
	return false
}

// reachesOthers reports whether a cookie would be sent to every site below a domain.
func reachesOthers(cookie, domain string) bool {
	attributes := strings.Split(cookie, ";")[1:]
	for _, part := range slices.Backward(attributes) { // the last one counts (RFC 6265, 5.3)
		name, value, _ := strings.Cut(part, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "domain") {
			continue
		}
		value = strings.ToLower(strings.Trim(strings.TrimSpace(value), "."))
		return value != "" && (value == domain || strings.HasSuffix(domain, "."+value))
	}
	return false
}

// trace finds out where a request comes from.
func (in *inbound) trace(trusted web.Networks, r *http.Request) {
	if in.proto = "http"; r.TLS != nil {
		in.proto = "https"
	}
	peer := web.AddressOf(r.RemoteAddr)
	in.client, in.forwarded = trusted.Client(peer, r.Header), peer.String()
	if !trusted.Contains(peer) {
		return
	}
	if proto := r.Header["X-Forwarded-Proto"]; len(proto) == 1 && (proto[0] == "http" || proto[0] == "https") {
		in.proto = proto[0]
	}
	if via := strings.Join(r.Header["X-Forwarded-For"], ","); via != "" {
		in.forwarded = via + ", " + in.forwarded
	}
}
