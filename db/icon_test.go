package db

import (
	"testing"

	"berth/app"
)

// An uploaded icon goes before one that the code brings, and all of them go with their application.
func TestIcons(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	ana := mustAccount(t, db, "ana", 1024)
	mustApp(t, db, ana.ID, "bot", 100)
	set := func(sum string, brought bool) {
		t.Helper()
		must(t, db.Icons.SetIcon(ctx, "bot", app.Icon{Sum: sum, Brought: brought, PNG: []byte(sum)}))
	}
	want := func(sum string) {
		t.Helper()
		i, err := db.Icons.Icon(ctx, "bot")
		all, failed := db.Icons.IconSums(ctx)
		must(t, failed)
		if i.Sum != sum || string(i.PNG) != sum || all["bot"] != sum || sum == "" && app.KindOf(err) != app.NotFound {
			t.Errorf("got %+v, %v, %v; want %q", i, err, all, sum)
		}
	}
	want("")
	if err := db.Icons.SetIcon(ctx, "none", app.Icon{Sum: "a"}); app.KindOf(err) != app.Conflict {
		t.Errorf("for no application: %v", err)
	}
	set("brought", true)
	want("brought")
	set("again", true)
	want("again")
	set("uploaded", false)
	want("uploaded")
	set("brought", true)
	must(t, db.Icons.DropIcon(ctx, "bot", true))
	want("uploaded")
	must(t, db.Icons.DropIcon(ctx, "bot", false))
	want("")
	set("brought", true)
	must(t, db.Icons.DropIcon(ctx, "bot", true))
	want("")
	set("last", false)
	must(t, db.write(ctx, "delete", func(t tx) error { return t.exec("DELETE FROM app WHERE id = 'bot'") }))
	want("")
}
