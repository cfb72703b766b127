package main

import (
	"math"
	"testing"
)

func TestSample(t *testing.T) {
	s := sample{9, 1, 5, 3}
	if got := s.median(); got != 4 {
		t.Errorf("the median is %g, want 4", got)
	}
	if got := (sample{3, 1, 2}).median(); got != 2 {
		t.Errorf("the median is %g, want 2", got)
	}
	for p, want := range map[float64]float64{0: 1, 25: 1, 50: 3, 75: 5, 99: 9, 100: 9} {
		if got := s.percentile(p); got != want {
			t.Errorf("percentile %g is %g, want %g", p, got, want)
		}
	}
	if s[0] != 9 {
		t.Error("the sample was sorted in place")
	}
	if !math.IsNaN(sample{}.median()) || !math.IsNaN(sample{}.percentile(50)) {
		t.Error("nothing measured has a median")
	}
}

func TestSampleIn(t *testing.T) {
	for _, tt := range []struct {
		s          sample
		unit, want string
	}{
		{nil, "ms", ""},
		{sample{1.234}, "ms", "1.23 ms"},
		{sample{12.34, 1, 400.4}, "ms", "12.3 ms (1 to 400)"},
		{sample{8}, "", "8"},
	} {
		if got := tt.s.in(tt.unit); got != tt.want {
			t.Errorf("%v in %q is %q, want %q", tt.s, tt.unit, got, tt.want)
		}
	}
}

func TestRatios(t *testing.T) {
	got := ratios(sample{2, 9, 5}, sample{1, 3})
	if len(got) != 2 || got[0] != 2 || got[1] != 3 {
		t.Errorf("got %v, want [2 3]", got)
	}
}
