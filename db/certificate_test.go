package db

import (
	"maps"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"berth/app"
)

func TestCertificates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db, ctx := openAt(t, path, time.Now), t.Context()
	at := time.UnixMilli(1_795_000_000_123).UTC()
	one := app.Certificate{
		Name: "shop.example.org", Chain: []byte("chain"), Key: []byte("key"), Begins: at, Expires: at.Add(90 * 24 * time.Hour),
		Ordered: at.Add(time.Second), Next: at.Add(time.Minute), Failures: 2, Problem: "refused",
	}
	none := app.Certificate{Name: "blog.example.org", Chain: []byte{}, Key: []byte{}}
	for _, c := range []app.Certificate{one, none, one} {
		must(t, db.Certificates.SaveCertificate(ctx, "ca", c))
	}
	must(t, db.Certificates.SaveCertificate(ctx, "another", none))
	must(t, db.Close())
	db = openAt(t, path, time.Now)
	got, err := db.Certificates.Certificates(ctx, "ca")
	must(t, err)
	if want := []app.Certificate{none, one}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	must(t, db.Certificates.SaveCertificate(ctx, "ca", app.Certificate{Name: one.Name}))
	must(t, db.Certificates.DropCertificate(ctx, "ca", none.Name))
	must(t, db.Certificates.DropCertificate(ctx, "ca", "nobodys.example.org"))
	got, err = db.Certificates.Certificates(ctx, "ca")
	must(t, err)
	if len(got) != 1 || got[0].Name != one.Name || len(got[0].Chain) > 0 || got[0].Failures > 0 {
		t.Errorf("after a change: %+v", got)
	}
	if got, err = db.Certificates.Certificates(ctx, "another"); err != nil || len(got) != 1 {
		t.Errorf("those of another authority: %+v, %v", got, err)
	}
}

func TestACMEKey(t *testing.T) {
	db, _ := openTemp(t)
	for i, tt := range []struct{ ca, made, want string }{{"one", "a", "a"}, {"one", "b", "a"}, {"two", "c", "c"}} {
		if got, err := db.Certificates.ACMEKey(t.Context(), tt.ca, []byte(tt.made)); err != nil || string(got) != tt.want {
			t.Errorf("%d: got %q, %v; want %q", i, got, err, tt.want)
		}
	}
}

func TestSites(t *testing.T) {
	db, _ := openTemp(t)
	owner := mustAccount(t, db, "ana", 1000).ID
	mustSite(t, db, owner, "shop")
	mustSite(t, db, owner, "gone")
	mustApp(t, db, owner, "1745338954955", 10) // a bot
	must(t, db.Apps.DeleteApp(t.Context(), "gone"))
	got, err := db.Names.Sites(t.Context())
	if want := (map[app.ID]app.AccountID{"shop": owner}); err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}
