//go:build linux

package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/daemon"
)

// start runs berth in this process.
func start(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = Run(t.Context(), args, func(name string) string { return env[name] }, &out, &problems)
	return code, out.String(), problems.String()
}

func TestEveryCommandHasHelp(t *testing.T) {
	_, all, _ := start(t, nil, "help")
	Walk(Root(&command.Caller{}), func(cmd *cobra.Command) {
		if !strings.Contains(all, cmd.CommandPath()+" ") || !strings.Contains(all, cmd.Short) {
			t.Errorf("berth help does not show %q", cmd.CommandPath())
		}
		words := strings.Fields(cmd.CommandPath())[1:]
		for _, args := range [][]string{append(slices.Clone(words), "--help"), append(slices.Clone(words), "-h"), append([]string{"help"}, words...)} {
			code, stdout, stderr := start(t, nil, args...)
			if code != exit.OK || stderr != "" || !strings.Contains(stdout, "Usage: "+cmd.CommandPath()) {
				t.Errorf("%v: exit %d, said %q and %q", args, code, stdout, stderr)
			}
		}
	})
}

// TestUsageNamesEveryFlag keeps the line that people read and the flags that
// exist the same. A command with very many may end its line with "[flags]".
func TestUsageNamesEveryFlag(t *testing.T) {
	flags := 0
	Walk(Root(&command.Caller{}), func(cmd *cobra.Command) {
		EachFlag(cmd, func(name, _ string) {
			flags++
			name, _, _ = strings.Cut(name, " ")
			if name != "--config" && !strings.Contains(cmd.UseLine(), name) && !strings.HasSuffix(cmd.UseLine(), "[flags]") {
				t.Errorf("the usage of %q, %q, does not name %s", cmd.CommandPath(), cmd.UseLine(), name)
			}
		})
	})
	if flags < 200 {
		t.Errorf("%d flags were looked at", flags)
	}
}

// TestWithoutPermission becomes another user, whom the directory refuses.
func TestWithoutPermission(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	dir := filepath.Join(t.TempDir(), "data")
	made(t, dir)
	for p := filepath.Dir(dir); p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe") // the test binary's own directory is private
	cmd.Args = []string{"berth", "account", "list", "--data-dir", dir}
	cmd.Env = []string{"BERTH_CONFIG=" + os.DevNull}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != exit.Permission || !strings.Contains(string(out), "run the command as root") {
		t.Errorf("exit %d, said %s", got, out)
	}
}

// made makes a data directory as a start of berth does.
func made(t *testing.T, dir string) {
	t.Helper()
	d, err := daemon.MakeDatabase(t.Context(), dir)
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAFailedPrintIsAFailure matters most for a token, which is printed once.
func TestAFailedPrintIsAFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full")
	}
	defer func() { _ = full.Close() }()
	dir := t.TempDir()
	made(t, dir)
	env := map[string]string{"BERTH_CONFIG": os.DevNull, "BERTH_DATA_DIR": dir}
	start(t, env, "account", "create", "ana", "--ram", "1")
	for _, args := range []string{
		"account create bob --ram 1", "account list", "account list --json", "account show ana",
		"token create ana", "token list ana", "token list ana --json", "version", "help", "help account", "account list --help",
	} {
		var stderr bytes.Buffer
		code := Run(t.Context(), strings.Fields(args), func(name string) string { return env[name] }, full, &stderr)
		if code != exit.Failure || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: exit %d, said %q", args, code, stderr.String())
		}
	}
}
