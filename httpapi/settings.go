package httpapi

import (
	"net/http"
	"strings"

	"berth/app"
)

type localeAnswer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Locale  string `json:"locale"`
}

func (s *server) setRAM(c *call) (response, error) {
	f, err := c.fields()
	if err != nil {
		return response{}, err
	}
	mb, err := f.integer("ramMB")
	if err != nil {
		return response{}, err
	}
	c.audit.Note("ramMB=%d", mb)
	switch err := s.Settings.SetRAM(c.Request.Context(), c.owner(), c.id, app.MB(mb)); {
	case app.KindOf(err) == app.Exhausted, app.KindOf(err) == app.Unusable:
		return s.softened(c, err), nil
	case err != nil:
		return response{}, err
	}
	return ok(numbered{statusOK, http.StatusOK, c.say("The RAM of your application was set to %d MB.", mb)})
}

func (s *server) setProfile(c *call) (response, error) {
	f, err := c.fields()
	if err != nil {
		return response{}, err
	}
	p, err := profile(f)
	if err != nil {
		return response{}, err
	}
	if p.Name != nil {
		c.audit.Note("name=%q", *p.Name)
	}
	if p.AvatarURL != nil {
		c.audit.Note("avatarURL=%q", *p.AvatarURL)
	}
	if err := s.Settings.SetProfile(c.Request.Context(), c.owner(), c.id, p); err != nil {
		return response{}, err
	}
	return ok(numbered{statusOK, http.StatusOK, c.say("The profile of your application was updated.")})
}

// profile takes either field alone, as some clients send only what changed.
func profile(f fields) (app.Profile, error) {
	name, err := f.text("name")
	if err != nil {
		return app.Profile{}, err
	}
	avatar, err := f.text("avatarURL")
	if err != nil {
		return app.Profile{}, err
	}
	if name == nil && avatar == nil {
		return app.Profile{}, app.Errorf(app.Invalid, "Send the field name, the field avatarURL or both.")
	}
	if name != nil {
		*name = strings.TrimSpace(*name)
		if !app.ValidName(*name) {
			return app.Profile{}, app.Errorf(app.Invalid,
				"The field name must have 1 to %d characters and no control characters.", app.MaxName)
		}
	}
	if avatar != nil {
		*avatar = strings.TrimSpace(*avatar)
		if !app.ValidAvatar(*avatar) {
			return app.Profile{}, app.Errorf(app.Invalid,
				"The field avatarURL must be an http or https address of at most %d characters, or empty.", app.MaxAvatarURL)
		}
	}
	return app.Profile{Name: name, AvatarURL: avatar}, nil
}

func (s *server) delete(c *call) (response, error) {
	return onOne(c, s.Settings.Delete, app.Textf("Your application was deleted."))
}

func (s *server) setLocale(c *call) (response, error) {
	locale := c.params.ByName("locale")
	c.audit.Note("locale=%s", locale)
	err := s.Accounts.SetLocale(c.Request.Context(), c.owner(), locale)
	if app.KindOf(err) == app.NotFound {
		resp := s.failure(c, err)
		body := resp.body.(errorBody)
		body.LocaleList = app.Locales
		resp.body = body
		return resp, nil
	}
	if err != nil {
		return response{}, err
	}
	c.locale = locale // in which the answer is the first
	return ok(localeAnswer{statusOK, c.say("Your locale was set to %s.", locale), locale})
}
