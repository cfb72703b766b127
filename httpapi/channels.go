package httpapi

import (
	"context"
	"net/http"

	"berth/app"
)

// channels are the routes of where an account hears what goes wrong. They show no secret but
// in the answer that makes it, and of a receiver's answer nothing but its status.
type channels struct{ app.Notices }

// channelRoutes are those of channels. No token with bounds opens one: what a channel is sent
// is about the account too.
func (s *server) channelRoutes() []route {
	channels := channels{s.Notices}
	return []route{
		{http.MethodGet, "/v2/channel", byToken, unbounded, channels.list, ""},
		{http.MethodPost, "/v2/channel", byToken, unbounded, channels.add, "channel.add"},
		{http.MethodGet, "/v2/channel/:channelID", byToken, unbounded, channels.one, ""},
		{http.MethodPut, "/v2/channel/:channelID", byToken, unbounded, channels.set, "channel.set"},
		{http.MethodDelete, "/v2/channel/:channelID", byToken, unbounded, channels.remove, "channel.remove"},
		{http.MethodPost, "/v2/channel/:channelID/test", byToken, unbounded, channels.test, "channel.test"},
		{http.MethodPost, "/v2/channel/:channelID/secret", byToken, unbounded, channels.turnSecret, "channel.turnSecret"},
		{http.MethodDelete, "/v2/channel/:channelID/secret", byToken, unbounded, channels.endSecret, "channel.endSecret"},
		{http.MethodGet, "/v2/channel/:channelID/deliveries", byToken, unbounded, channels.deliveries, ""},
		{http.MethodPost, "/v2/delivery/:deliveryID/again", byToken, unbounded, channels.sendAgain, "delivery.again"},
	}
}

func (n channels) list(c *call) (response, error) {
	all, err := n.Channels(c.Request.Context(), c.account.ID)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("Your channels have been loaded."), member{"channels", convert(all, describeChannel)})
}

func (n channels) one(c *call) (response, error) {
	ch, err := n.Channel(c.Request.Context(), c.account.ID, c.number("channelID"))
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The channel has been loaded."), member{"channel", describeChannel(ch)})
}

// describeChannel shows a channel whose target is masked. What is null was not chosen, or is
// not so.
func describeChannel(c app.Channel) object {
	var ids, kinds, stopped any
	if len(c.Apps) > 0 {
		ids = c.Apps
	}
	if len(c.Kinds) > 0 {
		kinds = c.Kinds
	}
	if c.Stopped != "" {
		stopped = c.Stopped
	}
	return object{
		{"id", c.ID},
		{"name", c.Name},
		{"service", c.Service},
		{"target", c.Target},
		{"recipient", c.Recipient},
		{"apps", ids},
		{"kinds", kinds},
		{"least", c.Least.String()},
		{"lang", c.Lang},
		{"on", c.On},
		{"confirmed", c.Service != app.Email || c.Confirmed},
		{"stopped", stopped},
		{"secrets", secretsOf(c)},
		{"createdAt", timestamp(c.CreatedAt)},
	}
}

// secretsOf is how many secrets sign the messages of a channel.
func secretsOf(c app.Channel) int {
	if c.Service != app.Webhook {
		return 0
	}
	return len(c.Secrets)
}

func (n channels) add(c *call) (response, error) {
	f := c.fields()
	ch := app.Channel{Account: c.account.ID, Owner: c.account.Admin, On: true, Lang: c.account.Locale}
	if service := f.text("service"); service != nil {
		ch.Service = app.ChannelService(*service)
	} else {
		f.wrong("The field %s is missing. It must be a text.", "service")
	}
	f.channel(&ch)
	if f.err != nil {
		return response{}, f.err
	}
	c.audit.Note("service=%.20q name=%.100q", ch.Service, ch.Name)
	made, err := n.AddChannel(context.WithoutCancel(c.Request.Context()), ch)
	if err != nil {
		return response{}, err
	}
	c.audit.Note("channel=%d", made.ID)
	message := app.Textf("The channel was created.")
	switch {
	case made.Service == app.Email && !made.Confirmed:
		message = app.Textf("The channel was created. berth has sent a link to the address, and sends nothing else before somebody follows it.")
	case made.Service == app.Webhook:
		message = app.Textf("The channel was created. Its secret is shown only this once.")
	}
	return withSecret(c, message, made)
}

// withSecret is the answer with a channel, and the secret that was made for it.
func withSecret(c *call, message app.Text, made app.Channel) (response, error) {
	shown := describeChannel(made)
	if made.Service == app.Webhook && len(made.Secrets) > 0 {
		shown = append(shown, member{"secret", made.Secrets[0]})
	}
	return ok(c.translate(message), member{"channel", shown})
}

