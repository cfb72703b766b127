package db

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/mattn/go-sqlite3"

	"berth/app"
)

func TestEveryTableIsStrict(t *testing.T) {
	db, _ := openTemp(t)
	var loose int
	must(t, db.reader.QueryRowContext(t.Context(),
		`SELECT count(*) FROM pragma_table_list WHERE type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite_%'`).Scan(&loose))
	if loose != 0 {
		t.Errorf("%d tables are not STRICT", loose)
	}
	_, err := db.writer.ExecContext(t.Context(), "INSERT INTO account (name, total_ram, plan, locale, disabled, created_at) VALUES ('a', 'much', '', '', 0, 0)")
	if !isCode(err, sqlite3.ErrConstraint) {
		t.Errorf("text in an INTEGER column: got %v, want a constraint error", err)
	}
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	known, err := fs.Glob(migrations(), "*.sql")
	must(t, err)
	_, err = db.writer.ExecContext(t.Context(), "PRAGMA user_version = 999")
	must(t, err)
	must(t, db.Close())
	_, err = Open(t.Context(), path, time.Now)
	want := fmt.Sprintf("cannot open the database: it was written by a newer berth (schema 999, this one knows %d)", len(known))
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestMigrateStepByStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	defer pool.Close()
	steps := fstest.MapFS{
		"0001.sql": {Data: []byte("CREATE TABLE one (x INTEGER) STRICT; INSERT INTO one VALUES (1);")},
	}
	must(t, migrate(t.Context(), pool, steps, nokeep))
	steps["0001.sql"] = &fstest.MapFile{Data: []byte("this is not run again")}
	steps["0002.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE two (x INTEGER) STRICT; INSERT INTO two SELECT x + 1 FROM one;")}
	must(t, migrate(t.Context(), pool, steps, nokeep))
	var two int
	must(t, pool.QueryRowContext(t.Context(), "SELECT x FROM two").Scan(&two))
	if two != 2 {
		t.Errorf("the second step made %d of what the first left, want 2", two)
	}

	steps["0003.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE three (x INTEGER) STRICT; INSERT INTO nowhere VALUES (3);")}
	if err := migrate(t.Context(), pool, steps, nokeep); err == nil || !strings.Contains(err.Error(), "to version 3") {
		t.Errorf("a broken step: got %v", err)
	}
	version, err := schemaVersion(t.Context(), pool)
	must(t, err)
	var left int
	must(t, pool.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema WHERE name = 'three'").Scan(&left))
	if version != 2 || left != 0 {
		t.Errorf("after a broken step: version %d and %d tables of it, want 2 and 0", version, left)
	}

	delete(steps, "0003.sql")
	steps["0004.sql"] = &fstest.MapFile{Data: []byte("SELECT 1")}
	if err := migrate(t.Context(), pool, steps, nokeep); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a gap in the steps: got %v", err)
	}
}

// A database of the first schema keeps what is in it.
func TestApplicationsOfTheFirstSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	first, err := fs.ReadFile(migrations(), "0001.sql")
	must(t, err)
	must(t, migrate(t.Context(), pool, fstest.MapFS{"0001.sql": {Data: first}}, nokeep))
	_, err = pool.ExecContext(t.Context(), `
		INSERT INTO account VALUES (1, 'ana', 1024, 'Diamond', 'en-US', 0, 5);
		INSERT INTO place VALUES ('shop', 1, 200, 70001, 20001);
		INSERT INTO app VALUES ('shop', 'Shop', '', 1, 'online', 7, 'main.py', 'python', 'latest', '', 'make', 1, 3, 9, NULL);`)
	must(t, errors.Join(err, pool.Close()))
	db := openAt(t, path, time.Now)
	all, err := db.Apps.Apps(t.Context())
	must(t, err)
	want := app.Code{Main: "main.py", Lang: "python", Version: "latest", Build: "make"} // its packages are unknown
	if len(all) != 1 || all[0].Code != want || all[0].Apts != nil || all[0].RAM != 200 || !all[0].AutoRestart || all[0].LastRun != 3 {
		t.Errorf("got %+v", all)
	}
	wantVariables(t, db, "shop")
}

// nokeep keeps no copy.
func nokeep(int) error { return nil }

func TestStepIsSkippedWhenAnotherProcessWasFaster(t *testing.T) {
	db, _ := openTemp(t)
	must(t, transact(t.Context(), db.writer, "test", func(t tx) error {
		return step(t, 1, "CREATE TABLE account (x)")
	}))
}

