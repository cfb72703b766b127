package host

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

func (w *world) Variables(_ context.Context, id app.ID) ([]app.Variable, error) {
	if err := w.failing("Variables"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.apps[id] == nil {
		return nil, noApp(id)
	}
	var all []app.Variable
	for _, name := range slices.Sorted(maps.Keys(w.env[id])) {
		all = append(all, app.Variable{Name: name, Value: w.env[id][name]})
	}
	return all, nil
}

func (w *world) ChangeVariables(_ context.Context, id app.ID, change func(map[string]string) error) error {
	if err := w.failing("ChangeVariables"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.apps[id] == nil {
		return noApp(id)
	}
	set := map[string]string{}
	maps.Copy(set, w.env[id])
	if err := change(set); err != nil {
		return err
	}
	w.env[id] = set
	return nil
}

func (w *world) SetApts(_ context.Context, id app.ID, apts []string) error {
	if err := w.failing("SetApts"); err != nil {
		return err
	}
	return w.change(id, func(a *app.App) { a.Apts = apts })
}

// wish knows names without a "!" and a host that lacks everything.
func wish(list []string) (app.Wishes, error) {
	if len(list) == 0 || strings.Contains(strings.Join(list, ""), "!") {
		return app.Wishes{}, app.Errorf(app.Invalid, "no list")
	}
	names := slices.Compact(slices.Sorted(slices.Values(list)))
	return app.Wishes{Names: names, Lacking: names}, nil
}

// given are the variables that the programs of an application got, run by run.
func (w *world) given(id app.ID, build bool) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.p.App != id || r.p.Build != build {
			continue
		}
		var set []string
		for _, v := range r.p.Variables {
			set = append(set, v.Name+"="+v.Value)
		}
		all = append(all, strings.Join(set, " "))
	}
	return all
}

func (w *world) wantGiven(id app.ID, build bool, want ...string) {
	w.t.Helper()
	if got := w.given(id, build); !slices.Equal(got, want) {
		w.t.Errorf("build %v: the programs got %q, want %q", build, got, want)
	}
}

func TestVariablesFromTheNextStart(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Second}))
		id := w.mustUpload("MAIN=a,BUILD=make")
		w.wantGiven(id, false, "")
		w.wantGiven(id, true, "") // there is no application yet that could have any
		err := w.host.SetVariables(t.Context(), owner, id, map[string]*string{"A": text("1"), "NODE_ENV": text("test")})
		if err != nil {
			t.Fatal(err)
		}
		w.wantGiven(id, false, "")
		if err := w.host.Restart(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		w.wantGiven(id, false, "", "A=1 NODE_ENV=test")
		// A command of the owner of the host changes them beside the daemon.
		w.mu.Lock()
		w.env[id]["B"] = "2"
		w.mu.Unlock()
		if _, err := w.commit(id, "MAIN=b,BUILD=make"); err != nil {
			t.Fatal(err)
		}
		w.wantGiven(id, false, "", "A=1 NODE_ENV=test", "A=1 B=2 NODE_ENV=test")
		w.wantGiven(id, true, "", "A=1 B=2") // no NODE_ENV, whoever sets it
		if err := w.host.RemoveVariable(t.Context(), owner, id, "A"); err != nil {
			t.Fatal(err)
		}
		got, err := w.host.Variables(t.Context(), owner, id)
		if want := []app.Variable{{Name: "B", Value: "2"}, {Name: "NODE_ENV", Value: "test"}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	})
}

