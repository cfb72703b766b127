package exit

import (
	"fmt"
	"strings"
)

// Nearest returns the candidate that name was probably meant to be, or "".
func Nearest(name string, candidates []string) string {
	best, least := "", len(name)/2+1 // further away is no likely slip
	for _, c := range candidates {
		d := distance(name, c)
		if strings.HasSuffix(c, "."+name) || strings.HasSuffix(c, "-"+name) || strings.HasSuffix(c, " "+name) {
			d = 1 // only the section was forgotten
		}
		if d < least {
			best, least = c, d
		}
	}
	return best
}

// DidYouMean completes an error about a name that is unknown; format is how the
// better name is written.
func DidYouMean(name string, candidates []string, format string) string {
	if c := Nearest(name, candidates); c != "" {
		return fmt.Sprintf("; did you mean "+format+"?", c)
	}
	return ""
}

// distance counts the characters to insert, drop, replace or swap with their
// neighbour to make b of a.
func distance(a, b string) int {
	var before []int // two rows up
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			replace := row[j]
			if a[i] != b[j] {
				replace++
			}
			next[j+1] = min(replace, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
