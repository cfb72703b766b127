package notify

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"berth/app"
	"berth/app/text"
)

const (
	maxChannels = 10
	maxName     = 50  // of a channel, in characters
	maxFilter   = 100 // applications that a channel is for
	masked      = "…"

	// Tests of an account, and links that confirm an address, in an hour.
	testUse, hourlyTests, testTime = "test", 5, time.Hour
)

// shown is a channel as its owner may see it: newest is how many of its Secrets are shown.
func (n *Notifier) shown(c app.Channel, newest int) app.Channel {
	c.Target = n.Sender.Mask(c)
	c.Secrets = slices.Clone(c.Secrets)
	for i := range c.Secrets {
		if i >= newest || c.Service != app.Webhook {
			c.Secrets[i] = masked
		}
	}
	if c.Service == app.Email {
		c.Secrets = nil
	}
	return c
}

// Channels implements app.Notices.
func (n *Notifier) Channels(ctx context.Context, owner app.AccountID) ([]app.Channel, error) {
	all, err := n.Store.Channels(ctx, owner)
	for i, c := range all {
		all[i] = n.shown(c, 0)
	}
	return all, err
}

// Channel implements app.Notices.
func (n *Notifier) Channel(ctx context.Context, owner app.AccountID, id int64) (app.Channel, error) {
	c, err := n.channel(ctx, owner, id)
	if err != nil {
		return app.Channel{}, err
	}
	return n.shown(c, 0), nil
}

// channel is Channel with its secrets.
func (n *Notifier) channel(ctx context.Context, owner app.AccountID, id int64) (app.Channel, error) {
	c, err := n.Store.AnyChannel(ctx, id)
	if err == nil && c.Account != owner {
		err = noChannel(id)
	}
	return c, err
}

func noChannel(id int64) error { return app.Errorf(app.NotFound, "there is no channel %d", id) }

// check fails with app.Invalid for what an owner cannot have decided, and with what
// Sender.Check says.
func (n *Notifier) check(c *app.Channel) error {
	c.Name = strings.TrimSpace(c.Name)
	switch {
	case c.Name == "" || utf8.RuneCountInString(c.Name) > maxName || strings.ContainsFunc(c.Name, unicode.IsControl):
		return app.Errorf(app.Invalid, "the name of a channel has 1 to %d characters", maxName)
	case c.Least < app.Info || c.Least > app.Failure:
		return app.Errorf(app.Invalid, "there is no such severity")
	case len(c.Apps) > maxFilter:
		return app.Errorf(app.Invalid, "a channel can be for %d applications at most, or for all", maxFilter)
	case !slices.Contains(app.Locales, c.Lang):
		return app.Errorf(app.Invalid, "there are no messages in %q", c.Lang)
	}
	for _, kind := range c.Kinds {
		if !slices.Contains(app.NoticeKinds, kind) {
			return app.Errorf(app.Invalid, "there are no notifications of the kind %q", kind)
		}
	}
	for _, id := range c.Apps {
		if _, err := n.App(c.Account, id); err != nil {
			return err
		}
	}
	return n.Sender.Check(*c)
}

// AddChannel implements app.Notices.
func (n *Notifier) AddChannel(ctx context.Context, c app.Channel) (app.Channel, error) {
	c.On, c.Confirmed, c.Stopped = true, c.Service != app.Email, ""
	switch c.Service {
	case app.Webhook:
		c.Secrets = []string{newSecret()}
	case app.Email:
		c.Secrets = []string{rand.Text()}
	case app.Discord, app.Slack, app.Telegram, app.Ntfy:
	}
	if err := n.check(&c); err != nil {
		return app.Channel{}, err
	}
	if c.Service == app.Email {
		if err := n.use(ctx, c.Account); err != nil { // nothing is stored that would get no link
			return app.Channel{}, err
		}
	}
	c, err := n.Store.AddChannel(ctx, c, maxChannels)
	if err != nil {
		return app.Channel{}, err
	}
	if c.Service == app.Email {
		if err := n.invite(ctx, c); err != nil {
			return app.Channel{}, errors.Join(err, n.Store.RemoveChannel(context.WithoutCancel(ctx), c.Account, c.ID))
		}
	}
	return n.shown(c, 1), nil
}

