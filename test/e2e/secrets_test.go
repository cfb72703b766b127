package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// holding returns the files below a directory that hold a text.
func holding(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // it may be gone
		}
		content, err := os.ReadFile(path)
		if err == nil && bytes.Contains(content, []byte(text)) {
			found = append(found, strings.TrimPrefix(path, dir))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// typed is a command of the host with what is typed into it.
func (d *daemon) typed(input string, args ...string) (code int, stdout, stderr string) {
	d.T.Helper()
	cmd := d.Command(append(args, "--data-dir", d.Data)...)
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestSecrets searches the data directory for a variable through everything that is done with
// it, and takes its key away.
func TestSecrets(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	const secret, script = "a-secret-nobody-may-find", "echo has $TOKEN; exec sleep 1000\n"
	id := c.Upload(harness.ShellBot(script, "RAM=64"))
	inNone := func(when string) {
		t.Helper()
		found := slices.DeleteFunc(holding(t, d.Data, secret), func(file string) bool {
			return strings.HasPrefix(file, "/logs/") // the program prints it
		})
		if found = append(found, holding(t, d.Data, "berth-key-")...); len(found) > 0 {
			t.Errorf("%s, the secret or the key is in %v", when, found)
		}
	}
	c.Put("/app/"+id+"/env", `{"env":{"TOKEN":"`+secret+`"}}`).Want(200)
	inNone("once it is set")
	c.Put("/app/"+id+"/restart", "").Want(200)
	c.UntilLog(id, "has "+secret)
	c.Commit(id, harness.ShellBot(script, "RAM=64")).Want(200)
	inNone("after a commit")
	d.Upgrade()
	c.Put("/app/"+id+"/env", `{"env":{"MORE":"x"}}`).Want(200)
	inNone("after an upgrade")

	key := d.CLI("key", "show")
	if !strings.HasPrefix(key, "berth-key-") {
		t.Fatalf("the key is %q", key)
	}
	if code, out, errs := d.Run("key", "show"); code != 1 || out != "" || !strings.Contains(errs, "cannot show the key: it was shown at ") {
		t.Errorf("shown twice: %d %s %s", code, out, errs)
	}
	archive := filepath.Join(d.Root, "all.tar.gz")
	code, _, errs := d.typed("", "backup", "create", "--to", archive)
	if code != 0 || !strings.Contains(errs, "warning: it does not hold the key "+key[10:18]+", so a restore on another host lacks 2 variables of "+id) {
		t.Errorf("%d %s", code, errs)
	}
	whole := filepath.Join(d.Root, "whole.tar.gz")
	if code, _, errs := d.typed("too short\n", "backup", "create", "--with-secrets", "--to", whole); code != 2 || !strings.Contains(errs, "the passphrase is too short") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := d.typed("correct horse battery\n", "backup", "create", "--with-secrets", "--to", whole); code != 0 || !strings.Contains(errs, "under your passphrase") {
		t.Errorf("%d %s", code, errs)
	}

	// A new key while everything runs: nothing of it is noticed.
	pid := d.PID(id)
	if old := d.CLI("key", "rotate"); old != key {
		t.Errorf("the old key is %q, and %q was", old, key)
	}
	inNone("after a rotation")
	c.Put("/app/"+id+"/env", `{"env":{"MORE":"y"}}`).Want(200)
	c.Put("/app/"+id+"/restart", "").Want(200)
	c.UntilLog(id, "has "+secret)
	if d.PID(id) == pid {
		t.Error("the program was not started again")
	}
	key = d.CLI("key", "show")

	// Without its key everything but the secret is there, and the reason is named.
	d.End(syscall.SIGKILL)
	file, away := d.Data+".key", filepath.Join(d.Root, "away")
	if err := os.Rename(file, away); err != nil {
		t.Fatal(err)
	}
	d.Serve()
	if !strings.Contains(d.Out.String(), "the key that sealed 2 variables of "+id) {
		t.Errorf("the daemon says %s", d.Out)
	}
	c.Until(id, "apps.online", true) // it ran on
	c.Put("/app/"+id+"/restart", "").Says("message", "the variables MORE, TOKEN cannot be read: the key that seals them is not on this host")
	other := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	c.Put("/app/"+other+"/env", `{"env":{"NEW":"z"}}`).Want(200)
	if code, _, errs := d.typed(key[:30]+"-"+key[30:len(key)-1], "key", "add"); code != 2 || !strings.Contains(errs, "cannot add the key: it is no key") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := d.typed(key+"\n", "key", "add"); code != 0 || !strings.Contains(errs, "2 secrets can be read again, and 0 cannot") {
		t.Errorf("%d %s", code, errs)
	}
	c.Put("/app/"+id+"/start", "").Want(200)
	c.UntilLog(id, "has "+secret)
	d.CLI("key", "rotate") // both keys become one
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "berth-key-") != 1 {
		t.Errorf("%s, %v", text, err)
	}
	inNone("at the end")

	// A key file that cannot be read is no reason to store a secret in plain.
	d.End(syscall.SIGTERM)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	harness.Write(t, file, strings.ToUpper(string(good)))
	d.Serve()
	c.Put("/app/"+id+"/env", `{"env":{"NEW":"`+secret+`"}}`).Want(503).Says("message", "cannot store the environment variables: the key that seals the secrets of this host cannot be read; berth doctor")
	c.Put("/app/"+id+"/restart", "").Says("message", "the variables MORE, TOKEN cannot be read")
	inNone("with a key file that is damaged")
	if _, out, _ := d.Run("doctor"); !strings.Contains(out, "of "+file+": it is no key") || !strings.Contains(out, "new secrets are refused") {
		t.Errorf("berth doctor says %s", out)
	}
	harness.Write(t, file, string(good))
	d.Restart()
	c.Put("/app/"+id+"/start", "").Want(200)
	c.UntilLog(id, "has "+secret)

	// What the archive holds of the secrets comes back with the passphrase, and not without.
	for i, r := range []struct {
		archive, typed string
		code           int
		want           string
		keys           int
	}{
		{archive, "", 0, "warning: the key that sealed 2 variables of " + id, 0},
		{whole, "wrong horse battery\n", 2, "the passphrase is wrong", 0},
		{whole, "correct horse battery\n", 0, "restored into", 1},
	} {
		to := filepath.Join(d.Root, fmt.Sprintf("to-%d", i))
		cmd := exec.CommandContext(t.Context(), d.Command().Path, "backup", "restore", r.archive, "--data-dir", to, "--key-file", to+".keys")
		cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR=/none")
		cmd.Stdin = strings.NewReader(r.typed)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != r.code || !strings.Contains(string(out), r.want) {
			t.Errorf("restored: %v: %s", cmd.ProcessState, out)
		}
		text, _ := os.ReadFile(to + ".keys")
		if n := strings.Count(string(text), "berth-key-"); n != r.keys {
			t.Errorf("%s: %d keys", r.want, n)
		}
	}
}
