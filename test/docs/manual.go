package main

import (
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"berth/app/build"
	"berth/cli"
	"berth/cli/command"
)

// writeManual writes a page for each command. SOURCE_DATE_EPOCH is the date of
// the pages, for builds that must give the same bytes again.
func writeManual(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := cli.Root(&command.Caller{})
	undated(root)
	at := time.Now()
	if epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		at = time.Unix(epoch, 0)
	}
	at = at.UTC()
	return doc.GenManTree(root, &doc.GenManHeader{Section: "8", Date: &at, Source: "berth " + build.Version(), Manual: "berth"}, dir)
}

// undated leaves out the line that says when the pages were generated.
func undated(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	for _, member := range cmd.Commands() {
		undated(member)
	}
}
