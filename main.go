// Command berth turns a Linux machine into a host for uploaded applications, and is the
// client of such hosts on every system.
package main

import (
	"context"
	"os"

	"berth/cli"
)

func main() {
	cli.Become(os.Args)
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
