package e2e

import (
	"fmt"
	"os"
	"testing"

	"berth/test/harness"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == withoutBPF {
		fmt.Fprintln(os.Stderr, forbidBPF(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 4 && os.Args[1] == asPod {
		os.Exit(pod(os.Args[2:]))
	}
	os.Exit(harness.Main(m, 0))
}

// daemon is a berth serve with a data directory of its own, and what only these
// tests do with it.
type daemon struct{ *harness.Berth }

// launch starts a daemon that ends with the test.
func launch(t *testing.T, args ...string) *daemon {
	t.Helper()
	return &daemon{harness.Launch(t, args...)}
}

// prepare is launch without the start.
func prepare(t *testing.T, args ...string) *daemon {
	t.Helper()
	return &daemon{harness.Prepare(t, args...)}
}

// upgradable is prepare with a binary of the daemon's own, which may be replaced.
func upgradable(t *testing.T, args ...string) *daemon {
	t.Helper()
	return &daemon{harness.Upgradable(t, args...)}
}

// client is somebody with a token.
type client struct {
	*harness.Client
	d *daemon
}

// account makes an account and returns a client with a token of it.
func (d *daemon) account(name string, ram int) *client {
	d.T.Helper()
	return &client{d.NewAccount(name, ram), d}
}

// in is the same client for a subtest.
func (c *client) in(t *testing.T) *client { return &client{c.In(t), c.d} }
