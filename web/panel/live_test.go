package panel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"berth/app"
	"berth/host/account"
)

// What happens after a page was made is told to it, whenever its stream begins; and
// what one stream has told, the next one leaves out.
func TestLiveMissesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	w.host.add(w.bob.ID, "other")
	b := w.as("ana")
	p := b.get("/apps/shop")
	w.publish("shop", app.Event{Kind: app.StateEvent})
	w.publish("other", app.Event{Kind: app.StateEvent})
	l := w.listen(b, streamOf(t, p))
	if l.status != http.StatusOK || l.header.Get("Content-Type") != "text/event-stream" || l.header.Get("Cache-Control") != "no-store" || l.header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%d %v", l.status, l.header)
	}
	begun, missed := l.next("begun"), l.next("changed")
	if missed.id == "" || missed.id == begun.id {
		t.Errorf("begun %+v, then %+v", begun, missed)
	}
	w.publish("shop", app.Event{Kind: app.MetricEvent, Usage: &app.Usage{MemoryBytes: 50 << 20, LimitBytes: 100 << 20, CPUPercent: 12.34, NetIn: 2048}})
	var now usageFrame
	must(t, json.Unmarshal([]byte(l.next("figures").data), &now))
	if now.App != "shop" || now.CPU != 12.34 || now.RAM != 50 || now.Limit != 100 || now.Full != 50 || now.At == 0 ||
		now.Words["cpu"] != "CPU 12.3 %" || now.Words["ram"] != "RAM 50 MB of 100 MB" || now.Words["full"] != "RAM 50 % full" || now.Words["in"] != "2 KB" {
		t.Errorf("the figures are %+v", now)
	}
	w.publish("shop", app.Event{Kind: app.MemoryEvent, Memory: &app.MemoryWarning{Level: 80}})
	missed = l.next("changed")
	l.close()
	w.publish("shop", app.Event{Kind: app.ExitEvent, Exit: &app.Exit{Code: 1}})
	again := w.listen(b, streamOf(t, p), "Last-Event-ID", missed.id) // the browser's word beats the page's
	again.next("begun")
	if f := again.next("changed"); f.id <= missed.id {
		t.Errorf("told %+v after %+v", f, missed)
	}
	again.close()
	for _, last := range []string{"5", "x", "-1", ""} {
		unknown := w.listen(b, "/events?app=shop&what=&last="+last)
		unknown.next("begun")
		if f := unknown.next("changed"); f.id == "" { // the page is to be made anew
			t.Errorf("with last=%q: %+v", last, f)
		}
		unknown.close()
	}
}

// The list follows all applications of an account, and those it helps with.
func TestLiveList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	w.host.add(w.bob.ID, "other")
	w.host.add(w.bob.ID, "shared")
	add(t, w, "shared")
	must(t, onlyError(account.NewTeams(w.db.Teams).AddMember(t.Context(), w.bob.ID, "shared", w.ana.ID, []string{"status_app"})))
	b := w.as("ana")
	l := w.listen(b, streamOf(t, b.get("/")))
	l.next("begun")
	usage := &app.Usage{LimitBytes: 1}
	for _, id := range []app.ID{"other", "shop", "shared"} {
		w.publish(id, app.Event{Kind: app.MetricEvent, Usage: usage})
	}
	for _, want := range []app.ID{"shop", "shared"} {
		if f := l.next("figures"); !strings.Contains(f.data, `"app":"`+string(want)+`"`) {
			t.Errorf("told %s, want %s", f.data, want)
		}
	}
}

// Lines come as the page has them, from a moment before it was made.
func TestLiveLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	b := w.as("ana")
	w.logs.print("shop", "before")
	p := b.get("/apps/shop/logs")
	w.logs.print("shop", "between <b>")
	l := w.listen(b, streamOf(t, p))
	l.next("begun")
	type lines struct {
		Fresh bool
		HTML  string
	}
	read := func(l *listener) (got lines) {
		t.Helper()
		must(t, json.Unmarshal([]byte(l.next("lines").data), &got))
		return got
	}
	first := read(l)
	on := regexp.MustCompile(`(?s)<div id="log".*?>(.*?)</div>\n<button`).FindStringSubmatch(p.body)[1]
	on = regexp.MustCompile(`^<div class="day">.*?</div>`).ReplaceAllString(on, "") // streams have lines alone
	if !first.Fresh || !strings.HasPrefix(first.HTML, on) || !strings.Contains(first.HTML, "between &lt;b&gt;") {
		t.Errorf("the page has %q, the stream begins with %+v", on, first)
	}
	w.logs.of("shop", true).Note("of the build")
	w.logs.print("shop", "\x1b[31mafter")
	if got := read(l); got.Fresh || !strings.Contains(got.HTML, `<span class="c1">after</span>`) || strings.Contains(got.HTML, "before") {
		t.Errorf("then %+v", got)
	}
	l.close()
	serious := w.listen(b, streamOf(t, b.get("/apps/shop/logs?level=error")))
	serious.next("begun")
	w.logs.program("shop", "INFO:root:ready", "ERROR:root:it failed", "  its trace", "on it goes")
	if got := read(serious); strings.Contains(got.HTML, "ready") || strings.Contains(got.HTML, "goes") || strings.Count(got.HTML, "<time") != 2 ||
		!strings.Contains(got.HTML, `<div class="error">`) {
		t.Errorf("errors alone: %+v", got)
	}
	serious.close()
	build := w.listen(b, streamOf(t, b.get("/apps/shop/logs?of=build")))
	if got := read(build); !got.Fresh || !strings.Contains(got.HTML, "of the build") {
		t.Errorf("of the build: %+v", got)
	}
	w.publish("shop", app.Event{Kind: app.DeployEvent, Deploy: &app.DeployStep{Phase: app.DeployBuilding}})
	if got := read(build); !got.Fresh || got.HTML != "" { // the next build begins with nothing
		t.Errorf("as a build begins: %+v", got)
	}
	build.next("changed")
}

