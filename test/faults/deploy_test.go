package faults

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// TestFaultsDeployOfWhatIsStopped kills the daemon while new code of an
// application that its owner stopped is on trial: the next daemon brings neither
// code online, and the application says of itself what it said before.
func TestFaultsDeployOfWhatIsStopped(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 512)
	id := c.Upload(harness.ShellBot("echo old; exec sleep 100000", "RAM=64"))
	c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
	before := c.Info(id)
	d.Args = append(d.Args, "--apps-ok-delay", "1m")
	d.Restart()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = c.Try(c.Form("PUT", "/v2/app/"+id+"/commit", harness.Files{"start.sh": "echo new; exec sleep 100000"}.Zip())) // nobody answers
	}()
	c.Until(id, "apps.online", true)
	c.UntilLog(id, "new")
	d.End(syscall.SIGKILL)
	<-answered
	d.Serve()
	if running := d.Of(id); len(running) != 0 {
		t.Errorf("after the crash %v run", running)
	}
	for _, key := range []string{"online", "exitCode", "ramKilled"} {
		c.Info(id).Want(200, "apps."+key, before.At("apps."+key))
	}
	if code, err := os.ReadFile(d.Path(id, "start.sh")); err != nil || !strings.Contains(string(code), "old") {
		t.Errorf("the code is %q, %v", code, err)
	}
}
