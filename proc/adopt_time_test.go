package proc

import (
	"os"
	"testing"
	"time"
)

// How long a program runs is known without the clock on the wall.
func TestBornAt(t *testing.T) {
	began := time.Now()
	s, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if born := bornAt(s.birth); born.After(began) || began.Sub(born) > time.Hour {
		t.Errorf("this process was born at %v, and it is %v", born, began)
	}
	if born := bornAt(1 << 38); time.Since(born) < 0 || time.Since(born) > time.Minute {
		t.Errorf("what is born later is as old as %v", time.Since(born))
	}
}
