package panel

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/host/account"
)

// form is pairs of a form with many applications.
func chosenForm(do string, sure bool, ids ...string) []string {
	pairs := []string{"do", do, "back", "/?show=online"}
	if sure {
		pairs = append(pairs, "sure", "true")
	}
	for _, id := range ids {
		pairs = append(pairs, "app", id)
	}
	return pairs
}

// Several are asked about by name, and then changed, each as it is alone: by who may, and in the audit log.
func TestChosen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "aa")
	w.host.add(w.ana.ID, "evil", func(s *app.Snapshot) { s.Name = `<script>alert(1)</script>"'` })
	w.host.add(w.ana.ID, "down", func(s *app.Snapshot) { s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 3} })
	teams := account.NewTeams(w.db.Teams)
	for id, may := range map[app.ID]string{"ours": "restart_app", "theirs": "logs_app", "gone": "restart_app"} {
		w.host.add(w.bob.ID, id)
		add(t, w, id)
		must(t, onlyError(teams.AddMember(t.Context(), w.bob.ID, id, w.ana.ID, []string{may})))
	}
	w.host.add(w.bob.ID, "alien")
	b := w.as("ana")
	all := []string{"aa", "evil", "down", "ours", "theirs", "gone", "alien", "nothing", "..", "aa"}
	for _, locale := range app.Locales {
		must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, locale))
		asPageShouldBe(t, "/chosen", locale, b.post("/chosen", chosenForm("restart", false, all...)...))
	}
	must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, "en-US"))
	p := b.post("/chosen", chosenForm("restart", false, all...)...)
	p.want(t, "the question", http.StatusOK, "Restart 4 applications?", "2 applications that were chosen are left out:", "&lt;script&gt;", "You may not do this with it.",
		`name="app" value="ours"`, `name="app" value="aa"`, `href="/?show=online"`, "Crashed", "of bob")
	p.lacks(t, "the question", "alien", "nothing", `value="theirs"`, `value="down"`, "<script>alert")
	if len(w.host.done) > 0 || strings.HasPrefix(w.acts.last().Operation, "app.") {
		t.Errorf("asked, it did %v and recorded %+v", w.host.done, w.acts.last())
	}
	must(t, teams.RemoveMember(t.Context(), w.bob.ID, "gone", w.ana.ID))
	to := b.post("/chosen", chosenForm("restart", true, "aa", "evil", "ours", "gone", "theirs", "alien", "..")...).Header.Get("Location")
	if !strings.HasPrefix(to, "/chosen/") {
		t.Fatalf("it leads to %q", to)
	}
	w.work.Wait()
	slices.Sort(w.host.done)
	if got := strings.Join(w.host.done, ", "); got != "restart aa, restart evil, restart ours" {
		t.Errorf("done: %s", got)
	}
	for _, locale := range app.Locales {
		must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, locale))
		asPageShouldBe(t, "/chosen/", locale, b.get(to))
	}
	must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, "en-US"))
	p = b.get(to)
	p.want(t, "the result", http.StatusOK, "3 applications were restarted", "4 failed", "You have no application with this ID.", "restart_app", "&lt;script&gt;", `href="/?show=online"`, "Try again")
	p.lacks(t, "the result", "data-poll", "refresh", "The alien")
	acts := map[app.ID]app.AuditRecord{}
	for _, a := range w.acts.all {
		if a.Operation == "app.restart" {
			acts[a.App] = a
		}
	}
	if len(acts) != 5 { // for what is not ana's no application is named
		t.Errorf("the audit log has %+v", acts)
	}
	if a := acts["ours"]; a.Account != w.bob.ID || a.Actor != w.ana.ID || a.AppName != "The ours" || a.Refusal != "" || a.Label != "panel" || a.Status != http.StatusOK {
		t.Errorf("of a team: %+v", a)
	}
	if a := acts["theirs"]; a.Refusal == "" || a.Status != http.StatusForbidden {
		t.Errorf("refused: %+v", a)
	}
	w.as("bob").get(to).want(t, "another account", http.StatusNotFound)
	b.get("/chosen/x").want(t, "none", http.StatusNotFound, "is not known any more")
}

