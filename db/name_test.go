package db

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"testing"
	"testing/fstest"
	"time"

	"berth/app"
)

// nameless is the schema before there were names.
func nameless(t *testing.T) fs.FS {
	t.Helper()
	steps := fstest.MapFS{}
	for _, name := range []string{"0001.sql", "0002.sql", "0003.sql", "0004.sql"} {
		text, err := fs.ReadFile(migrations(), name)
		must(t, err)
		steps[name] = &fstest.MapFile{Data: text}
	}
	return steps
}

// The sites that were there before names were kept have theirs.
func TestSubdomainsOfTheFourthSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	must(t, migrate(t.Context(), pool, nameless(t), nokeep))
	_, err = pool.ExecContext(t.Context(), `
		INSERT INTO account (id, name, total_ram, plan, locale, disabled, created_at) VALUES (1, 'ana', 1024, 'Diamond', 'en-US', 0, 5);
		INSERT INTO place (id, account, ram, uid, port) VALUES ('shop', 1, 200, 70001, 20001), ('1745338954955', 1, 200, 70002, 20002);
		INSERT INTO app (id, name, avatar_url, type, wanted, created_at, main, lang, version, start_command, build_command, auto_restart, last_run, started_at)
			VALUES ('shop', '', '', 1, 'online', 7, '', '', '', '', '', 1, 3, 9), ('1745338954955', '', '', 0, 'online', 8, '', '', '', '', '', 1, 3, 9);`)
	must(t, errors.Join(err, pool.Close()))
	db := openAt(t, path, time.Now)
	names, err := db.Names.Names(t.Context(), 1)
	want := []app.Subdomain{{ID: "shop", Account: 1, Used: true, CreatedAt: time.UnixMilli(7).UTC()}}
	if err != nil || !reflect.DeepEqual(names.Subdomains, want) {
		t.Errorf("got %+v, %v; want %+v", names.Subdomains, err, want)
	}
	must(t, errors.Join(db.Apps.DeleteApp(t.Context(), "shop"), db.Allocations(IDRange{}).Release(t.Context(), "shop")))
	_, err = db.Names.Subdomain(t.Context(), "shop")
	wantKind(t, "after the site", err, app.NotFound)
}

func anySite(app.Type, int, []app.Domain) error { return nil }

func mustSite(t *testing.T, db *DB, owner app.AccountID, id app.ID) {
	t.Helper()
	a, err := db.Allocations(pool).Reserve(t.Context(), app.App{ID: id, Account: owner, RAM: 1, Type: app.Site, Wanted: app.WantOnline}, anything)
	must(t, err)
	_, err = db.Apps.CreateApp(t.Context(), a, first(a))
	must(t, err)
}

// A crash during a first deployment leaves no name behind.
func TestSubdomainsOfReservations(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	_, err := db.Names.ReserveSubdomain(ctx, owner, "kept", func(int) error { return nil })
	must(t, err)
	for _, id := range []app.ID{"shop", "kept"} {
		_, err := db.Allocations(pool).Reserve(ctx, app.App{ID: id, Account: owner, RAM: 1, Type: app.Site}, anything)
		must(t, err)
	}
	if names, err := db.Names.Names(ctx, owner); err != nil || len(names.Subdomains) != 2 || !names.Subdomains[1].Used {
		t.Errorf("while it is deployed: %+v, %v", names, err)
	}
	_, err = db.Allocations(pool).DropReservations(ctx)
	must(t, err)
	names, err := db.Names.Names(ctx, owner)
	if err != nil || len(names.Subdomains) != 1 || names.Subdomains[0].ID != "kept" || names.Subdomains[0].Used {
		t.Errorf("after a crash: %+v, %v", names, err)
	}
}

func TestDomainAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	clock := newClock()
	db := openAt(t, path, clock.now)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	mustSite(t, db, owner, "shop")
	claim := app.Domain{Name: "a.example", Account: owner, App: "shop", Status: app.DomainUnverified, Proof: "berth=0123456789012345"}
	d, err := db.Names.AddDomain(ctx, claim, func(typ app.Type, held int, claims []app.Domain) error {
		if typ != app.Site || held != 0 || len(claims) != 0 {
			t.Errorf("asked with %d, %d and %v", typ, held, claims)
		}
		return nil
	})
	must(t, err)
	d, err = db.Names.ProveDomain(ctx, d, app.DomainVerified, clock.now().Add(time.Minute))
	must(t, err)
	must(t, db.Close())

	db = openAt(t, path, clock.now)
	want := claim
	want.Status, want.CreatedAt = app.DomainVerified, clock.now().Truncate(time.Millisecond)
	want.CheckedAt = want.CreatedAt.Add(time.Minute)
	all, err := db.Names.Claims(ctx, "a.example")
	if err != nil || !reflect.DeepEqual(all, []app.Domain{want}) || !reflect.DeepEqual(d, want) {
		t.Errorf("got %+v and %+v, %v; want %+v", d, all, err, want)
	}
}

// The schema itself keeps a domain from being two accounts'.
func TestOneAccountHasADomain(t *testing.T) {
	db, _ := openTemp(t)
	ctx := context.Background()
	for i, name := range []string{"ana", "bob"} {
		owner := mustAccount(t, db, name, 512).ID
		mustSite(t, db, owner, app.ID(name))
		claim := app.Domain{Name: "a.example", Account: owner, App: app.ID(name), Status: app.DomainVerified, Proof: "berth=0123456789012345" + name}
		_, err := db.Names.AddDomain(ctx, claim, anySite)
		if i == 0 {
			must(t, err)
			_, err = db.Names.AddDomain(ctx, claim, anySite)
		}
		wantKind(t, "a second one", err, app.Conflict)
	}
	refused := errors.New("refused")
	_, err := db.Names.AssignDomain(ctx, 1, "a.example", "ana", func(app.Type) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	wantKind(t, "release", db.Names.ReleaseSubdomain(ctx, "nobodys", func(app.Subdomain) error { return nil }), app.NotFound)
}

func TestVerifiedDomains(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	mustSite(t, db, owner, "shop")
	for name, status := range map[string]app.DomainStatus{"a.example": app.DomainVerified, "b.example": app.DomainFailed, "c.example": app.DomainUnverified} {
		claim := app.Domain{Name: name, Account: owner, App: "shop", Status: status, Proof: "berth=0123456789012345" + name}
		_, err := db.Names.AddDomain(ctx, claim, anySite)
		must(t, err)
	}
	if all, err := db.Names.VerifiedDomains(ctx); err != nil || !reflect.DeepEqual(all, map[string]string{"a.example": "shop"}) {
		t.Errorf("got %v, %v", all, err)
	}
	must(t, db.Apps.DeleteApp(ctx, "shop"))
	if all, err := db.Names.VerifiedDomains(ctx); err != nil || len(all) != 0 {
		t.Errorf("after its application: %v, %v", all, err)
	}
}
