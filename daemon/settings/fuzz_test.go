package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"berth/app/exit"
)

// FuzzConfig reads any settings file: either every setting of it is in force
// and within its bounds, or the refusal is a bad configuration and says where.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"listen = \"127.0.0.1:8400\"\n[apps]\nram_default = 128\nstop_timeout = \"20s\"\n",
		"[host]\novercommit = nan\n", "[[apps]]\nram_min = 1\n", "apps = 1\n", "apps.ram_min = 0x20\napps.ram_min = 5\n",
		"listne = \"x\"\n", "\"apps\".\"ram_min\" = 9\n[build]\nram = 1979-05-27\n", "[apps]\nuid_base = 65534\n", "x = \"\"\"", "\xff",
	} {
		f.Add(text)
	}
	file := filepath.Join(f.TempDir(), "berth.toml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		from := AddFlags(pflag.NewFlagSet("test", pflag.ContinueOnError))
		from.Fallback = file
		s, err := from.Load(func(string) string { return "" })
		var p *exit.Problem
		switch {
		case err == nil:
			if err := s.check(); err != nil || s.Apps.RAMMin < 1 || s.Host.Overcommit < 0.1 || s.Apps.StopTimeout <= 0 || !filepath.IsAbs(s.DataDir) {
				t.Errorf("in force: %+v, %v", s, err)
			}
		case !errors.As(err, &p) || p.Code != exit.Config:
			t.Errorf("not a bad configuration: %v", err)
		case !strings.Contains(err.Error(), file) && !strings.Contains(err.Error(), "must not") && !strings.Contains(err.Error(), "go beyond"):
			t.Errorf("does not say where: %v", err)
		}
	})
}
