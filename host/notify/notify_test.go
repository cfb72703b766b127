package notify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/app/text"
)

// A crash is told within a second: its reason, what comes next, and the last lines without a
// secret.
func TestCrashIsTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		c := w.channel(nil)
		w.secrets = []app.Variable{{Name: "TOKEN", Value: "hunter2hunter2"}, {Name: "DEBUG", Value: "1"}}
		stamp := time.Now().UTC().Format("2006-01-02T15:04:05.000Z ")
		w.log = stamp + "login with hunter2hunter2\n" + stamp + "\x1b[31mboom\x1b[0m\n" + time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z ") + "of the next run\n"
		w.crash(id)
		got := w.after(time.Second)
		if len(got) != 1 {
			t.Fatalf("%d messages: %s", len(got), titles(got))
		}
		m := got[0]
		want := "bot crashed with code 1\nIt had run for 3s.\nAt most it needed 20 of 64 MB.\nIt runs now.\nlogin with [hidden]\nboom\nhttps://berth.example.org/apps/bot"
		if words(m) != want || m.Kind != app.NoticeCrashed || m.Severity != app.Failure || m.App != id || m.AppName != "bot" || m.Count != 1 {
			t.Errorf("%+v", m)
		}
		if d := w.deliveries(c); len(d) != 1 || d[0].State != app.DeliverySent || d[0].Status != 204 || d[0].Tries != 1 || d[0].Message.ID != m.ID {
			t.Errorf("%+v", d)
		}
	})
}

// What a command of the host stores, in a process of its own, wakes nobody, and is told within
// a minute.
func TestNoticesOfAnotherProcess(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		w.channel(nil)
		w.db.Notices.Noticed(func() {})
		w.crash(id)
		if got := w.after(time.Minute + time.Second); len(got) != 1 {
			t.Errorf("told: %s", titles(got))
		}
	})
}

// What berth does because somebody asked is told to nobody.
func TestWhatIsNotTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		w.crash(id) // before there is a channel
		w.channel(nil)
		w.crash(id, func(e *app.Exit) { e.Asked = true })
		if got := w.after(24 * time.Hour); len(got) > 0 {
			t.Errorf("told: %s", titles(got))
		}
	})
}

// An idle host sends nothing, and does nothing.
func TestIdle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.bot("bot")
		w.channel(nil)
		if got := w.after(24 * time.Hour); len(got) > 0 {
			t.Errorf("told: %s", titles(got))
		}
	})
}

// A crash loop is a message at its beginning, some at growing distances, and one at its end.
func TestCrashLoop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		w.channel(nil)
		began := time.Now()
		for range 24 * 30 { // 24 hours
			w.crash(id)
			time.Sleep(2 * time.Minute)
		}
		w.mu.Lock()
		var at []time.Duration
		for _, one := range w.at {
			at = append(at, one.Sub(began).Round(5*time.Minute))
		}
		counts := words(w.got[1])
		w.mu.Unlock()
		if want := []time.Duration{0, 10 * time.Minute, 70 * time.Minute, 430 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("told after %v, want %v", at, want)
		}
		if !strings.Contains(counts, "5 more events of this kind happened since ") && !strings.Contains(counts, "4 more events of this kind happened since ") {
			t.Errorf("the second says\n%s", counts)
		}
		w.after(0)
		got := w.after(15 * time.Minute)
		if len(got) != 1 || got[0].Kind != app.NoticeBackOnline || !strings.Contains(words(got[0]), "bot runs again") {
			t.Fatalf("at its end: %s", titles(got))
		}
		if got := w.after(48 * time.Hour); len(got) > 0 {
			t.Errorf("after its end: %s", titles(got))
		}
		w.crash(id)
		if got := w.after(time.Second); len(got) != 1 || strings.Contains(words(got[0]), "more events") {
			t.Errorf("two days later: %s", titles(got))
		}
	})
}

// A program that its owner stops is told of no more.
func TestStoppedLoop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		w.channel(nil)
		w.crash(id)
		w.crash(id)
		w.set(id, func(s *app.Snapshot) { s.Wanted, s.State, s.Running = app.WantStopped, app.Stopped, false })
		if got := w.after(24 * time.Hour); len(got) != 1 {
			t.Errorf("told: %s", titles(got))
		}
	})
}

// What 500 programs do at once is at most five messages, each crash within a second in one.
func TestManyCrashes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var all []app.ID
		for n := range 500 {
			all = append(all, w.bot(app.ID("bot"+string(rune('a'+n/26))+string(rune('a'+n%26)))))
		}
		w.channel(nil)
		for n, id := range all {
			w.crash(id)
			if n%100 == 99 {
				time.Sleep(300 * time.Millisecond) // so long it takes until all are stored
			}
		}
		got := w.after(10 * time.Second)
		if len(got) == 0 || len(got) > 5 {
			t.Fatalf("%d messages: %s", len(got), titles(got))
		}
		told := 0
		for _, m := range got {
			told += m.Count
		}
		if told != 500 {
			t.Errorf("%d crashes are told", told)
		}
		if m := words(got[0]); !strings.Contains(m, "events, the first: bot") || !strings.Contains(m, "\nand ") {
			t.Errorf("%s", m)
		}
		for _, id := range all {
			w.crash(id)
		}
		if got := w.after(5 * time.Minute); len(got) > 0 {
			t.Errorf("and again: %s", titles(got))
		}
	})
}

