package notify

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// What a channel cannot be is refused, and nothing of it is stored.
func TestChannelRefusals(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.channel(nil)
		for what, c := range map[string]struct {
			change func(*app.Channel)
			kind   app.Kind
			says   string
		}{
			"no name":      {func(c *app.Channel) { c.Name = " " }, app.Invalid, "the name of a channel has 1 to 50 characters"},
			"a long name":  {func(c *app.Channel) { c.Name = strings.Repeat("é", 51) }, app.Invalid, "1 to 50"},
			"two lines":    {func(c *app.Channel) { c.Name = "a\nb" }, app.Invalid, "1 to 50"},
			"a taken name": {func(c *app.Channel) { c.Name = "ops" }, app.Conflict, `a channel called "ops" exists already`},
			"a severity":   {func(c *app.Channel) { c.Least = 3 }, app.Invalid, "there is no such severity"},
			"a kind":       {func(c *app.Channel) { c.Kinds = []app.NoticeKind{"test"} }, app.Invalid, `there are no notifications of the kind "test"`},
			"a language":   {func(c *app.Channel) { c.Lang = "tlh" }, app.Invalid, `there are no messages in "tlh"`},
			"no such app":  {func(c *app.Channel) { c.Apps = []app.ID{"x"} }, app.NotFound, "no such application"},
			"many apps":    {func(c *app.Channel) { c.Apps = make([]app.ID, 101) }, app.Invalid, "100 applications at most"},
			"no address":   {func(c *app.Channel) { c.Target = "" }, app.Invalid, "no address"},
			"no account":   {func(c *app.Channel) { c.Account = 99 }, app.NotFound, "there is no account 99"},
		} {
			bad := app.Channel{Account: w.owner.ID, Name: "new", Service: app.Discord, Target: "https://example.org", Lang: "en-US"}
			c.change(&bad)
			_, err := w.n.AddChannel(t.Context(), bad)
			wantKind(t, what, err, c.kind)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", what, err)
			}
		}
		all, err := w.n.Channels(t.Context(), w.owner.ID)
		if err != nil || len(all) != 1 || all[0].Target != "https://h…"[:9]+"…" || all[0].Secrets[0] != masked {
			t.Errorf("%+v, %v", all, err)
		}
		for n := range 9 {
			w.channel(func(c *app.Channel) { c.Name = fmt.Sprint(n) })
		}
		_, err = w.n.AddChannel(t.Context(), app.Channel{Account: w.owner.ID, Name: "11", Service: app.Slack, Target: "https://example.org", Lang: "en-US"})
		wantKind(t, "an eleventh", err, app.Exhausted)
	})
}

// Another account's channel is not there.
func TestChannelOfAnother(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.channel(nil)
		other := w.owner.ID + 1
		ctx := t.Context()
		_, read := w.n.Channel(ctx, other, c.ID)
		_, set := w.n.SetChannel(ctx, app.Channel{ID: c.ID, Account: other, Name: "x", Lang: "en-US"})
		_, turned := w.n.TurnSecret(ctx, other, c.ID)
		_, deliveries := w.n.Deliveries(ctx, other, c.ID)
		for what, err := range map[string]error{
			"read": read, "set": set, "turned": turned, "deliveries": deliveries, "test": w.n.TestChannel(ctx, other, c.ID),
			"secret": w.n.EndSecret(ctx, other, c.ID), "removed": w.n.RemoveChannel(ctx, other, c.ID),
		} {
			wantKind(t, what, err, app.NotFound)
		}
		must(t, w.n.RemoveChannel(ctx, w.owner.ID, c.ID))
		wantKind(t, "removed", w.n.RemoveChannel(ctx, w.owner.ID, c.ID), app.NotFound)
	})
}

// A secret is shown once; while it changes, there are two.
func TestSecretsTurn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.channel(nil)
		if len(c.Secrets) != 1 || !strings.HasPrefix(c.Secrets[0], "whsec_") {
			t.Fatalf("%+v", c)
		}
		wantKind(t, "one only", w.n.EndSecret(t.Context(), w.owner.ID, c.ID), app.Already)
		turned, err := w.n.TurnSecret(t.Context(), w.owner.ID, c.ID)
		if err != nil || len(turned.Secrets) != 2 || turned.Secrets[0] == c.Secrets[0] || turned.Secrets[1] != masked {
			t.Errorf("%+v, %v", turned, err)
		}
		if stored, err := w.db.Notices.AnyChannel(t.Context(), c.ID); err != nil || stored.Secrets[0] != turned.Secrets[0] || stored.Secrets[1] != c.Secrets[0] {
			t.Errorf("%+v, %v", stored, err)
		}
		if again, err := w.n.TurnSecret(t.Context(), w.owner.ID, c.ID); err != nil || len(again.Secrets) != 2 {
			t.Errorf("%+v, %v", again, err)
		}
		must(t, w.n.EndSecret(t.Context(), w.owner.ID, c.ID))
		discord := w.channel(func(c *app.Channel) { c.Name, c.Service = "chat", app.Discord })
		_, err = w.n.TurnSecret(t.Context(), w.owner.ID, discord.ID)
		wantKind(t, "no webhook", err, app.Invalid)
	})
}

