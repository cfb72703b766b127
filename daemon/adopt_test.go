package daemon

import (
	"testing"

	"berth/app"
	"berth/proc"
	"berth/test/hosted"
)

// Of two programs that a daemon left, exactly the right one goes on, whatever
// the moment in which it died.
func TestRightful(t *testing.T) {
	run := func(n int, journal string) survivor {
		v := survivor{run: n}
		v.Journal = journal
		return v
	}
	const none, older = "-", ""
	for name, c := range map[string]struct {
		all      []survivor
		recorded int
		pending  string // the journal of a commit that is to be undone
		want     int    // 0: none
	}{
		"one":                                   {[]survivor{run(3, none)}, 3, "", 3},
		"started and not recorded":              {[]survivor{run(4, none)}, 3, "", 4},
		"applied, not started":                  {[]survivor{run(3, "one")}, 3, "two", 3},
		"on trial":                              {[]survivor{run(3, none), run(4, "two")}, 3, "two", 3},
		"on trial, the other way round":         {[]survivor{run(4, "two"), run(3, "one")}, 3, "two", 3},
		"on trial, and the old one has ended":   {[]survivor{run(4, "two")}, 3, "two", 0},
		"recorded":                              {[]survivor{run(3, "one"), run(4, "two")}, 4, "", 4},
		"recorded, the other way round":         {[]survivor{run(4, "two"), run(3, "one")}, 4, "", 4},
		"drained but for the record of a start": {[]survivor{run(3, none), run(4, "two"), run(5, none)}, 4, "", 4},
		"after a stop and a start":              {[]survivor{run(4, "two")}, 4, "two", 0},
		"two that nobody recorded":              {[]survivor{run(3, none), run(4, none)}, 0, "", 4},
		"an older berth's, under a commit":      {[]survivor{run(3, older)}, 3, "two", 0},
		"an older berth's":                      {[]survivor{run(3, older)}, 3, "", 3},
		"none":                                  {nil, 3, "", 0},
	} {
		right, ok := rightful(c.all, func(v survivor) int { return v.run }, c.recorded, func(v survivor) bool { return c.pending != "" && v.Of(c.pending) })
		if ok != (c.want != 0) || right.run != c.want {
			t.Errorf("%s: run %d goes on (%t), want %d", name, right.run, ok, c.want)
		}
	}
}

// The journal of a commit that is not recorded condemns what it started, and
// nothing else.
func TestUndone(t *testing.T) {
	h := hosted.New(t)
	s := &survivors{data: &data{db: h.DB, trees: h.Store}}
	undone := func() func(survivor) bool {
		is, err := s.undone(t.Context(), "shop")
		hosted.Must(t, err)
		return is
	}
	if undone()(survivor{Survivor: proc.Survivor{}}) {
		t.Error("without a commit a program is condemned")
	}
	done, err := h.Store.Apply(t.Context(), h.Stage(map[string]string{"main": "2"}), "shop", h.UID)
	hosted.Must(t, err)
	mine, other := survivor{}, survivor{}
	mine.Journal, other.Journal = done.Journal, "another"
	if is := undone(); !is(mine) || is(other) {
		t.Error("before the record the wrong program is condemned")
	}
	_, err = h.DB.History.AddDeploy(t.Context(), "shop", app.Deploy{Kind: app.DeployCommit, Code: app.Code{Main: "a"}, Journal: done.Journal, Run: 2}, nil, nil, nil, func(all []app.Deploy) []app.Deploy { return all })
	hosted.Must(t, err)
	if is := undone(); is(mine) || is(other) {
		t.Error("after the record a program is condemned")
	}
	hosted.Must(t, h.DB.Close())
	if is, err := s.undone(t.Context(), "shop"); err == nil || is != nil {
		t.Error("without records programs are judged")
	}
}
