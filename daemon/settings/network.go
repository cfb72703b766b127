package settings

import (
	"slices"
	"strings"

	"berth/proc/sandbox"
)

// networks is empty or some addresses and networks, with commas between them;
// with ports, addresses may have one.
type networks struct {
	to    *string
	ports bool
}

func (n networks) set(text string) bool {
	rules, ok := parseRules(text)
	if !ok || !n.ports && slices.ContainsFunc(rules, func(r sandbox.Rule) bool { return r.Port != 0 }) {
		return false
	}
	*n.to = text
	return true
}

func (n networks) expects() string {
	if n.ports {
		return `addresses, addresses with a port, or networks with commas between them, such as "127.0.0.1:5432,[::1]:5432,10.0.0.0/8"`
	}
	return `addresses or networks with commas between them, such as "192.168.0.0/16,fd00::/8"`
}

func parseRules(text string) (rules []sandbox.Rule, ok bool) {
	if text == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		r, err := sandbox.ParseRule(strings.TrimSpace(part))
		if err != nil {
			return nil, false
		}
		rules = append(rules, r)
	}
	return rules, true
}

// NetworkRules are the owner's, which were checked when they were read.
func (s Settings) NetworkRules() sandbox.Rules {
	allow, _ := parseRules(s.Network.Allow)
	deny, _ := parseRules(s.Network.Deny)
	return sandbox.Rules{Allow: allow, Deny: deny}
}