func (n channels) set(c *call) (response, error) {
	f := c.fields()
	if f.err != nil {
		return response{}, f.err
	}
	id := c.number("channelID")
	c.audit.Note("channel=%d", id)
	ch, err := n.Channel(c.Request.Context(), c.account.ID, id)
	if err != nil {
		return response{}, err
	}
	ch.Target, ch.Secrets = "", nil // they stay
	f.channel(&ch)
	if f.has("on") {
		ch.On = f.boolean("on")
	}
	if f.err != nil {
		return response{}, f.err
	}
	c.audit.Note("name=%.100q on=%t target=%t", ch.Name, ch.On, ch.Target != "")
	changed, err := n.SetChannel(context.WithoutCancel(c.Request.Context()), ch)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The channel was changed."), member{"channel", describeChannel(changed)})
}

// channel sets what an owner decides of a channel, where a field is there. What the texts mean
// is the service's to judge.
func (f *fields) channel(c *app.Channel) {
	for i, to := range []*string{&c.Name, &c.Target, &c.Recipient, &c.Lang} {
		if text := f.text([]string{"name", "target", "recipient", "lang"}[i]); text != nil {
			*to = *text
		}
	}
	if token := f.text("token"); token != nil && *token != "" {
		if c.Service != app.Ntfy {
			f.wrong("The field token is only for ntfy.")
		}
		c.Secrets = []string{*token}
	}
	if least := f.text("least"); least != nil {
		var known bool
		if c.Least, known = app.ParseSeverity(*least); !known {
			f.wrong("The field least must be info, warning or failure.")
		}
	}
	if _, there := f.members["apps"]; there {
		c.Apps = nil
		for _, id := range f.optionalTexts("apps") {
			if !app.ValidID(id) && f.err == nil {
				f.err = errNoApp
			}
			c.Apps = append(c.Apps, app.ID(id))
		}
	}
	if _, there := f.members["kinds"]; there {
		c.Kinds = nil
		for _, kind := range f.optionalTexts("kinds") {
			c.Kinds = append(c.Kinds, app.NoticeKind(kind))
		}
	}
}

// optionalTexts is texts of which null is none.
func (f *fields) optionalTexts(name string) []string {
	if !f.has(name) {
		return nil
	}
	return f.texts(name)
}

func (n channels) remove(c *call) (response, error) {
	id := c.number("channelID")
	c.audit.Note("channel=%d", id)
	if err := n.RemoveChannel(c.Request.Context(), c.account.ID, id); err != nil {
		return response{}, err
	}
	return ok(c.say("The channel was removed."))
}

func (n channels) test(c *call) (response, error) {
	id := c.number("channelID")
	c.audit.Note("channel=%d", id)
	ch, err := n.Channel(c.Request.Context(), c.account.ID, id)
	if err == nil {
		err = n.TestChannel(c.Request.Context(), c.account.ID, id)
	}
	if err != nil {
		return response{}, err
	}
	if ch.Service == app.Email && !ch.Confirmed {
		return ok(c.say("The link was sent to the address again."))
	}
	return ok(c.say("The message has arrived."))
}

func (n channels) turnSecret(c *call) (response, error) {
	id := c.number("channelID")
	c.audit.Note("channel=%d", id)
	turned, err := n.TurnSecret(context.WithoutCancel(c.Request.Context()), c.account.ID, id)
	if err != nil {
		return response{}, err
	}
	return withSecret(c, app.Textf("The channel has a new secret, which is shown only this once. "+
		"Messages are signed with the old one too, until you end that."), turned)
}

func (n channels) endSecret(c *call) (response, error) {
	id := c.number("channelID")
	c.audit.Note("channel=%d", id)
	if err := n.EndSecret(c.Request.Context(), c.account.ID, id); err != nil {
		return response{}, err
	}
	return ok(c.say("The old secret was ended."))
}

func (n channels) deliveries(c *call) (response, error) {
	all, err := n.Deliveries(c.Request.Context(), c.account.ID, c.number("channelID"))
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The deliveries of the channel have been loaded."), member{"deliveries", convert(all, describeDelivery)})
}

func describeDelivery(d app.Delivery) object {
	var id, status, next, why any
	if d.Message.App != "" {
		id = d.Message.App
	}
	if d.Status != 0 {
		status = d.Status
	}
	if d.State == app.DeliveryWaiting {
		next = timestamp(d.NextAt)
	}
	if d.Why != "" {
		why = d.Why
	}
	m := d.Message
	return object{
		{"id", d.ID},
		{"messageID", m.ID},
		{"at", timestamp(m.At)},
		{"kind", m.Kind},
		{"severity", m.Severity.String()},
		{"app", id},
		{"title", m.Title},
		{"lines", append([]string{}, m.Lines...)},
		{"count", m.Count},
		{"state", d.State},
		{"tries", d.Tries},
		{"status", status},
		{"why", why},
		{"nextAt", next},
		{"updatedAt", timestamp(d.UpdatedAt)},
	}
}

func (n channels) sendAgain(c *call) (response, error) {
	id := c.number("deliveryID")
	c.audit.Note("delivery=%d", id)
	if err := n.SendAgain(c.Request.Context(), c.account.ID, id); err != nil {
		return response{}, err
	}
	return ok(c.say("berth sends the message again."))
}
