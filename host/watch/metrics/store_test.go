package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"berth/app"
)

var start = time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// at is the point of the n-th minute from start: its memory is n MB.
func at(n int) app.Point {
	return app.Point{
		At: start.Add(time.Duration(n) * Fine), Ran: Fine, Memory: float64(n), MemoryMax: float64(2 * n), Limit: 1 << 20,
		CPU: 1, CPUMax: 2, NetIn: 3, NetOut: 4,
	}
}

// run appends the minutes from one up to another, as the daemon does.
func run(t testing.TB, s *Store, id app.ID, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		must(t, s.Append(at(n).At.Add(Fine), []app.PointOf{{App: id, Point: at(n)}}))
	}
}

func minutes(points []app.Point) []int {
	var all []int
	for _, p := range points {
		all = append(all, int(p.At.Sub(start)/Fine))
	}
	return all
}

func ranged(t testing.TB, s *Store, id app.ID, now, from, to time.Time, step time.Duration) []app.Point {
	t.Helper()
	points, err := s.Range(id, now, from, to, step)
	must(t, err)
	return points
}

// However often the daemon starts again within an hour, each minute counts once.
func TestStartsWithinAnHourCountOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run(t, s, "shop", 0, 70)
	for n := 70; n < 75; n++ {
		must(t, s.Close())
		s = open(t, dir)
		run(t, s, "shop", n, n+1)
	}
	must(t, s.Close())
	s = open(t, dir)
	run(t, s, "shop", 75, 130) // the next hour is folded
	for _, p := range ranged(t, s, "shop", at(130).At, start, at(130).At, Fine) {
		if p.Ran != Fine || p.NetIn != 3 {
			t.Errorf("the minute %v ran for %v and has %v bytes", p.At.Sub(start), p.Ran, p.NetIn)
		}
	}
}

func TestPointsSurviveEachEnd(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *Store){
		"closed": func(t *testing.T, s *Store) { must(t, s.Close()) },
		"killed": func(*testing.T, *Store) {}, // what is written is written
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			run(t, s, "shop", 0, 200)
			end(t, s)
			again := open(t, dir)
			got := ranged(t, again, "shop", at(200).At, start, at(200).At, Fine)
			if want := ranged(t, s, "shop", at(200).At, start, at(200).At, Fine); !reflect.DeepEqual(got, want) || len(got) != 200 {
				t.Fatalf("%d points after the end, %d before", len(got), len(want))
			}
			for n, p := range got {
				want := at(n)
				want.Step = Fine
				if p != want {
					t.Errorf("point %d is %+v, want %+v", n, p, want)
				}
			}
			run(t, again, "shop", 200, 400) // and it goes on
			if got := ranged(t, again, "shop", at(400).At, start, at(400).At, Fine); len(got) != 400 {
				t.Errorf("%d points in the end", len(got))
			}
		})
	}
}

