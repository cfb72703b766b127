package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// teamScenes are the owner's side.
func teamScenes() []scene {
	const (
		path   = "/v2/app/bot-one/team"
		op     = "/v2/app/{appID}/team"
		one    = "/v2/app/bot-one/team/8"
		opOne  = "/v2/app/{appID}/team/{modID}"
		body   = `{"modID":"8","perms":["status_app","logs_app","status_app"]}`
		coming = `"bot-one" is being deployed for the first time, or removed; try again when that is over`
	)
	big := `{"modID":"8","x":"` + strings.Repeat("x", maxFields) + `"}`
	list := []scene{
		{name: "app_team_get_ok", method: "GET", path: path, op: op, arrange: helped},
		{name: "app_team_get_ok_empty", method: "GET", path: path, op: op},
		{name: "app_team_get_not_found", method: "GET", path: "/v2/app/nobody/team", op: op},
		{name: "app_team_get_not_found_all", method: "GET", path: "/v2/app/all/team", op: op},
		{name: "app_ok_mods", method: "GET", path: "/v2/app/bot-one", op: "/v2/app/{appID}", arrange: helped},
		{name: "app_ok_all_mods", method: "GET", path: "/v2/app/all", op: "/v2/app/{appID}", arrange: func(w *world) { several(w); helped(w) }},

		{
			name: "app_team_post_unusable", method: "POST", path: path, op: op, body: body,
			arrange: failing("AddMember", app.Unusable, "account 7 is your own; you may do everything with your application"),
		},
		{
			name: "app_team_post_conflict_member", method: "POST", path: path, op: op, body: body,
			arrange: failing("AddMember", app.Conflict, "account 8 is a member of the team already"),
		},
		{
			name: "app_team_post_not_found_name", method: "POST", path: path, op: op, body: `{"username":"eve","perms":["logs_app"]}`,
			arrange: failing("AddNamed", app.NotFound, `no account that could become a member is called "eve"`),
		},
		{name: "app_team_put_not_found_name", method: "PUT", path: path, op: op, body: `{"username":"carl","perms":["logs_app"]}`, arrange: helped},
		{
			name: "app_team_post_invalid_permission", method: "POST", path: path, op: op, body: `{"modID":"8","perms":["fly_app"]}`,
			arrange: failing("AddMember", app.Invalid, `there is no permission "fly_app"`),
		},

		{name: "app_team_member_ok", method: "DELETE", path: one, op: opOne},
		{name: "app_team_member_not_found", method: "DELETE", path: "/v2/app/nobody/team/8", op: opOne},
		{name: "app_team_member_not_found_name", method: "DELETE", path: "/v2/app/bot-one/team/bob", op: opOne},
		{name: "app_team_member_conflict", method: "DELETE", path: one, op: opOne, arrange: failing("RemoveMember", app.Conflict, coming)},
	}
	for method, call := range map[string]string{"POST": "AddMember", "PUT": "SetMember"} {
		name := "app_team_" + strings.ToLower(method)
		list = append(list,
			scene{name: name + "_ok", method: method, path: path, op: op, body: body},
			scene{name: name + "_ok_name", method: method, path: path, op: op, body: `{"username":"bob","perms":["logs_app"]}`, arrange: helped},
			scene{name: name + "_invalid_both", method: method, path: path, op: op, body: `{"modID":"8","username":"bob","perms":["logs_app"]}`},
			scene{name: name + "_invalid", method: method, path: path, op: op, body: `{"modID":"8"}`},
			scene{name: name + "_not_found", method: method, path: "/v2/app/nobody/team", op: op, body: body},
			scene{name: name + "_conflict", method: method, path: path, op: op, body: body, arrange: failing(call, app.Conflict, coming)},
			scene{name: name + "_too_large", method: method, path: path, op: op, body: big},
		)
	}
	return list
}

// teamOp is an operation of members and what it needs.
type teamOp struct {
	method, what string
	needs        app.Permission
}

var teamOps = []teamOp{
	{"GET", "status", app.StatusApp},
	{"GET", "logs", app.LogsApp},
	{"GET", "backup", app.BackupApp},
	{"PUT", "start", app.StartApp},
	{"PUT", "restart", app.RestartApp},
	{"PUT", "stop", app.StopApp},
	{"PUT", "ram", app.EditRAM},
	{"GET", "ram", app.StatusApp},
	{"PUT", "commit", app.CommitApp},
}

