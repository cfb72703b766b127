//go:build soak

package proc

import "testing"

// A hundred programs leak at once.
func TestSoakLeakingPrograms(t *testing.T) { leakingPrograms(t, 100, 2.5) }
