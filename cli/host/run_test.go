package host

import (
	"bytes"
	"context"
	"io"
	"testing"
)

// Run is cli.Run, which imports this package. TestMain, of the package of tests
// beside it, sets it.
var Run func(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int

// start runs berth in this process.
func start(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = Run(t.Context(), args, func(name string) string {
		if name == "BERTH_RUNTIME_DIR" && env[name] == "" {
			return "/none" // no command asks a daemon that serves beside the tests
		}
		return env[name]
	}, &out, &problems)
	return code, out.String(), problems.String()
}
