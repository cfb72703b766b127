//go:build linux

package cli

import "testing"

// What people see of the nightly snapshots of an application, at the widths of a terminal and
// of a phone's.
func TestSnapshotsOnTheTerminal(t *testing.T) {
	compareOnTerminals(t, "snapshot", []string{"app", "snapshot"},
		"ls bot-one", "restore bot-one --yes", "restore bot-one 20261119T031500Z --yes --with-variables", "--help", "restore --help")
}
