//go:build linux

package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"berth/test/harness"
)

// onTerminal runs a command whose output goes to a terminal of 80 columns, and returns what
// that got.
func onTerminal(t *testing.T, env map[string]string, args ...string) (code int, seen, stderr string) {
	t.Helper()
	return onColumns(t, 80, env, args...)
}

// onColumns is onTerminal for a terminal of another width.
func onColumns(t *testing.T, columns uint16, env map[string]string, args ...string) (code int, seen, stderr string) {
	t.Helper()
	side, terminal := harness.OpenPTY(t, columns, 24)
	defer side.Close()
	var out, problems bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = out.ReadFrom(side) // EIO at the end
	}()
	code = Run(t.Context(), args, func(name string) string { return env[name] }, terminal, &problems)
	_ = terminal.Close()
	<-read
	return code, out.String(), problems.String()
}

// What is meant for a file is not for a terminal: values are shown, and a ZIP is not.
func TestFilesOnTheTerminal(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("BERTH_RUNTIME_DIR", "/none")
	attack := attacks["the clipboard, OSC 52"]
	s := evil(t, attack, &sync.Map{})
	env := map[string]string{"BERTH_URL": s.URL, "BERTH_TOKEN": "token"}
	for _, verb := range []string{"get", "make"} {
		code, seen, stderr := onTerminal(t, env, "app", "backup", verb, "bot-one", "-")
		if code != 2 || seen != "" || !strings.HasPrefix(stderr, "berth: cannot write a ZIP to a terminal\n") {
			t.Errorf("%s: exit code %d, %q, %q", verb, code, seen, stderr)
		}
	}
	if code, seen, stderr := onTerminal(t, env, "env", "pull", "bot-one", "-"); code != 0 || !strings.HasPrefix(seen, `EMPTY='\x1b]52;c;ZWNobyBvd25lZA==\x07'`+"\r\n") {
		t.Errorf("values on a terminal: %d, %q, %q", code, seen, stderr)
	}
	if code, stdout, stderr := start(t, env, "env", "pull", "bot-one", "-"); code != 0 || !strings.HasPrefix(stdout, "EMPTY='"+attack+"'\n") {
		t.Errorf("values elsewhere: %d, %q, %q", code, stdout, stderr)
	}

	// A name that is none could be a line of its own.
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/app/bot-one/env/values" {
			s.Config.Handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok","message":"m","env":[{"name":"A=1\nLD_PRELOAD","value":"x"}]}`)
	}))
	defer odd.Close()
	env["BERTH_URL"] = odd.URL
	path := filepath.Join(t.TempDir(), "env")
	code, stdout, stderr := start(t, env, "env", "pull", "bot-one", path)
	if _, err := os.Lstat(path); code != 1 || stdout != "" || !strings.HasSuffix(stderr, `: the server names a variable "A=1\nLD_PRELOAD"`+"\n") || err == nil {
		t.Errorf("odd names: %d, %q, %q, %v", code, stdout, stderr, err)
	}
}
