package notify

import (
	"context"
	"math/rand/v2"
	"time"

	"berth/app"
)

// retries are the pauses after a try that failed, those of Standard Webhooks 1.0.0; then the
// message has failed. Up to a fifth is added to each, so that many do not come at once.
var retries = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	// accountSends and allSends are how many messages are sent at once.
	accountSends = 3
	allSends     = 128
	// sendTime bounds one try.
	sendTime = 15 * time.Second
	// longestPause bounds what a service can ask for.
	longestPause = 24 * time.Hour

	// Mails of an account in a day, of messages, tests and links.
	mailUse, dailyMails, mailTime = "mail", 50, 24 * time.Hour
)

// sending is one try under way.
type sending struct {
	channel int64
	account app.AccountID
}

// deliver sends what is due until ctx ends and no try is under way.
func (n *Notifier) deliver(ctx context.Context) {
	done := make(chan sending)
	channels, accounts := map[int64]bool{}, map[app.AccountID]int{}
	ended := func(s sending) {
		delete(channels, s.channel)
		if accounts[s.account]--; accounts[s.account] == 0 {
			delete(accounts, s.account)
		}
	}
	defer func() {
		for len(channels) > 0 {
			ended(<-done)
		}
	}()
	for {
		wait := time.Duration(0)
		due, err := n.Store.Due(ctx)
		if err != nil {
			n.failed(ctx, "cannot read the messages that are due", err)
			wait = failPause
		}
		for _, d := range due {
			if in := time.Until(d.NextAt); in > 0 {
				wait = in
				break // they are in order
			}
			if channels[d.Channel] || accounts[d.Account] >= accountSends || len(channels) >= allSends {
				continue // its turn comes when one of those has ended
			}
			channels[d.Channel] = true
			accounts[d.Account]++
			go func() {
				n.try(ctx, d)
				done <- sending{d.Channel, d.Account}
			}()
		}
		var soon <-chan time.Time
		if wait > 0 {
			soon = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case s := <-done:
			ended(s)
		case <-n.send:
		case <-soon:
		}
	}
}

// try sends a message once, and stores how that ended.
func (n *Notifier) try(ctx context.Context, d app.Delivery) {
	c, err := n.Store.AnyChannel(ctx, d.Channel)
	if app.KindOf(err) == app.NotFound {
		return // it was removed, and its deliveries with it
	}
	var r app.Receipt
	switch {
	case err != nil:
		r = app.Receipt{Why: app.Errorf(app.Unavailable, "what this channel needs cannot be read")}
		n.failed(ctx, "cannot read a channel", err)
	case !c.On, !c.Confirmed, c.Stopped != "":
		d.State, d.Why = app.DeliveryFailed, app.Textf("the channel is switched off").String()
		n.tried(ctx, d, false, "")
		return
	default:
		if err := n.mayMail(ctx, c); err != nil {
			d.NextAt, d.Why = time.Now().Add(time.Hour), err.Error()
			n.tried(ctx, d, true, "")
			return
		}
		r = n.sendOne(ctx, c, d.Message)
	}
	if ctx.Err() != nil && r.Why != nil {
		return // the next daemon sends it
	}
	d.Tries++
	d.Status, d.Why = r.Status, ""
	if r.Why == nil {
		d.State = app.DeliverySent
		n.tried(ctx, d, false, "")
		return
	}
	d.Why = r.Why.Error()
	stopped := ""
	switch {
	case r.Gone:
		d.State, stopped = app.DeliveryFailed, d.Why
	case d.Tries > len(retries):
		d.State = app.DeliveryFailed
	default:
		pause := retries[d.Tries-1]
		pause += rand.N(pause / 5)
		d.NextAt = time.Now().Add(max(pause, min(r.RetryAfter, longestPause)))
	}
	n.tried(ctx, d, r.RetryAfter > 0 && d.State == app.DeliveryWaiting, stopped)
}

// tried stores how a try ended. Where that cannot be stored the message is sent again with its
// ID, after a pause.
func (n *Notifier) tried(ctx context.Context, d app.Delivery, hold bool, stopped string) {
	for n.Store.Tried(context.WithoutCancel(ctx), d, hold, stopped) != nil {
		n.Log.Error("cannot store that a message was sent")
		if !pause(ctx, failPause, nil) {
			return
		}
	}
}

// sendOne sends a message through a channel, within sendTime.
func (n *Notifier) sendOne(ctx context.Context, c app.Channel, m app.Message) app.Receipt {
	if c.Service == app.Email {
		m.Leave = n.linkOf(c, app.LeavePath)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return n.Sender.Send(ctx, c, m)
}

// mayMail counts a mail of an account, if c is one of Email, and fails with app.Limited.
func (n *Notifier) mayMail(ctx context.Context, c app.Channel) error {
	if c.Service != app.Email {
		return nil
	}
	err := n.Store.Use(ctx, c.Account, mailUse, dailyMails, time.Now().Add(-mailTime))
	if app.KindOf(err) == app.Limited {
		return app.Errorf(app.Limited, "this account has sent %d mails in 24 hours, the most it may", dailyMails)
	}
	return err
}
