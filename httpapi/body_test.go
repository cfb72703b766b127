package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"berth/app"
)

func TestParseObjectKeepsNestedValues(t *testing.T) {
	members, err := parseObject([]byte(`{"a":{"b":1,"b":2},"c":[{}],"n":null,"":"empty name"}`))
	if err != nil {
		t.Fatal(err)
	}
	f := fields{members: members}
	if string(members["c"]) != "[{}]" || f.has("n") || f.has("missing") || !f.has("") {
		t.Errorf("got %q", members)
	}
}

// A name that fills the body is not sent back whole.
func TestRefusedNamesAreShortened(t *testing.T) {
	long := strings.Repeat("é", maxFields/4)
	shown := `"` + strings.Repeat("é", 64) + `"`
	for body, want := range map[string]string{
		`{"x":1,"x":2}`:                                 `The field "x" appears twice.`,
		`{"x=secret":1,"x=secret":2}`:                   `The field "x" appears twice.`,
		`{"` + long + `":1,"` + long + `":2}`:           `The field ` + shown + ` appears twice.`,
		`{"env":{"` + long + `":"","` + long + `":""}}`: `The field ` + shown + ` appears twice.`,
		`{"env":{"` + long + `":7}}`:                    `The value of the variable ` + shown + ` must be a text or null.`,
		`{"env":{"a\nb":7}}`:                            `The value of the variable "a\nb" must be a text or null.`,
	} {
		rec := do(t, newWorld(t).handler(), newRequest("PUT", "/v2/app/bot-one/env", body))
		var e errorBody
		decode(t, rec, &e)
		if rec.Code != http.StatusBadRequest || e.Message != want {
			t.Errorf("%.40q: status %d, %.200q, want %.200q", body, rec.Code, e.Message, want)
		}
	}
}

func TestParseObjectRefusesDeepNesting(t *testing.T) {
	deep := `{"a":`
	for range 14 {
		deep += deep[5:] + "[[[["
	}
	if _, err := parseObject([]byte(deep)); app.KindOf(err) != app.Invalid {
		t.Errorf("kind %v, want Invalid", app.KindOf(err))
	}
}
