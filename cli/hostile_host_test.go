//go:build linux

package cli

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/daemon"
	"berth/db"
)

// What owners of applications have chosen, and what their programs have printed, does nothing
// on the terminal of who looks after the host.
func TestNothingActsOnTheTerminalOfTheHost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, as the commands of the host do")
	}
	t.Setenv("HOME", t.TempDir())
	var attack string
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		attack += attacks[name]
	}
	dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup.tar.gz")
	id := poisonedHost(t, dir, attack)
	env := map[string]string{"BERTH_DATA_DIR": dir, "BERTH_RUNTIME_DIR": "/none", "BERTH_CONFIG": "/dev/null"}
	for _, tt := range []struct {
		args  []string
		shows bool // the attack, in a form that does nothing
		code  int
	}{
		{[]string{"account", "list"}, false, 0},
		{[]string{"account", "show", "ana"}, false, 0},
		{[]string{"token", "list", "ana"}, true, 0},
		{[]string{"app", "env", id, "list", "--show"}, true, 0},
		{[]string{"app", "deploys", id}, true, 0},
		{[]string{"app", "events", id}, true, 0},
		{[]string{"audit"}, true, 0},
		{[]string{"audit", "--app", id}, true, 0},
		{[]string{"backup", "create", "--to", file}, false, 3}, // without the files
		{[]string{"backup", "verify", file}, false, 0},
		{[]string{"app", "deploys", "shop" + attack}, true, 0},
		{[]string{"account", "show", "nobody" + attack}, true, 5},
		{[]string{"token", "revoke", "1"}, true, 0},
	} {
		for _, form := range []string{"", "--json"} {
			code, stdout, stderr := start(t, env, append(slices.Clone(tt.args), form)[:len(tt.args)+min(len(form), 1)]...)
			for stream, text := range map[string]string{"stdout": stdout, "stderr": stderr} {
				if i := strings.IndexFunc(text, acting); i >= 0 {
					t.Errorf("berth %q (%d): a terminal would obey %s: %q", tt.args, code, stream, text)
				}
			}
			if form == "" && (code != tt.code || strings.Contains(stdout+stderr, "52;c;ZWNobyBvd25lZA==") != tt.shows) {
				t.Errorf("berth %q: exit code %d, %q, %q", tt.args, code, stdout, stderr)
			}
		}
	}
}

// poisonedHost is a data directory with an attack in each text that is not berth's own, and
// the application that has them.
func poisonedHost(t *testing.T, dir, attack string) (id string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := daemon.MakeDatabase(t.Context(), dir)
	must(err)
	must(d.Close())
	d, err = db.Open(t.Context(), filepath.Join(dir, daemon.DatabaseName), time.Now)
	must(err)
	defer func() { must(d.Close()) }()
	ctx := context.Background()
	ana, err := d.Accounts.CreateAccount(ctx, app.Account{Name: "ana", TotalRAM: 512, Plan: "Free", Locale: app.Locales[0]})
	must(err)
	_, err = d.Accounts.InsertToken(ctx, [32]byte{1}, app.Token{Account: ana.ID, Label: "laptop" + attack})
	must(err)
	a := app.App{
		ID: "1745338954955", Account: ana.ID, Name: "shop" + attack, RAM: 100, Wanted: app.WantOnline,
		Code: app.Code{Main: "main.js" + attack, Lang: "javascript", Version: "22" + attack},
	}
	ids := db.IDRange{UIDBase: 70000, UIDCount: 10, PortFirst: 20000, PortLast: 20009}
	a, err = d.Allocations(ids).Reserve(ctx, a, func(app.Account, app.Use) error { return nil })
	must(err)
	_, err = d.Apps.CreateApp(ctx, a, app.Deploy{By: ana.ID, Kind: app.DeployUpload, Note: "note" + attack})
	must(err)
	must(d.Apps.ChangeVariables(ctx, a.ID, func(set map[string]string) error {
		set["SECRET"] = "value" + strings.ReplaceAll(attack, "\x00", "")
		return nil
	}))
	must(d.History.AddHistoryEvent(ctx, a.ID, app.HistoryEvent{At: time.Now(), Kind: app.HistoryFailure, Deploy: app.DeployCommit, By: ana.ID, Text: "text" + attack}))
	must(d.Audit.Record(ctx, app.AuditRecord{
		At: time.Now(), Actor: ana.ID, Account: ana.ID, Name: "ana" + attack, Token: 1, Label: "laptop" + attack, From: "192.0.2.1", Operation: "app.stop",
		App: a.ID, AppName: "shop" + attack, Detail: "detail" + attack, Status: 404, Refusal: "no" + attack, Times: 1,
	}))
	return string(a.ID)
}