// A stream ends with what allowed it.
func TestLiveEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		what []string // permissions
		page string
		end  func(w *world, b *browser)
	}{
		"sign-out": {[]string{"status_app"}, "/apps/shop", func(_ *world, b *browser) { b.post("/logout") }},
		"a disabled account": {[]string{"status_app"}, "/", func(w *world, _ *browser) {
			must(w.t, onlyError(w.db.Accounts.UpdateAccount(w.t.Context(), w.bob.ID, func(a *app.Account, _ app.MB) error { a.Disabled = true; return nil })))
		}},
		"no member any more": {[]string{"logs_app"}, "/apps/shop/logs", func(w *world, _ *browser) {
			must(w.t, account.NewTeams(w.db.Teams).RemoveMember(w.t.Context(), w.ana.ID, "shop", w.bob.ID))
		}},
		"fewer permissions": {[]string{"status_app", "logs_app"}, "/apps/shop/logs", func(w *world, _ *browser) {
			must(w.t, onlyError(account.NewTeams(w.db.Teams).SetMember(w.t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"status_app"})))
		}},
		"the end of the daemon": {[]string{"status_app"}, "/apps/shop", func(w *world, _ *browser) { w.hub.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.host.add(w.ana.ID, "shop")
			add(t, w, "shop")
			must(t, onlyError(account.NewTeams(w.db.Teams).AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, tt.what)))
			b := w.as("bob")
			l := w.listen(b, streamOf(t, b.get(tt.page)))
			l.next("begun")
			tt.end(w, b)
			l.ends(name)
		})
	}
}

// A page that is only looked at keeps no session alive.
func TestLiveIsNoVisit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	before, err := w.signIns.Sessions(t.Context(), w.ana.ID)
	must(t, err)
	l := w.listen(b, streamOf(t, b.get("/")))
	l.next("begun")
	stream, err := w.config.Feed.Watch(t.Context(), app.Watch{Account: w.ana.ID, App: app.All, Kinds: app.StateEvent})
	must(t, err)
	defer stream.Close()
	v := &viewer{livePages: livePages{w.config.Feed, w.signIns, w.config.Account}, c: &call{account: w.ana, session: before[0]}, stream: stream}
	must(t, v.mayStill(t.Context()))
	after, err := w.signIns.Sessions(t.Context(), w.ana.ID)
	must(t, err)
	if len(after) != 1 || !after[0].LastSeen.Equal(before[0].LastSeen) {
		t.Errorf("seen %v, then %v", before, after)
	}
}

func TestLiveRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	w.host.add(w.bob.ID, "other")
	b := w.as("ana")
	for address, want := range map[string]int{
		"/events?app=other&what=log": http.StatusNotFound, "/events?app=nothing": http.StatusNotFound, "/events?app=..%2f": http.StatusNotFound,
		"/events?what=log": http.StatusBadRequest,
	} {
		if l := w.listen(b, address); l.status != want {
			t.Errorf("%s: %d, want %d", address, l.status, want)
		}
	}
	if l := w.listen(w.browser(), "/events?app=shop"); l.status != http.StatusSeeOther {
		t.Errorf("a stranger: %d", l.status)
	}
	if head := b.ask(http.MethodHead, "/events?app=shop&last=1", nil); head.StatusCode != http.StatusOK || head.body != "" {
		t.Errorf("HEAD: %d %q", head.StatusCode, head.body)
	}
	open := 0
	for ; open < 100; open++ {
		l := w.listen(b, "/events?app=shop&last=1")
		if f := l.next("begun", "refused"); f.event == "refused" {
			if !strings.Contains(f.data, "too many pages of your account are open") {
				t.Errorf("it says %s", f.data)
			}
			l.ends("refused")
			break
		}
	}
	if open != 32 {
		t.Errorf("%d pages of an account can follow", open)
	}
	w.hub.Close()
	if f := w.listen(b, "/events?app=shop&last=1").next("refused"); !strings.Contains(f.data, "cannot send its updates now") {
		t.Errorf("as the daemon ends: %s", f.data)
	}
}

// A browser that reads nothing costs what a stream costs, and is told to look anew.
func TestLiveSlowly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	stream, err := w.config.Feed.Watch(t.Context(), app.Watch{Account: w.ana.ID, App: "shop", Kinds: app.StateEvent})
	must(t, err)
	defer stream.Close()
	for range 1000 {
		w.publish("shop", app.Event{Kind: app.StateEvent})
	}
	events, err := stream.Next(t.Context())
	must(t, err)
	v := &viewer{c: &call{}}
	text := string(v.frames(events))
	if n := strings.Count(text, "event: changed\n"); n != len(events) || n > 300 || events[len(events)-1].Kind != app.GapEvent {
		t.Errorf("%d frames of %d events", n, len(events))
	}
	if !strings.HasSuffix(text, "event: changed\ndata: null\n\n") {
		t.Error("the end is " + fmt.Sprintf("%q", text[len(text)-80:]))
	}
}
