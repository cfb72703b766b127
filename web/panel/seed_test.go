package panel

import (
	"context"
	"strings"
	"time"

	"berth/app"
)

// seed gives ana, who looks after the host, something on every page.
func seed(w *world) {
	w.t.Helper()
	must(w.t, onlyError(w.db.Accounts.UpdateAccount(w.t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Admin = true; return nil })))
	w.host.add(w.ana.ID, "shop", func(s *app.Snapshot) { s.Type, s.AutoRestart = app.Site, true })
	w.host.add(w.ana.ID, "bot", func(s *app.Snapshot) { s.Name = `<b>"bot"` })
	must(w.t, addApp(w.t, w, "shop"))
	must(w.t, onlyError(w.config.Teams.AddMember(w.t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"start_app", "backup_app"})))
	admin, err := w.db.Accounts.Account(w.t.Context(), w.ana.ID)
	must(w.t, err)
	for _, o := range []app.Offer{
		{For: "eve", RAM: 512, Disk: 1024, Apps: 3, Grants: []app.Grant{{App: "shop", Permissions: app.AllPermissions}}},
		{Grants: []app.Grant{{App: "shop", Permissions: app.Permissions(app.LogsApp)}}},
	} {
		_, _, err := w.config.Invitations.Invite(w.t.Context(), admin, o, time.Hour)
		must(w.t, err)
	}
	w.host.env["TOKEN"], w.host.env["DEBUG"] = strings.Repeat("secret", 5)+"1234", "false"
	w.host.made = []app.Backup{{App: "shop", File: "shop.0123.zip", Bytes: 123456, Expires: time.Now().Add(20 * time.Hour)}}
	w.host.nights = []app.BackupSnapshot{
		{Run: "20261126T031500Z", At: time.Date(2026, 11, 26, 3, 15, 0, 0, time.UTC), Bytes: 482113},
		{Run: "20261125T031500Z", At: time.Date(2026, 11, 25, 3, 15, 0, 0, time.UTC), Bytes: 480000},
	}
	records := []app.Record{{Type: "TXT", Name: "_berth.shop.example.org", Content: "berth-proof=0123456789abcdef"}, {Type: "A", Name: "shop.example.org", Content: "192.0.2.1"}}
	w.host.domains = []app.Domain{
		{Name: "shop.example.org", Account: w.ana.ID, App: "shop", Status: app.DomainVerified, CheckedAt: time.Now()},
		{Name: "new.example.org", Account: w.ana.ID, App: "shop", Status: app.DomainUnverified, Records: records},
		{Name: "old.example.org", Account: w.ana.ID, App: "shop", Status: app.DomainFailed, CheckedAt: time.Now(), Records: records},
		{Name: "bot.example.org", Account: w.ana.ID, App: "bot", Status: app.DomainVerified},
	}
	at := time.Now().Add(-time.Hour)
	w.host.tree["."] = []app.Entry{
		{Name: "src", Kind: app.EntryDir, At: at},
		{Name: "index.js", Kind: app.EntryFile, Bytes: 2345, At: at},
		{Name: "<script>alert(1)</script>", Kind: app.EntryFile, Bytes: 1, At: at},
		{Name: "a\nb\xff\u202e\"", Kind: app.EntryFile, Bytes: 1, At: at},
		{Name: "link", Kind: app.EntryLink, At: at},
		{Name: "pipe", Kind: app.EntryOther, At: at},
	}
	w.host.tree["src"], w.host.tree["many"] = nil, w.host.tree["."]
	w.host.texts["index.js"] = "console.log('</textarea><script>')\n"
	w.host.texts["data.bin"] = "\x00\xff"
	w.host.texts["large.txt"] = strings.Repeat("x", maxText+1)
	w.host.deployed = func(ctx context.Context, _ string) (app.Deployed, error) {
		app.ProgressOf(ctx)(app.Progress{Phase: app.Checked, App: "shop"})
		return app.Deployed{Snapshot: w.host.all["shop"], Logs: "npm install\nadded 12 packages"}, nil
	}
}
