//go:build linux

package cli

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be berth, for the scripts.
func TestMain(m *testing.M) {
	Become(os.Args)
	testscript.Main(m, map[string]func(){"berth": func() {
		os.Exit(Run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}})
}
