package panel

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors: some of them wait ten
// seconds for a page to end.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
