package panel

import (
	"io"
	"net/http"

	"berth/app"
	"berth/web"
)

// iconPages show and change the icons of applications.
type iconPages struct{ icons app.Icons }

// maxIcon bounds the body of the form that brings a picture, which app.Icons then judges.
const maxIcon = 512<<10 + web.MaxTextBytes

// picture gives rows the icons that their applications have of their own.
func (p iconPages) picture(c *call, rows []appRow) error {
	if len(rows) == 0 {
		return nil
	}
	sums, err := p.icons.IconSums(c.ctx())
	for i := range rows {
		if r := &rows[i]; r.Can.Has(app.StatusApp) {
			r.Picture = sums[r.ID]
		}
	}
	return err
}

// show sends an icon: a PNG that berth wrote. The address has its sum, so a browser may keep it; no shared
// cache may. Whoever opens it alone gets a page that may do nothing.
func (p iconPages) show(c *call) (answer, error) {
	icon, err := p.icons.Icon(c.ctx(), c.app.ID)
	if err == nil && icon.Sum != c.Request.PathValue("sum") {
		err = app.Errorf(app.NotFound, "the application has another icon now")
	}
	if err != nil {
		return answer{}, err
	}
	return answer{stream: func() {
		h := c.Header()
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
		h.Set("Content-Disposition", "inline; filename=icon.png")
		c.sendBody(http.StatusOK, "image/png", icon.PNG)
	}}, nil
}

// put takes the picture of a form.
func (p iconPages) put(c *call) (answer, error) {
	long := app.Errorf(app.TooLarge, "the picture is larger than the %d KB that are allowed", 512)
	if c.Request.ContentLength > maxIcon {
		return answer{}, long
	}
	b := c.Body(maxIcon)
	defer b.Done()
	none := app.Errorf(app.Invalid, "choose a picture to upload")
	u := fileForm()
	u.NoForm, u.NoFile = none, none
	part, err := u.Part(&c.Call, b)
	if err != nil {
		return answer{}, err
	}
	picture, err := io.ReadAll(part)
	if err == nil {
		_, err = io.Copy(io.Discard, b)
	}
	if fault, _ := b.Fault(err); err != nil && fault == web.TooLarge {
		return answer{}, long
	}
	if err != nil {
		return answer{}, blame(b, err)
	}
	if len(picture) == 0 {
		return answer{}, none
	}
	c.audit.Note("bytes=%d", len(picture))
	return done(c.at("settings"), c.lang.Say("The icon was changed.")), p.icons.SetIcon(c.ctx(), c.app.ID, picture)
}

func (p iconPages) remove(c *call) (answer, error) {
	return done(c.at("settings"), c.lang.Say("The icon was removed.")), p.icons.RemoveIcon(c.ctx(), c.app.ID)
}

// letters are what stands for a language in the tile of an application without an icon of its own; "" for
// one that has a drawing (glyph).
func letters(lang string) string {
	return map[string]string{
		"javascript": "Js", "typescript": "Ts", "python": "Py", "php": "Ph", "go": "Go", "java": "Ja", "ruby": "Rb",
		"rust": "Rs", "deno": "De", "bun": "Bu",
	}[lang]
}

// glyph is the drawing of a language without letters.
func glyph(lang string) string {
	switch lang {
	case app.StaticLang:
		return "globe"
	case "shell":
		return "prompt"
	}
	return "box"
}
