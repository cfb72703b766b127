package logs

import (
	"testing"

	"berth/app"
)

func TestPidNames(t *testing.T) {
	for name, want := range map[string]struct {
		id  app.ID
		run int
		ok  bool
	}{
		pidName("shop", 12):     {"shop", 12, true},
		pidName("my-shop-2", 1): {"my-shop-2", 1, true},
		"pid-shop":              {"shop", 0, true}, // of an older berth
		"log-run-shop":          {"", 0, false},
	} {
		id, run, ok := ProcessOf(name)
		if ok != want.ok || ok && (id != want.id || run != want.run) {
			t.Errorf("pidOf(%q) = %q, %d, %t", name, id, run, ok)
		}
	}
}

func TestLogOf(t *testing.T) {
	for _, n := range []logName{{"shop", false}, {"shop", true}, {"my-site-build", false}, {"1a-b", true}} {
		if got, ok := logOf(n.fdName()); !ok || got != n {
			t.Errorf("%q is %v, %t", n.fdName(), got, ok)
		}
	}
	for _, name := range []string{"", "log-", "log-run", "log-run-", "log-other-shop", "api", "run-shop"} {
		if got, ok := logOf(name); ok {
			t.Errorf("%q is %v", name, got)
		}
	}
}
