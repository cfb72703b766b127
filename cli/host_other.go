//go:build !linux

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"berth/cli/command"
)

// Become does nothing: a daemon needs Linux.
func Become([]string) {}

// hostCommands are none: a host needs Linux.
func hostCommands(*command.Caller) (all []*cobra.Command, stored map[string]*cobra.Command) {
	return nil, nil
}

// hostHere is nil: a host needs Linux.
func hostHere(context.Context, *command.Caller) (*command.Host, error) { return nil, nil }
