package scripts_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// make check says what it could not check, and fails for a finding alone.
func TestVulncheck(t *testing.T) {
	served := httptest.NewServer(http.FileServer(http.Dir(t.TempDir())))
	defer served.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	good := t.TempDir()
	if err := os.MkdirAll(filepath.Join(good, "index"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(good, "index", "modules.json"), []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		db     string
		tool   string // its text
		status int
		says   string
	}{
		"nobody listens":     {"http://127.0.0.1:1", "exit 3", 0, "vulnerabilities: NOT CHECKED: the database http://127.0.0.1:1 cannot be reached (curl: (7) "},
		"no such host":       {"http://nowhere.invalid", "exit 3", 0, "vulnerabilities: NOT CHECKED: the database http://nowhere.invalid cannot be reached (curl: ("},
		"no database there":  {served.URL, "exit 3", 0, "cannot be reached (curl: (22) "},
		"no answer":          {silent.URL, "exit 3", 0, "cannot be reached (curl: (28) "},
		"nothing known":      {"file://" + good, "exit 0", 0, "vulnerabilities: none known\n"},
		"a finding":          {"file://" + good, "echo GO-2026-0001; exit 3", 1, "GO-2026-0001\nvulnerabilities: found, see above\n"},
		"a broken tool":      {"file://" + good, "echo first; echo out of memory; exit 1", 0, "vulnerabilities: NOT CHECKED: govulncheck failed with status 1 (out of memory)\n"},
		"a finding, broken":  {"file://" + good, "echo 'Vulnerability #1: GO-2026-0001'; exit 2", 1, "vulnerabilities: found, see above\n"},
		"its own questions":  {"file://" + good, `test "$1 $2 $3" = "-db file://` + good + ` ./..."`, 0, "vulnerabilities: none known\n"},
		"a tool that is not": {"file://" + good, "", 0, "vulnerabilities: NOT CHECKED: govulncheck v"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := filepath.Join(t.TempDir(), "govulncheck")
			if tt.tool != "" {
				if err := os.WriteFile(tool, []byte("#!/bin/sh\n"+tt.tool+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "./vulncheck")
			cmd.Env = append(os.Environ(), "GOVULNDB="+tt.db, "GOVULNCHECK="+tool, "GO=false")
			began := time.Now()
			said, err := cmd.CombinedOutput()
			status := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if status != tt.status || !strings.Contains(string(said), tt.says) {
				t.Errorf("status %d: %s; want %d, %s", status, said, tt.status, tt.says)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
