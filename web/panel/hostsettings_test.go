package panel

import (
	"net/http"
	"strings"
	"testing"

	"berth/app"
)

// An administrator changes settings of the host: what the file decides is read-only, and the audit log has the old and
// the new value. A refusal shows what was typed.
func TestHostSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	b.get("/host").want(t, "the host leads there", http.StatusOK, `href="/host/settings"`)
	p := b.get("/host/settings")
	p.want(t, "the settings", http.StatusOK, `name="rate_limit" value="60"`, `<option value="true" selected>`, "decided by /etc/berth/berth.toml line 3",
		"sudo systemctl reload berth", "disk of &lt;b&gt;", "sudo berth upgrade")
	if strings.Contains(p.body, `name="apps.pids_max"`) {
		t.Error("what the file decides can be typed")
	}
	b.post("/host/settings", "rate_limit", "90", "apps.oom_group", "true", "apps.pids_max.x", "1").leads(t, "one is changed", "/host/settings")
	if act := w.acts.last(); act.Operation != "host.settings" || act.Detail != `rate_limit="90" was="60"` {
		t.Errorf("the audit log has %+v", act)
	}
	b.get("/host/settings").want(t, "it is stored", http.StatusOK, `name="rate_limit" value="90"`)
	w.knobs.fail = app.Errorf(app.Invalid, "bad value %q for %s: expected %s", "x<", "rate_limit", "a number")
	b.post("/host/settings", "rate_limit", "x<").want(t, "a bad value", http.StatusBadRequest, "expected a number", `value="x&lt;"`)
	w.as("bob").get("/host/settings").want(t, "no administrator", http.StatusNotFound)
}
