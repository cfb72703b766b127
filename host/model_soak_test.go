//go:build soak

package host

import "testing"

// TestSoakModels runs the models with seeds that CI does not have.
func TestSoakModels(t *testing.T) {
	for name, change := range map[string]func(*world, uint64){
		"programs": func(*world, uint64) {}, "sites": ofSites, "upgrades": ofUpgrades, "holds": ofHolds,
	} {
		t.Run(name, func(t *testing.T) { modelled(t, seeds, 20*seeds, change) })
	}
}
