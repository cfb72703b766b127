package app

import "testing"

func TestSeverities(t *testing.T) {
	for s := Info; s <= Failure; s++ {
		if got, ok := ParseSeverity(s.String()); got != s || !ok {
			t.Errorf("%d is %q, which is %d", s, s.String(), got)
		}
	}
	if got, ok := ParseSeverity("loud"); got != Info || ok {
		t.Errorf("loud is %d", got)
	}
}
