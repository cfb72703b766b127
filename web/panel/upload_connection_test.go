package panel

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A browser that sends slowly is shown how much has come, on the list of uploads; a
// server without patience lets go of it.
func TestUploadOverAConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	server := httptest.NewServer(w.handler)
	defer server.Close()
	pr, pw := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/upload", pr)
	must(t, err)
	body, kind := zipForm(t, strings.Repeat("z", 100<<10))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", kind)
	r.AddCookie(&http.Cookie{Name: safeCookie, Value: b.cookies[safeCookie]})
	type result struct {
		resp *http.Response
		err  error
	}
	answered := make(chan result, 1)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	go func() {
		resp, err := client.Do(r)
		answered <- result{resp, err}
	}()
	_, err = pw.Write(body[:50<<10])
	must(t, err)
	sent, until := "", time.Now().Add(time.Minute)
	for !strings.Contains(sent, "% sent") || strings.Contains(sent, ">0 % sent") {
		if time.Now().After(until) {
			t.Fatalf("the upload on its way is not shown: %s", sent)
		}
		if _, rest, found := strings.Cut(b.get("/upload").body, `href="/uploads/`); found {
			id, _, _ := strings.Cut(rest, `"`)
			sent = b.get("/uploads/" + id).body
		}
	}
	_, err = pw.Write(body[50<<10:])
	must(t, err)
	must(t, pw.Close())
	got := <-answered
	must(t, got.err)
	must(t, got.resp.Body.Close())
	if got.resp.StatusCode != http.StatusSeeOther {
		t.Errorf("status %d", got.resp.StatusCode)
	}
	client.CloseIdleConnections()
	w.work.Wait()

	// What is too large is answered while it is still being sent.
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/upload", io.LimitReader(zeros{}, 3<<20))
	must(t, err)
	r.ContentLength = 3 << 20
	r.Header.Set("Content-Type", kind)
	r.AddCookie(&http.Cookie{Name: safeCookie, Value: b.cookies[safeCookie]})
	resp, err := client.Do(r)
	must(t, err)
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusRequestEntityTooLarge || !bytes.Contains(text, []byte("larger than the 1 MB")) {
		t.Errorf("status %d", resp.StatusCode)
	}
	client.CloseIdleConnections()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
