package host

import (
	"strings"
	"testing"

	"berth/app"
)

// What has lost its files is brought back by a commit that says what it is, and by a
// restore; not by files that something else is missing for.
func TestFilesThatAreGone(t *testing.T) {
	for _, empty := range []bool{false, true} {
		for _, online := range []bool{false, true} {
			play(t, func(t *testing.T, w *world) {
				w.set(by(nil))
				id := w.mustUpload("MAIN=a,BUILD=make")
				if _, err := w.commit(id, "MAIN=b"); err != nil {
					t.Fatal(err)
				}
				if !online {
					if err := w.host.Stop(t.Context(), owner, id); err != nil {
						t.Fatal(err)
					}
				}
				lose := func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					if delete(w.trees, id); empty {
						w.trees[id] = ""
					}
				}
				lose()
				_, err := w.commit(id, "")
				wantKind(t, err, app.Unusable)
				if err == nil || !strings.Contains(err.Error(), "the application's files are gone: commit the whole code with its discloud.config") || w.trees[id] != "" {
					t.Errorf("a commit without a config: %v, tree %q", err, w.trees[id])
				}
				w.when("Prepare", func() {
					if w.prepared != "" {
						t.Errorf("packages that are gone are taken for %q", w.prepared)
					}
				})
				_, err = w.commit(id, "MAIN=missing")
				wantKind(t, err, app.Unusable)
				d, err := w.commit(id, "MAIN=c,BUILD=make")
				if err != nil || !d.Running || w.trees[id] != "c" {
					t.Fatalf("a commit with a config: %+v, %v, tree %q", d, err, w.trees[id])
				}
				w.when("Prepare", nil)
				_, err = w.host.Rollback(t.Context(), owner, id, 0)
				wantKind(t, err, app.Unusable)
				for _, d := range w.history[id] {
					if d.Journal != "" {
						t.Errorf("deploy %d leads back to what is gone", d.Number)
					}
				}
				if _, err := w.commit(id, "MAIN=d"); err != nil {
					t.Fatal(err)
				}
				if d, err := w.host.Rollback(t.Context(), owner, id, 0); err != nil || d.Code.Main != "c" {
					t.Errorf("a rollback to the commit that brought them anew: %+v, %v", d, err)
				}
				lose()
				if d, err := w.host.Restore(t.Context(), owner, id, "MAIN=e", false); err != nil || !d.Running || w.trees[id] != "e" {
					t.Errorf("a restore: %+v, %v, tree %q", d, err, w.trees[id])
				}
			})
		}
	}
}
