package host

import (
	"context"
	"errors"
	"testing"

	"berth/app"
)

// source is a copy of an application somewhere else.
func (w *world) source(file string, variables ...app.Variable) app.Source {
	return func(ctx context.Context) (app.Unpacked, error) {
		up, err := w.Unpack(ctx, file, nil, func(app.Config) error { return nil })
		up.Variables = app.PackedVariables{Found: variables != nil, All: variables}
		return up, err
	}
}

// stagesLeft is how many stages nobody has removed.
func (w *world) stagesLeft() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.stages)
}

// What a source has becomes a new application, with its variables from the first start on; a refusal
// leaves nothing of it.
func TestUploadFrom(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		ana := app.Account{ID: owner, TotalRAM: w.total}
		var env []app.Variable
		launch := w.host.Launch
		w.host.Launch = func(ctx context.Context, p app.Program) (Instance, error) {
			env = p.Variables
			return launch(ctx, p)
		}
		d, err := w.host.UploadFrom(t.Context(), ana, w.source("MAIN=a", app.Variable{Name: "TOKEN", Value: "x"}))
		if err != nil {
			t.Fatal(err)
		}
		if s := w.snapshot(d.ID); !s.Running || len(env) != 1 || env[0].Name != "TOKEN" {
			t.Errorf("%+v with %v", s, env)
		}
		if all, err := w.host.Deploys(t.Context(), owner, d.ID); err != nil || all[0].Kind != app.DeployRestore {
			t.Errorf("%+v, %v", all, err)
		}
		if d, err := w.host.UploadFrom(t.Context(), ana, w.source("MAIN=b")); err != nil || len(env) != 0 {
			t.Errorf("%+v with %v, %v", d, env, err)
		}
		_, err = w.host.UploadFrom(t.Context(), ana, w.source("MAIN=c,RAM=100000"))
		wantKind(t, err, app.Exhausted)
		gone := errors.New("the place is gone")
		if _, err := w.host.UploadFrom(t.Context(), ana, func(context.Context) (app.Unpacked, error) { return app.Unpacked{}, gone }); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
		if n := w.stagesLeft(); n != 0 || len(w.host.Apps(owner)) != 2 {
			t.Errorf("%d stages are left, of %d applications", n, len(w.host.Apps(owner)))
		}
	})
}

// An application gets what a source has, and its variables if they are asked for; if the source fails, it
// runs on as it was.
func TestRestoreFrom(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		then := app.Variable{Name: "TOKEN", Value: "then"}
		for _, with := range []bool{false, true} {
			if _, err := w.host.RestoreFrom(t.Context(), owner, id, w.source("MAIN=b", then), with); err != nil {
				t.Fatal(err)
			}
			vars, err := w.host.Variables(t.Context(), owner, id)
			if err != nil || with != (len(vars) == 1) || w.snapshot(id).Code.Main != "b" {
				t.Errorf("with variables %t: %v of %s, %v", with, vars, w.snapshot(id).Code.Main, err)
			}
		}
		gone := errors.New("the place is gone")
		before := w.launches(id)
		_, err := w.host.RestoreFrom(t.Context(), owner, id, func(context.Context) (app.Unpacked, error) { return app.Unpacked{}, gone }, false)
		if s := w.snapshot(id); !errors.Is(err, gone) || !s.Running || w.launches(id) != before {
			t.Errorf("%+v after %v", s, err)
		}
		if n := w.stagesLeft(); n != 0 {
			t.Errorf("%d stages are left", n)
		}
	})
}
