package cli

import (
	"github.com/spf13/cobra"

	"berth/daemon/settings"
)

// completion prints a script for a shell. The script asks berth itself, so names
// of applications and accounts are those of the moment.
func completion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "print a completion script for a shell", DisableFlagsInUseLine: true,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return settings.Misused("an argument is missing")
			}
			return none(nil, args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			}
			return settings.Misused("unknown shell %q%s", args[0], settings.DidYouMean(args[0], shells, "%q"))
		},
	}
}
