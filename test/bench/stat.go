package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// sample is one figure, measured several times.
type sample []float64

// percentile returns the value that p of 100 are not above.
func (s sample) percentile(p float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(int(math.Ceil(p/100*float64(len(sorted))))-1, 0)]
}

// median is the middle value, or the mean of the two in the middle.
func (s sample) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// in writes the median with a unit, and the bounds if there are several
// values.
func (s sample) in(unit string) string {
	if len(s) == 0 {
		return ""
	}
	text := strings.TrimSpace(digits(s.median()) + " " + unit)
	if len(s) > 1 {
		text += fmt.Sprintf(" (%s to %s)", digits(slices.Min(s)), digits(slices.Max(s)))
	}
	return text
}

// digits writes a figure with as many of them as mean something.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// ratios divides the values of one sample by those of another that were
// measured next to them.
func ratios(a, b sample) sample {
	var r sample
	for i := range min(len(a), len(b)) {
		r = append(r, a[i]/b[i])
	}
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
