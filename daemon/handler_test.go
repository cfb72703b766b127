package daemon

import (
	"testing"
)

// What an upgrade must not wait for are the streams, and nothing else.
func TestEndlessPaths(t *testing.T) {
	for path, want := range map[string]bool{"/v2/events": true, "/events": true, "/": false, "/apps/shop/logs": false, "/v2/app/shop/events": false, "/events/": false} {
		if endless(path) != want {
			t.Errorf("%q: got %v", path, !want)
		}
	}
}

func TestPathsOfTheAPI(t *testing.T) {
	for path, want := range map[string]bool{
		"/v2": true, "/v2/": true, "/v2/user": true, "/d": true, "/d/x/y.zip": true, "*": true, "": true,
		"/": false, "/login": false, "/v20": false, "/v2x/y": false, "/download": false, "/V2/user": false, "/apps/v2/": false,
	} {
		if ofAPI(path) != want {
			t.Errorf("%q: got %v", path, !want)
		}
	}
}
