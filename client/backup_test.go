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

// A snapshot is restored by its name, or becomes another application, whose ID counts then. A
// member of a team can do neither.
func TestSnapshots(t *testing.T) {
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.String() + " " + string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok","statusCode":200,"message":"Done.","app":{"id":"17","name":"Shop"},
			"snapshots":[{"snapshot":"20261126T031500Z","date":"2026-11-26T03:15:00.000Z","size":9}]}`)
	}))
	defer s.Close()
	c := New(Config{URL: s.URL, Token: "token"})
	defer c.Close()
	own, theirs := App{ID: "shop"}, App{ID: "shop", Owner: "bea"}
	all, err := c.Snapshots(t.Context(), own)
	if err != nil || len(all) != 1 || all[0].Name != "20261126T031500Z" || all[0].Size != 9 || all[0].Date.Day() != 26 || asked != "GET /v2/app/shop/snapshots " {
		t.Errorf("%q: %+v, %v", asked, all, err)
	}
	for _, tt := range []struct {
		up       Upload
		asks, id string
	}{
		{Upload{App: &own, Restore: true, Snapshot: "n"}, `POST /v2/app/shop/restore {"env":false,"snapshot":"n"}`, "shop"},
		{Upload{App: &own, Restore: true, Env: true, Snapshot: "n"}, `POST /v2/app/shop/restore {"env":true,"snapshot":"n"}`, "shop"},
		{Upload{App: &own, Env: true, Snapshot: "n"}, `POST /v2/app/shop/copy {"env":true,"snapshot":"n"}`, "17"},
		{Upload{App: &own, Restore: true, Backup: &Backup{URL: "u"}}, `POST /v2/app/shop/restore {"backup":"u","env":false}`, "shop"},
	} {
		if d, err := c.Deploy(t.Context(), tt.up); err != nil || asked != tt.asks || d.ID != tt.id {
			t.Errorf("asked %q, want %q: %+v, %v", asked, tt.asks, d, err)
		}
	}
	asked = ""
	_, err = c.Snapshots(t.Context(), theirs)
	_, failed := c.Deploy(t.Context(), Upload{App: &theirs, Snapshot: "n"})
	_, restored := c.Deploy(t.Context(), Upload{App: &theirs, Restore: true, Snapshot: "n"})
	if !errors.Is(err, ErrOwnersOnly) || !errors.Is(failed, ErrOwnersOnly) || !errors.Is(restored, ErrOwnersOnly) || asked != "" {
		t.Errorf("a member asks %q: %v, %v, %v", asked, err, failed, restored)
	}
}
