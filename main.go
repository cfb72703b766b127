// Command berth turns a Linux machine into a host for uploaded applications.
package main

import (
	"context"
	"os"

	"berth/cli"
	"berth/proc"
	"berth/systemd/fdstore"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == proc.InitWord {
		proc.Init() // a program's first moments, where no helper can be executed from memory
	}
	if len(os.Args) > 1 && os.Args[1] == fdstore.Word {
		fdstore.Main() // keeps the programs' output while no daemon lives
	}
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
