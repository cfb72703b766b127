package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"berth/app"
)

func TestEveryKindHasAStatus(t *testing.T) {
	want := map[app.Kind]int{
		app.Internal: 500, app.Invalid: 400, app.Unauthorized: 401, app.Forbidden: 403, app.NotFound: 404,
		app.Already: 200, app.Conflict: 409, app.TooLarge: 413, app.Unusable: 422, app.Exhausted: 422,
		app.NoSpace: 503, app.Limited: 429, app.Unavailable: 503,
	}
	if len(want) != len(statusOf) {
		t.Fatalf("%d kinds in the test, %d in the table", len(want), len(statusOf))
	}
	for kind, status := range want {
		if statusOf[kind] != status {
			t.Errorf("kind %d has status %d, want %d", kind, statusOf[kind], status)
		}
	}
}

func TestFailure(t *testing.T) {
	s := &server{}
	s.Log = slog.New(slog.DiscardHandler)
	for _, tt := range []struct {
		err     error
		status  int
		message string
		logs    string
	}{
		{app.Errorf(app.Already, "It is online already."), 200, "It is online already.", ""},
		{fmt.Errorf("cannot start: %w", app.Errorf(app.Conflict, "Busy.")), 409, "Busy.", ""},
		{&app.Error{Kind: app.Unusable, Message: "It ended.", Logs: "boom", Err: http.ErrBodyNotAllowed}, 422, "It ended.", "boom"},
		{&app.Error{Kind: app.NotFound}, 404, fallbackMessage, ""},
		{&app.Error{Kind: app.Internal, Message: "secret", Logs: "secret"}, 500, internalMessage, ""},
		{http.ErrBodyNotAllowed, 500, internalMessage, ""},
	} {
		c := newCall(httptest.NewRecorder(), newRequest("GET", "/", ""), testNow)
		resp := s.failure(c, tt.err)
		body := resp.body.(errorBody)
		if resp.status != tt.status || body.Code != tt.status || body.StatusCode != tt.status ||
			body.Message != tt.message || body.Logs != tt.logs || body.Status != "error" || body.RequestID != "request-1" {
			t.Errorf("%v: status %d, body %+v", tt.err, resp.status, body)
		}
	}
}