// An address gets one link, and nothing else before its owner followed it; nothing after its
// owner left.
func TestEmail(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		w.noMail = true
		mail := app.Channel{Account: w.owner.ID, Name: "me", Service: app.Email, Target: "ana@example.org", Lang: "en-US"}
		_, err := w.n.AddChannel(t.Context(), mail)
		wantKind(t, "no mail server", err, app.Unusable)
		w.noMail = false
		w.answer = func(app.Channel, app.Message) app.Receipt { return app.Receipt{Why: errFull} }
		_, err = w.n.AddChannel(t.Context(), mail)
		wantKind(t, "a mail server that fails", err, app.Unavailable)
		if all, err := w.n.Channels(t.Context(), w.owner.ID); err != nil || len(all) > 0 {
			t.Errorf("left: %+v, %v", all, err)
		}
		w.answer = func(app.Channel, app.Message) app.Receipt { return app.Receipt{} }
		w.after(0)
		c, err := w.n.AddChannel(t.Context(), mail)
		must(t, err)
		w.crash(id)
		got := w.after(time.Hour)
		if len(got) != 1 || got[0].Title != "Do you want notifications of berth at this address?" || strings.Contains(words(got[0]), "me") && strings.Contains(words(got[0]), "ana") {
			t.Fatalf("%s", titles(got))
		}
		token, ok := strings.CutPrefix(got[0].Link, "https://berth.example.org"+app.ConfirmPath)
		if !ok {
			t.Fatalf("the link is %s", got[0].Link)
		}
		for _, wrong := range []string{"", "x", token + "x", "99" + token[1:], token[:2]} {
			_, err := w.n.Confirm(t.Context(), wrong)
			wantKind(t, "the link "+wrong, err, app.NotFound)
		}
		_, err = w.n.Leave(t.Context(), token)
		wantKind(t, "the other link", err, app.NotFound)
		is, err := w.n.Confirm(t.Context(), token)
		if err != nil || !is.Confirmed || is.Secrets != nil {
			t.Errorf("%+v, %v", is, err)
		}
		w.crash(id)
		w.after(0)
		if got = w.after(2 * time.Second); len(got) != 1 || got[0].Kind != app.NoticeCrashed || got[0].Leave == "" {
			t.Fatalf("%s", titles(got))
		}
		leave, _ := strings.CutPrefix(got[0].Leave, "https://berth.example.org"+app.LeavePath)
		_, err = w.n.Leave(t.Context(), leave)
		must(t, err)
		w.crash(id)
		if got := w.after(24 * time.Hour); len(got) > 0 {
			t.Errorf("after it left: %s", titles(got))
		}
		c.Target = "eve@example.org" // another address must confirm for itself
		moved, err := w.n.SetChannel(t.Context(), c)
		if err != nil || moved.Confirmed {
			t.Errorf("%+v, %v", moved, err)
		}
		_, err = w.n.Confirm(t.Context(), token)
		wantKind(t, "the link of before", err, app.NotFound)
	})
}

// An account cannot make a mail relay of berth: 5 tests and links an hour, 50 mails a day.
func TestMailIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		c, err := w.n.AddChannel(t.Context(), app.Channel{Account: w.owner.ID, Name: "me", Service: app.Email, Target: "ana@example.org", Lang: "en-US"})
		must(t, err)
		for range 4 {
			must(t, w.n.TestChannel(t.Context(), w.owner.ID, c.ID))
		}
		err = w.n.TestChannel(t.Context(), w.owner.ID, c.ID)
		wantKind(t, "a sixth", err, app.Exhausted)
		if !strings.Contains(fmt.Sprint(err), "5 tests and links in an hour") {
			t.Error(err)
		}
		must(t, w.n.RemoveChannel(t.Context(), w.owner.ID, c.ID))
		_, err = w.n.AddChannel(t.Context(), app.Channel{Account: w.owner.ID, Name: "me", Service: app.Email, Target: "bob@example.org", Lang: "en-US"})
		wantKind(t, "a link to another address", err, app.Exhausted)
		time.Sleep(time.Hour)
		c, err = w.n.AddChannel(t.Context(), app.Channel{Account: w.owner.ID, Name: "me", Service: app.Email, Target: "bob@example.org", Lang: "en-US"})
		must(t, err)
		_, err = w.db.Notices.SetChannel(t.Context(), w.owner.ID, c.ID, func(c *app.Channel) error { c.Confirmed = true; return nil })
		must(t, err)
		w.after(0)
		for range 60 {
			must(t, w.db.Notices.Tell(context.Background(), nil, nil, nil, []app.Delivery{{Channel: c.ID, Message: app.Message{Title: "x"}, NextAt: time.Now()}}))
		}
		w.crash(id, func(e *app.Exit) { e.Asked = true })
		poke(w.n.send)
		if got := w.after(time.Hour); len(got) != 44 { // and six links
			t.Errorf("%d mails", len(got))
		}
		if d := w.deliveries(c); d[0].State != app.DeliveryWaiting {
			t.Errorf("%+v", d[0])
		}
		if got := w.after(24 * time.Hour); len(got) != 16 {
			t.Errorf("%d mails a day later", len(got))
		}
	})
}
