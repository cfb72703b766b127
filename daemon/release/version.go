package release

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is the version of a release: three numbers.
type Version [3]int

// ParseVersion reads "1.2.3" or "v1.2.3". It reports false for everything else, such as the
// commit that a development build has for its version.
func ParseVersion(text string) (Version, bool) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	var v Version
	if len(parts) != len(v) {
		return Version{}, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil || strconv.FormatUint(n, 10) != part {
			return Version{}, false
		}
		v[i] = int(n)
	}
	return v, true
}

// String returns "1.2.3".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// Compare returns -1, 0 or 1 as v is older than, the same as, or newer than w.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v[0], w[0]), cmp.Compare(v[1], w[1]), cmp.Compare(v[2], w[2]))
}
