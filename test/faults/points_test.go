package faults

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/checkout"
)

// durable are the calls with which berth makes a change last, or visible to who
// comes after a crash.
var durable = map[string]bool{
	"Rename": true, "Renameat": true, "Renameat2": true, "Sync": true, "Fsync": true, "Fdatasync": true, "Syncfs": true,
}

// points are the files with such calls, and what crashes there. A step that is new
// has none yet, so the test fails until somebody says how it is proved.
var points = map[string]string{
	"files/store.go":              "syncAll, around the points of Apply; what is discarded is removed anew by a boot",
	"files/journal.go":            "files.Points: TestCrashesOfADeploy copies the disk at each and boots the copy",
	"files/dir.go":                "files.Points: every rename in a live tree passes one",
	"files/stage.go":              "before files.Points: a stage is nobody's until Apply, and a boot empties staging (TestSurvivesSIGKILLDuringABuild)",
	"files/quota.go":              "the rename of dir.go, with a project's id: the same points",
	"files/backup.go":             "a backup has no name before it is whole (files TestBackup)",
	"proc/logs/files.go":          "logs.killAfter kills after each byte of a write and between two renames",
	"web/proxy/accesslog.go":      "access logs, of which a crash may lose the last lines: nothing else hangs on them",
	"db/copy.go":                  "the copy has its name when it is whole: TestMigrationKeepsACopy, TestNoMigrationWithoutACopy",
	"cli/host/backup.go":          "the archive has its name when it is whole: TestBackupDuringDeploys",
	"cli/host/restore.go":         "neverMade (daemon): a directory in which a restore was cut short is served by nobody",
	"cli/host/install.go":         "the binary and the units; install is repeated (TestInstallBelowARoot)",
	"files/unzip.go":              "a file of a ZIP is in a stage, which a boot empties, until one rename lays it; what is laid is on the disk and stays (TestUnzipOutlivesAPowerCut), and the ZIP can be unpacked again",
	"files/browse.go":             "a file that the panel writes is in staging, which a boot empties, until it is whole (TestWriteFileCutShort)",
	"host/watch/metrics/store.go": "figures of the last minute, told by their checksums (metrics TestTornEnds, TestHalvesAreJoined)",
	"daemon/walls.go":             "the walls of a start: the file has its name when it is whole, and one that is not there judges nobody",
	"cli/host/packaged.go":        "a link of systemctl's to a unit; install is repeated",
	"cli/host/trial.go":           "what setup goes back to: TestSetupKilled, TestSetupKilledAndGoneBack",
	"cli/host/upgrade.go":         "one rename puts the new binary, or the one from before, in place (TestUpgradeGoesBack); what is left beside it goes with the next upgrade (TestUpgradeTidiesUp)",
	"daemon/keyring/keyring.go":   "the file of the keys has its name when it is whole, before anything is sealed with a new key; the next change replaces what a crash leaves beside it (TestRing, TestKilledRotation)",
	"daemon/settings/managed.go":  "the file has its name when it is whole, and the next call replaces what a crash leaves beside it (TestManage)",
	"files/depot/depot.go":        "a runtime has its name when it is whole: TestKilledInstallation",
	"cli/whole.go":                "a file on the machine of a person has its name when it is whole; what a crash leaves beside it is nobody's (TestWholeOrNotAtAll)",
	"files/datadir.go":            "a file without a name, which only asks whether the disk answers",

	"files/import.go":           "what a restore or a move brings, into a place that nobody serves from until it is whole (cli/host/restore.go, daemon/mover)",
	"files/fingerprint.go":      "it asks the disk to write what is there already, and changes nothing",
	"daemon/backup/key.go":      "the file of the backup key has its name when it is whole (TestKeys); the next one replaces what a crash leaves beside it",
	"daemon/mover/receive.go":   "what arrives is nobody's before its one rename (TestMoveCutAnywhere, TestMoveKilled)",
	"daemon/mover/place.go":     "Settle is cut before each of its steps and done again (TestSettleCutShort)",
	"daemon/cluster/examine.go": "what doctor writes to see whether programs see it, in staging, which a boot empties",
	"cli/host/restorerun.go":    "as cli/host/restore.go: nobody serves from the place until it is whole",

	"files/repository/directory.go":      "a backup appears, and goes, by one rename (TestKilled of files/repository)",
	"files/repository/directory_list.go": "the list of a directory that is no backup yet, whole or not there (TestKilled of files/repository)",
}

// Elsewhere a crash leaves nothing between: a transaction of SQLite is there or is
// not (the power cuts, TestFaultsSIGKILL), a keeper and the handover of an upgrade
// write nothing, and what they hold is held by somebody else before they let go
// (TestFaultsUpgrade, TestDaemonIsKilled of systemd/fdstore).
func TestEveryDurableStepIsKnown(t *testing.T) {
	const root = "../.."
	found := map[string]bool{}
	list, err := checkout.Files(root, ".go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "examples/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				if to, is := call.Fun.(*ast.SelectorExpr); is && durable[to.Sel.Name] {
					found[name] = true
				}
			}
			return true
		})
	}
	for name := range found {
		if points[name] == "" {
			t.Errorf("%s makes something durable, and nobody says what crashes there", name)
		}
	}
	for name := range points {
		if !found[name] {
			t.Errorf("%s makes nothing durable any more", name)
		}
	}
}
