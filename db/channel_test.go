package db

import (
	"slices"
	"testing"
	"time"

	"berth/app"
)

func mustChannel(t *testing.T, db *DB, owner app.AccountID, change func(*app.Channel)) app.Channel {
	t.Helper()
	c := app.Channel{Account: owner, Name: "ops", Service: app.Discord, Target: "https://example.org", Lang: "en-US", On: true, Confirmed: true}
	if change != nil {
		change(&c)
	}
	c, err := db.Notices.AddChannel(t.Context(), c, 10)
	must(t, err)
	return c
}

// kindsOf are the kinds of the notices that nobody has heard.
func kindsOf(t *testing.T, db *DB) (kinds []app.NoticeKind) {
	t.Helper()
	all, err := db.Notices.Unheard(t.Context())
	must(t, err)
	for _, n := range all {
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

// A notice is there with what happened, and only for those who hear it.
func TestNoticesAreStoredWithWhatHappened(t *testing.T) {
	db, _ := openTemp(t)
	ana, bob := mustAccount(t, db, "ana", 1024), mustAccount(t, db, "bob", 1024)
	mustApp(t, db, ana.ID, "bot", 100)
	woken := 0
	db.Notices.Noticed(func() { woken++ })
	crash := func(run int) error {
		return db.Apps.RunEnded(t.Context(), "bot", app.Exit{Run: run, At: time.Now(), Code: 1, LimitMB: 64})
	}
	must(t, crash(1)) // nobody hears
	mustChannel(t, db, bob.ID, nil)
	must(t, crash(2))
	off := mustChannel(t, db, ana.ID, func(c *app.Channel) { c.Name, c.On = "off", false })
	must(t, crash(3))
	if kinds := kindsOf(t, db); kinds != nil || woken != 0 {
		t.Errorf("%v, woken %d times", kinds, woken)
	}
	_, err := db.Notices.SetChannel(t.Context(), ana.ID, off.ID, func(c *app.Channel) error { c.On = true; return nil })
	must(t, err)
	must(t, crash(4))
	must(t, crash(4)) // the record of it again is no second crash
	must(t, db.History.AddHistoryEvent(t.Context(), "bot", app.HistoryEvent{Kind: app.HistoryDisk, Text: "full"}))
	_, err = db.Accounts.InsertToken(t.Context(), [32]byte{7}, app.Token{Account: ana.ID, Label: "ci"})
	must(t, err)
	must(t, db.Certificates.SaveCertificate(t.Context(), "ca", app.Certificate{Name: "a.example.org", Chain: []byte("x"), Problem: "no"})) // nobody administers
	if kinds := kindsOf(t, db); !slices.Equal(kinds, []app.NoticeKind{app.NoticeCrashed, app.NoticeDisk, app.NoticeToken}) || woken != 3 {
		t.Errorf("%v, woken %d times", kinds, woken)
	}
	wantKind(t, "a crash of nothing", db.History.AddHistoryEvent(t.Context(), "gone", app.HistoryEvent{Kind: app.HistoryDisk}), app.NotFound)
	if kinds := kindsOf(t, db); len(kinds) != 3 {
		t.Errorf("what did not happen left %v", kinds)
	}
}

// A certificate that was not renewed is told to the host's owners and to whose domain it is; one
// that never was is in the panel.
func TestCertificateNotices(t *testing.T) {
	db, _ := openTemp(t)
	ana, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 1, Locale: "en-US", Admin: true})
	must(t, err)
	mustChannel(t, db, ana.ID, nil)
	save := func(c app.Certificate) { must(t, db.Certificates.SaveCertificate(t.Context(), "ca", c)) }
	save(app.Certificate{Name: "new.example.org", Problem: "the DNS does not answer"})
	save(app.Certificate{Name: "good.example.org", Chain: []byte("x")})
	save(app.Certificate{Name: "old.example.org", Chain: []byte("x"), Problem: "the DNS does not answer"})
	all, err := db.Notices.Unheard(t.Context())
	if err != nil || len(all) != 1 || all[0].Account != ana.ID || !slices.Equal(all[0].Args, []string{"old.example.org", "the DNS does not answer"}) {
		t.Errorf("%+v, %v", all, err)
	}
}

// What nobody takes is bounded.
func TestUnheardNoticesAreBounded(t *testing.T) {
	db, _ := openTemp(t)
	ana := mustAccount(t, db, "ana", 1024)
	mustChannel(t, db, ana.ID, nil)
	must(t, db.write(t.Context(), "fill", func(t tx) error {
		for range keptUnheard + 5 {
			if err := t.notice(app.Notice{Account: ana.ID, Kind: app.NoticeToken, Args: []string{"x"}}); err != nil {
				return err
			}
		}
		return nil
	}))
	if n := len(kindsOf(t, db)); n != keptUnheard {
		t.Errorf("%d wait", n)
	}
}

// With an account goes everything of its channels.
func TestChannelsGoWithTheirAccount(t *testing.T) {
	db, _ := openTemp(t)
	ana := mustAccount(t, db, "ana", 1024)
	c := mustChannel(t, db, ana.ID, nil)
	now := db.now()
	n := app.Notice{Account: ana.ID, At: now, Kind: app.NoticeToken}
	must(t, db.Notices.AddNotice(t.Context(), n))
	trouble := app.Trouble{Account: ana.ID, Topic: "token", Since: now, Told: now, Last: n}
	must(t, db.Notices.Tell(t.Context(), nil, []app.Trouble{trouble}, nil, []app.Delivery{{Channel: c.ID, NextAt: now}}))
	must(t, db.Notices.Use(t.Context(), ana.ID, "mail", 1, now.Add(-time.Hour)))
	wantKind(t, "a second mail", db.Notices.Use(t.Context(), ana.ID, "mail", 1, now.Add(-time.Hour)), app.Limited)
	must(t, db.Accounts.DeleteAccount(t.Context(), ana.ID))
	for _, table := range []string{"channel", "notice", "trouble", "delivery", "notice_use"} {
		var left int
		if err := db.reader.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&left); err != nil || left > 0 {
			t.Errorf("%d left in %s, %v", left, table, err)
		}
	}
	must(t, db.Notices.Tell(t.Context(), nil, []app.Trouble{trouble}, nil, []app.Delivery{{Channel: c.ID, NextAt: now}})) // it came too late
}

// The daemon before is known: how it ended, what it was, and where it ran.
func TestLife(t *testing.T) {
	db, _ := openTemp(t)
	one, two := Life{Boot: "a", Version: "1"}, Life{Boot: "a", Version: "2"}
	if before, err := db.Began(t.Context(), one); err != nil || before != (Life{}) {
		t.Errorf("%+v, %v", before, err)
	}
	if before, err := db.Began(t.Context(), two); err != nil || before != one {
		t.Errorf("%+v, %v", before, err)
	}
	must(t, db.Ended(t.Context()))
	two.Ended = true
	if before, err := db.Began(t.Context(), one); err != nil || before != two {
		t.Errorf("%+v, %v", before, err)
	}
}
