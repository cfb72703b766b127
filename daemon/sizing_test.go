package daemon

import (
	"testing"
	"time"

	"berth/app"
	"berth/host/sizing"
	"berth/host/watch/metrics"
	"berth/test/hosted"
)

// All points of 30 days are there, each once, though one answer of the history has fewer.
func TestPointsOf(t *testing.T) {
	history, err := metrics.Open(t.TempDir())
	hosted.Must(t, err)
	t.Cleanup(func() { hosted.Must(t, history.Close()) })
	now := time.Now()
	for at := now.Add(-sizing.Span).Truncate(time.Hour); at.Before(now.Add(-time.Hour)); at = at.Add(time.Hour) {
		points := []app.PointOf{}
		for i := range 6 {
			points = append(points, app.PointOf{App: "shop", Point: app.Point{At: at.Add(time.Duration(i) * sizing.Step), Ran: time.Minute, MemoryMax: 1 << 20}})
		}
		hosted.Must(t, history.Append(at.Add(time.Hour), points))
	}
	d := &daemon{data: &data{history: history}}
	points, err := d.pointsOf("shop")
	hosted.Must(t, err)
	if n := len(points); n < 4300 || n > 4320 {
		t.Errorf("%d points", n)
	}
	for i, p := range points[1:] {
		if p.At.Sub(points[i].At) != sizing.Step || p.Step != sizing.Step {
			t.Fatalf("%s, of %s, follows on %s", p.At, p.Step, points[i].At)
		}
	}
	if points, err := d.pointsOf("other"); err != nil || len(points) != 0 {
		t.Errorf("of what nobody knows: %d points, %v", len(points), err)
	}
}
