package db

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"berth/app"
)

// Notices are channels, what is to be told through them, and what is on its way.
type Notices struct{ db *DB }

const (
	// keptDeliveries is how many deliveries of a channel are remembered, beside those that wait.
	keptDeliveries = 100
	// waitingDeliveries is how many wait for one channel; then the oldest fail.
	waitingDeliveries = 200
	// keptUnheard is how many notices of an account wait for the notifier; more are lost, which
	// only a daemon that does not run brings about.
	keptUnheard = 2000
)

const channelColumns = `channel.id, channel.account, account.admin, channel.name, service, target, recipient, secrets, apps, kinds, least, lang,
	enabled, confirmed, stopped, channel.created_at`

const selectChannels = "SELECT " + channelColumns + " FROM channel JOIN account ON account.id = channel.account"

// hears is the condition of a channel that messages are made for.
const hears = "channel.enabled = 1 AND channel.confirmed = 1 AND channel.stopped = ''"

func noChannel(id int64) error { return app.Errorf(app.NotFound, "there is no channel %d", id) }

// channelRow names the row of a channel for what is sealed in it: not by its id, which it has
// only when it is stored.
func channelRow(account app.AccountID, name string) string { return rowOf(account.String(), name) }

// channels returns those that a query of channelColumns finds.
func (t tx) channels(query string, args ...any) ([]app.Channel, error) {
	var stored [][2][]byte
	found, err := all(t, func(row scanner) (c app.Channel, err error) {
		var apps, kinds string
		var sealed [2][]byte
		err = row.Scan(&c.ID, &c.Account, &c.Owner, &c.Name, &c.Service, &sealed[0], &c.Recipient, &sealed[1], &apps, &kinds, &c.Least, &c.Lang,
			&c.On, &c.Confirmed, &c.Stopped, asTime(&c.CreatedAt))
		for id := range strings.FieldsSeq(apps) {
			c.Apps = append(c.Apps, app.ID(id))
		}
		for kind := range strings.FieldsSeq(kinds) {
			c.Kinds = append(c.Kinds, app.NoticeKind(kind))
		}
		stored = append(stored, sealed)
		return c, err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	for i, sealed := range stored {
		c := &found[i]
		row := channelRow(c.Account, c.Name)
		target, err := t.unseal("channel.target", row, sealed[0])
		secrets, err2 := t.unseal("channel.secrets", row, sealed[1])
		switch err := errors.Join(err, err2); {
		case errors.Is(err, ErrKeyMissing):
			c.Stopped = app.Textf("its address cannot be read: the key that seals it is not on this host; enter it again, or ask the host's owner to put the key back (berth key add)").String()
		case err != nil:
			return nil, err
		default:
			c.Target, c.Secrets = string(target), strings.Fields(string(secrets))
		}
	}
	return found, nil
}

func (t tx) channel(account app.AccountID, id int64) (app.Channel, error) {
	found, err := t.channels(selectChannels+" WHERE channel.id = ? AND channel.account = ?", id, account)
	if err != nil || len(found) == 0 {
		return app.Channel{}, cmp.Or(err, noChannel(id))
	}
	return found[0], nil
}

// Channels returns the channels of an account, oldest first, with their secrets; one whose
// secrets cannot be read, for their key is not there, is stopped.
func (s Notices) Channels(ctx context.Context, account app.AccountID) ([]app.Channel, error) {
	return get(ctx, s.db, "list the channels", func(t tx) ([]app.Channel, error) {
		return t.channels(selectChannels+" WHERE channel.account = ? ORDER BY channel.id", account)
	})
}

// AnyChannel returns a channel of any account, with its secrets, or app.NotFound.
func (s Notices) AnyChannel(ctx context.Context, id int64) (app.Channel, error) {
	return get(ctx, s.db, "look up the channel", func(t tx) (app.Channel, error) {
		found, err := t.channels(selectChannels+" WHERE channel.id = ?", id)
		if err != nil || len(found) == 0 {
			return app.Channel{}, cmp.Or(err, noChannel(id))
		}
		return found[0], nil
	})
}

// AddChannel stores a channel of an account that has fewer than most. It fails with
// app.Exhausted, with app.Conflict for a name that another one has, and with app.NotFound
// without the account.
func (s Notices) AddChannel(ctx context.Context, c app.Channel, most int) (app.Channel, error) {
	return put(ctx, s.db, "store the channel", func(t tx) (app.Channel, error) {
		there, err := number(t, "SELECT count(*) FROM channel WHERE account = ?", c.Account)
		if err != nil {
			return c, err
		}
		if there >= most {
			return c, app.Errorf(app.Exhausted, "an account can have %d channels at most; remove one first", most)
		}
		if err := mustHaveAccount(t, c.Account); err != nil {
			return c, err
		}
		columns, err := t.channelValues(c)
		if err != nil {
			return c, err
		}
		id, err := t.insert(`INSERT INTO channel (created_at, account, name, service, target, recipient, secrets, apps, kinds, least, lang, enabled, confirmed, stopped)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, append([]any{stamp(s.db.now())}, columns...)...)
		if err != nil {
			return c, channelTaken(c.Name, err)
		}
		return t.channel(c.Account, id)
	})
}

func mustHaveAccount(t tx, id app.AccountID) error {
	n, err := number(t, "SELECT count(*) FROM account WHERE id = ?", id)
	if err == nil && n == 0 {
		err = noAccount(id)
	}
	return err
}

// channelValues are the columns of a channel from account on.
func (t tx) channelValues(c app.Channel) ([]any, error) {
	row := channelRow(c.Account, c.Name)
	target, err := t.seal("channel.target", row, []byte(c.Target))
	if err != nil {
		return nil, err
	}
	secrets, err := t.seal("channel.secrets", row, []byte(strings.Join(c.Secrets, "\n")))
	if err != nil {
		return nil, err
	}
	return []any{
		c.Account, c.Name, c.Service, target, c.Recipient, secrets, spaced(c.Apps), spaced(c.Kinds), c.Least, c.Lang, c.On, c.Confirmed, c.Stopped,
	}, nil
}

func spaced[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = string(v)
	}
	return strings.Join(words, " ")
}

func channelTaken(name string, err error) error {
	if isTaken(err) {
		return app.Errorf(app.Conflict, "a channel called %q exists already", name)
	}
	return err
}

// SetChannel stores what change makes of a channel of an account, but for its id, account and
// service. It fails with app.NotFound, app.Conflict for a name that another one has,
// app.Unavailable where its secrets cannot be read and are not replaced, and with what change
// fails with.
func (s Notices) SetChannel(ctx context.Context, account app.AccountID, id int64, change func(*app.Channel) error) (app.Channel, error) {
	return put(ctx, s.db, "change the channel", func(t tx) (app.Channel, error) {
		c, err := t.channel(account, id)
		if err != nil {
			return c, err
		}
		if err := change(&c); err != nil {
			return c, err
		}
		if c.Target == "" {
			return c, app.Errorf(app.Unavailable, "the channel cannot be changed: %s", c.Stopped)
		}
		columns, err := t.channelValues(c)
		if err != nil {
			return c, err
		}
		return c, channelTaken(c.Name, t.exec(`UPDATE channel SET (account, name, service, target, recipient, secrets, apps, kinds, least, lang, enabled,
			confirmed, stopped, held_until) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) WHERE id = ?`, append(columns, id)...))
	})
}

// RemoveChannel forgets a channel of an account and all its deliveries, or fails with
// app.NotFound.
func (s Notices) RemoveChannel(ctx context.Context, account app.AccountID, id int64) error {
	return s.db.update(ctx, "remove the channel", noChannel(id), "DELETE FROM channel WHERE id = ? AND account = ?", id, account)
}

// Use notes that an account does something, and fails with app.Limited where it has done so
// most times since. What is older is forgotten.
func (s Notices) Use(ctx context.Context, account app.AccountID, what string, most int, since time.Time) error {
	return s.db.write(ctx, "count what an account sends", func(t tx) error {
		if err := t.exec("DELETE FROM notice_use WHERE account = ? AND what = ? AND at <= ?", account, what, stamp(since)); err != nil {
			return err
		}
		used, err := number(t, "SELECT count(*) FROM notice_use WHERE account = ? AND what = ?", account, what)
		if err != nil {
			return err
		}
		if used >= most {
			return app.Errorf(app.Limited, "this account has done that %d times; try again later", used)
		}
		return t.exec("INSERT INTO notice_use (account, what, at) VALUES (?, ?, ?)", account, what, stamp(s.db.now()))
	})
}

// Noticed calls heard after a notice was stored, from then on; it MUST NOT block. It MUST be
// called before other goroutines use the DB.
func (s Notices) Noticed(heard func()) { s.db.noticed = heard }

// AddNotice stores what an account may want to hear of, if it has a channel; a notice of account
// 0 is for every account of the host's owners. The time is now unless it has one.
func (s Notices) AddNotice(ctx context.Context, n app.Notice) error {
	return s.db.write(ctx, "store a notice", func(t tx) error { return t.notice(n) })
}

// notice stores a notice for those who have a channel.
func (t tx) notice(n app.Notice) error {
	happened, err := jsonText(n.Happened, n.Happened == nil)
	if err != nil {
		return err
	}
	args, err := jsonText(n.Args, false)
	if err != nil {
		return err
	}
	stored, err := t.changed(`INSERT INTO notice (account, app, at, kind, happened, args) SELECT id, ?2, ?3, ?4, ?5, ?6 FROM account
		WHERE (id = ?1 OR ?1 = 0 AND admin = 1) AND EXISTS (SELECT 1 FROM channel WHERE channel.account = account.id AND `+hears+`)
		AND (SELECT count(*) FROM notice WHERE notice.account = account.id) < ?7`,
		n.Account, n.App, stamp(n.At), n.Kind, happened, args, keptUnheard)
	if stored > 0 {
		*t.noticed = true
	}
	return err
}

// noticeEvent stores what happened to an application for its owner to hear of.
func noticeEvent(t tx, id app.ID, p app.HistoryEvent) error {
	kind := p.Notice()
	if kind == "" {
		return nil
	}
	owner, err := one(t, value[app.AccountID], noApp(id), "SELECT account FROM place WHERE id = ?", id)
	if err != nil {
		return err
	}
	return t.notice(app.Notice{Account: owner, App: id, At: p.At, Kind: kind, Happened: &p})
}

func jsonText(v any, none bool) (string, error) {
	if none {
		return "", nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// Unheard returns the notices that no Tell has taken, oldest first.
func (s Notices) Unheard(ctx context.Context) ([]app.Notice, error) {
	return getAll(ctx, s.db, "list the notices", func(row scanner) (n app.Notice, err error) {
		var happened, args string
		err = row.Scan(&n.ID, &n.Account, &n.App, asTime(&n.At), &n.Kind, &happened, &args)
		if err == nil && happened != "" {
			err = json.Unmarshal([]byte(happened), &n.Happened)
		}
		if err == nil {
			err = json.Unmarshal([]byte(args), &n.Args)
		}
		return n, err
	}, "SELECT id, account, app, at, kind, happened, args FROM notice ORDER BY id")
}

// Troubles returns what is remembered of what was told.
func (s Notices) Troubles(ctx context.Context) ([]app.Trouble, error) {
	return getAll(ctx, s.db, "list what was told", func(row scanner) (r app.Trouble, err error) {
		var last string
		err = row.Scan(&r.Account, &r.App, &r.Topic, asTime(&r.Since), asTime(&r.Told), &r.Level, &r.Held, asBool(&r.Lasts), &last)
		if err == nil {
			err = json.Unmarshal([]byte(last), &r.Last)
		}
		return r, err
	}, "SELECT account, app, topic, since, told, level, held, lasts, last FROM trouble")
}

// Tell takes notices away, stores what was told, forgets troubles that are over, and stores the
// messages, each for its channel: all in one transaction.
func (s Notices) Tell(ctx context.Context, heard []int64, told, over []app.Trouble, messages []app.Delivery) error {
	return s.db.write(ctx, "store messages", func(t tx) error {
		for _, id := range heard {
			if err := t.exec("DELETE FROM notice WHERE id = ?", id); err != nil {
				return err
			}
		}
		for _, r := range told {
			last, err := jsonText(r.Last, false)
			if err != nil {
				return err
			}
			if err := t.exec(`INSERT INTO trouble (account, app, topic, since, told, level, held, lasts, last)
				SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE EXISTS (SELECT 1 FROM account WHERE id = ?1)
				ON CONFLICT DO UPDATE SET since = ?4, told = ?5, level = ?6, held = ?7, lasts = ?8, last = ?9`,
				r.Account, r.App, r.Topic, stamp(r.Since), stamp(r.Told), r.Level, r.Held, r.Lasts, last); err != nil {
				return err
			}
		}
		for _, r := range over {
			if err := t.exec("DELETE FROM trouble WHERE account = ? AND app = ? AND topic = ?", r.Account, r.App, r.Topic); err != nil {
				return err
			}
		}
		for _, m := range messages {
			if err := t.deliver(m, s.db.now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// deliver stores a message for a channel, if that is still there, and makes room for it.
func (t tx) deliver(d app.Delivery, now time.Time) error {
	message, err := jsonText(d.Message, false)
	if err != nil {
		return err
	}
	if err := t.exec(`INSERT INTO delivery (channel, message, state, tries, next_at, status, why, updated_at)
		SELECT id, ?2, 'waiting', 0, ?3, 0, '', ?4 FROM channel WHERE id = ?1`, d.Channel, message, stamp(d.NextAt), stamp(now)); err != nil {
		return err
	}
	if err := t.exec(`UPDATE delivery SET state = 'failed', why = ?3, updated_at = ?4 WHERE channel = ?1 AND state = 'waiting' AND id NOT IN
		(SELECT id FROM delivery WHERE channel = ?1 AND state = 'waiting' ORDER BY id DESC LIMIT ?2)`,
		d.Channel, waitingDeliveries, app.Textf("%d later messages waited for the same channel", waitingDeliveries).String(), stamp(now)); err != nil {
		return err
	}
	return t.exec(`DELETE FROM delivery WHERE channel = ?1 AND state <> 'waiting' AND id NOT IN
		(SELECT id FROM delivery WHERE channel = ?1 AND state <> 'waiting' ORDER BY updated_at DESC, id DESC LIMIT ?2)`, d.Channel, keptDeliveries)
}

const deliveryColumns = "delivery.id, delivery.channel, channel.account, message, state, tries, max(next_at, held_until), status, why, updated_at"

func scanDelivery(row scanner) (d app.Delivery, err error) {
	var message string
	err = row.Scan(&d.ID, &d.Channel, &d.Account, &message, &d.State, &d.Tries, asTime(&d.NextAt), &d.Status, &d.Why, asTime(&d.UpdatedAt))
	if err == nil {
		err = json.Unmarshal([]byte(message), &d.Message)
	}
	return d, err
}

// Due returns of each channel the delivery whose try is next, the soonest first.
func (s Notices) Due(ctx context.Context) ([]app.Delivery, error) {
	return getAll(ctx, s.db, "list the deliveries", scanDelivery, `SELECT `+deliveryColumns+` FROM delivery JOIN channel ON channel.id = delivery.channel
		WHERE delivery.id IN (SELECT (SELECT id FROM delivery WHERE channel = c.id AND state = 'waiting' ORDER BY next_at, id LIMIT 1) FROM channel c)
		ORDER BY 7, delivery.id`)
}

// Tried stores how a try ended: d has its state, and NextAt while it waits. Everything for
// the channel waits until then at least, where hold says so. If stopped is not "" the channel
// is stopped for that, and all that waits for it fails.
func (s Notices) Tried(ctx context.Context, d app.Delivery, hold bool, stopped string) error {
	return s.db.write(ctx, "store how a delivery went", func(t tx) error {
		now := stamp(s.db.now())
		if err := t.exec("UPDATE delivery SET state = ?, tries = ?, next_at = ?, status = ?, why = ?, updated_at = ? WHERE id = ?",
			d.State, d.Tries, stamp(d.NextAt), d.Status, d.Why, now, d.ID); err != nil {
			return err
		}
		if hold {
			if err := t.exec("UPDATE channel SET held_until = ? WHERE id = ?", stamp(d.NextAt), d.Channel); err != nil {
				return err
			}
		}
		if stopped == "" {
			return nil
		}
		if err := t.exec("UPDATE channel SET stopped = ? WHERE id = ?", stopped, d.Channel); err != nil {
			return err
		}
		return t.exec("UPDATE delivery SET state = 'failed', why = ?, updated_at = ? WHERE channel = ? AND state = 'waiting'", stopped, now, d.Channel)
	})
}

// Deliveries returns the deliveries of a channel of an account, newest first, or app.NotFound.
func (s Notices) Deliveries(ctx context.Context, account app.AccountID, channel int64) ([]app.Delivery, error) {
	return get(ctx, s.db, "list the deliveries", func(t tx) ([]app.Delivery, error) {
		if there, err := number(t, "SELECT count(*) FROM channel WHERE id = ? AND account = ?", channel, account); err != nil || there == 0 {
			return nil, cmp.Or(err, noChannel(channel))
		}
		return all(t, scanDelivery, "SELECT "+deliveryColumns+` FROM delivery JOIN channel ON channel.id = delivery.channel
			WHERE delivery.channel = ? ORDER BY delivery.id DESC`, channel)
	})
}

// SendAgain lets a delivery of an account that has ended wait again, with all its tries before
// it. It fails with app.NotFound, and app.Already while it waits.
func (s Notices) SendAgain(ctx context.Context, account app.AccountID, id int64) error {
	return s.db.write(ctx, "send a message again", func(t tx) error {
		state, err := one(t, value[app.DeliveryState], app.Errorf(app.NotFound, "there is no delivery %d", id),
			"SELECT state FROM delivery JOIN channel ON channel.id = delivery.channel WHERE delivery.id = ? AND channel.account = ?", id, account)
		if err != nil {
			return err
		}
		if state == app.DeliveryWaiting {
			return app.Errorf(app.Already, "the message waits for its next try already")
		}
		return t.exec("UPDATE delivery SET state = 'waiting', tries = 0, next_at = ?1, why = '', updated_at = ?1 WHERE id = ?2", stamp(s.db.now()), id)
	})
}

// Counts returns how many deliveries there are in each state, of all channels.
func (s Notices) Counts(ctx context.Context) (map[app.DeliveryState]int, error) {
	return get(ctx, s.db, "count the deliveries", func(t tx) (map[app.DeliveryState]int, error) {
		return allByKey[app.DeliveryState, int](t, "SELECT state, count(*) FROM delivery GROUP BY state")
	})
}
