// Command berth turns a Linux machine into a host for uploaded applications.
package main

import (
	"context"
	"os"

	"berth/proc"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == proc.InitWord {
		proc.Init() // a program's first moments, in its control group
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