// memberScenes are the member's side: whatever can be answered to an owner,
// and what only a member is told.
func memberScenes() []scene {
	const one = "/v2/team/{appID}"
	list := []scene{
		{name: "team_ok", method: "GET", path: "/v2/team", arrange: func(w *world) {
			several(w)
			w.apps = append(w.apps, killed("killed"))
			w.join(app.AllPermissions)
			w.team.memberships[1].Permissions = app.Permissions(0).With(app.EditRAM).With(app.StopApp)
			w.apps = slices.DeleteFunc(w.apps, func(s app.Snapshot) bool { return s.ID == "crashing" }) // deleted meanwhile
		}},
		{name: "team_ok_empty", method: "GET", path: "/v2/team"},
		{name: "team_one_ok", method: "GET", path: "/v2/team/bot-one", op: one, arrange: func(w *world) { w.join(app.Permissions(0).With(app.LogsApp)) }},
		{name: "team_one_ok_all", method: "GET", path: "/v2/team/all", op: one, arrange: func(w *world) { w.join(app.AllPermissions) }},
		{name: "team_one_not_found", method: "GET", path: "/v2/team/nobody", op: one, arrange: func(w *world) { w.join(app.AllPermissions) }},
		{name: "team_one_not_found_own", method: "GET", path: "/v2/team/bot-one", op: one},
	}
	for _, s := range ownerScenes() {
		list = append(list, s.byMember())
	}
	for i, op := range teamOps {
		name := op.what
		if slices.ContainsFunc(teamOps[:i], func(other teamOp) bool { return other.what == op.what }) { // by another method
			name += "_" + strings.ToLower(op.method)
		}
		list = append(list, scene{
			name: "team_" + name + "_denied", method: op.method, path: "/v2/team/bot-one/" + op.what, op: "/v2/team/{appID}/" + op.what,
			arrange: func(w *world) { w.join(app.AllPermissions &^ app.Permissions(op.needs)) },
		})
	}
	list = append(list, scene{name: "team_commit_not_found", method: "PUT", path: "/v2/team/nobody/commit", op: "/v2/team/{appID}/commit"})
	return list
}

// ownerScenes are those of one application and an operation that members have.
func ownerScenes() []scene {
	all := slices.Concat(readScenes(), actionScenes(), settingScenes(), uploadScenes(), downloadScenes())
	return slices.DeleteFunc(all, func(s scene) bool {
		return !slices.ContainsFunc(teamOps, func(op teamOp) bool { return s.op == "/v2/app/{appID}/"+op.what })
	})
}

// byMember is the scene with a member in the owner's place.
func (s scene) byMember() scene {
	m := s
	m.name = "team" + strings.TrimPrefix(s.name, "app")
	m.path = "/v2/team" + strings.TrimPrefix(s.path, "/v2/app")
	m.op = "/v2/team" + strings.TrimPrefix(s.op, "/v2/app")
	m.arrange = func(w *world) {
		if s.arrange != nil {
			s.arrange(w)
		}
		w.join(app.AllPermissions)
	}
	if s.raw != nil {
		m.raw = func(w *world) *http.Request {
			r := s.raw(w)
			r.URL.Path = m.path
			return r
		}
	}
	return m
}

// TestMembersAreAnsweredAsOwners: under /team all is as under /app.
func TestMembersAreAnsweredAsOwners(t *testing.T) {
	n := 0
	for _, s := range ownerScenes() {
		if strings.HasSuffix(s.name, "_not_found") {
			continue // of the team, not of the application
		}
		n++
		owner, member := play(t, s), play(t, s.byMember())
		owner.Request, owner.Operation, member.Request, member.Operation = "", "", "", ""
		if a, b := string(encode(owner)), string(encode(member)); a != b {
			t.Errorf("%s: the owner is answered\n%s\nand a member\n%s", s.name, a, b)
		}
	}
	if n < 30 {
		t.Errorf("compared %d answers only", n)
	}
}

