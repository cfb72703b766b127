package metrics

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A daemon may be killed, and a machine lose its power, within each write: what
// was whole before is there, what is torn is not, and nothing else is made of it.
func TestTornEnds(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run(t, s, "shop", 0, 20)
	must(t, s.Close())
	path := filepath.Join(dir, recentName)
	whole, err := os.ReadFile(path)
	must(t, err)
	record := recordHead + len("shop") + slotSize
	for cut := len(whole) - 2*record; cut <= len(whole); cut++ {
		for name, end := range map[string][]byte{"cut": nil, "zeros": make([]byte, 100), "noise": bytes.Repeat([]byte{0xa5}, 300)} {
			must(t, os.WriteFile(path, slices.Concat(whole[:cut], end), 0o600))
			s := open(t, dir)
			n := cut / record
			run(t, s, "shop", 30, 31)
			must(t, s.Close())
			s = open(t, dir)
			got := ranged(t, s, "shop", at(40).At, start, at(40).At, Fine)
			if len(got) != n+1 || got[n].At != at(30).At || got[n-1].Memory != float64(n-1) {
				t.Fatalf("%s at %d: %v", name, cut, minutes(got))
			}
			must(t, s.Close())
		}
	}
}

// A slot that is damaged in any bit is no point.
func TestDamagedSlots(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run(t, s, "shop", 0, 121)
	must(t, s.Close())
	path := filepath.Join(dir, "shop")
	ring, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, olderName))) // which would mend it
	bad := offset(Fine, at(30).At)
	for bit := range slotSize * 8 {
		damaged := slices.Clone(ring)
		damaged[bad+int64(bit/8)] ^= 1 << (bit % 8)
		must(t, os.WriteFile(path, damaged, 0o600))
		s := open(t, dir)
		got := minutes(ranged(t, s, "shop", at(121).At, at(29).At, at(32).At, Fine))
		must(t, s.Close())
		if !slices.Equal(got, []int{29, 31}) {
			t.Fatalf("with bit %d turned: %v", bit, got)
		}
	}
	if _, ok := decode(make([]byte, slotSize)); ok {
		t.Error("zeros are a point")
	}
}

// A power cut may lose rings that were just written: the recent of the hour
// before brings them back.
func TestLostRings(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run(t, s, "shop", 0, 70)
	must(t, s.Close())
	must(t, os.Remove(filepath.Join(dir, "shop")))
	s = open(t, dir)
	if got := minutes(ranged(t, s, "shop", at(70).At, start, at(70).At, Fine)); len(got) != 70 {
		t.Errorf("%d of 70 points", len(got))
	}
	run(t, s, "shop", 70, 71)
	if got := ranged(t, s, "shop", at(71).At, start, at(71).At, Coarse); len(got) != 8 || got[5].MemoryMax != 118 {
		t.Errorf("coarse: %+v", got)
	}
}