func TestRefusedChangesOfTheEnvironment(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		h, ctx := w.host, t.Context()
		set := map[string]*string{"A": text("1")}
		for name, try := range map[string]func(owner app.AccountID, id app.ID) error{
			"list":   func(o app.AccountID, id app.ID) error { _, err := h.Variables(ctx, o, id); return err },
			"set":    func(o app.AccountID, id app.ID) error { return h.SetVariables(ctx, o, id, set) },
			"remove": func(o app.AccountID, id app.ID) error { return h.RemoveVariable(ctx, o, id, "A") },
			"add":    func(o app.AccountID, id app.ID) error { _, err := h.AddApts(ctx, o, id, []string{"x"}); return err },
			"drop":   func(o app.AccountID, id app.ID) error { _, err := h.DropApts(ctx, o, id, []string{"x"}); return err },
		} {
			for _, err := range []error{try(2, id), try(owner, "nobody")} {
				if app.KindOf(err) != app.NotFound {
					t.Errorf("%s of another account's application: %v", name, err)
				}
			}
		}
		wantKind(t, h.SetVariables(ctx, owner, id, map[string]*string{"PORT": text("1")}), app.Invalid)
		wantKind(t, h.RemoveVariable(ctx, owner, id, "A"), app.NotFound)
		_, err := h.AddApts(ctx, owner, id, []string{"!"})
		wantKind(t, err, app.Invalid)
		_, err = h.DropApts(ctx, owner, id, nil)
		wantKind(t, err, app.Invalid)
		if len(w.env[id]) > 0 || len(w.recorded(id).Apts) > 0 {
			t.Errorf("refused and stored: %v, %v", w.env[id], w.recorded(id).Apts)
		}

		// During the first deployment there is nothing they could belong to.
		w.set(build(behaviour{}))
		done := w.uploading(owner, "MAIN=b,BUILD=make")
		young := w.host.Apps(owner)[1].ID
		wantKind(t, h.SetVariables(ctx, owner, young, set), app.Conflict)
		_, err = h.Variables(ctx, owner, young)
		wantKind(t, err, app.Conflict)
		_, err = h.AddApts(ctx, owner, young, []string{"x"})
		wantKind(t, err, app.Conflict)
		if err := h.Stop(ctx, owner, young); err != nil {
			t.Fatal(err)
		}
		<-done
	})
}

// A program is not started without the secrets it needs: an automatic start is
// tried again.
func TestVariablesThatCannotBeRead(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		w.breaks("Variables", errTest)
		if _, err := w.host.Start(t.Context(), owner, id); !errors.Is(err, errTest) {
			t.Errorf("Start() = %v", err)
		}
		if _, err := w.host.Variables(t.Context(), owner, id); !errors.Is(err, errTest) {
			t.Errorf("Variables() = %v", err)
		}
		if _, err := w.commit(id, "MAIN=b,BUILD=make"); !errors.Is(err, errTest) {
			t.Errorf("commit: %v", err)
		}
		if n := w.launches(id); n != 1 {
			t.Errorf("%d programs were started, want the first alone", n)
		}
		w.mends("Variables")
		if _, err := w.host.Start(t.Context(), owner, id); err != nil { // its RAM was given back
			t.Error(err)
		}
	})
}

func TestApts(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		h, ctx := w.host, t.Context()
		id := w.mustUpload("MAIN=a,APT=ffmpeg tools")
		want := func(names ...string) {
			t.Helper()
			if got, stored := w.snapshot(id).Apts, w.recorded(id).Apts; !slices.Equal(got, names) || !slices.Equal(stored, names) {
				t.Errorf("it asks for %q, stored is %q, want %q", got, stored, names)
			}
		}
		want("ffmpeg", "tools")
		got, err := h.AddApts(ctx, owner, id, []string{"zip", "tools"})
		if err != nil || !slices.Equal(got.Names, []string{"tools", "zip"}) || !slices.Equal(got.Lacking, got.Names) {
			t.Errorf("AddApts() = %+v, %v", got, err)
		}
		want("ffmpeg", "tools", "zip")
		before := w.snapshot(id).Apts
		names, err := h.DropApts(ctx, owner, id, []string{"tools", "other"})
		if err != nil || !slices.Equal(names, []string{"other", "tools"}) {
			t.Errorf("DropApts() = %v, %v", names, err)
		}
		want("ffmpeg", "zip")
		if !slices.Equal(before, []string{"ffmpeg", "tools", "zip"}) {
			t.Errorf("an older snapshot changed to %q", before)
		}
		_, err = h.DropApts(ctx, owner, id, []string{"tools"})
		wantKind(t, err, app.Already)

		// A commit replaces the list if its config has one.
		commit := func(file string) error {
			_, err := w.commit(id, file)
			return err
		}
		if err := errors.Join(commit("MAIN=b"), commit("MAIN=b,APT=git")); err != nil {
			t.Fatal(err)
		}
		want("git")
		w.set(exits(1, 0))
		wantKind(t, commit("MAIN=b,APT=java"), app.Unusable)
		want("git")
		w.set(func(app.Program) behaviour { return behaviour{} })
		w.breaks("SetApts", errTest)
		if err := commit("MAIN=c,APT=java"); err != nil { // a wish fails no commit
			t.Error(err)
		}
		if _, err := h.AddApts(ctx, owner, id, []string{"x"}); !errors.Is(err, errTest) {
			t.Errorf("a wish that is not stored: %v", err)
		}
		w.mends("SetApts")
		want("git")
		if err := commit("MAIN=c,APT="); err != nil {
			t.Fatal(err)
		}
		want()
	})
}
