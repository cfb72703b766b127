package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"berth/app"
)

func settingScenes() []scene {
	const (
		ram     = "/v2/app/{appID}/ram"
		profile = "/v2/app/{appID}/profile"
		remove  = "/v2/app/{appID}/delete"
		locale  = "/v2/locale/{locale}"
	)
	busy := "Another operation on this application is under way."
	big := `{"ramMB":100,"x":"` + strings.Repeat("x", maxFields) + `"}`
	return []scene{
		{name: "app_ram_ok", method: "PUT", path: "/v2/app/bot-one/ram", op: ram, body: `{"ramMB":256}`},
		{
			name: "app_ram_already", method: "PUT", path: "/v2/app/bot-one/ram", op: ram, body: `{"ramMB":100}`,
			arrange: failing("SetRAM", app.Already, "Your application has 100 MB of RAM already."),
		},
		{name: "app_ram_invalid", method: "PUT", path: "/v2/app/bot-one/ram", op: ram, body: `{"ramMB":"256"}`},
		{name: "app_ram_not_found", method: "PUT", path: "/v2/app/nobody/ram", op: ram, body: `{"ramMB":256}`},
		{
			name: "app_ram_conflict", method: "PUT", path: "/v2/app/bot-one/ram", op: ram, body: `{"ramMB":256}`,
			arrange: failing("SetRAM", app.Conflict, busy),
		},
		{name: "app_ram_too_large", method: "PUT", path: "/v2/app/bot-one/ram", op: ram, body: big},
		{
			name: "app_ram_below_least", method: "PUT", path: "/v2/app/bot-one/ram", op: ram, body: `{"ramMB":5}`,
			arrange: failing("SetRAM", app.Unusable, "An application needs at least 32 MB of RAM."),
		},
		{
			name: "app_ram_exhausted", method: "PUT", path: "/v2/app/bot-one/ram", op: ram, body: `{"ramMB":99999}`,
			arrange: failing("SetRAM", app.Exhausted, "Your account has 1024 MB, of which 924 MB are free."),
		},

		{
			name: "app_profile_ok", method: "PUT", path: "/v2/app/bot-one/profile", op: profile,
			body: `{"name":" Ünï ","avatarURL":"https://example.org/a.png","other":[1]}`,
		},
		{name: "app_profile_invalid", method: "PUT", path: "/v2/app/bot-one/profile", op: profile, body: `{"name":null,"avatarURL":null}`},
		{name: "app_profile_not_found", method: "PUT", path: "/v2/app/nobody/profile", op: profile, body: `{"name":"x"}`},
		{
			name: "app_profile_conflict", method: "PUT", path: "/v2/app/bot-one/profile", op: profile, body: `{"name":"x"}`,
			arrange: failing("SetProfile", app.Conflict, busy),
		},
		{name: "app_profile_too_large", method: "PUT", path: "/v2/app/bot-one/profile", op: profile, body: big},
		{
			name: "app_profile_unusable", method: "PUT", path: "/v2/app/bot-one/profile", op: profile, body: `{"name":"x"}`,
			arrange: failing("SetProfile", app.Unusable, "This name is reserved."),
		},

		{name: "app_delete_ok", method: "DELETE", path: "/v2/app/bot-one/delete", op: remove},
		{name: "app_delete_not_found", method: "DELETE", path: "/v2/app/nobody/delete", op: remove},
		{name: "app_delete_conflict", method: "DELETE", path: "/v2/app/bot-one/delete", op: remove, arrange: failing("Delete", app.Conflict, busy)},

		{name: "locale_ok", method: "PUT", path: "/v2/locale/pt-BR", op: locale, body: "{}"},
		{name: "locale_not_found", method: "PUT", path: "/v2/locale/xx-XX", op: locale},
	}
}

