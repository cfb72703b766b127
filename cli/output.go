package cli

import (
	"reflect"

	"github.com/spf13/cobra"

	"berth/cli/command"
)

// jsonOf is where a command keeps the name of the type that it prints as JSON, from which
// the documentation comes.
const jsonOf = "berth.json"

// jsonFlag adds --json to a command that prints a T, or a []T.
func jsonFlag[T any](cmd *cobra.Command) *bool {
	t := reflect.TypeFor[T]()
	name := t.String()
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[jsonOf] = name
	return command.JSON(cmd)
}

// JSONOf returns the type of what a command prints with --json, as Go writes it, such as
// "[]cli.appView"; "" for a command that is not documented so.
func JSONOf(cmd *cobra.Command) string { return cmd.Annotations[jsonOf] }
