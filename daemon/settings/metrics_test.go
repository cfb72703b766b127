package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A scrape token is a secret of a file: one that others may read, or that could be guessed, is refused.
func TestMetricsToken(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := strings.Repeat("0123456789", 4)
	for what, c := range map[string]struct{ path, want, says string }{
		"none":            {"", "", ""},
		"a good one":      {write("good", good+"\n", 0o600), good, ""},
		"a short one":     {write("short", "0123456789012345678", 0o600), "", "cannot use metrics.token: the token must be one line of 20 characters or more; openssl rand -hex 32 makes one"},
		"words":           {write("words", "a token with spaces in it", 0o600), "", "one line of 20 characters"},
		"for all to read": {write("open", good, 0o644), "", "others may read"},
		"no file":         {filepath.Join(dir, "none"), "", "cannot read metrics.token"},
		"an empty file":   {write("empty", "\n", 0o600), "", "must hold the secret, on one line"},
	} {
		var args []string
		if c.path != "" {
			args = append(args, "--metrics-token="+c.path)
		}
		got, err := mustLoad(t, "", nil, args...).MetricsToken()
		if got != c.want || (c.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}
