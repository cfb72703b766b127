package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A backup comes from the client's own server, whatever its address says, and is whole or
// an error.
func TestDownload(t *testing.T) {
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.EscapedPath()
		switch {
		case strings.Contains(asked, "gone"):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"status":"error","message":"the link has expired"}`)
		case strings.Contains(asked, "cut"):
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "half of it")
		default:
			_, _ = io.WriteString(w, "the whole")
		}
	}))
	defer s.Close()
	c := New(Config{URL: s.URL, Token: "token"})
	defer c.Close()
	full := errors.New("no space left on device")
	for _, tt := range []struct {
		url, asks string
		to        io.Writer
		n         int64
		is        error
		says      string
	}{
		{"https://elsewhere.example/d/signed/shop.zip", "/d/signed/shop.zip", &bytes.Buffer{}, 9, nil, ""},
		{"/d/a%2Fb/shop.zip", "/d/a%2Fb/shop.zip", &bytes.Buffer{}, 9, nil, ""},
		{s.URL + "/v2/user", "", &bytes.Buffer{}, 0, ErrNotBerth, "in another form than berth's"},
		{"http://[", "", &bytes.Buffer{}, 0, ErrNotBerth, "in another form than berth's"},
		{s.URL + "/d/gone/x.zip", "/d/gone/x.zip", &bytes.Buffer{}, 0, nil, "the link has expired"},
		{s.URL + "/d/cut/x.zip", "/d/cut/x.zip", &bytes.Buffer{}, 10, ErrNoServer, "ended after 10 of 1000 bytes"},
		{s.URL + "/d/signed/x.zip", "/d/signed/x.zip", failing{full}, 0, full, "no space left on device"},
	} {
		asked = ""
		n, err := c.Download(t.Context(), Backup{URL: tt.url}, tt.to)
		if asked != tt.asks || n != tt.n || (err == nil) != (tt.says == "") || tt.is != nil && !errors.Is(err, tt.is) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: asked %q, %d bytes, %v", tt.url, asked, n, err)
		}
	}
}

// failing is a disk that takes nothing.
type failing struct{ err error }

// Write implements io.Writer.
func (f failing) Write([]byte) (int, error) { return 0, f.err }
