package proc

import (
	"strings"
	"testing"
	"time"
)

// What could run is busy, be it a thread or a process beside the first; what sleeps
// is not.
func TestKernelBusy(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		script string
		busy   bool
	}{
		"sleeps":                 {"exec sleep 1000", false},
		"many that sleep":        {"for n in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait", false},
		"runs":                   {"while :; do :; done", true},
		"runs beside the first":  {"(while :; do :; done) & wait", true},
		"its name is a nuisance": {`cp "$(command -v sleep)" "./a) R (" && exec "./a) R (" 1000`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.launch(t, b.spec(t, c.script))
			poll(t, "it does what it does", func() bool { return r.Busy() == c.busy })
			for range 5 {
				if busy := r.Busy(); busy && !c.busy {
					poll(t, "it sleeps after all", func() bool { return !r.Busy() })
				} else if !busy && c.busy {
					t.Error("it looks idle")
				}
			}
			if r.Ended() {
				t.Error("it has ended")
			}
			r.Stop(0)
			r.Wait()
			if r.Busy() || !r.Ended() {
				t.Errorf("at the end it is busy: %t, has ended: %t", r.Busy(), r.Ended())
			}
		})
	}
}

// A program has ended when its process has, however long it takes until what it
// left running has ended too and the end is told.
func TestKernelEndedBeforeItIsTold(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, "(trap '' TERM; echo ready; exec sleep 1000) & wait")
	r := b.launch(t, s)
	poll(t, "its helper is ready", func() bool { return strings.Contains(output(t, s), "ready") })
	if r.Ended() {
		t.Error("it has ended before it was asked to")
	}
	r.Stop(time.Minute)
	poll(t, "it has ended", r.Ended)
	select {
	case <-r.done:
		t.Error("its end is told while its helper runs")
	default:
	}
	r.Stop(0)
	if r.Wait(); !r.Ended() {
		t.Error("it runs again")
	}
}
