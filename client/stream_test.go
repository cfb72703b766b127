package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// events is a server whose every connection gets one text.
func events(t *testing.T, texts ...string) (*httptest.Server, *[]string) {
	t.Helper()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := len(asked)
		asked = append(asked, r.URL.RawQuery+" "+r.Header.Get("Last-Event-Id"))
		if i >= len(texts) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"status":"error","message":"It is gone."}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, texts[i])
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

func TestStream(t *testing.T) {
	s, _ := events(t, "retry: 3000\n\n: ping\n\nid: 7\nevent: app.state\ndata: {\"a\":1}\n\ndata: x\ndata:y\r\n\r\nevent: left out\n\ndata:\n\nid: 9\ndata: cut off")
	st, err := to(t, Config{URL: s.URL}).Stream(t.Context(), "/v2/events", "")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var got []string
	for {
		e, err := st.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s/%s/%s", e.ID, e.Name, e.Data))
	}
	if want := []string{`7/app.state/{"a":1}`, "7/message/x\ny", "7/message/"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStreamOfNoStream(t *testing.T) {
	for body, kind := range map[string]error{`{"status":"ok"}`: ErrNotBerth, `<html>`: ErrNotBerth} {
		if _, err := to(t, Config{URL: answers(t, 200, nil, body).URL}).Stream(t.Context(), "/v2/events", ""); !errors.Is(err, kind) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := to(t, Config{URL: answers(t, 401, nil, `{"message":"No."}`).URL}).Stream(t.Context(), "/v2/events", ""); StatusOf(err) != 401 {
		t.Errorf("got %v", err)
	}
	s, _ := events(t, "data: "+strings.Repeat("x", maxEvent+128<<10))
	st, err := to(t, Config{URL: s.URL}).Stream(t.Context(), "/v2/events", "")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Next(); !errors.Is(err, ErrNotBerth) {
		t.Errorf("an endless event: %v", err)
	}
}

// Follow goes on behind the last event, and ends when the server refuses.
func TestFollow(t *testing.T) {
	s, asked := events(t, "id: 1\ndata: a\n\n", "", "id: 2\ndata: b\n\nid: 3\ndata: c\n\n")
	var waits []time.Duration
	var got []string
	gone, back := 0, 0
	c := to(t, Config{URL: s.URL, Wait: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }})
	f := &Following{
		Path: func() string { return fmt.Sprintf("/v2/events?n=%d", len(got)) },
		Each: func(e Event) error { got = append(got, string(e.Data)); return nil },
		Lost: func(error, time.Duration) { gone++ },
		Back: func() { back++ },
	}
	if err := c.Follow(t.Context(), f); StatusOf(err) != http.StatusNotFound {
		t.Errorf("ended with %v", err)
	}
	if want := []string{"n=0 ", "n=1 1", "n=1 1", "n=3 3"}; !slices.Equal(*asked, want) {
		t.Errorf("asked %q, want %q", *asked, want)
	}
	if strings.Join(got, "") != "abc" || f.Last != "3" || gone == 0 || back == 0 {
		t.Errorf("got %q, last %q; lost %d times, back %d times", got, f.Last, gone, back)
	}
	enough := errors.New("enough")
	s, _ = events(t, "data: a\n\n")
	if err := to(t, Config{URL: s.URL}).Follow(t.Context(), &Following{Path: func() string { return "/" }, Each: func(Event) error { return enough }}); !errors.Is(err, enough) {
		t.Errorf("ended with %v", err)
	}
}

// silentBody is an answer that says nothing until it is closed.
type silentBody struct{ closed chan struct{} }

func (b *silentBody) Read([]byte) (int, error) { <-b.closed; return 0, io.ErrClosedPipe }
func (b *silentBody) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}

// A server that says nothing for 45 seconds is gone: berth says something every 15.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		st := New(Config{URL: "http://localhost"}).Events(&http.Response{Body: &silentBody{make(chan struct{})}}, "")
		defer st.Close()
		if _, err := st.Next(); !errors.Is(err, ErrNoServer) || time.Since(began) != silence {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