// Forms that mean nothing do nothing.
func TestChosenRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Changes = func() error { return nil } })
	w.host.add(w.ana.ID, "aa")
	w.host.add(w.ana.ID, "down", func(s *app.Snapshot) { s.State, s.Running = app.Stopped, false })
	b := w.as("ana")
	b.post("/chosen", chosenForm("restart", true)...).want(t, "none", http.StatusBadRequest, "Choose the applications first.", "The aa")
	b.post("/chosen", chosenForm("delete", true, "aa")...).want(t, "no deed", http.StatusBadRequest)
	var lots []string
	for i := range pageRows + 1 {
		lots = append(lots, fmt.Sprint("app-", i))
	}
	b.post("/chosen", chosenForm("stop", true, lots...)...).want(t, "too many", http.StatusBadRequest)
	p := b.post("/chosen", chosenForm("start", false, "aa")...)
	p.want(t, "none that it can be done to", http.StatusOK, "This can be done with none of the chosen applications.", "1 application that was chosen is left out:", "Cancel")
	p.lacks(t, "none that it can be done to", `name="do" value="start"`)
	b.header["Sec-Fetch-Site"] = "cross-site"
	b.post("/chosen", chosenForm("stop", true, "aa")...).want(t, "from another site", http.StatusForbidden)
	delete(b.header, "Sec-Fetch-Site")
	w.browser().post("/chosen", chosenForm("stop", true, "aa")...).leads(t, "a stranger", "/login")
	w.ending = true
	b.post("/chosen", chosenForm("stop", true, "aa")...).want(t, "as the daemon ends", http.StatusServiceUnavailable)
	w.ending = false
	if len(w.host.done) > 0 {
		t.Errorf("done: %v", w.host.done)
	}
	w.host.add(w.ana.ID, "ill", func(s *app.Snapshot) { s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 7} })
	crashed := b.post("/chosen", chosenForm("start", true, "ill")...).Header.Get("Location")
	w.work.Wait()
	b.get(crashed).want(t, "one that crashes at once", http.StatusOK, "0 applications were started", "1 failed", "It ended with code 7.")
	w.host.fail = app.Errorf(app.Conflict, "another operation <is> under way")
	to := b.post("/chosen", chosenForm("start", true, "down")...).Header.Get("Location")
	w.work.Wait()
	b.get(to).want(t, "failed", http.StatusOK, "0 applications were started", "1 failed", "Another operation &lt;is&gt; under way.", `name="app" value="down"`)
}

// slow blocks each restart until it is let go.
type slow struct {
	app.Applications
	under chan app.ID
	on    chan error
}

func (s slow) Restart(_ context.Context, _ app.AccountID, id app.ID) error {
	s.under <- id
	return <-s.on
}

// A few are changed at once, the page tells how many are done, and one that panics fails alone.
func TestChosenIsAJob(t *testing.T) {
	t.Parallel()
	host := slow{under: make(chan app.ID, 100), on: make(chan error)}
	w := newWorld(t, func(c *Config) { host.Applications = c.Applications; c.Applications = host })
	var ids []string
	for i := range 10 {
		ids = append(ids, fmt.Sprint("app-", i))
		w.host.add(w.ana.ID, app.ID(ids[i]))
	}
	b := w.as("ana")
	to := b.post("/chosen", chosenForm("restart", true, ids...)...).Header.Get("Location")
	for range batchAtOnce {
		<-host.under
	}
	b.get(to).want(t, "begun", http.StatusOK, "0 of 10 are done", "data-poll=", `http-equiv="refresh"`, "It is safe to close this page")
	host.on <- nil
	<-host.under
	if n := len(host.under); n != 0 {
		t.Errorf("%d more at once", n)
	}
	for i := range 9 {
		if i == 5 {
			host.on <- app.Errorf(app.Unavailable, "no")
			continue
		}
		host.on <- nil
	}
	w.work.Wait()
	b.get(to).want(t, "the end", http.StatusOK, "9 applications were restarted", "1 failed")
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testBatchesAreBounded)
}

func testBatchesAreBounded(t *testing.T) {
	bs := newBatches()
	begin := func(account app.AccountID) *batch {
		t.Helper()
		b, err := bs.begin(account, deeds[0], 1, "/")
		must(t, err)
		time.Sleep(time.Second)
		return b
	}
	var mine []*batch
	for range accountBatch {
		mine = append(mine, begin(1))
	}
	if _, err := bs.begin(1, deeds[0], 1, "/"); app.KindOf(err) != app.Limited {
		t.Errorf("one more: %v", err)
	}
	for range 20 {
		mine[0].finish()
		mine = append(mine[1:], begin(1))
	}
	if n := len(bs.all); n > accountBatch+keptBatches {
		t.Errorf("%d are kept", n)
	}
	var err error
	for i := 0; err == nil && i <= allBatches; i++ {
		_, err = bs.begin(app.AccountID(2+i/accountBatch), deeds[0], 1, "/")
	}
	if app.KindOf(err) != app.Unavailable {
		t.Errorf("one more of all: %v", err)
	}
	for _, b := range bs.all {
		if b.account != 1 {
			b.finish()
			break
		}
	}
	begin(1000) // what has ended is in nobody's way
	mine[0].finish()
	time.Sleep(batchTime + time.Second)
	if _, err := bs.find(1, mine[0].id); app.KindOf(err) != app.NotFound {
		t.Errorf("long after its end: %v", err)
	}
}
