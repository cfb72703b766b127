package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/app/exit"
	"berth/test/harness"
)

// A move that the cluster, the settings or the programs do not allow changes nothing, and says why.
func TestEngineMoveRefused(t *testing.T) {
	t.Parallel()
	d := prepare(t)
	config := filepath.Join(d.Root, "etc", "berth.toml")
	if err := os.Mkdir(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(d.Root, "token")
	harness.Write(t, token, "a token")
	harness.Write(t, config, "")
	d.Env = append(d.Env, "BERTH_CONFIG="+config)
	d.Serve()
	c := d.account("ana", 400)
	shell, node := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64")), c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64"))
	pids := fmt.Sprint(d.PID(shell), d.PID(node))
	away := fmt.Sprintf("kubernetes.server = \"https://127.0.0.1:1\"\nkubernetes.token_file = %q\nkubernetes.images = \"default image", token)
	for _, tt := range []struct {
		to, config string
		code       int
		says       string
	}{
		{"machine", "", 0, "the programs run on this machine already"},
		{"kubernetes", "", exit.Config, "needs kubernetes.server"},
		{"kubernetes", "engine = \"machine\"\n" + away + "\"\n", exit.Config, "that file wins"},
		{"kubernetes", away + "\"\n", 1, node + ") would not start: "},
		{"kubernetes", away + ",node 20.0.0 image\"\n", 1, "the cluster has 1 problem"},
	} {
		harness.Write(t, config, tt.config)
		if code, _, errs := d.Run("engine", "move", tt.to, "--yes"); code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("to %s with %q: %d %s", tt.to, tt.config, code, errs)
		}
		if now := fmt.Sprint(d.PID(shell), d.PID(node)); now != pids {
			t.Errorf("to %s with %q: %s run, before %s", tt.to, tt.config, now, pids)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(config)); err != nil || len(left) != 1 {
		t.Errorf("beside the settings there are %v, %v", left, err)
	}
}