// newSecret is a secret of Standard Webhooks 1.0.0.
func newSecret() string {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails, see crypto/rand
	return "whsec_" + base64.StdEncoding.EncodeToString(secret)
}

// SetChannel implements app.Notices.
func (n *Notifier) SetChannel(ctx context.Context, c app.Channel) (app.Channel, error) {
	moved := false
	change := func(is *app.Channel) error {
		c.Service, c.Owner = is.Service, is.Owner
		moved = c.Target != "" && c.Target != is.Target
		if c.Target == "" {
			c.Target = is.Target
		}
		if c.Service != app.Ntfy || len(c.Secrets) == 0 || c.Secrets[0] == masked {
			c.Secrets = is.Secrets
		}
		c.Confirmed, c.Stopped, c.CreatedAt = is.Confirmed, "", is.CreatedAt
		if moved && c.Service == app.Email {
			c.Confirmed, c.Secrets = false, []string{rand.Text()}
		}
		*is = c
		return n.check(is)
	}
	if now, err := n.channel(ctx, c.Account, c.ID); err != nil {
		return app.Channel{}, err
	} else if now.Service == app.Email && c.Target != "" && c.Target != now.Target {
		if err := n.use(ctx, c.Account); err != nil {
			return app.Channel{}, err
		}
	}
	stored, err := n.Store.SetChannel(ctx, c.Account, c.ID, change)
	if err != nil {
		return app.Channel{}, err
	}
	if moved && stored.Service == app.Email {
		err = n.invite(ctx, stored)
	}
	return n.shown(stored, 0), err
}

// RemoveChannel implements app.Notices.
func (n *Notifier) RemoveChannel(ctx context.Context, owner app.AccountID, id int64) error {
	return n.Store.RemoveChannel(ctx, owner, id)
}

func webhookOnly(c *app.Channel) error {
	if c.Service != app.Webhook {
		return app.Errorf(app.Invalid, "only channels of the kind webhook have secrets that sign")
	}
	return nil
}

// TurnSecret implements app.Notices.
func (n *Notifier) TurnSecret(ctx context.Context, owner app.AccountID, id int64) (app.Channel, error) {
	c, err := n.Store.SetChannel(ctx, owner, id, func(c *app.Channel) error {
		c.Secrets = append([]string{newSecret()}, c.Secrets[:min(1, len(c.Secrets))]...)
		return webhookOnly(c)
	})
	if err != nil {
		return app.Channel{}, err
	}
	return n.shown(c, 1), nil
}

// EndSecret implements app.Notices.
func (n *Notifier) EndSecret(ctx context.Context, owner app.AccountID, id int64) error {
	_, err := n.Store.SetChannel(ctx, owner, id, func(c *app.Channel) error {
		if err := webhookOnly(c); err != nil {
			return err
		}
		if len(c.Secrets) < 2 {
			return app.Errorf(app.Already, "this channel has one secret only")
		}
		c.Secrets = c.Secrets[:1]
		return nil
	})
	return err
}

// use counts a test of an account.
func (n *Notifier) use(ctx context.Context, account app.AccountID) error {
	err := n.Store.Use(ctx, account, testUse, hourlyTests, time.Now().Add(-testTime))
	if app.KindOf(err) == app.Limited {
		return app.Errorf(app.Exhausted, "this account has sent %d tests and links in an hour, the most it may; try again later", hourlyTests)
	}
	return err
}

