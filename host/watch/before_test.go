package watch

import (
	"testing"

	"berth/app"
)

// A stream can begin with what was printed before it, so that nothing is missed
// between a look at the log and the stream.
func TestLinesFromBefore(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.log("shop", false).print("one\ntwo\n")
		for back, want := range map[int]string{0: "three\n", 4: "two\nthree\n", 100: "one\ntwo\nthree\n"} {
			w.log("shop", false).printed = "one\ntwo\n"
			s := w.watch(app.Watch{Account: ana, App: "shop", Kinds: app.LogEvent, Tail: back})
			w.log("shop", false).print("three\n")
			events := told(t, s)
			if len(events) != 1 || events[0].Lines.Text != want {
				t.Errorf("with %d bytes from before: %s, want %q", back, describe(events), want)
			}
			s.Close()
		}
	})
}
