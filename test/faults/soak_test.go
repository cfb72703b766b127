//go:build soak

package faults

import "testing"

// TestSoakUpgrades: 50 upgrades under 200 connections a second.
func TestSoakUpgrades(t *testing.T) { upgrades(t, 50, 200) }

// TestSoakSIGKILL is TestFaultsSIGKILL at length.
func TestSoakSIGKILL(t *testing.T) { killAgainAndAgain(t, 200) }