func TestRAMBodies(t *testing.T) {
	for body, want := range map[string]int{
		`{"ramMB":256}`:                  200,
		`{"ramMB":-5}`:                   200, // the rule is behind SetRAM
		`{"ramMB":256,"extra":{}}`:       200,
		" {\n\"ramMB\" : 256 }\r\n":      200,
		`{"ramMB":256.5}`:                400,
		`{"ramMB":2e2}`:                  400,
		`{"ramMB":99999999999999999999}`: 400,
		`{"ramMB":null}`:                 400,
		`{"ramMB":true}`:                 400,
		`{"rammb":256}`:                  400,
		`{}`:                             400,
		`[]`:                             400,
		`256`:                            400,
		`{"ramMB":256}{}`:                400,
		`{"ramMB":256} x`:                400,
		`{"ramMB":256,"ramMB":1}`:        400,
		`{"ramMB":256,}`:                 400,
		`{"ramMB":256`:                   400,
		"{\"ramMB\":256,\"x\":\"\xff\"}": 400,
		" ":                              400,
	} {
		w := newWorld(t)
		rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/ram", body))
		if rec.Code != want {
			t.Errorf("%q: status %d, want %d: %s", body, rec.Code, want, rec.Body)
		}
		if changed := w.called("SetRAM") == 1; changed != (want == 200) {
			t.Errorf("%q: changed %v", body, changed)
		}
	}
}

func TestRAMErrorsNameTheField(t *testing.T) {
	for _, body := range []string{`{}`, `{"ramMB":"x"}`, `{"ramMB":1.5}`} {
		rec := do(t, newWorld(t).handler(), newRequest("PUT", "/v2/app/bot-one/ram", body))
		var e errorBody
		decode(t, rec, &e)
		if !strings.Contains(e.Message, "ramMB") {
			t.Errorf("%s: message %q does not name the field", body, e.Message)
		}
	}
}

func TestContentTypesOfJSON(t *testing.T) {
	for contentType, want := range map[string]int{
		"":                                  200,
		"application/json":                  200,
		"Application/JSON; charset=utf-8":   200,
		"application/merge-patch+json":      200,
		"text/plain":                        400,
		"multipart/form-data":               400,
		"application/x-www-form-urlencoded": 400,
		"json":                              400,
		";":                                 400,
	} {
		r := newRequest("PUT", "/v2/app/bot-one/ram", `{"ramMB":256}`)
		r.Header.Del("Content-Type")
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		if rec := do(t, newWorld(t).handler(), r); rec.Code != want {
			t.Errorf("%q: status %d, want %d", contentType, rec.Code, want)
		}
	}
}

func TestProfileBodies(t *testing.T) {
	long := "https://example.org/" + strings.Repeat("a", app.MaxAvatarURL)
	for _, tt := range []struct{ body, call string }{
		{`{"name":"x"}`, `"x" -`},
		{`{"avatarURL":"http://example.org"}`, `- "http://example.org"`},
		{`{"name":null,"avatarURL":""}`, `- ""`},
		{`{"name":"  padded  ","avatarURL":null}`, `"padded" -`},
		{`{"name":"` + strings.Repeat("é", 30) + `"}`, `"` + strings.Repeat("é", 30) + `" -`},
		{`{"name":"` + strings.Repeat("é", 31) + `"}`, ""},
		{`{"name":"   "}`, ""},
		{`{"name":""}`, ""},
		{`{"name":"a\u0007b"}`, ""},
		{`{"name":"a\tb"}`, ""},
		{`{"name":"a\u202egpj.exe"}`, ""},
		{`{"name":"a\u2066b"}`, ""},
		{`{"avatarURL":"https://ana:secret@example.org/a.png"}`, ""},
		{"\ufeff" + `{"name":"x"}`, `"x" -`},
		{`{"name":5}`, ""},
		{`{"name":"x","avatarURL":7}`, ""},
		{`{"avatarURL":"ftp://example.org/a.png"}`, ""},
		{`{"avatarURL":"javascript:alert(1)"}`, ""},
		{`{"avatarURL":"https://"}`, ""},
		{`{"avatarURL":"/a.png"}`, ""},
		{`{"avatarURL":"https://example.org/a b"}`, ""},
		{`{"avatarURL":"https://example.org/%zz"}`, ""},
		{`{"avatarURL":"` + long + `"}`, ""},
		{`{}`, ""},
	} {
		w := newWorld(t)
		rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/profile", tt.body))
		want := http.StatusBadRequest
		if tt.call != "" {
			want = http.StatusOK
			if w.calls[1] != "SetProfile bot-one "+tt.call {
				t.Errorf("%s: called %v", tt.body, w.calls[1:])
			}
		}
		if rec.Code != want {
			t.Errorf("%s: status %d, want %d", tt.body, rec.Code, want)
		}
	}
}
