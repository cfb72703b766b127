package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/app"
)

func (w *world) Variables(_ context.Context, owner app.AccountID, id app.ID) ([]app.Variable, error) {
	return w.variables, w.change(w.call("Variables", id), owner, id)
}

func (w *world) SetVariables(_ context.Context, owner app.AccountID, id app.ID, change map[string]*string) error {
	w.changed = change
	var said []any
	for _, name := range slices.Sorted(maps.Keys(change)) {
		text := name + "=null"
		if value := change[name]; value != nil {
			text = name + "=" + strconv.Quote(*value)
		}
		said = append(said, text)
	}
	return w.change(w.call("SetVariables", append([]any{id}, said...)...), owner, id)
}

func (w *world) RemoveVariable(_ context.Context, owner app.AccountID, id app.ID, name string) error {
	return w.change(w.call("RemoveVariable", id, name), owner, id)
}

func (w *world) AddApts(_ context.Context, owner app.AccountID, id app.ID, list []string) (app.Wishes, error) {
	return w.wishes, w.change(w.call("AddApts", id, strings.Join(list, "|")), owner, id)
}

func (w *world) DropApts(_ context.Context, owner app.AccountID, id app.ID, list []string) ([]string, error) {
	return list, w.change(w.call("DropApts", id, strings.Join(list, "|")), owner, id)
}

const secretValue = "hunter2-and-twenty-more-characters"

func environmentScenes() []scene {
	return slices.Concat(variableScenes(), backupWithVariablesScenes())
}

// backupWithVariablesScenes are those in which a member is not answered as an owner.
func backupWithVariablesScenes() []scene {
	const app, team = "/v2/app/{appID}/backup", "/v2/team/{appID}/backup"
	return []scene{
		{name: "app_backup_ok_env", method: "GET", path: "/v2/app/bot-one/backup?env=true", op: app},
		{name: "app_backup_ok_all_env", method: "GET", path: "/v2/app/all/backup?env=true", op: app, arrange: several},
		{name: "team_backup_denied_env", method: "GET", path: "/v2/team/bot-one/backup?env=true", op: team, arrange: joined},
		{name: "team_backup_denied_all_env", method: "GET", path: "/v2/team/all/backup?env=true", op: team, arrange: joined},
	}
}

func joined(w *world) { w.join(app.AllPermissions) }

