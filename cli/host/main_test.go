package host_test

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"berth/cli"
	"berth/cli/host"
)

// TestMain lets the test binary be berth, for tests that need another user.
func TestMain(m *testing.M) {
	host.Run = cli.Run
	testscript.Main(m, map[string]func(){"berth": func() {
		os.Exit(cli.Run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}})
}