// TestAllOfAMember: for a member "all" are the applications for which it has
// the permission, and no other.
func TestAllOfAMember(t *testing.T) {
	for _, op := range teamOps {
		if op.needs == app.EditRAM || op.needs == app.CommitApp {
			continue
		}
		w := newWorld(t)
		several(w)
		w.join(app.AllPermissions)
		if len(w.team.memberships) < 3 {
			t.Fatal("too few applications")
		}
		w.team.memberships[1].Permissions &^= app.Permissions(op.needs)
		w.team.memberships[2].Owner.ID = 99 // gone meanwhile
		first := string(w.team.memberships[0].App)
		rec := do(t, w.handler(), memberRequest(op.method, "/v2/team/all/"+op.what))
		if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), first) {
			t.Errorf("%s: status %d %s, want %s in it", op.what, rec.Code, rec.Body, first)
		}
		for _, m := range w.team.memberships[1:3] {
			if strings.Contains(rec.Body.String(), string(m.App)) {
				t.Errorf("%s: %s is in %s", op.what, m.App, rec.Body)
			}
		}
		w = newWorld(t)
		w.account = bob // in no team
		if rec := do(t, w.handler(), memberRequest(op.method, "/v2/team/all/"+op.what)); rec.Code != http.StatusOK || strings.Contains(rec.Body.String(), "bot-one") {
			t.Errorf("%s by nobody's member: status %d %s", op.what, rec.Code, rec.Body)
		}
	}
}

// request is what somebody sends for an operation.
func memberRequest(method, path string) *http.Request {
	switch {
	case strings.HasSuffix(path, "/commit"):
		return zipRequest(method, path, "PK")
	case strings.HasSuffix(path, "/ram"):
		return newRequest(method, path, `{"ramMB":200}`)
	}
	return newRequest(method, path, "")
}