func variableScenes() []scene {
	const (
		env = "/v2/app/{appID}/env"
		one = "/v2/app/{appID}/env/{name}"
		apt = "/v2/app/{appID}/apt"
	)
	busy := "The application is being deployed for the first time."
	body := `{"env":{"TOKEN":"` + secretValue + `","OLD":null}}`
	tools := `{"apt":"ffmpeg,tools"}`
	wish := func(lacking []string, unknown bool) func(*world) {
		return func(w *world) {
			w.wishes = app.Wishes{Names: []string{"ffmpeg", "tools"}, Lacking: lacking, Unknown: unknown}
		}
	}
	return []scene{
		{name: "app_env_ok", method: "GET", path: "/v2/app/bot-one/env", op: env, arrange: func(w *world) {
			w.variables = []app.Variable{{Name: "EMPTY"}, {Name: "PIN", Value: "1234"}, {Name: "TOKEN", Value: secretValue}}
		}},
		{name: "app_env_ok_none", method: "GET", path: "/v2/app/bot-one/env", op: env},
		{name: "app_env_not_found", method: "GET", path: "/v2/app/nobody/env", op: env},
		{name: "app_env_not_found_all", method: "GET", path: "/v2/app/all/env", op: env},
		{name: "app_env_conflict", method: "GET", path: "/v2/app/bot-one/env", op: env, arrange: failing("Variables", app.Conflict, busy)},

		{name: "app_env_values_ok", method: "GET", path: "/v2/app/bot-one/env/values", op: env + "/values", arrange: func(w *world) {
			w.variables = []app.Variable{{Name: "EMPTY"}, {Name: "PIN", Value: "1234"}}
		}},
		{name: "app_env_values_not_found", method: "GET", path: "/v2/app/nobody/env/values", op: env + "/values"},
		{name: "app_env_values_conflict", method: "GET", path: "/v2/app/bot-one/env/values", op: env + "/values", arrange: failing("Variables", app.Conflict, busy)},

		{name: "app_env_put_ok", method: "PUT", path: "/v2/app/bot-one/env", op: env, body: body},
		{name: "app_env_put_ok_one", method: "PUT", path: "/v2/app/bot-one/env", op: env, body: `{"env":{"TOKEN":""}}`},
		{name: "app_env_put_ok_removed", method: "PUT", path: "/v2/app/bot-one/env", op: env, body: `{"env":{"A":null,"B":null}}`},
		{name: "app_env_put_invalid", method: "PUT", path: "/v2/app/bot-one/env", op: env, body: `{"env":["TOKEN"]}`},
		{name: "app_env_put_invalid_value", method: "PUT", path: "/v2/app/bot-one/env", op: env, body: `{"env":{"PIN":12345678}}`},
		{
			name: "app_env_put_reserved", method: "PUT", path: "/v2/app/bot-one/env", op: env, body: `{"env":{"PORT":"1"}}`,
			arrange: failing("SetVariables", app.Invalid, "PORT is set by berth, to what is true for the program: it cannot be changed"),
		},
		{name: "app_env_put_not_found", method: "PUT", path: "/v2/app/nobody/env", op: env, body: body},
		{name: "app_env_put_conflict", method: "PUT", path: "/v2/app/bot-one/env", op: env, body: body, arrange: failing("SetVariables", app.Conflict, busy)},
		{name: "app_env_put_too_large", method: "PUT", path: "/v2/app/bot-one/env", op: env, body: `{"env":{"A":"` + strings.Repeat("x", maxVariables) + `"}}`},
		{
			name: "app_env_put_exhausted", method: "PUT", path: "/v2/app/bot-one/env", op: env, body: body,
			arrange: failing("SetVariables", app.Exhausted, "an application may have 128 variables, and this one would have 129"),
		},

		{name: "app_env_one_ok", method: "DELETE", path: "/v2/app/bot-one/env/TOKEN", op: one},
		{name: "app_env_one_not_found", method: "DELETE", path: "/v2/app/nobody/env/TOKEN", op: one},
		{
			name: "app_env_one_not_found_variable", method: "DELETE", path: "/v2/app/bot-one/env/TOKEN", op: one,
			arrange: failing("RemoveVariable", app.NotFound, `there is no variable "TOKEN"`),
		},
		{name: "app_env_one_conflict", method: "DELETE", path: "/v2/app/bot-one/env/TOKEN", op: one, arrange: failing("RemoveVariable", app.Conflict, busy)},

		{name: "app_apt_ok", method: "PUT", path: "/v2/app/bot-one/apt", op: apt, body: tools, arrange: wish(nil, false)},
		{name: "app_apt_ok_lacking", method: "PUT", path: "/v2/app/bot-one/apt", op: apt, body: `{"apt":["ffmpeg","tools"]}`, arrange: wish([]string{"ffmpeg", "wget"}, false)},
		{name: "app_apt_ok_unknown", method: "PUT", path: "/v2/app/bot-one/apt", op: apt, body: tools, arrange: wish([]string{"ffmpeg"}, true)},
		{name: "app_apt_invalid", method: "PUT", path: "/v2/app/bot-one/apt", op: apt, body: `{"apt":5}`},
		{
			name: "app_apt_invalid_name", method: "PUT", path: "/v2/app/bot-one/apt", op: apt, body: `{"apt":"rm -rf"}`,
			arrange: failing("AddApts", app.Invalid, `"rm -rf" is the name of no system package`),
		},
		{name: "app_apt_not_found", method: "PUT", path: "/v2/app/nobody/apt", op: apt, body: tools},
		{name: "app_apt_conflict", method: "PUT", path: "/v2/app/bot-one/apt", op: apt, body: tools, arrange: failing("AddApts", app.Conflict, busy)},
		{name: "app_apt_too_large", method: "PUT", path: "/v2/app/bot-one/apt", op: apt, body: `{"apt":"` + strings.Repeat("x", maxFields) + `"}`},

		{name: "app_apt_delete_ok", method: "DELETE", path: "/v2/app/bot-one/apt", op: apt, body: tools},
		{name: "app_apt_delete_ok_query", method: "DELETE", path: "/v2/app/bot-one/apt?apt=ffmpeg", op: apt},
		{
			name: "app_apt_delete_already", method: "DELETE", path: "/v2/app/bot-one/apt", op: apt, body: tools,
			arrange: failing("DropApts", app.Already, "the application does not ask for ffmpeg, tools"),
		},
		{name: "app_apt_delete_invalid", method: "DELETE", path: "/v2/app/bot-one/apt", op: apt},
		{name: "app_apt_delete_not_found", method: "DELETE", path: "/v2/app/nobody/apt", op: apt, body: tools},
		{name: "app_apt_delete_conflict", method: "DELETE", path: "/v2/app/bot-one/apt", op: apt, body: tools, arrange: failing("DropApts", app.Conflict, busy)},
		{name: "app_apt_delete_too_large", method: "DELETE", path: "/v2/app/bot-one/apt", op: apt, body: `{"apt":"` + strings.Repeat("x", maxFields) + `"}`},
	}
}

