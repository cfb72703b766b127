package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// told collects the progress of one deployment, as "queued 2".
type told struct{ phases []string }

func (p *told) context(t *testing.T) context.Context {
	names := map[app.Phase]string{app.Checked: "checked", app.Queued: "queued", app.Building: "building", app.Launching: "launching"}
	return app.WithProgress(t.Context(), func(told app.Progress) {
		if told.App == "" {
			t.Errorf("%+v names no application", told)
		}
		text := names[told.Phase]
		if told.Position > 0 {
			text += fmt.Sprint(" ", told.Position)
		}
		p.phases = append(p.phases, text)
	})
}

func (p *told) want(t *testing.T, what string, phases ...string) {
	t.Helper()
	if !slices.Equal(p.phases, phases) {
		t.Errorf("%s told %v, want %v", what, p.phases, phases)
	}
}

func TestDeploymentsTellTheirProgress(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(p app.Program) behaviour {
			if p.Build {
				return behaviour{exit: &app.Exit{}, life: time.Minute}
			}
			return behaviour{}
		})
		var plain, built, changed, refused told
		d, err := w.host.Upload(plain.context(t), app.Account{ID: owner, TotalRAM: 1000}, "MAIN=a")
		if err != nil {
			t.Fatal(err)
		}
		plain.want(t, "an upload without a build", "checked", "launching")
		if _, err := w.host.Commit(changed.context(t), owner, d.ID, "MAIN=b,BUILD=make", false); err != nil {
			t.Fatal(err)
		}
		changed.want(t, "a commit", "checked", "building", "launching")

		first := make(chan error, 1)
		go func() {
			_, err := w.upload("MAIN=c,BUILD=make")
			first <- err
		}()
		time.Sleep(time.Second) // of the bubble: its build runs
		if _, err := w.host.Upload(built.context(t), app.Account{ID: owner, TotalRAM: 1000}, "MAIN=d,BUILD=make"); err != nil {
			t.Fatal(err)
		}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		built.want(t, "an upload that waits for its build", "checked", "queued 1", "building", "launching")

		if _, err := w.host.Upload(refused.context(t), app.Account{ID: owner, TotalRAM: 1000}, "bad"); err == nil || !strings.Contains(err.Error(), "ZIP") {
			t.Error(err)
		}
		refused.want(t, "a file that is no ZIP")
	})
}
