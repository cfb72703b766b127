package notify

import (
	"errors"
	"testing"
	"time"

	"berth/app"
)

var errFull = app.Errorf(app.Unavailable, "the service answered %d", 503)

// A receiver that fails is tried again for days, always with the same ID, and then no more.
func TestRetries(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		c := w.channel(nil)
		w.answer = func(app.Channel, app.Message) app.Receipt { return app.Receipt{Status: 503, Why: errFull} }
		began := time.Now()
		w.crash(id)
		w.set(id, func(s *app.Snapshot) { s.Running, s.State = false, app.Stopped })
		time.Sleep(5 * 24 * time.Hour)
		w.mu.Lock()
		at := w.at
		w.mu.Unlock()
		got := w.after(0)
		if len(got) != len(retries)+1 {
			t.Fatalf("tried %d times", len(got))
		}
		for n := range retries {
			if pause := at[n+1].Sub(at[n]); pause < retries[n] || pause > retries[n]*6/5+time.Second {
				t.Errorf("pause %d is %s", n, pause)
			}
			if got[n].ID != got[n+1].ID {
				t.Error("another ID")
			}
		}
		if first := at[0].Sub(began); first > time.Second {
			t.Errorf("the first after %s", first)
		}
		d := w.deliveries(c)
		if len(d) != 1 || d[0].State != app.DeliveryFailed || d[0].Why != "the service answered 503" || d[0].Status != 503 || d[0].Tries != 10 {
			t.Errorf("%+v", d)
		}
		w.answer = func(app.Channel, app.Message) app.Receipt { return app.Receipt{Status: 200} }
		must(t, w.n.SendAgain(t.Context(), w.owner.ID, d[0].ID))
		if again := w.after(time.Second); len(again) != 1 || again[0].ID != got[0].ID {
			t.Errorf("again: %s", titles(again))
		}
		if d := w.deliveries(c); d[0].State != app.DeliverySent || d[0].Tries != 1 || d[0].Why != "" {
			t.Errorf("%+v", d)
		}
	})
}

// Who asks for a pause gets it, for everything that waits; who asks for a year gets a day.
func TestRetryAfter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		one, two := w.bot("one"), w.bot("two")
		w.channel(nil)
		w.answer = func(app.Channel, app.Message) app.Receipt {
			return app.Receipt{Status: 429, Why: errFull, RetryAfter: time.Hour}
		}
		w.crash(one)
		w.after(time.Second)
		w.crash(two)
		w.after(time.Second)
		w.answer = func(app.Channel, app.Message) app.Receipt {
			return app.Receipt{Status: 429, Why: errFull, RetryAfter: 365 * 24 * time.Hour}
		}
		if got := w.after(59 * time.Minute); len(got) > 0 {
			t.Errorf("too soon: %s", titles(got))
		}
		if got := w.after(2 * time.Minute); len(got) == 0 {
			t.Error("not after an hour")
		}
		w.answer = func(app.Channel, app.Message) app.Receipt { return app.Receipt{} }
		if got := w.after(25 * time.Hour); len(got) < 2 {
			t.Errorf("after a day: %s", titles(got))
		}
	})
}

// A channel that is gone is stopped, which its owner sees, and nothing more is sent to it before
// the owner says so.
func TestGone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		one, two := w.bot("one"), w.bot("two")
		c := w.channel(nil)
		w.answer = func(app.Channel, app.Message) app.Receipt {
			return app.Receipt{Status: 404, Gone: true, Why: app.Errorf(app.NotFound, "the service knows this channel no more")}
		}
		w.crash(one)
		w.after(time.Second)
		w.crash(two)
		if got := w.after(24 * time.Hour); len(got) > 0 {
			t.Errorf("sent: %s", titles(got))
		}
		is, err := w.n.Channel(t.Context(), w.owner.ID, c.ID)
		if err != nil || is.Stopped != "the service knows this channel no more" {
			t.Errorf("%+v, %v", is, err)
		}
		if d := w.deliveries(c); len(d) != 1 || d[0].State != app.DeliveryFailed || d[0].Tries != 1 {
			t.Errorf("%+v", d)
		}
		wantKind(t, "a test", w.n.TestChannel(t.Context(), w.owner.ID, c.ID), app.NotFound)
		w.answer = func(app.Channel, app.Message) app.Receipt { return app.Receipt{Status: 200} }
		must(t, w.n.TestChannel(t.Context(), w.owner.ID, c.ID))
		w.after(0)
		w.crash(one)
		if got := w.after(2 * time.Second); len(got) != 1 {
			t.Errorf("after a test that arrived: %s", titles(got))
		}
	})
}

// A receiver that takes its time delays nobody else, also of the same account.
func TestSlowReceiver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.bot("bot")
		slow := w.channel(nil)
		fast := w.channel(func(c *app.Channel) { c.Name = "fast" })
		w.answer = func(c app.Channel, _ app.Message) app.Receipt {
			if c.ID == slow.ID {
				time.Sleep(sendTime)
				return app.Receipt{Why: errors.New("it took too long")}
			}
			return app.Receipt{}
		}
		w.crash(id)
		w.after(time.Second)
		if d := w.deliveries(fast); len(d) != 1 || d[0].State != app.DeliverySent {
			t.Errorf("%+v", d)
		}
		if d := w.deliveries(slow); len(d) != 1 || d[0].State != app.DeliveryWaiting {
			t.Errorf("%+v", d)
		}
		w.after(time.Minute)
		for range 3 {
			w.stop() // waits for the try that is under way
			w.run()
		}
	})
}

// What waits for one channel is bounded: of 201 the oldest fails.
func TestManyWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.channel(nil)
		w.stop()
		for range 201 {
			must(t, w.db.Notices.Tell(t.Context(), nil, nil, nil, []app.Delivery{{Channel: c.ID, Message: app.Message{Title: "x"}, NextAt: time.Now()}}))
		}
		waiting, failed := 0, ""
		for _, d := range w.deliveries(c) {
			if d.State == app.DeliveryWaiting {
				waiting++
			} else {
				failed = d.Why
			}
		}
		if waiting != 200 || failed != "200 later messages waited for the same channel" {
			t.Errorf("%d wait, %q", waiting, failed)
		}
		w.run()
		w.after(time.Minute)
		if d := w.deliveries(c); len(d) != 101 && len(d) != 201 {
			t.Errorf("%d are remembered", len(d))
		}
		wantKind(t, "a strange delivery", w.n.SendAgain(t.Context(), w.owner.ID+1, 1), app.NotFound)
	})
}
