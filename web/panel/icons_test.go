package panel

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"berth/app"
	"berth/db"
)

// fakeIcons takes the picture as it is.
type fakeIcons struct{ db.Icons }

func (f fakeIcons) SetIcon(ctx context.Context, id app.ID, picture []byte) error {
	if string(picture) == "bad" {
		return app.Errorf(app.Unusable, "the picture is damaged or incomplete; save it again, and upload that")
	}
	return f.Icons.SetIcon(ctx, id, app.Icon{Sum: "5a5a", PNG: picture})
}

func (f fakeIcons) RemoveIcon(ctx context.Context, id app.ID) error {
	return f.DropIcon(ctx, id, false)
}

func pictureForm(t *testing.T, data string) (body, kind string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("picture", "../<x>.svg")
	must(t, err)
	_, err = part.Write([]byte(data))
	must(t, err)
	must(t, w.Close())
	return b.String(), w.FormDataContentType()
}

// An owner uploads an icon, which then stands in the list, in the table and in the bar, and is removed again.
// Nobody else's page shows it, and its address has headers of its own.
func TestIcons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	send := func(data string) page {
		body, kind := pictureForm(t, data)
		return b.sendTo("/apps/shop/icon", kind, strings.NewReader(body))
	}
	b.get("/apps/shop/settings").want(t, "before", http.StatusOK, `name="picture"`, `class="tile`)
	send("bad").want(t, "bad", http.StatusUnprocessableEntity, "The picture is damaged")
	send("").want(t, "empty", http.StatusBadRequest, "Choose a picture")
	send(strings.Repeat("x", 600<<10)).want(t, "long", http.StatusRequestEntityTooLarge, "512 KB")
	if p := send("PNG"); p.StatusCode != http.StatusSeeOther || w.acts.last().Operation != "app.icon" {
		t.Fatalf("uploaded: %d, %+v: %s", p.StatusCode, w.acts.last(), p.body)
	}
	const at = "/apps/shop/picture/5a5a"
	for _, path := range []string{"/", "/apps/shop", "/apps/shop/settings"} {
		b.get(path).want(t, path, http.StatusOK, `<img class="tile" src="`+at+`" alt=""`)
	}
	p := b.get(at)
	h := p.Header
	if p.StatusCode != http.StatusOK || p.body != "PNG" || h.Get("Content-Type") != "image/png" || h.Get("X-Content-Type-Options") != "nosniff" ||
		h.Get("Content-Security-Policy") != "default-src 'none'; sandbox" || !strings.HasPrefix(h.Get("Cache-Control"), "private, ") {
		t.Errorf("%d %q %v", p.StatusCode, p.body, h)
	}
	b.get("/apps/shop/picture/0000").want(t, "an old sum", http.StatusNotFound)
	if p := w.as("bob").get(at); p.StatusCode != http.StatusForbidden {
		t.Errorf("a member who may not see it gets %d", p.StatusCode)
	}
	body, kind := pictureForm(t, "PNG")
	if p := w.as("bob").sendTo("/apps/shop/icon", kind, strings.NewReader(body)); p.StatusCode != http.StatusNotFound {
		t.Errorf("a member sends an icon: %d", p.StatusCode)
	}
	if p := w.browser().get(at); p.StatusCode != http.StatusSeeOther {
		t.Errorf("a stranger gets %d", p.StatusCode)
	}
	b.post("/apps/shop/icon/remove")
	if p := b.get("/apps/shop"); strings.Contains(p.body, at) {
		t.Error("the icon is still there")
	}
	b.get(at).want(t, "removed", http.StatusNotFound)
}