// What sites of older schemas are called is theirs, however long.
func TestNamesOfTheSecondSchema(t *testing.T) {
	const site, bot = "a-site-with-a-name-that-is-longer-than-new-ones", "1745338954955"
	path := filepath.Join(t.TempDir(), "berth.db")
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	second := fstest.MapFS{}
	for _, name := range []string{"0001.sql", "0002.sql"} {
		text, err := fs.ReadFile(migrations(), name)
		must(t, err)
		second[name] = &fstest.MapFile{Data: text}
	}
	must(t, migrate(t.Context(), pool, second, nokeep))
	_, err = pool.ExecContext(t.Context(), `
		INSERT INTO account VALUES (1, 'ana', 1024, 'Diamond', 'en-US', 0, 5);
		INSERT INTO place VALUES ('`+site+`', 1, 200, 70001, 20001), ('`+bot+`', 1, 200, 70002, 20002), ('cut-short', 1, 200, 70003, 20003);
		INSERT INTO app (id, name, avatar_url, type, wanted, created_at, main, lang, version, start_command, build_command, packages, auto_restart, last_run, started_at)
			VALUES ('`+site+`', 'Site', '', 1, 'online', 7, 'a.py', 'python', 'latest', '', '', 'sum', 1, 3, 9),
				('`+bot+`', 'Bot', '', 0, 'online', 8, 'a.py', 'python', 'latest', '', '', '', 1, 3, 9);`)
	must(t, errors.Join(err, pool.Close()))
	db := openAt(t, path, time.Now)
	names, err := db.Names.Names(t.Context(), 1)
	must(t, err)
	want := app.Subdomain{ID: site, Account: 1, Used: true, CreatedAt: moment(7)}
	if len(names.Subdomains) != 1 || names.Subdomains[0] != want || len(names.Domains) != 0 {
		t.Errorf("got %+v, want %+v", names, want)
	}
	must(t, db.Apps.DeleteApp(t.Context(), site))
	must(t, db.Allocations(IDRange{}).Release(t.Context(), site))
	if names, err = db.Names.Names(t.Context(), 1); err != nil || len(names.Subdomains) != 0 {
		t.Errorf("after its site: %+v, %v", names, err)
	}
	all, err := db.Apps.Apps(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != bot {
		t.Errorf("got %+v, %v", all, err)
	}
}

// The file of before is beside the one that was migrated, and of these only the
// newest two.
func TestMigrationKeepsACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "be[r]th.db")
	pool := atSchema(t, path, Schema()-1)
	_, err := pool.ExecContext(t.Context(), "INSERT INTO account (name, total_ram, plan, locale, disabled, created_at) VALUES ('ana', 1024, 'Diamond', 'en-US', 0, 5)")
	must(t, errors.Join(err, pool.Close()))
	for _, name := range []string{".schema-1", ".schema-2", ".schema-x"} {
		must(t, os.WriteFile(path+name, nil, 0o600))
	}
	must(t, openAt(t, path, time.Now).Close())
	openAt(t, path, time.Now) // there is nothing to migrate
	kept := fmt.Sprintf("%s.schema-%d", path, Schema()-1)
	for name, want := range map[string]bool{kept: true, path + ".schema-2": true, path + ".schema-1": false, path + ".schema-x": true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
	wantMode(t, kept, 0o600)
	if schema, err := Check(t.Context(), kept); err != nil || schema != Schema()-1 {
		t.Errorf("the copy has schema %d, %v", schema, err)
	}
	pool, err = sql.Open("sqlite3", kept)
	must(t, err)
	defer pool.Close()
	var name string
	must(t, pool.QueryRowContext(t.Context(), "SELECT name FROM account").Scan(&name))
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*new*"))
	if name != "ana" || err != nil || len(left) != 0 {
		t.Errorf("the copy has %q; left are %v, %v", name, left, err)
	}
}

// What cannot be copied is not migrated.
func TestNoMigrationWithoutACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	defer pool.Close()
	steps := fstest.MapFS{"0001.sql": {Data: []byte("CREATE TABLE one (x INTEGER) STRICT;")}}
	must(t, migrate(t.Context(), pool, steps, nokeep))
	steps["0002.sql"] = &fstest.MapFile{Data: []byte("DROP TABLE one;")}
	full := errors.New("no room")
	if err := migrate(t.Context(), pool, steps, func(int) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if version, err := schemaVersion(t.Context(), pool); version != 1 || err != nil {
		t.Errorf("version %d, %v", version, err)
	}
}

// An earlier release stored that the key of the backups was shown, and not which.
func TestShownKeysOfOlderSchemas(t *testing.T) {
	for shown, want := range map[int]string{0: "", 1: ShownBefore} {
		path := filepath.Join(t.TempDir(), "berth.db")
		pool, err := sql.Open("sqlite3", path)
		must(t, err)
		must(t, migrate(t.Context(), pool, migrationsBefore(t, 33), nokeep))
		_, err = pool.ExecContext(t.Context(), "INSERT INTO backup_state (since, key_shown) VALUES (5, ?)", shown)
		must(t, errors.Join(err, pool.Close()))
		db := openAt(t, path, time.Now)
		if st, err := db.Backups.Status(t.Context()); err != nil || st.ShownKey != want || !st.Since.Equal(moment(5)) {
			t.Errorf("shown %d: %+v, %v", shown, st, err)
		}
		must(t, db.Backups.ShownKey(t.Context(), "0123abcd"))
		if st, err := db.Backups.Status(t.Context()); err != nil || st.ShownKey != "0123abcd" {
			t.Errorf("%+v, %v", st, err)
		}
	}
}