// TestEveryPermissionAndOperation holds each operation against each permission
// alone, against all others, all and none: only the right one opens it, and
// then it acts for the owner (the world has no application of bob's).
func TestEveryPermissionAndOperation(t *testing.T) {
	sets := []app.Permissions{0, app.AllPermissions}
	for i := range app.AllPermissions.Names() {
		sets = append(sets, 1<<i, app.AllPermissions&^(1<<i))
	}
	for _, op := range teamOps {
		opened := 0
		for _, set := range sets {
			w := newWorld(t)
			if op.what == "start" {
				w.apps = []app.Snapshot{stopped("bot-one")}
			}
			w.join(set)
			rec := do(t, w.handler(), memberRequest(op.method, "/v2/team/bot-one/"+op.what))
			if slices.Contains(set.Names(), op.needs.String()) {
				opened++
				if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"status":"ok"`) {
					t.Errorf("%s with %v: status %d %s", op.what, set.Names(), rec.Code, rec.Body)
				}
				continue
			}
			asked := fmt.Sprintf("Authorize 8 bot-one %v", op.needs)
			if rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), op.needs.String()) || !slices.Equal(w.calls, []string{"Authenticate", asked}) {
				t.Errorf("%s with %v: status %d %s after %v", op.what, set.Names(), rec.Code, rec.Body, w.calls)
			}
		}
		if opened != 9 { // alone, with all, and with all but each of the seven others
			t.Errorf("%s was open to %d of %d sets, want 9", op.what, opened, len(sets))
		}
	}
}

// TestEveryRouteOfTeamsAsks: no operation was forgotten in the table above, and
// who is in no team gets nowhere, the owner included.
func TestEveryRouteOfTeamsAsks(t *testing.T) {
	n := 0
	for _, r := range new(server).routes() {
		what, found := strings.CutPrefix(r.Path, "/v2/team/:appID/")
		if !found {
			continue
		}
		n++
		if !slices.ContainsFunc(teamOps, func(op teamOp) bool { return op.method == r.Method && op.what == what }) {
			t.Errorf("%s %s is in no test of permissions", r.Method, r.Path)
		}
		for _, account := range []app.Account{ada, bob} {
			w := newWorld(t)
			w.account = account
			rec := do(t, w.handler(), memberRequest(r.Method, "/v2/team/bot-one/"+what))
			if rec.Code != http.StatusNotFound || len(w.calls) != 2 || w.called("Authorize") != 1 {
				t.Errorf("%s by %s: status %d after %v", what, account.Name, rec.Code, w.calls)
			}
		}
	}
	if n != len(teamOps) {
		t.Errorf("%d routes, %d operations in the table", n, len(teamOps))
	}
}

// TestMembersHaveNothingElse: all permissions together open nothing under /app.
func TestMembersHaveNothingElse(t *testing.T) {
	for _, r := range new(server).routes() {
		if !strings.HasPrefix(r.Path, "/v2/app/") {
			continue
		}
		w := newWorld(t)
		w.join(app.AllPermissions)
		path := strings.NewReplacer(":appID", "bot-one", ":modID", "8").Replace(r.Path)
		req := memberRequest(r.Method, path)
		if r.Method != "GET" && !strings.HasSuffix(path, "/commit") && !strings.HasSuffix(path, "/ram") {
			req = newRequest(r.Method, path, `{"modID":"9","perms":["logs_app"],"name":"mine","env":{"A":"b"},"apt":"ffmpeg","command":"id","line":"x"}`)
		}
		if rec := do(t, w.handler(), req); rec.Code != http.StatusNotFound {
			t.Errorf("%s %s: status %d %s", r.Method, path, rec.Code, rec.Body)
		}
	}
}

func TestTeamBodies(t *testing.T) {
	for body, want := range map[string]string{
		`{"modID":"42","perms":["logs_app"]}`:                "42 [logs_app]",
		`{"modID":42,"perms":["a","a"],"x":1}`:               "42 [a a]", // the rule is behind Teams
		`{"modID":"9223372036854775807","perms":[]}`:         "9223372036854775807 []",
		`{"modID":9223372036854775808,"perms":["logs_app"]}`: "",
		`{"modID":"bob","perms":["logs_app"]}`:               "",
		`{"modID":"042","perms":["logs_app"]}`:               "",
		`{"modID":"+42","perms":["logs_app"]}`:               "",
		`{"modID":" 42","perms":["logs_app"]}`:               "",
		`{"modID":0,"perms":["logs_app"]}`:                   "",
		`{"modID":-1,"perms":["logs_app"]}`:                  "",
		`{"modID":42.0,"perms":["logs_app"]}`:                "",
		`{"modID":null,"perms":["logs_app"]}`:                "",
		`{"modID":["42"],"perms":["logs_app"]}`:              "",
		`{"perms":["logs_app"]}`:                             "",
		`{"modID":"42"}`:                                     "",
		`{"modID":"42","perms":null}`:                        "",
		`{"modID":"42","perms":"logs_app"}`:                  "",
		`{"modID":"42","perms":[null]}`:                      "",
		`{"modID":"42","perms":[1]}`:                         "",
		`{"modID":"42","perms":{"logs_app":true}}`:           "",
	} {
		for method, call := range map[string]string{"POST": "AddMember", "PUT": "SetMember"} {
			w := newWorld(t)
			rec := do(t, w.handler(), newRequest(method, "/v2/app/bot-one/team", body))
			got := ""
			if w.called(call) == 1 {
				got = strings.TrimPrefix(w.calls[1], call+" bot-one ")
			}
			if got != want || (rec.Code == http.StatusOK) != (want != "") || rec.Code != http.StatusOK && rec.Code != http.StatusBadRequest {
				t.Errorf("%s %s: status %d, asked for %q, want %q", method, body, rec.Code, got, want)
			}
		}
	}
}

// FuzzTeamBody sends any bytes: one account gets permissions, those that
// encoding/json reads of the same body, or none does.
func FuzzTeamBody(f *testing.F) {
	for _, body := range []string{`{"modID":"42","perms":["logs_app"]}`, `{"modID":42,"perms":[]}`, `{"modID":"4\u0032","perms":["\ud800"]}`, `{"modID":4e1}`, `[]`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := newWorld(t)
		rec := do(t, w.handler(), newRequest("POST", "/v2/app/bot-one/team", body))
		if rec.Code != http.StatusOK {
			if w.called("AddMember") != 0 || rec.Code != http.StatusBadRequest && rec.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("status %d after %v", rec.Code, w.calls)
			}
			return
		}
		var all map[string]any
		d := json.NewDecoder(strings.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&all); err != nil {
			t.Fatalf("took %q: %v", body, err)
		}
		if want := fmt.Sprintf("AddMember bot-one %v %v", all["modID"], all["perms"]); w.calls[1] != want {
			t.Errorf("%q did %q, want %q", body, w.calls[1], want)
		}
	})
}
