package daemon

import (
	"os"
	"testing"

	"berth/files/icon"
	"berth/proc"
	"berth/systemd/fdstore"
)

// TestMain lets the test binary be what the daemon executes: the first moments of
// a program, the process that keeps descriptors, what decodes pictures, and a daemon that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == proc.InitWord {
		proc.Init()
	}
	if len(os.Args) > 1 && os.Args[1] == fdstore.Word {
		fdstore.Main()
	}
	if len(os.Args) > 1 && os.Args[1] == icon.Word {
		icon.Main()
	}
	if dir := os.Getenv("BERTH_TEST_LOGBOOK"); dir != "" {
		logbookToKill(dir)
	}
	if dir := os.Getenv("BERTH_TEST_INPUT"); dir != "" {
		typeUntilKilled(dir)
	}
	os.Exit(m.Run())
}
