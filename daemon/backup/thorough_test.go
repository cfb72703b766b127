//go:build soak

package backup

import "testing"

func init() { thorough = true } //nolint:gochecknoinits // the tag of this file is what sets it

// TestSoakCopies is every test of copies of databases, with all of their rounds.
func TestSoakCopies(t *testing.T) {
	*exports = 50
	for name, test := range map[string]func(*testing.T){
		"while a program writes": TestCopiesWhileAProgramWrites, "while a link takes the place": TestCopyWhileALinkTakesThePlace,
		"while the program swaps": TestCopyWhileTheProgramSwaps,
	} {
		t.Run(name, test)
	}
}