// What happens in one moment is one message of all of it.
func TestOneMoment(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		w.channel(nil)
		must(t, w.db.History.AddHistoryEvent(t.Context(), id, app.HistoryEvent{Kind: app.HistoryMemory, Memory: &app.MemoryWarning{
			Run: 2, Level: 95, HeldBytes: 61 << 20, LimitBytes: 64 << 20, FullIn: time.Minute,
		}}))
		w.crash(id, func(e *app.Exit) { e.OOM, e.Code, e.Signal = true, 137, 9 })
		w.crash(id, func(e *app.Exit) { e.OOM, e.Code, e.Signal = true, 137, 9 })
		got := w.after(time.Second)
		if len(got) != 1 || got[0].Count != 2 {
			t.Fatalf("%s", titles(got))
		}
		for _, want := range []string{
			"bot was killed for needing more than 64 MB of RAM\n", "Before that it grew by 3 MB a minute.\n", "It needs more.\n", "bot needs 95 % of its RAM\n",
			"1 more event of this kind happened since ",
		} {
			if !strings.Contains(words(got[0]), want) {
				t.Errorf("without %q:\n%s", want, words(got[0]))
			}
		}
	})
}

// Each kind has words of its own, in every language, and its row in the table.
func TestEveryKindHasWords(t *testing.T) {
	if len(Kinds) != len(app.NoticeKinds) {
		t.Errorf("%d rows for %d kinds", len(Kinds), len(app.NoticeKinds))
	}
	happened := &app.HistoryEvent{Exit: &app.Exit{Code: 1}, Memory: &app.MemoryWarning{Level: 90, LimitBytes: 1}}
	for n, k := range Kinds {
		if k.Kind != app.NoticeKinds[n] {
			t.Errorf("row %d is %s, not %s", n, k.Kind, app.NoticeKinds[n])
		}
		i := item{notice: app.Notice{Kind: k.Kind, Happened: happened, Args: []string{"one", "two", "three", "4", "5"}}}
		seen := map[string]bool{}
		for _, locale := range app.Locales {
			m := compose(text.In(locale), []item{i}, "", time.Time{})
			if m.Title == string(k.Kind) || m.Title == "" || seen[m.Title] {
				t.Errorf("%s in %s: %q", k.Kind, locale, m.Title)
			}
			seen[m.Title] = true
		}
	}
}

// A channel gets what its filter lets through, in its language.
func TestFilter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		one, two := w.bot("one"), w.bot("two")
		all := w.channel(nil)
		some := w.channel(func(c *app.Channel) { c.Name, c.Apps = "some", []app.ID{one} })
		loud := w.channel(func(c *app.Channel) { c.Name, c.Least = "loud", app.Failure })
		kind := w.channel(func(c *app.Channel) {
			c.Name, c.Kinds, c.Lang = "kind", []app.NoticeKind{app.NoticeToken, app.NoticeDeployed}, "pt-BR"
		})
		off := w.channel(func(c *app.Channel) { c.Name = "off" })
		off.On, off.Target = false, ""
		if _, err := w.n.SetChannel(t.Context(), off); err != nil {
			t.Fatal(err)
		}
		w.crash(one)
		w.crash(two)
		if _, err := w.db.Accounts.InsertToken(t.Context(), [32]byte{1}, app.Token{Account: w.owner.ID, Label: "laptop"}); err != nil {
			t.Fatal(err)
		}
		w.after(2 * time.Second)
		for _, wanted := range []struct {
			c     app.Channel
			count int
			says  string
		}{{all, 3, "3 events"}, {some, 1, "one crashed"}, {loud, 2, "2 events"}, {kind, 1, "laptop"}, {off, 0, ""}} {
			d := w.deliveries(wanted.c)
			if wanted.count == 0 {
				if len(d) > 0 {
					t.Errorf("%s got %s", wanted.c.Name, d[0].Message.Title)
				}
				continue
			}
			if len(d) != 1 || d[0].Message.Count != wanted.count || !strings.Contains(d[0].Message.Title, wanted.says) {
				t.Errorf("%s: %+v", wanted.c.Name, d)
			}
		}
	})
}

// A crash of berth loses no notice, and sends no message twice with another ID.
func TestRestarts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		c := w.channel(nil)
		w.stop() // before it has made a message of that
		w.crash(id)
		w.run()
		if got := w.after(time.Second); len(got) != 1 {
			t.Fatalf("%s", titles(got))
		}
		w.stop()
		w.run()
		w.crash(id) // within the distance that is remembered
		if got := w.after(time.Minute); len(got) != 0 {
			t.Errorf("%s", titles(got))
		}
		w.stop()
		must(t, w.n.SendAgain(t.Context(), w.owner.ID, w.deliveries(c)[0].ID))
		w.run()
		if got := w.after(time.Second); len(got) != 1 || got[0].ID != w.deliveries(c)[0].Message.ID {
			t.Errorf("%s", titles(got))
		}
	})
}

// The host's owners hear of the host, and nobody else.
func TestHostNotices(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bob, err := w.db.Accounts.CreateAccount(t.Context(), app.Account{Name: "bob", TotalRAM: 100, Locale: "en-US"})
		must(t, err)
		w.channel(nil)
		his := w.channel(func(c *app.Channel) { c.Account = bob.ID })
		must(t, w.db.Notices.AddNotice(t.Context(), app.Notice{Kind: app.NoticeUpgraded, At: time.Now(), Args: []string{"v1", "v2"}}))
		got := w.after(time.Second)
		if len(got) != 1 || words(got[0]) != "This host runs berth v2 now\nBefore it was v1.\n\nhttps://berth.example.org/host" {
			t.Errorf("%+v", got)
		}
		if d, err := w.n.Deliveries(t.Context(), bob.ID, his.ID); err != nil || len(d) > 0 {
			t.Errorf("%v, %v", d, err)
		}
	})
}