// Thirty-two days of minutes: the last day is there to the minute, thirty days to
// ten minutes with every peak, and the file is as large as it is.
func TestHistoryIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	const days = 32
	for hour := range days * 24 {
		var points []app.PointOf
		for n := hour * 60; n < hour*60+60; n++ {
			points = append(points, app.PointOf{App: "shop", Point: at(n)})
			points[len(points)-1].Disk = 1
		}
		must(t, s.Append(start.Add(time.Duration(hour+1)*time.Hour), points))
	}
	st, err := os.Stat(filepath.Join(dir, "shop"))
	if err != nil || st.Size() != RingSize {
		t.Errorf("the ring has %d bytes, want %d: %v", st.Size(), RingSize, err)
	}
	now := start.Add(days * 24 * time.Hour)
	last := ranged(t, s, "shop", now, now.Add(-23*time.Hour), now, Fine)
	if n := minutes(last); len(n) != 23*60 || n[0] != (days*24-23)*60 || n[len(n)-1] != days*24*60-1 {
		t.Errorf("%d minutes of the last day, from %d", len(n), n[0])
	}
	for _, step := range []time.Duration{Coarse, time.Hour, 24 * time.Hour} {
		all := ranged(t, s, "shop", now, start, now, step)
		wide := max(step, 30*time.Minute) // 30 days are 4,320 stretches of ten minutes, and an answer has at most 2,000
		if len(all) > Most || all[len(all)-1].Step > wide {
			t.Errorf("%s: %d points of %s", step, len(all), all[len(all)-1].Step)
		}
		if first := now.Sub(all[0].At); first < 29*24*time.Hour || first > 31*24*time.Hour {
			t.Errorf("%s: begins %s ago", step, first)
		}
		for _, p := range all[1 : len(all)-1] {
			end := int(p.At.Add(p.Step).Sub(start)/Fine) - 1
			if p.MemoryMax != float64(2*end) || p.Ran != p.Step || p.NetIn != 3*p.Step.Minutes() {
				t.Fatalf("%s: the stretch to minute %d is %+v", step, end, p)
			}
			if mean := float64(end) - p.Step.Minutes()/2 + 0.5; math.Abs(p.Memory-mean) > mean/1e5 {
				t.Fatalf("%s: the mean of the stretch to minute %d is %f, want %f", step, end, p.Memory, mean)
			}
		}
	}
}

// The last day, as everybody asks for it, is there to the minute: 24 hours before the
// clock of who asks, which is a moment behind, also in a minute that is not over.
func TestTheLastDayIsThereToTheMinute(t *testing.T) {
	s := open(t, t.TempDir())
	const day = 24 * 60
	run(t, s, "shop", 0, 2*day)
	end := at(2 * day).At
	for _, tt := range []struct {
		now, to time.Time
		long    time.Duration
		step    time.Duration
		want    time.Duration
	}{
		{end, end, 24 * time.Hour, Fine, Fine},
		{end.Add(59 * time.Second), end.Add(59 * time.Second), 24 * time.Hour, Fine, Fine},
		{end.Add(30 * time.Second), end.Add(-90 * time.Second), 24 * time.Hour, Fine, Fine},
		{end, end, 24 * time.Hour, 2 * Fine, 2 * Fine},
		{end, end, 24*time.Hour + late + Fine, Fine, Coarse},
		{end, end, 24 * time.Hour, Coarse, Coarse},
	} {
		got := ranged(t, s, "shop", tt.now, tt.to.Add(-tt.long), tt.to, tt.step)
		if least := int((24*time.Hour-late)/tt.want) - 1; len(got) < least || got[0].Step != tt.want || got[0].At.After(tt.now.Add(-24*time.Hour+2*tt.want)) {
			t.Errorf("%s up to %s before now, in steps of %s: %d points of %s, from %s on", tt.long, tt.now.Sub(tt.to), tt.step, len(got), got[0].Step, got[0].At)
		}
		for i, p := range got[1:] {
			if p.At.Sub(got[i].At) != tt.want {
				t.Errorf("%s follows on %s", p.At, got[i].At)
			}
		}
	}
}

func TestWhatNothingIsKnownOfIsLeftOut(t *testing.T) {
	s := open(t, t.TempDir())
	run(t, s, "shop", 0, 3)
	run(t, s, "shop", 100, 102)
	now := at(102).At
	if got := minutes(ranged(t, s, "shop", now, start, now, Fine)); !slices.Equal(got, []int{0, 1, 2, 100, 101}) {
		t.Errorf("got %v", got)
	}
	// A round later the slots of minutes that nothing was written to are empty.
	run(t, s, "shop", int(fineSlots)+50, int(fineSlots)+52)
	now = at(int(fineSlots) + 60).At
	if got := minutes(ranged(t, s, "shop", now, now.Add(-24*time.Hour+2*Fine), now, Fine)); !slices.Equal(got, []int{100, 101, 1490, 1491}) {
		t.Errorf("a day later: %v", got)
	}
	for name, tt := range map[string]struct {
		id       app.ID
		from, to time.Time
	}{
		"another's":       {"blog", start, now},
		"no id":           {"../shop", start, now},
		"nothing between": {"shop", now, now},
		"backwards":       {"shop", now, start},
		"to come":         {"shop", now.Add(48 * time.Hour), now.Add(72 * time.Hour)},
		"long ago":        {"shop", time.Unix(0, 0), time.Unix(1e6, 0)},
	} {
		if got := ranged(t, s, tt.id, now, tt.from, tt.to, Fine); len(got) != 0 {
			t.Errorf("%s: %d points", name, len(got))
		}
	}
	if got := ranged(t, s, "shop", now, time.Time{}, now.Add(1e6*time.Hour), math.MaxInt64); len(got) == 0 || len(got) > 3 {
		t.Errorf("everything as one: %d points", len(got))
	}
}

