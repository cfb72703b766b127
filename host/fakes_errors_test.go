package host

import (
	"errors"
	"testing"
	"time"

	"berth/app"
)

// exits makes a behaviour that ends by itself.
func exits(code int, life time.Duration) func(app.Program) behaviour {
	return func(app.Program) behaviour { return behaviour{exit: &app.Exit{Code: code}, life: life} }
}

func wantKind(t *testing.T, err error, kind app.Kind) {
	t.Helper()
	if err == nil || app.KindOf(err) != kind {
		t.Errorf("got %v (kind %d), want kind %d", err, app.KindOf(err), kind)
	}
}

var errTest = errors.New("it broke")
