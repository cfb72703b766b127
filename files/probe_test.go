package files

import (
	"testing"
	"time"
)

func TestProber(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/proc/none"} {
		if NewProber(func() { _ = Touch(dir) }).Hangs(20 * time.Second) {
			t.Errorf("the disk of %s, which answers, hangs", dir)
		}
	}
}
