package sandbox

import (
	"errors"
	"testing"
)

// A program may exceed its bounds before its start is through.
func TestExcessBeforeAnybodyAsks(t *testing.T) {
	s, told := &Sockets{}, 0
	c, quiet := s.count(nil, 1, false), s.count(nil, 2, false)
	s.exceeded(1)
	s.exceeded(3) // nobody's any more
	c.OnExcess(func() { told++ })
	quiet.OnExcess(func() { t.Error("the other one was ended") })
	if told != 1 {
		t.Errorf("told %d times of what was before", told)
	}
	s.exceeded(1)
	if told != 2 {
		t.Errorf("told %d times in all", told)
	}
	if err := errors.Join(c.Close(), quiet.Close()); err != nil || len(s.excess) != 0 {
		t.Errorf("%v, %d left", err, len(s.excess))
	}
	s.exceeded(1)
	if told != 2 {
		t.Error("told of one that was given up")
	}
}