func TestVariableBodies(t *testing.T) {
	for body, want := range map[string]string{ // the call, "" for a refusal
		`{"env":{"A":"1"}}`:                                        `A="1"`,
		`{"env":{"A":"1","B":null,"C":""}}`:                        `A="1" B=null C=""`,
		`{"env":{"A":"a=b\nc\u0000"},"other":1}`:                   `A="a=b\nc\x00"`, // the rule is behind SetVariables
		`{"env":{"A":"\ud83d\udd11"}}`:                             `A="🔑"`,
		`{"env":{}}`:                                               " ",
		`{"env":{"PORT":"1"}}`:                                     `PORT="1"`,
		`{"env":{"A":"` + strings.Repeat(`\u0001`, 64<<10) + `"}}`: `A="` + strings.Repeat(`\x01`, 64<<10) + `"`,
		`{"env":null}`:                                             "",
		`{"env":"A=1"}`:                                            "",
		`{"env":[{"A":"1"}]}`:                                      "",
		`{"env":{"A":1}}`:                                          "",
		`{"env":{"A":true}}`:                                       "",
		`{"env":{"A":["1"]}}`:                                      "",
		`{"env":{"A":{"B":"1"}}}`:                                  "",
		`{"env":{"A":"1","A":"2"}}`:                                "",
		`{"env":{"A":"1"},"env":{}}`:                               "",
		`{"env":{"A":"1"}`:                                         "",
		`{"A":"1"}`:                                                "",
		`{}`:                                                       "",
		"{\"env\":{\"A\":\"\xff\"}}":                               "",
		`{"env":{"A":"secret-7` + "\n\"}}":                         "",
	} {
		w := newWorld(t)
		rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/env", body))
		code := http.StatusOK
		if want == "" {
			code = http.StatusBadRequest
		}
		if rec.Code != code {
			t.Errorf("%.60q: status %d, want %d: %s", body, rec.Code, code, rec.Body)
		}
		call := strings.TrimSpace("SetVariables bot-one " + want)
		if did := w.called("SetVariables") == 1; did != (want != "") || did && w.calls[1] != call {
			t.Errorf("%.60q: called %.200q, want %.200q", body, w.calls[1:], call)
		}
	}
}

// No refusal repeats a value, neither to the client nor to the log.
func TestRefusedVariablesAreNotRepeated(t *testing.T) {
	for _, body := range []string{
		`{"env":{"PIN":8675309}}`, `{"env":{"PIN":["8675309"]}}`, `{"env":"8675309"}`, `{"env":{"PIN=8675309":5}}`,
		`{"env":{"PIN":"8675309","PIN":"8675309"}}`, `{"env":{"PIN=8675309":"x","PIN=8675309":"x"}}`, `{"env":{"PIN=8675309":"x","PIN=8675309":"y"},"x":"8675309"}`, `{"env":{"PIN":"8675309` + "\n" + `"}}`, `{"env":{"PIN":8675309x}}`,
	} {
		w, log := logged(t)
		rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/env", body))
		if rec.Code != http.StatusBadRequest || strings.Contains(rec.Body.String(), "8675309") || strings.Contains(log.String(), "8675309") {
			t.Errorf("%s: status %d: %s and in the log %s", body, rec.Code, rec.Body, log)
		}
	}
	w, log := logged(t)
	w.variables = []app.Variable{{Name: "TOKEN", Value: secretValue}}
	h := w.handler()
	do(t, h, newRequest("PUT", "/v2/app/bot-one/env", `{"env":{"TOKEN":"`+secretValue+`"}}`))
	rec := do(t, h, newRequest("GET", "/v2/app/bot-one/env", ""))
	if strings.Contains(rec.Body.String(), secretValue[:len(secretValue)-4]) || !strings.Contains(log.String(), "/env") || strings.Contains(log.String(), secretValue) {
		t.Errorf("answered %s, logged %s", rec.Body, log)
	}
}

