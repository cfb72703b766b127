package repository

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// flipped flips so many bits in the files of a place, one at a time, and fails unless each is found by
// Check or Load, or is one of a list that says the same. files are the beginnings of the files' names.
func flipped(t *testing.T, o Options, n int, files ...string) {
	t.Helper()
	o.Cache = "" // a cache has what was there before
	r := open(t, o, true)
	must(t, makeRun(t.Context(), r, oldRun, nil))
	must(t, makeRun(t.Context(), r, nextRun, list(t, r)))
	must(t, r.Prune(t.Context()))
	want := describe(list(t, r))
	root := place1(o)
	sizes := map[string]map[string]int64{} // by the beginning, and the file
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		begin := slices.IndexFunc(files, func(begin string) bool { return strings.HasPrefix(name, begin) })
		if err != nil || !e.Type().IsRegular() || begin < 0 {
			return err
		}
		info, err := e.Info()
		if sizes[files[begin]] == nil {
			sizes[files[begin]] = map[string]int64{}
		}
		sizes[files[begin]][path] = info.Size()
		return err
	}))
	from := rand.New(rand.NewPCG(1, 2))
	results := map[string]int{}
	for k := range n {
		sizes := sizes[files[k%len(files)]] // each file is as likely, small or large
		path := slices.Sorted(maps.Keys(sizes))[from.IntN(len(sizes))]
		bit := from.Int64N(8 * sizes[path])
		flip(t, path, bit)
		name, _ := filepath.Rel(root, path)
		found := examine(t, o, want)
		kind := strings.SplitN(name, "/", 2)[0]
		if strings.HasPrefix(o.Place, archives) {
			kind = filepath.Base(name)
		}
		switch {
		case errors.Is(found, errOther):
			t.Errorf("bit %d of %d of %s: nobody sees it: %v", bit, 8*sizes[path], name, found)
		case found == nil && kind != listName: // of a list a blank may be another one
			t.Errorf("bit %d of %d of %s is not found", bit, 8*sizes[path], name)
		case found == nil:
			results[kind+": the content is the same"]++
		case !errors.Is(found, ErrDamaged):
			t.Errorf("bit %d of %d of %s is found as: %v", bit, 8*sizes[path], name, found)
		default:
			results[kind+": found"]++
		}
		flip(t, path, bit)
	}
	for _, what := range slices.Sorted(maps.Keys(results)) {
		t.Logf("%s: %d", what, results[what])
	}
	must(t, examine(t, o, want))
}

func flip(t *testing.T, path string, bit int64) {
	t.Helper()
	must(t, os.Chmod(path, 0o600)) // restic makes its files read-only
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], bit/8)
	must(t, err)
	b[0] ^= 1 << (bit % 8)
	_, err = f.WriteAt(b[:], bit/8)
	must(t, err)
}

// errOther is the error of content that is another and that nobody called damaged.
var errOther = errors.New("the content is another")

// examine returns what Check or Load says, or errOther.
func examine(t *testing.T, o Options, want string) error {
	t.Helper()
	r, err := New(o)
	must(t, err)
	if err := r.Check(t.Context(), 0, 1); err != nil {
		return err
	}
	all, err := r.List(t.Context())
	if err != nil {
		return err
	}
	for _, s := range all {
		text, err := loadErr(t.Context(), r, s)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(s.Runs, func(run string) bool { return bytes.Equal(text, streams(run)[s.Name]) }) {
			return fmt.Errorf("%w: %s", errOther, s.Name)
		}
	}
	if is := describe(all); is != want {
		return fmt.Errorf("%w: %s, and not %s", errOther, is, want)
	}
	return nil
}

func describe(all []Snapshot) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s %s %v %v %s\n", s.ID, s.Name, s.Labels, s.Runs, s.At.UTC())
	}
	return b.String()
}

// Each bit of an archive counts. TestSoakFlipped does the same to what restic keeps.
func TestFlippedArchives(t *testing.T) {
	t.Parallel()
	flipped(t, engines["archives"](t), 200, oldRun, nextRun)
}

// What an older backup alone has is read by Check in one of its parts.
func TestCheckReadsWhatIsOld(t *testing.T) {
	t.Parallel()
	for name, place := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := place(t)
			o.Cache = ""
			r := open(t, o, true)
			commit(t, r, oldRun, save(t, r, "host", noise(1, 100_000)))
			old := filepath.Join(place1(o), oldRun, "host.tar.gz")
			if name == "restic" {
				packs, err := filepath.Glob(filepath.Join(place1(o), "data", "*", "*"))
				must(t, err)
				slices.SortFunc(packs, func(a, b string) int { return int(size(t, b) - size(t, a)) })
				old = packs[0] // the other one has the tree
			}
			commit(t, r, nextRun, save(t, r, "host", noise(2, 100_000)))
			flip(t, old, 8*size(t, old)/2)
			var found []int
			for part := range 3 {
				switch err := r.Check(t.Context(), part, 3); {
				case errors.Is(err, ErrDamaged):
					found = append(found, part)
				case err != nil:
					t.Errorf("part %d: %v", part, err)
				}
			}
			if len(found) != 1 {
				t.Errorf("it is found in the parts %v of 3", found)
			}
		})
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}
