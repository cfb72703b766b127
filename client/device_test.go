package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// waits is a client's Wait that keeps how long it was asked to wait.
type waits struct{ all []int }

func (w *waits) wait(ctx context.Context, d time.Duration) error {
	w.all = append(w.all, int(d/time.Second))
	return ctx.Err()
}

// scripted answers one request after the other: "hang up", or a status and a body.
func scripted(t *testing.T, answers ...string) (*httptest.Server, *[]string) {
	t.Helper()
	var (
		forms []string
		one   sync.Mutex // a connection that is hung up orders nothing between two requests
	)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		_ = r.ParseForm()
		forms = append(forms, r.URL.Path+" "+r.PostForm.Encode())
		if r.Header.Get(tokenHeader) != "" {
			t.Error("a token was sent")
		}
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		if next == "hang up" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		status, body, _ := strings.Cut(next, " ")
		switch status {
		case "400":
			w.WriteHeader(http.StatusBadRequest)
		case "429":
			w.Header().Set("Retry-After", "40")
			w.WriteHeader(http.StatusTooManyRequests)
		case "503":
			w.Header().Set("Retry-After", "9")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s, &forms
}

const (
	deviceCode = `200 {"device_code":"s","user_code":"WDJB-MJHT","verification_uri":"https://x/device","expires_in":600,"interval":5}`
	deviceMade = `200 {"access_token":"made","token_type":"api-token","token_id":7,"account":"ana","expires_in":3600}`
	undecided  = `400 {"status":"error","message":"Wait.","error":"authorization_pending"}`
	hasty      = `400 {"status":"error","message":"Slower.","error":"slow_down"}`
	limited    = `429 {"status":"error","message":"Slower.","error":"slow_down"}`
	unable     = `503 {"status":"error","message":"Later."}`
	denied     = `400 {"status":"error","message":"The code was denied.","error":"access_denied"}`
)

// A program waits as long as it is told, over lost connections too, and stops at what is
// final (RFC 8628, 3.5).
func TestDevice(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []string
		waits   []int
		word    string // of the error; "" for a token
	}{
		"at once":           {[]string{deviceMade}, []int{5}, ""},
		"undecided":         {[]string{undecided, undecided, deviceMade}, []int{5, 5, 5}, ""},
		"hasty":             {[]string{hasty, hasty, undecided, deviceMade}, []int{5, 10, 15, 15}, ""},
		"limited":           {[]string{limited, deviceMade}, []int{5, 40}, ""},
		"unable":            {[]string{unable, deviceMade}, []int{5, 9}, ""},
		"a lost connection": {[]string{undecided, "hang up", "hang up", deviceMade}, []int{5, 5, 5, 5}, ""},
		"denied":            {[]string{undecided, denied}, []int{5, 5}, "access_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			var w waits
			s, forms := scripted(t, append([]string{deviceCode}, tt.answers...)...)
			c := New(Config{URL: s.URL, Wait: w.wait})
			defer c.Close()
			d, err := c.AskDevice(t.Context(), "laptop", time.Hour)
			if err != nil || d.Code != "WDJB-MJHT" || d.Page != "https://x/device" || d.Lasts != 10*time.Minute {
				t.Fatalf("got %+v, %v", d, err)
			}
			made, err := c.AwaitToken(t.Context(), d)
			refused, _ := errors.AsType[*Error](err)
			switch {
			case tt.word == "" && (err != nil || made.Token != "made" || made.ID != 7 || time.Until(made.Expires).Round(time.Minute) != time.Hour):
				t.Errorf("got %+v, %v", made, err)
			case tt.word != "" && (refused == nil || refused.Word != tt.word):
				t.Errorf("got %v", err)
			}
			if !slices.Equal(w.all, tt.waits) {
				t.Errorf("waited %v, want %v", w.all, tt.waits)
			}
			want := []string{
				"/v2/device/authorize client_id=berth&lifetime=3600&machine=laptop",
				"/v2/device/token client_id=berth&device_code=s&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code",
			}
			if !slices.Equal((*forms)[:2], want) {
				t.Errorf("sent %q", *forms)
			}
		})
	}
}

// A server that never says that the code has ended, or answers nothing of use, holds
// nobody for ever.
func TestDeviceOfABrokenServer(t *testing.T) {
	var w waits
	s, _ := scripted(t, deviceCode, undecided)
	c := New(Config{URL: s.URL, Wait: w.wait})
	defer c.Close()
	d, err := c.AskDevice(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AwaitToken(t.Context(), d); StatusOf(err) != http.StatusBadRequest || len(w.all) > 125 {
		t.Errorf("after %d waits: %v", len(w.all), err)
	}
	for _, answer := range []string{`200 {}`, `200 {"device_code":"s"}`, `200 {"device_code":7}`, `200 []`} {
		s, _ := scripted(t, answer)
		c := New(Config{URL: s.URL, Wait: w.wait})
		if _, err := c.AskDevice(t.Context(), "", 0); !errors.Is(err, ErrNotBerth) {
			t.Errorf("%s: %v", answer, err)
		}
		if made, err := c.AwaitToken(t.Context(), Device{Lasts: time.Minute}); !errors.Is(err, ErrNotBerth) || made.Token != "" {
			t.Errorf("%s: %+v, %v", answer, made, err)
		}
		c.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.AwaitToken(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
