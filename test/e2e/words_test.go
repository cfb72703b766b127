package e2e

import (
	"strings"
	"testing"

	"berth/test/harness"
)

// TestStopAllAndNearNames: a slip in a name is answered with the name that was meant, and one command stops every
// application of an account.
func TestStopAllAndNearNames(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("person", 600)
	one := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=50", "NAME=my-express"))
	two := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=50", "NAME=other"))
	home := t.TempDir()
	berth := func(account string, args ...string) (code int, said string) {
		t.Helper()
		cmd := d.Command(args...)
		cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR="+d.Runtime(), "HOME="+home, "XDG_CONFIG_HOME="+home)
		if account != "" {
			cmd.Env = append(cmd.Env, "BERTH_ACCOUNT="+account)
		}
		out, _ := cmd.CombinedOutput() // the exit code tells
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for account, want := range map[string]string{
		"person": `berth: there is no application "my-expres"; did you mean my-express?`,
		"":       `berth: there is no application "my-expres" on this host; did you mean my-express?`,
	} {
		if code, said := berth(account, "restart", "my-expres"); code == 0 || !strings.Contains(said, want) {
			t.Errorf("%d %s", code, said)
		}
	}
	if code, said := berth("person", "stop", "--all"); code != 0 || said != "2 applications were stopped.\n" {
		t.Errorf("%d %s", code, said)
	}
	for _, id := range []string{one, two} {
		c.Info(id).Want(200, "apps.online", false)
	}
	if code, said := berth("person", "stop", "--all", "--json"); code != 0 || !strings.Contains(said, "2 were offline already") {
		t.Errorf("%d %s", code, said)
	}
}
