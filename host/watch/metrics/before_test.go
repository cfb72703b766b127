package metrics

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"berth/app"
)

// weekly is the point of a minute in the history of eight days and 25 minutes that berth 1.0 has
// written to testdata/before.
func weekly(n int) app.Point {
	return app.Point{
		At: start.Add(time.Duration(n) * Fine), Ran: Fine, Memory: float64(50<<20 + n%997*1000), MemoryMax: float64(60<<20 + n%997*1000),
		Limit: 128 << 20, CPU: float64(n%50) / 4, CPUMax: float64(n%50) / 2, NetIn: float64(n % 1000), NetOut: float64(n % 3000),
		Marks: app.Marks{Starts: uint8(n % 500 / 499), Exits: uint8(n % 500 / 499)},
	}
}

const weeklyMinutes = 8*24*60 + 25

func unzip(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata/before", name+".gz"))
	must(t, err)
	defer func() { must(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	must(t, err)
	b, err := io.ReadAll(z)
	must(t, err)
	return b
}

// before is a directory as berth 1.0 has left it.
func before(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, of := range map[string]string{"shop": "shop", recentName: "recent", olderName: "recent.old"} {
		must(t, os.WriteFile(filepath.Join(dir, name), unzip(t, of), 0o600))
	}
	return dir
}

// A ring of berth 1.0 loses nothing, and gets what that one did not know from the next minute on.
func TestRingOfBefore(t *testing.T) {
	dir := before(t)
	s := open(t, dir)
	now := start.Add(weeklyMinutes * Fine)
	day := ranged(t, s, "shop", now, now.Add(-24*time.Hour+3*Fine), now, Fine)
	if len(day) != 24*60-3 {
		t.Fatalf("%d minutes of the last day", len(day))
	}
	for i, p := range day {
		want := weekly(weeklyMinutes - len(day) + i)
		want.Step = Fine
		if !near(p, want) {
			t.Fatalf("minute %d is %+v, want %+v", i, p, want)
		}
	}
	checkWeek := func(when string) {
		t.Helper()
		week := ranged(t, s, "shop", now, start, start.Add(8*24*time.Hour), Coarse)
		if len(week) != 8*24*6 {
			t.Fatalf("%s: %d stretches of the week", when, len(week))
		}
		for i, p := range week {
			want := app.Point{At: start.Add(time.Duration(i) * Coarse), Step: Coarse}
			for n := range 10 {
				want = want.With(weekly(10*i + n))
			}
			if !near(p, want) {
				t.Fatalf("%s: stretch %d is %+v, want %+v", when, i, p, want)
			}
		}
	}
	checkWeek("at first")
	answers := app.Answers{Classes: [5]uint64{0, 900, 20, 3, 1}, Took: [12]uint64{100, 700, 124}}
	for n := weeklyMinutes; n < weeklyMinutes+90; n++ {
		p := weekly(n)
		p.Disk, p.Answers = 5<<20, answers
		must(t, s.Append(p.At.Add(Fine), []app.PointOf{{App: "shop", Point: p}}))
	}
	now = start.Add((weeklyMinutes + 90) * Fine)
	checkWeek("with new minutes")
	must(t, s.Close())
	s = open(t, dir)
	checkWeek("after a restart")
	fresh := ranged(t, s, "shop", now, now.Add(-90*Fine), now, Fine)
	if len(fresh) != 90 || fresh[0].Answers != answers || fresh[89].Disk != 5<<20 || fresh[89].Answers != answers {
		t.Errorf("%d new minutes, from %+v", len(fresh), fresh[0])
	}
	st, err := os.Stat(filepath.Join(dir, "shop"))
	must(t, err)
	if st.Size() > RingSize || RingSize > 2*276480 { // berth 1.0 had 276,480
		t.Errorf("the ring has %d bytes of %d", st.Size(), RingSize)
	}
}

// near is equal but for how floats of 32 bits round.
func near(a, b app.Point) bool {
	close := func(x, y float64) bool { return math.Abs(x-y) <= 1e-5*math.Max(math.Abs(x), math.Abs(y)) }
	same := close(a.Memory, b.Memory) && close(a.CPU, b.CPU) && close(a.MemoryMax, b.MemoryMax) && close(a.NetIn, b.NetIn) && close(a.NetOut, b.NetOut)
	a.Memory, a.CPU, a.MemoryMax, a.NetIn, a.NetOut = b.Memory, b.CPU, b.MemoryMax, b.NetIn, b.NetOut
	return same && a == b
}

// berth 1.0 finds in a ring of today what it would have written itself: the first half is the same
// to the byte.
func TestRingForBefore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for n := range weeklyMinutes {
		p := weekly(n)
		p.Disk, p.Answers.Classes[1] = float64(n), uint64(n)
		must(t, s.Append(p.At.Add(Fine), []app.PointOf{{App: "shop", Point: p}}))
	}
	must(t, s.Close())
	ring, err := os.ReadFile(filepath.Join(dir, "shop"))
	must(t, err)
	if old := unzip(t, "shop"); !bytes.Equal(ring[:len(old)], old) {
		t.Error("the first half of the ring is another one")
	}
	// Of recent it reads the records that it knows, and takes the others for those of nobody.
	recent, err := os.ReadFile(filepath.Join(dir, recentName))
	must(t, err)
	var known []byte
	for at := 0; at < len(recent); {
		n := recordHead + int(recent[at+4]) + slotSize
		if _, ok := decode(recent[at+n-slotSize : at+n]); !ok {
			t.Fatalf("the record at %d holds no point for berth 1.0", at)
		}
		if id := app.ID(recent[at+recordHead : at+recordHead+int(recent[at+4])]); app.ValidID(string(id)) {
			known = append(known, recent[at:at+n]...)
		}
		at += n
	}
	if old := unzip(t, "recent"); !bytes.Equal(known, old) {
		t.Errorf("it knows %d bytes of recent, and wrote %d", len(known), len(old))
	}
}

// What only some minutes have costs the disk only there: a bot whose files nobody measured has a ring
// of the size of before.
func TestHalfARing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run(t, s, "shop", 0, 3*60)
	st, err := os.Stat(filepath.Join(dir, "shop"))
	must(t, err)
	if st.Size() > half {
		t.Errorf("it has %d bytes", st.Size())
	}
}

