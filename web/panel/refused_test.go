package panel

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// flood is a body without an end that counts what was taken of it.
type flood struct {
	head  io.Reader
	taken int64
	most  int64
}

func (f *flood) Read(p []byte) (int, error) {
	if n, err := f.head.Read(p); err == nil {
		return n, nil
	}
	if f.taken >= f.most {
		return 0, io.ErrUnexpectedEOF
	}
	f.taken += int64(len(p))
	return len(p), nil
}

// A page that shows what was typed again must not read what the form has refused.
func TestRefusedFormsAreNotReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana := w.as("ana")
	for _, test := range []struct {
		name, base, path string
		b                *browser
	}{
		{"a stranger, over plain HTTP", "http://panel.example.org", "/login", w.browser()},
		{"an account", ana.base, "/account/tokens/999/revoke", ana},
		{"an account's session", ana.base, "/account/sessions/999/end", ana},
		{"a form that is none", ana.base, "/login", w.browser()},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := &flood{most: 8 << 20, head: strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b\"\r\n\r\n")}
			r := httptest.NewRequest(http.MethodPost, test.base+test.path, body)
			r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.RemoteAddr = "192.0.2.7:50000"
			if test.base == ana.base {
				r.RemoteAddr = ana.peer
			}
			p := test.b.do(r)
			if p.StatusCode < 400 || body.taken > 1<<20 {
				t.Errorf("status %d, %d bytes were taken", p.StatusCode, body.taken)
			}
		})
	}
}

// The sites of a host are the panel's neighbours: their pages can make a browser ask
// the panel with its cookie, though not read the answer. Only what a person follows
// is answered, so that no page of a site takes the streams of an account.
func TestPagesOfNeighbours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	b := w.as("ana")
	for _, test := range []struct {
		site, mode, dest, path string
		status                 int
	}{
		{"same-site", "no-cors", "image", "/events?what=", 403},
		{"same-site", "cors", "empty", "/events?what=", 403},
		{"same-site", "no-cors", "image", "/apps/shop/logs?q=x", 403},
		{"same-site", "navigate", "iframe", "/", 403},
		{"cross-site", "no-cors", "image", "/", 403},
		{"same-site", "navigate", "document", "/", 200},
		{"cross-site", "navigate", "document", "/apps/shop/logs", 200},
		{"same-origin", "cors", "empty", "/", 200},
		{"none", "navigate", "document", "/", 200},
		{"", "", "", "/", 200},
		{"same-site", "no-cors", "image", "/login", 403},
		{"same-site", "navigate", "document", "/login", 303},
	} {
		r := httptest.NewRequest(http.MethodGet, b.base+test.path, nil)
		r.RemoteAddr = b.peer
		for name, value := range map[string]string{"Sec-Fetch-Site": test.site, "Sec-Fetch-Mode": test.mode, "Sec-Fetch-Dest": test.dest} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if p := b.do(r.WithContext(ctx)); p.StatusCode != test.status {
			t.Errorf("%+v: %d", test, p.StatusCode)
		}
		cancel()
	}
}

// What a strange ZIP or a strange host makes panic beside a request ends that, as it
// would end a request, and is told; the daemon goes on.
func TestPanicsBesideARequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.Examine = func(context.Context) []app.Finding { panic("a strange host") }
	})
	seed(w)
	w.host.deployed = func(context.Context, string) (app.Deployed, error) { panic("a strange ZIP") }
	must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Admin = true; return nil })))
	b := w.as("ana")
	to := b.upload("/upload", "PK").Header.Get("Location")
	b.post("/host/doctor").leads(t, "the examination", "/host#doctor")
	w.work.Wait()
	b.get(to).want(t, "the job", http.StatusOK, "berth could not do this", "Try again")
	if last := w.acts.all[len(w.acts.all)-1]; !slices.ContainsFunc(w.acts.all, func(a app.AuditRecord) bool { return a.Operation == "app.upload" && a.Status == 500 }) {
		t.Errorf("the audit log ends with %+v", last)
	}
	b.post("/host/doctor").leads(t, "another examination", "/host#doctor")
}
