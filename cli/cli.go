package cli

import (
	"context"
	"io"

	"berth/cli/host"
)

// Run is berth without the process around it: it runs the command that args
// name and returns the exit code.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	return host.Run(ctx, args, getenv, stdout, stderr)
}
