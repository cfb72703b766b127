package host

import (
	"regexp"
	"testing"

	"berth/app"
)

// Clients tell a bot from a site by its id: thirteen digits, also where
// the clock is not set yet, or the subdomain.
func TestIDs(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		seen := map[app.ID]bool{}
		for range 3 { // at the same moment
			id := w.host.newID()
			if seen[id] || !regexp.MustCompile(`^[0-9]{13}$`).MatchString(string(id)) {
				t.Errorf("a bot's id is %q, after %v", id, seen)
			}
			seen[id] = true
		}
		if id := w.mustUpload("MAIN=a,TYPE=site,ID=Shop"); id != "shop" {
			t.Errorf("a site's id is %q, want its subdomain", id)
		}
	})
}

// A name that policy refuses is told with its line, and nothing is reserved.
func TestSitesWithARefusedName(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.host.CheckSubdomain = func(name string) error { return app.Errorf(app.Invalid, "%q is reserved", name) }
		_, err := w.upload("MAIN=a,TYPE=site,ID=Www")
		if app.KindOf(err) != app.Unusable || !regexp.MustCompile(`^discloud\.config.*: ID="www" is reserved$`).MatchString(err.Error()) {
			t.Errorf("got %v", err)
		}
		w.wantNothing()
	})
}
