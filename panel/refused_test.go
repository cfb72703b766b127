package panel

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
