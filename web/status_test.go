package web

import (
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
