package httpapi

import (
	"testing"

	"berth/app"
)

// An amount that is refused is 200 with an error, as for a start of
// what is online; any other fault keeps its status.
func TestRefusedRAM(t *testing.T) {
	for _, tt := range []struct {
		kind app.Kind
		want int
	}{
		{app.Exhausted, 200},
		{app.Unusable, 200},
		{app.Conflict, 409},
		{app.NotFound, 404},
		{app.Unavailable, 503},
		{app.Internal, 500},
	} {
		kind, want := tt.kind, tt.want
		w := newWorld(t)
		w.fail["SetRAM"] = app.Errorf(kind, "No.")
		rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/ram", `{"ramMB":5}`))
		var e errorBody
		decode(t, rec, &e)
		if rec.Code != want || e.Status != "error" || e.Code != want || e.StatusCode != want && want != 200 || want == 200 && e.StatusCode != 0 || e.Message == "" {
			t.Errorf("kind %d: status %d, %+v", kind, rec.Code, e)
		}
	}
}
