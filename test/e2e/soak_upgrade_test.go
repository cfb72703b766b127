//go:build soak

package e2e

import "testing"

// TestSoakUpgrades: 50 upgrades under 200 connections a second.
func TestSoakUpgrades(t *testing.T) { upgrades(t, 50, 200) }
