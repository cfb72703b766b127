package httpapi

import (
	"testing"

	"berth/app"
)

func vscodeScenes() []scene {
	return []scene{
		{name: "vscode_ok", method: "GET", path: "/v2/vscode", arrange: func(w *world) {
			several(w)
			w.apps = append(w.apps, killed("killed"))
			w.team.memberships = []app.Membership{
				{App: "theirs", Owner: bob, Permissions: app.AllPermissions},
				{App: "1745338954999", Owner: bob, Permissions: 1},
			}
		}},
		{name: "vscode_ok_empty", method: "GET", path: "/v2/vscode", arrange: noApps},
	}
}

// What /vscode and /user tell of one account is the same.
func TestVSCodeAgreesWithUser(t *testing.T) {
	w := newWorld(t)
	several(w)
	h := w.handler()
	var user, more struct{ User map[string]any }
	decode(t, do(t, h, newRequest("GET", "/v2/user", "")), &user)
	decode(t, do(t, h, newRequest("GET", "/v2/vscode", "")), &more)
	for name, value := range user.User {
		if string(encode(value)) != string(encode(more.User[name])) {
			t.Errorf("%s is %v, and %v for the extension", name, value, more.User[name])
		}
	}
}
