//go:build linux

package cli

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be berth, for the scripts.
func TestMain(m *testing.M) {
	Become(os.Args)
	if err := flag.Set("test.parallel", "6"); err != nil { // most of them wait for a server
		panic(err)
	}
	testscript.Main(m, map[string]func(){"berth": func() {
		os.Exit(Run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}})
}
