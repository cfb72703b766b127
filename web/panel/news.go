package panel

import (
	"slices"

	"berth/app"
)

// maxNews is how many new sign-ins one form dismisses, which is more than are kept.
const maxNews = 32

// news are the new sign-ins from one address, of which an account has to know.
type news struct {
	app.NewSignIn                 // the newest
	Older         []app.NewSignIn // the others, newest first
}

// newsOf puts those from one address together. all are newest first.
func newsOf(all []app.NewSignIn) []news {
	var boxes []news
	for _, n := range all {
		at := slices.IndexFunc(boxes, func(b news) bool { return b.Address == n.Address })
		if at < 0 {
			boxes = append(boxes, news{NewSignIn: n})
			continue
		}
		boxes[at].Older = append(boxes[at].Older, n)
	}
	return boxes
}

// Count is how many they are.
func (n news) Count() int { return 1 + len(n.Older) }

// Agents are what the older ones name that the newest does not: one box hides no other browser.
func (n news) Agents() []string {
	var all []string
	for _, older := range n.Older {
		if older.Agent != n.Agent && !slices.Contains(all, older.Agent) {
			all = append(all, older.Agent)
		}
	}
	return all
}
