//go:build !unix

package bundle

import "testing"

// withUmask does nothing where files have no modes.
func withUmask(*testing.T, int) {}
