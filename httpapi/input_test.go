package httpapi

import (
	"context"
	"strings"
	"testing"

	"berth/app"
)

// sendLine is app.Services.Type.
func (w *world) sendLine(_ context.Context, owner app.AccountID, id app.ID, line string) error {
	w.typed = append(w.typed, line)
	return w.change(w.call("Type", id, line), owner, id)
}

func inputScenes() []scene {
	const op = "/v2/app/{appID}/input"
	make := func(outcome, body string, arrange func(*world)) scene {
		return scene{name: "app_input_" + outcome, method: "POST", path: "/v2/app/bot-one/input", op: op, body: body, arrange: arrange}
	}
	line := `{"line":"say hello"}`
	missing := make("not_found", line, nil)
	missing.path = "/v2/app/nobody/input"
	return []scene{
		make("ok", line, nil),
		make("invalid", `{}`, nil),
		make("too_large", `{"line":"`+strings.Repeat("x", maxFields)+`"}`, nil),
		make("conflict", line, failing("Type", app.Conflict, "the application is offline, so nothing reads this line; start it first")),
		make("unusable", line, failing("Type", app.Unusable, "this application reads no input: write STDIN=true into its discloud.config, and deploy that")),
		make("full", line, failing("Type", app.Unavailable,
			"the program does not read its input: as many lines as the kernel keeps wait for it already; try again later")),
		missing,
	}
}

// A line is sent as it is, an empty one too; what is none is refused.
func TestInput(t *testing.T) {
	for body, want := range map[string]string{
		`{"line":" a  ✓ "}`: " a  ✓ ", `{"line":""}`: "", `{"line":7}`: "400", `{"line":null}`: "400", `{}`: "400", `[]`: "400", ``: "400",
	} {
		w := newWorld(t)
		rec := do(t, w.handler(), newRequest("POST", "/v2/app/bot-one/input", body))
		if want == "400" {
			if rec.Code != 400 || w.typed != nil {
				t.Errorf("%s: status %d, typed %q", body, rec.Code, w.typed)
			}
			continue
		}
		if rec.Code != 200 || len(w.typed) != 1 || w.typed[0] != want {
			t.Errorf("%s: status %d, typed %q", body, rec.Code, w.typed)
		}
	}
}