// Two halves of one minute, as an upgrade leaves them, are one.
func TestHalvesAreJoined(t *testing.T) {
	dir := t.TempDir()
	half := func(memory, peak float64) app.Point {
		return app.Point{At: start, Ran: 30 * time.Second, Memory: memory, MemoryMax: peak, NetIn: 5, Marks: app.Marks{Starts: 200}}
	}
	s := open(t, dir)
	must(t, s.Append(start, []app.PointOf{{App: "shop", Point: half(10, 90)}}))
	must(t, s.Close())
	s = open(t, dir)
	must(t, s.Append(start.Add(Fine), []app.PointOf{{App: "shop", Point: half(20, 30)}}))
	want := app.Point{At: start, Step: Fine, Ran: Fine, Memory: 15, MemoryMax: 90, NetIn: 10, Marks: app.Marks{Starts: 255}}
	for _, after := range []string{"before", "after"} {
		if got := ranged(t, s, "shop", start, start, start.Add(Fine), Fine); len(got) != 1 || got[0] != want {
			t.Errorf("%s the fold: %+v", after, got)
		}
		must(t, s.Append(start.Add(2*time.Hour), nil))
	}
}

// The first point of an hour after a pause counts once, also after a restart.
func TestAPauseOverTheHour(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run(t, s, "shop", 0, 10)
	run(t, s, "shop", 65, 68)
	for range 3 {
		must(t, s.Close())
		s = open(t, dir)
	}
	for _, p := range ranged(t, s, "shop", at(70).At, start, at(70).At, Fine) {
		if p.Ran != Fine {
			t.Errorf("minute %s ran for %s", p.At.Sub(start), p.Ran)
		}
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run(t, s, "shop", 0, 70)
	run(t, s, "blog", 0, 70)
	must(t, s.Remove("shop"))
	must(t, s.Remove("shop"))
	run(t, s, "shop", 75, 76) // another of this name
	must(t, s.Close())
	s = open(t, dir)
	if got := minutes(ranged(t, s, "shop", at(80).At, start, at(80).At, Fine)); !slices.Equal(got, []int{75}) {
		t.Errorf("the new one has %v", got)
	}
	run(t, s, "lost", 0, 3)
	var lost []string
	must(t, s.Sweep(map[app.ID]bool{"shop": true}, map[app.ID]bool{"lost": true}, func(name string) error {
		lost = append(lost, name)
		return os.Rename(filepath.Join(dir, name), filepath.Join(t.TempDir(), name))
	}))
	if !slices.Equal(lost, []string{"lost"}) {
		t.Errorf("lost are %v", lost)
	}
	if got := ranged(t, s, "blog", at(80).At, start, at(80).At, Fine); len(got) != 0 {
		t.Errorf("%d points of what nobody knows", len(got))
	}
	if _, err := os.Stat(filepath.Join(dir, "blog")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its ring: %v", err)
	}
	if got := minutes(ranged(t, s, "shop", at(80).At, start, at(80).At, Fine)); !slices.Equal(got, []int{75}) {
		t.Errorf("after the sweep: %v", got)
	}
}

// A disk that takes nothing loses nothing as long as it is short, and costs a
// bounded amount of memory.
func TestADiskThatTakesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	run(t, s, "shop", 0, 5)
	whole := s.recent
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	s.recent = full
	for n := 5; n < 10; n++ {
		if err := s.Append(at(n).At, []app.PointOf{{App: "shop", Point: at(n)}}); err == nil || err.Error() != "cannot write the metric history: write: no space left on device" {
			t.Fatalf("minute %d: %v", n, err)
		}
	}
	if got := ranged(t, s, "shop", at(10).At, start, at(10).At, Fine); len(got) != 10 {
		t.Errorf("%d points meanwhile", len(got))
	}
	must(t, full.Close())
	s.recent = whole
	run(t, s, "shop", 10, 11)
	must(t, s.Close())
	s = open(t, dir)
	if got := ranged(t, s, "shop", at(11).At, start, at(11).At, Fine); len(got) != 11 {
		t.Errorf("%d points afterwards", len(got))
	}
	must(t, os.Mkdir(filepath.Join(dir, "blog"), 0o700)) // no ring can be there
	for n := range 60 * 10 {
		_ = s.Append(at(n).At.Add(Fine), []app.PointOf{{App: "blog", Point: at(n)}}) // it fails each hour
	}
	if n := len(s.pending["blog"]); n > mostPending+60 {
		t.Errorf("%d points wait", n)
	}
}

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file); err == nil {
		t.Error("in a file")
	}
}

