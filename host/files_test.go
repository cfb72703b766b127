package host

import (
	"testing"

	"berth/app"
)

func TestWriteFile(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(w.host.WriteFile(t.Context(), owner, id, "a/b", []byte("x"), app.OverAny))
		if w.written["a/b"] != "x" {
			t.Errorf("written: %v", w.written)
		}
		wantKind(t, w.host.WriteFile(t.Context(), owner+1, id, "a/b", []byte("y"), app.OverAny), app.NotFound)
		w.host.disk.most = 1
		wantKind(t, w.host.WriteFile(t.Context(), owner, id, "a/b", make([]byte, 1<<20+1), app.OverAny), app.NoSpace)
		must(w.host.WriteFile(t.Context(), owner, id, "a/b", make([]byte, 600<<10), app.OverAny))
		wantKind(t, w.host.WriteFile(t.Context(), owner, id, "a/c", make([]byte, 600<<10), app.OverAny), app.NoSpace)
		w.breaks("WriteFile", errTest)
		wantKind(t, w.host.WriteFile(t.Context(), owner, id, "a/b", nil, app.OverAny), app.Internal)
	})
}

func TestFileEdits(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		ctx := t.Context()
		for what, do := range map[string]func(owner app.AccountID) error{
			"MakeDir": func(owner app.AccountID) error { return w.host.MakeDir(ctx, owner, id, "d") },
			"Move":    func(owner app.AccountID) error { return w.host.MoveFile(ctx, owner, id, "a", "b") },
			"Delete":  func(owner app.AccountID) error { return w.host.DeleteFiles(ctx, owner, id, []string{"x", "y"}) },
		} {
			wantKind(t, do(owner+1), app.NotFound)
			if err := do(owner); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			w.breaks(what, errTest)
			wantKind(t, do(owner), app.Internal)
		}
		if got := w.written; got["d"] != "dir" || got["b"] != "a" || got["x"] != "finished" || got["y"] != "finished" {
			t.Errorf("done: %v", got)
		}
		wantKind(t, w.host.DeleteFiles(ctx, owner, id, make([]string, maxDeletes+1)), app.Invalid)
	})
}

func TestSetAutoRestart(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		for _, on := range []bool{true, false, true} {
			if err := w.host.SetAutoRestart(t.Context(), owner, id, on); err != nil || w.snapshot(id).AutoRestart != on {
				t.Errorf("%v: %v", on, err)
			}
		}
		w.breaks("SetAutoRestart", errTest)
		wantKind(t, w.host.SetAutoRestart(t.Context(), owner, id, false), app.Internal)
		wantKind(t, w.host.SetAutoRestart(t.Context(), owner+1, id, false), app.NotFound)
		if !w.snapshot(id).AutoRestart {
			t.Error("a failed change is shown")
		}
	})
}

func TestUnzip(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		ctx := t.Context()
		free := func() {
			t.Helper()
			if !w.host.unpacks.TryAcquire(2) {
				t.Error("a ZIP that is unpacked still keeps others out")
				return
			}
			w.host.unpacks.Release(2)
		}
		w.on["Lay"] = free // which waits for the application
		defer free()
		if done, err := w.host.Unzip(ctx, owner, id, "d", "file", false); err != nil || done.Taken != 1 || w.written["d"] != "" {
			t.Errorf("without replacing: %+v, %v", done, err)
		}
		if done, err := w.host.Unzip(ctx, owner, id, "d", "file", true); err != nil || done.Files != 1 || w.written["d"] != "unzipped" {
			t.Errorf("replacing: %+v, %v", done, err)
		}
		_, err := w.host.Unzip(ctx, owner+1, id, "d", "file", true)
		wantKind(t, err, app.NotFound)
		w.host.disk.most = 1
		_, err = w.host.Unzip(ctx, owner, id, "d", "file", true) // 600 KB beside 600 KB
		wantKind(t, err, app.NoSpace)
		for _, what := range []string{"Lay", "Unzip"} {
			w.host.disk.most = 100
			w.breaks(what, errTest)
			_, err = w.host.Unzip(ctx, owner, id, "d", "file", true)
			wantKind(t, err, app.Internal)
		}
	})
}
