package archive

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// Each bit of a sealed file counts, and so does what follows it.
func TestSeal(t *testing.T) {
	var b bytes.Buffer
	s := NewSealer(&b)
	_, err := s.Write([]byte("compressed"))
	must(t, err)
	must(t, s.Close())
	whole := b.Bytes()
	check := func(file []byte) error { return Sealed(bytes.NewReader(file), int64(len(file)), Manifest{Format: 2}) }
	must(t, check(whole))
	must(t, Rest(bytes.NewReader(whole[len("compressed"):])))
	must(t, Rest(bytes.NewReader(nil)))
	for bit := range 8 * len(whole) {
		broken := slices.Clone(whole)
		broken[bit/8] ^= 1 << (bit % 8)
		if err := check(broken); !errors.Is(err, ErrDamaged) {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
	for n := range len(whole) {
		if err := check(whole[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if err := check(append(slices.Clone(whole), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a byte more: %v", err)
	}
	for name, rest := range map[string][]byte{"a byte": {0}, "a cut seal": seal(s.sum)[1:], "two seals": append(seal(s.sum), seal(s.sum)...)} {
		if err := Rest(bytes.NewReader(rest)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
