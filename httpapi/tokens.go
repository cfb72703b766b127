package httpapi

import (
	"time"

	"berth/app"
)

// tokenRoutes let a program look after the tokens of its account.
type tokenRoutes struct{ app.Tokens }

func (t tokenRoutes) list(c *call) (response, error) {
	all, err := t.Tokens.Tokens(c.Request.Context(), c.account.ID)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("Your tokens have been loaded."), member{"tokens", convert(all, func(t app.Token) object { return describeToken(t, c.now()) })})
}

// describeToken shows a token as it is now, not its text. Without bounds apps and may are null.
func describeToken(t app.Token, now time.Time) object {
	var ids, may any
	if t.Bounds != nil {
		ids, may = append([]app.ID{}, t.Bounds.Apps...), t.Bounds.May.Names()
	}
	moment := func(at time.Time) any {
		if at.IsZero() {
			return nil
		}
		return timestamp(at)
	}
	return object{
		{"id", t.ID},
		{"label", t.Label},
		{"createdAt", timestamp(t.CreatedAt)},
		{"lastUsed", moment(t.LastUsed)},
		{"unused", t.Unused(now)},
		{"expiresAt", moment(t.Expires)},
		{"apps", ids},
		{"may", may},
	}
}

const maxTokenDays = 3650

func (t tokenRoutes) issue(c *call) (response, error) {
	f := c.fields()
	wanted, days := app.Token{Account: c.account.ID}, int64(0)
	if label := f.text("label"); label != nil {
		wanted.Label = *label
	}
	if f.has("days") {
		if days = f.integer("days"); f.err == nil && (days < 1 || days > maxTokenDays) {
			f.wrong("The field days must be a number from 1 to %d. Without it the token works for ever.", maxTokenDays)
		}
	}
	if f.has("apps") || f.has("may") {
		wanted.Bounds = f.bounds()
	}
	if f.err != nil {
		return response{}, f.err
	}
	text, made, err := t.Issue(c.Request.Context(), wanted, time.Duration(days)*24*time.Hour)
	if err != nil {
		return response{}, err
	}
	c.audit.Note("token=%d label=%q", made.ID, made.Label)
	if made.Bounds != nil {
		c.audit.Note("apps=%v may=%v", made.Bounds.Apps, made.Bounds.May.Names())
	}
	return ok(c.say("The token was created. It is shown only this once."), member{"token", append(object{{"token", text}}, describeToken(made, c.now())...)})
}

// bounds returns the fields apps and may.
func (f *fields) bounds() *app.Bounds {
	b := &app.Bounds{}
	for _, id := range f.texts("apps") {
		if !app.ValidID(id) && f.err == nil {
			f.err = errNoApp
		}
		b.Apps = append(b.Apps, app.ID(id))
	}
	may := f.texts("may")
	if f.err == nil {
		b.May, f.err = app.ParsePermissions(may)
	}
	return b
}

func (t tokenRoutes) revoke(c *call) (response, error) {
	id := c.number("tokenID")
	c.audit.Note("token=%d", id)
	if err := t.Revoke(c.Request.Context(), c.account.ID, id); err != nil {
		return response{}, err
	}
	return ok(c.say("The token was revoked."))
}
