package app

import "testing"

func TestCapacity(t *testing.T) {
	for _, tt := range []struct {
		ram, reserve MB
		factor       float64
		want         MB
	}{{1024, 256, 1, 768}, {1024, 256, 2, 1536}, {1024, 256, 1.6, 1228}, {200, 256, 1, 0}, {200, 256, 100, 0}} {
		if got := Capacity(tt.ram, tt.reserve, tt.factor); got != tt.want {
			t.Errorf("Capacity(%d, %d, %g) = %d, want %d", tt.ram, tt.reserve, tt.factor, got, tt.want)
		}
	}
}