// TestChannel implements app.Notices.
func (n *Notifier) TestChannel(ctx context.Context, owner app.AccountID, id int64) error {
	c, err := n.channel(ctx, owner, id)
	if err != nil {
		return err
	}
	if err := n.use(ctx, owner); err != nil {
		return err
	}
	if !c.Confirmed {
		return n.invite(ctx, c)
	}
	test := item{notice: app.Notice{Account: owner, At: time.Now(), Kind: app.NoticeTest}}
	if err := n.sendNow(ctx, c, compose(text.In(c.Lang), []item{test}, n.BaseURL, time.Now())); err != nil || c.Stopped == "" {
		return err
	}
	_, err = n.Store.SetChannel(ctx, owner, id, func(c *app.Channel) error { c.Stopped = ""; return nil })
	return err
}

// sendNow sends what is no delivery.
func (n *Notifier) sendNow(ctx context.Context, c app.Channel, m app.Message) error {
	if err := n.mayMail(ctx, c); err != nil {
		return err
	}
	return n.sendOne(ctx, c, m).Why
}

// invite sends the link that confirms an address. Nothing in it is of the account's own words.
func (n *Notifier) invite(ctx context.Context, c app.Channel) error {
	l, now := text.In(c.Lang), time.Now()
	return n.sendNow(ctx, c, app.Message{
		ID: "msg_" + rand.Text(), At: now, Kind: app.NoticeTest, Link: n.linkOf(c, app.ConfirmPath), Count: 1,
		Title: l.Say("Do you want notifications of berth at this address?"),
		Lines: []string{
			l.Say("Somebody with an account on this host wants to get notifications here. Follow the link and confirm that."),
			l.Say("If that was not you, do nothing: nothing more is sent."),
		},
	})
}

// linkOf is a link below a path that only those know who read the mail of c.
func (n *Notifier) linkOf(c app.Channel, path string) string {
	return n.BaseURL + path + fmt.Sprintf("%d.%s", c.ID, proof(c, path))
}

// proof is what a link of mail proves with.
func proof(c app.Channel, path string) string {
	key := ""
	if len(c.Secrets) > 0 {
		key = c.Secrets[0]
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(path))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// proven returns the channel that a link is for.
func (n *Notifier) proven(ctx context.Context, token, path string) (app.Channel, error) {
	wrong := app.Errorf(app.NotFound, "this link does not work; it may be of a channel that was changed or removed")
	number, given, _ := strings.Cut(token, ".")
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return app.Channel{}, wrong
	}
	c, err := n.Store.AnyChannel(ctx, id)
	switch {
	case app.KindOf(err) == app.NotFound:
		return app.Channel{}, wrong
	case err != nil:
		return app.Channel{}, err
	case c.Service != app.Email || !hmac.Equal([]byte(given), []byte(proof(c, path))):
		return app.Channel{}, wrong
	}
	return c, nil
}

// follow does what a link is for.
func (n *Notifier) follow(ctx context.Context, token, path string, change func(*app.Channel)) (app.Channel, error) {
	c, err := n.proven(ctx, token, path)
	if err != nil {
		return app.Channel{}, err
	}
	c, err = n.Store.SetChannel(ctx, c.Account, c.ID, func(c *app.Channel) error { change(c); return nil })
	if err != nil {
		return app.Channel{}, err
	}
	return n.shown(c, 0), nil
}

// Confirm implements app.Notices.
func (n *Notifier) Confirm(ctx context.Context, token string) (app.Channel, error) {
	return n.follow(ctx, token, app.ConfirmPath, func(c *app.Channel) { c.Confirmed, c.On = true, true })
}

// Leave implements app.Notices.
func (n *Notifier) Leave(ctx context.Context, token string) (app.Channel, error) {
	return n.follow(ctx, token, app.LeavePath, func(c *app.Channel) { c.On, c.Confirmed = false, false })
}

// Deliveries implements app.Notices.
func (n *Notifier) Deliveries(ctx context.Context, owner app.AccountID, channel int64) ([]app.Delivery, error) {
	return n.Store.Deliveries(ctx, owner, channel)
}

// SendAgain implements app.Notices.
func (n *Notifier) SendAgain(ctx context.Context, owner app.AccountID, delivery int64) error {
	if err := n.Store.SendAgain(ctx, owner, delivery); err != nil {
		return err
	}
	poke(n.send)
	return nil
}
