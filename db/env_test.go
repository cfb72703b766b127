package db

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"berth/app"
)

// setVariables stores these beside what is there.
func setVariables(t *testing.T, db *DB, id app.ID, more map[string]string) {
	t.Helper()
	must(t, db.Apps.ChangeVariables(t.Context(), id, func(set map[string]string) error {
		maps.Copy(set, more)
		return nil
	}))
}

func wantVariables(t *testing.T, db *DB, id app.ID, want ...app.Variable) {
	t.Helper()
	got, err := db.Apps.Variables(t.Context(), id)
	must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%s has %v, want %v", id, got, want)
	}
}

func TestVariables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	owner := mustAccount(t, db, "ana", 512).ID
	mustApp(t, db, owner, "shop", 100)
	mustApp(t, db, owner, "bot", 100)
	wantVariables(t, db, "shop")

	setVariables(t, db, "shop", map[string]string{"B": "2", "A": "", "Z": "line\nline \U0001F511 'quoted'"})
	setVariables(t, db, "bot", map[string]string{"A": "the bot's"})
	must(t, db.Apps.ChangeVariables(t.Context(), "shop", func(set map[string]string) error {
		if len(set) != 3 || set["B"] != "2" {
			t.Errorf("the change sees %v", set)
		}
		delete(set, "B")
		set["C"], set["A"] = "3", "1"
		return nil
	}))
	must(t, setCode(db, "shop", app.Code{Main: "new.js"}, true)) // a commit keeps them
	must(t, db.Close())

	db = openAt(t, path, time.Now)
	want := []app.Variable{{Name: "A", Value: "1"}, {Name: "C", Value: "3"}, {Name: "Z", Value: "line\nline \U0001F511 'quoted'"}}
	wantVariables(t, db, "shop", want...)
	wantVariables(t, db, "bot", app.Variable{Name: "A", Value: "the bot's"})

	boom := app.Errorf(app.Exhausted, "too many")
	err := db.Apps.ChangeVariables(t.Context(), "shop", func(set map[string]string) error {
		clear(set)
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want the change's own error", err)
	}
	wantVariables(t, db, "shop", want...)

	// Those of a deleted application are gone, also for the next of its name.
	must(t, db.Apps.DeleteApp(t.Context(), "shop"))
	_, err = db.Apps.Variables(t.Context(), "shop")
	wantKind(t, "variables of a deleted application", err, app.NotFound)
	err = db.Apps.ChangeVariables(t.Context(), "shop", func(map[string]string) error { return nil })
	wantKind(t, "a change of a deleted application", err, app.NotFound)
	must(t, db.Places(pool).Release(t.Context(), "shop"))
	mustApp(t, db, owner, "shop", 100)
	wantVariables(t, db, "shop")
	wantVariables(t, db, "bot", app.Variable{Name: "A", Value: "the bot's"})
}

// What was removed does not stay in the file.
func TestRemovedVariablesAreOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	owner := mustAccount(t, db, "ana", 512).ID
	secrets := map[app.ID]string{"removed": "one-secret-", "deleted": "two-secret-", "replaced": "three-secret-"}
	for id, text := range secrets {
		mustApp(t, db, owner, id, 10)
		setVariables(t, db, id, map[string]string{"SHORT": text, "LONG": strings.Repeat(text, 1000)})
	}
	must(t, db.Apps.ChangeVariables(t.Context(), "removed", func(set map[string]string) error {
		clear(set)
		return nil
	}))
	must(t, db.Apps.DeleteApp(t.Context(), "deleted"))
	setVariables(t, db, "replaced", map[string]string{"SHORT": "", "LONG": "still-here"})
	must(t, db.Close())
	text, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Contains(text, []byte("still-here")) {
		t.Error("the file does not hold what it should")
	}
	for id, secret := range secrets {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("the file still holds the variables of %s", id)
		}
	}
}

// Changes of two processes, as the daemon and a command are, do not lose each
// other.
func TestConcurrentChangesOfVariables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	first := openAt(t, path, time.Now)
	second := openAt(t, path, time.Now)
	mustApp(t, first, mustAccount(t, first, "ana", 512).ID, "shop", 100)
	var wg sync.WaitGroup
	for i := range 20 {
		db := []*DB{first, second}[i%2]
		wg.Go(func() {
			err := db.Apps.ChangeVariables(t.Context(), "shop", func(set map[string]string) error {
				set["N"] += "x"
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantVariables(t, second, "shop", app.Variable{Name: "N", Value: strings.Repeat("x", 20)})
}

func TestSetApts(t *testing.T) {
	db, _ := openTemp(t)
	mustApp(t, db, mustAccount(t, db, "ana", 512).ID, "shop", 100)
	for _, want := range [][]string{{"ffmpeg"}, {"ffmpeg", "libstdc++6", "tools"}, nil} {
		must(t, db.Apps.SetApts(t.Context(), "shop", want))
		if got := oneApp(t, db, "shop").Apts; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	wantKind(t, "of no application", db.Apps.SetApts(t.Context(), "nobody", nil), app.NotFound)
}

func TestVariablesNeedTheirApplication(t *testing.T) {
	db, _ := openTemp(t)
	err := db.write(t.Context(), "test", func(t tx) error {
		return t.exec("INSERT INTO env (app, name, value) VALUES ('nobody', 'A', '1')")
	})
	if !isCode(err, sqlite3.ErrConstraint) {
		t.Errorf("a variable of no application: got %v, want a constraint error", err)
	}
}