// migrationsBefore are the migrations of the schemas before one.
func migrationsBefore(t *testing.T, schema int) fstest.MapFS {
	t.Helper()
	old := fstest.MapFS{}
	for n := 1; n < schema; n++ {
		name := fmt.Sprintf("%04d.sql", n)
		text, err := fs.ReadFile(migrations(), name)
		must(t, err)
		old[name] = &fstest.MapFile{Data: text}
	}
	return old
}

// Applications from before there was a history begin one.
func TestApplicationsGetAHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	first, err := fs.ReadFile(migrations(), "0001.sql")
	must(t, err)
	must(t, migrate(t.Context(), pool, fstest.MapFS{"0001.sql": {Data: first}}, nokeep))
	_, err = pool.ExecContext(t.Context(), `
		INSERT INTO account VALUES (1, 'ana', 1024, 'Diamond', 'en-US', 0, 5);
		INSERT INTO place VALUES ('shop', 1, 200, 70001, 20001);
		INSERT INTO app VALUES ('shop', 'Shop', '', 1, 'online', 7, 'main.py', 'python', 'latest', '', 'make', 1, 3, 9, NULL);`)
	must(t, errors.Join(err, pool.Close()))
	all, err := openAt(t, path, time.Now).History.Deploys(t.Context(), "shop")
	if err != nil || len(all) != 1 || all[0].Number != 1 || all[0].By != 1 || all[0].Code.Main != "main.py" || !all[0].At.Equal(moment(7)) || all[0].Journal != "" {
		t.Errorf("got %+v, %v", all, err)
	}
}

// The groups of an older database have no name yet: a daemon gives them the one that
// they had.
func TestGroupsOfOlderSchemasHaveNoName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	old := migrationsBefore(t, 12)
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	must(t, errors.Join(migrate(t.Context(), pool, old, nokeep), pool.Close()))
	db := openAt(t, path, time.Now)
	if name, err := db.GroupName(t.Context()); name != "" || err != nil {
		t.Errorf("got %q, %v", name, err)
	}
}

// atSchema makes a database of an older schema.
func atSchema(t *testing.T, path string, schema int) *sql.DB {
	t.Helper()
	steps := fstest.MapFS{}
	for n := 1; n <= schema; n++ {
		name := fmt.Sprintf("%04d.sql", n)
		text, err := fs.ReadFile(migrations(), name)
		must(t, err)
		steps[name] = &fstest.MapFile{Data: text}
	}
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	must(t, migrate(t.Context(), pool, steps, nokeep))
	return pool
}

// A session from before a proof was remembered goes on, and proves first what opens most.
func TestSessionsOfOlderSchemasAreNotProved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	pool := atSchema(t, path, 14)
	_, err := pool.ExecContext(t.Context(), `INSERT INTO account (id, name, total_ram, plan, locale, disabled, created_at) VALUES (1, 'ana', 512, 'Diamond', 'en-US', 0, 0);
		INSERT INTO session (account, hash, created_at, seen_at, agent, address) VALUES (1, zeroblob(32), 9000000000000, 9000000000000, 'Firefox', '192.0.2.7')`)
	must(t, errors.Join(err, pool.Close()))
	db := openAt(t, path, time.Now)
	a, session, err := db.SignIns.AccountBySession(t.Context(), [32]byte{}, "192.0.2.7", time.Time{})
	if err != nil || a.Name != "ana" || session.Proved(app.Visitor{Key: "192.0.2.7"}, time.Now()) || session.Bare {
		t.Errorf("got %+v, %+v, %v", a, session, err)
	}
}

// A one-time link from before there were invitations goes on, and is none.
func TestLinksOfOlderSchemasAreNoInvitations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	pool := atSchema(t, path, 19)
	_, err := pool.ExecContext(t.Context(), `INSERT INTO account (id, name, total_ram, plan, locale, disabled, created_at) VALUES (1, 'ana', 512, 'Diamond', 'en-US', 0, 0);
		INSERT INTO invitation (account, hash, expires_at) VALUES (1, zeroblob(32), 9000000000000)`)
	must(t, errors.Join(err, pool.Close()))
	db := openAt(t, path, time.Now)
	if i, err := db.SignIns.Invitation(t.Context(), [32]byte{}); err != nil || i.Account.Name != "ana" {
		t.Errorf("got %+v, %v", i, err)
	}
	_, err = db.Invitations.Offer(t.Context(), [32]byte{})
	wantKind(t, "the link, as an invitation", err, app.NotFound)
	if all, err := db.Invitations.Offers(t.Context(), 0); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