// What is in recent may be anything, after a power cut: reading it ends, and what
// was read is written the same.
func FuzzRecent(f *testing.F) {
	b := appendRecord(nil, "shop", isPoint, at(1))
	f.Add(appendRecord(b, "shop", isGone, app.Point{}))
	f.Add(b[:len(b)-1])
	more := at(2)
	more.Disk, more.Answers.Took[3] = 7, 5000
	f.Add(appendRecord(b, "shop", isPoint, more))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		whole := parse(b, func(id app.ID, kind byte, p app.Point) { again = appendRecord(again, id, kind, p) })
		if whole > len(b) || !bytes.Equal(again, b[:whole]) && len(again) != whole {
			t.Errorf("%d of %d bytes, written again as %d", whole, len(b), len(again))
		}
	})
}

// BenchmarkMinute is one minute of 200 applications, folds among them.
func BenchmarkMinute(b *testing.B) {
	s := open(b, b.TempDir())
	points := make([]app.PointOf, 200)
	var size int64
	for n := 0; b.Loop(); n++ {
		for i := range points {
			points[i] = app.PointOf{App: app.ID(fmt.Sprintf("17453389%05d", i)), Point: at(n)}
			points[i].Memory = rand.Float64() * 1e8
		}
		if err := s.Append(at(n).At.Add(Fine), points); err != nil {
			b.Fatal(err)
		}
		size = max(size, s.size)
	}
	b.ReportMetric(float64(size), "recent-bytes")
}

func BenchmarkRangeOfADay(b *testing.B) {
	s := open(b, b.TempDir())
	run(b, s, "shop", 0, 24*60)
	for b.Loop() {
		if _, err := s.Range("shop", at(24*60).At, start, at(24*60).At, 5*Fine); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMinuteOfSites is BenchmarkMinute with everything that can be known.
func BenchmarkMinuteOfSites(b *testing.B) {
	s := open(b, b.TempDir())
	points := make([]app.PointOf, 200)
	var size int64
	for n := 0; b.Loop(); n++ {
		for i := range points {
			points[i] = app.PointOf{App: app.ID(fmt.Sprintf("17453389%05d", i)), Point: at(n)}
			points[i].Disk, points[i].Answers = 1<<20, app.Answers{Classes: [5]uint64{1: 50}, Took: [12]uint64{2: 50}}
		}
		if err := s.Append(at(n).At.Add(Fine), points); err != nil {
			b.Fatal(err)
		}
		size = max(size, s.size)
	}
	b.ReportMetric(float64(size), "recent-bytes")
}
