package host

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"berth/app"
)

// A line goes to the run that goes on, of an application that reads lines; all others are told what to
// do.
func TestType(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var typed []string
		w.host.Config.Type = func(_ context.Context, id app.ID, run int, line string) error {
			typed = append(typed, fmt.Sprintf("%s %d %s", id, run, line))
			return nil
		}
		reads, deaf := w.mustUpload("MAIN=a,STDIN=true"), w.mustUpload("MAIN=a")
		page := w.mustUpload("MAIN=a.html,STDIN=true,TYPE=site,ID=page")
		for _, c := range []struct {
			name  string
			owner app.AccountID
			id    app.ID
			line  string
			kind  app.Kind
			says  string
		}{
			{"a line", owner, reads, " say hello ✓ ", 0, ""},
			{"an empty one", owner, reads, "", 0, ""},
			{"the longest", owner, reads, strings.Repeat("x", app.MaxInput), 0, ""},
			{"one that is too long", owner, reads, strings.Repeat("x", app.MaxInput+1), app.Invalid, "at most 4095 bytes, and this one has 4096"},
			{"two", owner, reads, "a\nb", app.Invalid, "one line at a time"},
			{"with a return", owner, reads, "a\r", app.Invalid, "one line at a time"},
			{"with NUL", owner, reads, "a\x00", app.Invalid, "one line at a time"},
			{"to a program that reads none", owner, deaf, "a", app.Unusable, "write STDIN=true into its discloud.config, and deploy that"},
			{"to files", owner, page, "a", app.Unusable, "STDIN=true"},
			{"to another's", owner + 1, reads, "a", app.NotFound, ""},
			{"to none", owner, "nothing", "a", app.NotFound, ""},
		} {
			err := w.host.Type(t.Context(), c.owner, c.id, c.line)
			if c.kind == 0 && err != nil || c.kind != 0 && (app.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if want := fmt.Sprintf("%s 1  say hello ✓ |%s 1 |%s 1 %s", reads, reads, reads, strings.Repeat("x", app.MaxInput)); strings.Join(typed, "|") != want {
			t.Errorf("typed was %q", typed)
		}
		if !w.runs[0].p.Code.Stdin || w.runs[1].p.Code.Stdin {
			t.Error("a program starts with the wrong input")
		}
		if err := w.host.Restart(t.Context(), owner, reads); err != nil {
			t.Error(err)
		}
		if err := w.host.Type(t.Context(), owner, reads, "again"); err != nil {
			t.Error(err)
		}
		if got := typed[len(typed)-1]; got != string(reads)+" 2 again" {
			t.Errorf("after a restart typed was %q", got)
		}
		w.runs[len(w.runs)-1].dead.Store(true)
		if err := w.host.Type(t.Context(), owner, reads, "a"); app.KindOf(err) != app.Conflict || !strings.Contains(err.Error(), "just ended") {
			t.Errorf("to a program whose end is not known yet: %v", err)
		}
		if err := w.host.Stop(t.Context(), owner, reads); err != nil {
			t.Error(err)
		}
		if err := w.host.Type(t.Context(), owner, reads, "a"); app.KindOf(err) != app.Conflict || !strings.Contains(err.Error(), "offline") {
			t.Errorf("to an offline program: %v", err)
		}
	})
}
