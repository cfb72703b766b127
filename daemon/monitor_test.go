package daemon

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"berth/app"
	"berth/daemon/settings"
	"berth/db"
	"berth/web/proxy"
)

// onWrite does something before the first bytes of an answer are written.
type onWrite struct {
	http.ResponseWriter
	do func()
}

// Write implements io.Writer.
func (w *onWrite) Write(b []byte) (int, error) {
	w.do()
	w.do = func() {}
	return w.ResponseWriter.Write(b)
}

// An answer that ends after its site was deleted makes no history of the name: another application may get it.
func TestAnswersAfterADeletion(t *testing.T) {
	s := testSettings(t)
	s.Proxy.Mode, s.Proxy.Listen, s.Proxy.Domain = settings.ProxyBehind, "127.0.0.1:0", "apps.example.org"
	d, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer d.undo.close()
	owner, err := d.data.db.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 512, Plan: "Diamond", Locale: "en-US"})
	var shop app.App
	if err == nil {
		ids := db.IDRange{UIDBase: 70000, UIDCount: 10, PortFirst: 20000, PortLast: 20009}
		shop = app.App{ID: "shop", Account: owner.ID, Type: app.Site, RAM: 100, Wanted: app.WantStopped}
		shop, err = d.data.db.Allocations(ids).Reserve(t.Context(), shop, func(app.Account, app.Use) error { return nil })
	}
	if err == nil {
		_, err = d.data.db.Apps.CreateApp(t.Context(), shop, app.Deploy{Kind: app.DeployUpload})
	}
	if err == nil {
		err = d.host.Boot(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	visit := func(meanwhile func()) {
		r := httptest.NewRequest(http.MethodGet, "http://shop.apps.example.org/", nil)
		d.sites.proxy.ServeHTTP(&onWrite{httptest.NewRecorder(), meanwhile}, r)
	}
	told := func() []app.ID {
		all := map[app.ID]bool{}
		d.monitor.answers(func(id app.ID, _ app.Answers) { all[id] = true })
		return slices.Collect(maps.Keys(all))
	}
	visit(func() {})
	if all := told(); !slices.Equal(all, []app.ID{"shop"}) {
		t.Errorf("answers are told of %v", all)
	}
	visit(func() {
		if err := d.host.Delete(t.Context(), owner.ID, "shop"); err != nil {
			t.Error(err)
		}
	})
	if all := told(); len(all) > 0 {
		t.Errorf("after the deletion answers are told of %v", all)
	}
	d.monitor.traffic.Each(func(id string, _ proxy.SiteTraffic) { t.Errorf("answers of %s are kept", id) })
}
