package cli

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"berth/proc"
)

// TestMain lets the test binary be berth, for the scripts.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == proc.InitWord {
		proc.Init()
	}
	testscript.Main(m, map[string]func(){"berth": func() {
		os.Exit(Run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}})
}