func TestWhoGetsVariablesInABackup(t *testing.T) {
	for query, want := range map[string]int{
		"": 200, "?": 200, "?x=1&y": 200, "?env=false": 200, "?env=true": 201, "?env=%74rue&x": 201,
		"?env": 400, "?env=": 400, "?env=1": 400, "?env=TRUE": 400, "?env=true&env=true": 400, "?env=false&env=true": 400, "?env=true;x": 400, "?env=%zz": 400,
	} {
		for _, id := range []string{"bot-one", "all"} {
			for who, path := range map[string]string{"owner": "/v2/app/", "member": "/v2/team/"} {
				for _, method := range []string{"GET", "HEAD"} {
					w := newWorld(t)
					if who == "member" {
						w.join(app.AllPermissions)
					}
					code, asked := want, 0
					switch {
					case want == 201 && who == "member":
						code = 403
					case want == 201:
						code, asked = 200, 1
					}
					if method == "HEAD" {
						asked = 0
					}
					rec := do(t, w.handler(), newRequest(method, path+id+"/backup"+query, ""))
					if rec.Code != code || w.called("BackupOfVariables") != asked || code != 200 && w.called("Backup") > 0 {
						t.Errorf("%s %s%s/backup%s: status %d, want %d, after %v", method, path, id, query, rec.Code, code, w.calls)
					}
					if says := strings.Contains(rec.Body.String(), ".berth/env"); says != (asked == 1) {
						t.Errorf("%s%s/backup%s: %s", path, id, query, rec.Body)
					}
				}
			}
		}
	}
}

func TestAptBodies(t *testing.T) {
	for _, tt := range []struct {
		method, query, body string
		want                string // "" for a refusal
	}{
		{"PUT", "", `{"apt":"ffmpeg,tools"}`, "ffmpeg|tools"},
		{"PUT", "", `{"apt":" ffmpeg , ,tools,"}`, "ffmpeg|tools"},
		{"PUT", "", `{"apt":["ffmpeg","tools,g++"]}`, "ffmpeg|tools|g++"},
		{"PUT", "?apt=ffmpeg,tools", "", "ffmpeg|tools"},
		{"DELETE", "?apt=ffmpeg&apt=g%2B%2B", "{}", "ffmpeg|g++"},
		{"DELETE", "", `{"apt":"ffmpeg"}`, "ffmpeg"},
		{"DELETE", "", "", ""},
		{"PUT", "", `{"apt":7}`, ""},
		{"PUT", "", `{"apt":[7]}`, ""},
		{"PUT", "", `{"apt":{}}`, ""},
		{"PUT", "", `{"packages":"ffmpeg"}`, ""},
		{"PUT", "?packages=ffmpeg", "", ""},
	} {
		w := newWorld(t)
		rec := do(t, w.handler(), newRequest(tt.method, "/v2/app/bot-one/apt"+tt.query, tt.body))
		call, code := "AddApts", http.StatusOK
		if tt.method == "DELETE" {
			call = "DropApts"
		}
		if tt.want == "" {
			code = http.StatusBadRequest
		}
		if rec.Code != code || (w.called(call) == 1) != (tt.want != "") {
			t.Errorf("%+v: status %d, called %q", tt, rec.Code, w.calls)
		} else if want := call + " bot-one " + tt.want; tt.want != "" && w.calls[1] != want {
			t.Errorf("%+v: called %q, want %q", tt, w.calls[1], want)
		}
	}
}

func TestInformationHasTheSystemPackages(t *testing.T) {
	w := newWorld(t)
	w.apps[0].Apts = []string{"ffmpeg", "tools"}
	h := w.handler()
	if rec := do(t, h, newRequest("GET", "/v2/app/bot-one", "")); !strings.Contains(rec.Body.String(), `"apts":["ffmpeg","tools"]`) {
		t.Errorf("got %s", rec.Body)
	}
	if rec := do(t, h, newRequest("GET", "/v2/app/all", "")); !strings.Contains(rec.Body.String(), `"apts":["ffmpeg","tools"]`) {
		t.Errorf("got %s", rec.Body)
	}
}

// FuzzVariables sends any bytes as variables: what encoding/json reads of them
// is set, or nothing, and no refusal holds a value.
func FuzzVariables(f *testing.F) {
	for _, body := range []string{
		`{"env":{"A":"1","B":null}}`, `{"env":{"A":"1","A":"2"}}`, `{"env":{"A":1}}`, `{"env":{}}`, `{"env":[]}`, `{"env":{"A":"\ud800"}}`, `{"ENV":{"A":"1"},"env":null}`, `{"env":{"":""}}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := newWorld(t)
		rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/env", body))
		if rec.Code != http.StatusOK {
			if w.called("SetVariables") > 0 || rec.Code != http.StatusBadRequest && rec.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("status %d for %q, called %q", rec.Code, body, w.calls)
			}
			return
		}
		var sent map[string]json.RawMessage // by their exact names, unlike a struct
		var want map[string]*string
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatalf("took %q: %v", body, err)
		}
		if err := json.Unmarshal(sent["env"], &want); err != nil || want == nil {
			t.Fatalf("took %q: %v", body, err)
		}
		if !reflect.DeepEqual(w.changed, want) {
			t.Errorf("%q set %v, want %v", body, w.changed, want)
		}
	})
}
