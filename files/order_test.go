package files

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/files/archive"
)

// Two trees with the same files, made in another order, give the same bytes but for the first
// and the last ones, which say when the archive was made.
func TestExportInOrder(t *testing.T) {
	names := []string{"a.b", "a/x", "b", "é", "z/z", "z/a", "Z", "-", "\xff\xfe"}
	var texts [][]byte
	for i, made := range []time.Time{time.Now(), time.Now().Add(25 * time.Hour)} {
		s := newStore(t)
		if i == 1 { // another file system, and so another order of its own
			s = newMemoryStore(t)
		}
		live := makeLive(t, s, nil)
		order := slices.Clone(names)
		if i == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			put(t, live, map[string]string{name: "the same " + name})
			put(t, live, map[string]string{"of the order " + fmt.Sprint(i): "x"})
			must(t, os.Remove(filepath.Join(live, "of the order "+fmt.Sprint(i))))
		}
		chownAll(t, live)
		then := time.Unix(1_700_000_000, 5)
		must(t, filepath.WalkDir(live, func(p string, _ fs.DirEntry, _ error) error { return os.Chtimes(p, then, then) }))
		var b bytes.Buffer
		w, err := archive.NewWriter(&b, archive.Manifest{Made: made})
		must(t, err)
		must(t, s.Export(t.Context(), w, testID, testUID))
		_, err = w.Close(1)
		must(t, err)
		texts = append(texts, b.Bytes())
	}
	const head, tail = 3 << 10, 4 << 10 // the first document, and the manifest with the end
	if len(texts[0]) != len(texts[1]) || len(texts[0]) < 2*(head+tail) {
		t.Fatalf("%d and %d bytes", len(texts[0]), len(texts[1]))
	}
	if end := len(texts[0]) - tail; !bytes.Equal(texts[0][head:end], texts[1][head:end]) {
		t.Error("the bytes between the first and the last ones are not the same")
	}
}

// What is kept for the order is bounded, and nothing is left out beyond it.
func TestOrderIsBounded(t *testing.T) {
	top := t.TempDir()
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("name%03d", i))
		must(t, os.WriteFile(filepath.Join(top, want[i]), nil, 0o600))
	}
	d := openDir(t, top)
	for left, inOrder := range map[int]bool{1 << 20: true, 100 * (7 + nameCost): true, 100*(7+nameCost) - 1: false, 0: false} {
		o := order{left: left}
		var got []string
		must(t, o.each(d, func(name string, ordered bool) error {
			if ordered != inOrder {
				t.Fatalf("with room for %d bytes: in order is %t", left, ordered)
			}
			if held := left - o.left; inOrder != (held > 0) {
				t.Fatalf("%d bytes are held", held)
			}
			got = append(got, name)
			return nil
		}))
		if o.left != left {
			t.Errorf("%d of %d bytes are free afterwards", o.left, left)
		}
		if inOrder && !slices.Equal(got, want) {
			t.Errorf("with room for %d bytes: %v", left, got)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("with room for %d bytes some are missing: %v", left, got)
		}
	}
}