func TestShort(t *testing.T) {
	for _, n := range []uint64{0, 1, 1000, 2046, 2047, 2048, 2049, 4095, 4096, 65535, 1e6, 123456789, 1 << 40} {
		got := long(short(n))
		if off := math.Abs(float64(got) - float64(n)); off > float64(n)/2048 || n < 2048 && off != 0 {
			t.Errorf("%d becomes %d", n, got)
		}
		if again := long(short(got)); again != got {
			t.Errorf("%d becomes %d, and then %d", n, got, again)
		}
	}
	if got := long(short(math.MaxUint64 >> 1)); got < 1<<41 {
		t.Errorf("the most is %d", got)
	}
}

// The host has a history of its own, which is no application's.
func TestHostHistory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run(t, s, app.HostHistory, 0, 70)
	must(t, s.Close())
	s = open(t, dir)
	must(t, s.Sweep(map[app.ID]bool{}, nil, nil))
	got := ranged(t, s, app.HostHistory, at(70).At, start, at(70).At, Fine)
	if len(got) != 70 {
		t.Errorf("%d points", len(got))
	}
}

func TestWithin(t *testing.T) {
	ms := time.Millisecond
	for _, tt := range []struct {
		took  [12]uint64
		share float64
		want  time.Duration
	}{
		{[12]uint64{100}, 0.95, 4750 * time.Microsecond},
		{[12]uint64{0, 0, 100}, 0.5, 10*ms + 7500*time.Microsecond},
		{[12]uint64{90, 0, 10}, 0.95, 10*ms + 7500*time.Microsecond},
		{[12]uint64{11: 5}, 0.95, 10 * time.Second},
	} {
		if got, ok := (app.Answers{Took: tt.took}).Within(tt.share); !ok || got != tt.want {
			t.Errorf("%v within %v: %v", tt.took, tt.share, got)
		}
	}
	if _, ok := (app.Answers{}).Within(0.5); ok {
		t.Error("of no answers there is a time")
	}
	a := app.Answers{Classes: [5]uint64{1, 2, 3, 4, 5}}
	if got := a.With(a).Since(a); !reflect.DeepEqual(got, a) || a.All() != 15 {
		t.Errorf("twice less once is %+v", got)
	}
}
