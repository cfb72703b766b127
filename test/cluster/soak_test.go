//go:build cluster && soak

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// alike are tests of berth on its own machine (test/e2e) that are about what people see of it. The others there need what a
// cluster does not have (docs/kubernetes.md), or files, networks and runtimes of this machine.
var alike = []string{
	"TestStaticSite", "TestOneStaticFile", "TestSites", "TestSiteSaysWhereItIs", "TestRefusedSubdomain", "TestSubdomains", "TestDomains",
	"TestCommitWithoutAPause", "TestCommitsOfAStaticSite", "TestExactCommits", "TestHistory", "TestUnwellCommitChangesNothing",
	"TestDaemonDiesInACommitWithoutAPause", "TestSurvivesSIGKILL", "TestSurvivesARestart", "TestSurvivesWhileWaiting",
	"TestSurvivesTheDeathOfProgramsMeanwhile", "TestSurvivesTheExitToldBeforeAFailedCommit", "TestConsoleEndsEarly", "TestConsoleIsBounded",
	"TestOutOfMemoryRestarts", "TestStatusCountsHelpers", "TestBackupOfABusyTree", "TestFlood", "TestLogRotation", "TestStderrWithoutAReader",
	"TestLogsAreFollowedOverTheEndOfTheDaemon", "TestStatusIsWatchedOverTheEndOfTheDaemon", "TestScreensOfWhoWatches",
	"TestVisitorsWaitForTheNextDaemon", "TestDeleteAll", "TestManyUploads", "TestDiskFloor", "TestSecrets", "TestLaunchContract",
	"TestMessagesInTheLocale", "TestPanelManages", "TestInvitation", "TestNotices", "TestMonitor",
}

// The tests of berth on its own machine pass on a cluster, as far as they are about what people see of it.
func TestSoakEndToEnd(t *testing.T) { passHere(t, "e2e", alike) }

// The clients that people own find a berth on a cluster as they find one on a machine.
func TestSoakClients(t *testing.T) {
	passHere(t, "clients", []string{
		"TestCLI", "TestCLIShowsWhyABuildFailed", "TestSDK", "TestSDKTeam", "TestCLITeam", "TestExtensionLogin", "TestExtensionApps",
		"TestExtensionTeam", "TestExtensionShowsAnUploadOverWebSocket",
	})
}

// passHere runs tests of another package with their programs on the cluster.
func passHere(t *testing.T, of string, names []string) {
	t.Helper()
	dir := t.TempDir()
	binary, file := filepath.Join(dir, "the.test"), token(t)
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "../"+of).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script := "#!/bin/sh\nset -e\nname=" + of + "-$(basename \"$(dirname \"$1\")\" | tr A-Z. a-z-)\ncat <<E | " +
		strings.Join(world.kubectl("apply", "-f", "-").Args, " ") + " >/dev/null\n" + claim("$name", "$1") + "\nE\ncat <<E\n" +
		strings.Join(engineFlags(t, file, "$name"), "\n") + "\nE\n"
	command := filepath.Join(dir, "engine")
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run", "^("+strings.Join(names, "|")+")$", "-test.v", "-test.timeout=30m", "-test.parallel=3")
	cmd.Dir = "../" + of
	cmd.Env = append(os.Environ(), "BERTH_E2E_ENGINE="+command)
	out, err := cmd.CombinedOutput()
	passed := strings.Count(string(out), "\n--- PASS")
	t.Logf("%d of %d tests passed", passed, len(names))
	if err != nil || passed != len(names) {
		t.Errorf("%v: %s", err, out)
	}
}

// While the API server is away, programs go on and nothing is changed; afterwards all that they printed is there.
func TestSoakAPIServerAway(t *testing.T) {
	d := launch(t)
	c := d.NewAccount("ann", 500)
	id, other := c.Upload(harness.ShellBot(numbered, "RAM=64")), c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	c.Put("/app/"+other+"/stop", "").Want(200)
	c.UntilLog(id, "line 20")
	before := pods(t, id)
	world.StopAPI()
	defer func() {
		if t.Failed() {
			_ = world.StartAPI() // or it serves already
		}
	}()
	harness.Eventually(t, "nothing is started any more", func() bool { return c.Put("/app/"+other+"/start", "").Code == 503 })
	c.Put("/app/"+other+"/start", "").Says("message", "the cluster of this host does not answer")
	c.Until(id, "apps.online", true, "apps.stale", true)
	time.Sleep(20 * time.Second) // as long as it is away
	if err := world.StartAPI(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "programs start again", func() bool { return c.Put("/app/"+other+"/start", "").Code == 200 })
	harness.Eventually(t, "it is known again that it runs", func() bool { // once its machine has told the API server
		return !strings.Contains(string(c.Info(id).Want(200, "apps.online", true).Body), "stale")
	})
	goesOn(t, id, before)
	c.Put("/app/"+id+"/stop", "").Want(200)
	if n := counted(t, c, id); n < 500 {
		t.Errorf("it printed %d lines", n)
	}
}

// A berth that is killed again and again while programs print, end and are killed for their RAM doubles none, loses none,
// and tells every end once.
func TestSoakKilledAgainAndAgain(t *testing.T) {
	d := launch(t)
	c := d.NewAccount("ann", 2000)
	var chatty []string
	for range 4 {
		chatty = append(chatty, c.Upload(harness.ShellBot(numbered, "RAM=32")))
	}
	hungry := c.Upload(harness.ShellBot("sleep 3; exec tail /dev/zero\n", "RAM=32", "AUTORESTART=true"))
	before := map[string][]string{}
	for _, id := range chatty {
		c.UntilLog(id, "line 5")
		before[id] = pods(t, id)
	}
	for i := range 20 {
		_ = d.Cmd.Process.Signal(syscall.SIGKILL) // it runs
		harness.Eventually(t, "it has ended", d.Ended)
		d.Serve()
		time.Sleep(time.Duration(i*37%400) * time.Millisecond) // another moment each time
	}
	for _, id := range chatty {
		if after := pods(t, id); !slices.Equal(before[id], after) {
			t.Errorf("its pods: %v, before %v", after, before[id])
		}
		c.Put("/app/"+id+"/stop", "").Want(200)
		if n := counted(t, c, id); n < 100 {
			t.Errorf("%s printed %d lines", id, n)
		}
	}
	if all := pods(t, hungry); len(all) > 1 {
		t.Errorf("two of one program: %v", all)
	}
	log := c.Log(hungry)
	if strings.Count(log, "killed: needed more than 32 MB") == 0 || strings.Contains(log, "exit code is unknown") {
		t.Errorf("how it ended: %s", log)
	}
}
