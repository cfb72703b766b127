package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/app"
)

func decode(t testing.TB, rec *httptest.ResponseRecorder, v any) {
	t.Helper()
	if err := json.Unmarshal(rec.Body.Bytes(), v); err != nil {
		t.Fatalf("%v: %s", err, rec.Body)
	}
}

// logged returns a world whose log is kept.
func logged(t *testing.T) (*world, *bytes.Buffer) {
	w, text := newWorld(t), new(bytes.Buffer)
	w.config.Log = slog.New(slog.NewJSONHandler(text, nil))
	return w, text
}

func TestOneLogLinePerRequestWithoutSecrets(t *testing.T) {
	w, text := logged(t)
	h := w.handler()
	zip := w.addBackup("PK")
	do(t, h, newRequest("GET", "/v2/app/bot-one?secret=query", ""))
	do(t, h, newRequest("GET", zip, ""))
	do(t, h, newRequest("GET", "/v2/"+goodToken, ""))
	for i, want := range []string{"/v2/app/:appID", "/d/:token/:name", "unmatched"} {
		line, err := text.ReadString('\n')
		var entry struct {
			Level, Msg, Method, Route, Request string
			Status                             int
		}
		if err != nil || json.Unmarshal([]byte(line), &entry) != nil {
			t.Fatalf("line %d: %q, %v", i, line, err)
		}
		if entry.Level != "INFO" || entry.Route != want || entry.Status == 0 || entry.Request != "request-1" {
			t.Errorf("line %d: %s", i, line)
		}
		for _, secret := range []string{goodToken, "secret", "f8-bot-one"} {
			if strings.Contains(line, secret) {
				t.Errorf("line %d holds %s: %s", i, secret, line)
			}
		}
	}
	if text.Len() > 0 {
		t.Errorf("more lines: %s", text)
	}
}

func TestInternalErrorsStayInTheLog(t *testing.T) {
	for _, err := range []error{
		errors.New("disk on fire"),
		&app.Error{Kind: app.Internal, Message: app.Textf("disk on fire")},
		&app.Error{Kind: app.Kind(99), Message: app.Textf("disk on fire")},
		&app.Error{Kind: app.Kind(-1), Message: app.Textf("disk on fire")},
	} {
		w, text := logged(t)
		w.fail["Delete"] = err
		rec := do(t, w.handler(), newRequest("DELETE", "/v2/app/bot-one/delete", ""))
		if rec.Code != http.StatusInternalServerError || strings.Contains(rec.Body.String(), "fire") {
			t.Errorf("%v: status %d: %s", err, rec.Code, rec.Body)
		}
		if !strings.Contains(text.String(), "disk on fire") || !strings.Contains(text.String(), "request-1") {
			t.Errorf("%v is not in the log: %s", err, text)
		}
	}
}

func TestCauseOfARefusalIsInTheRequestLine(t *testing.T) {
	w, text := logged(t)
	w.fail["Delete"] = &app.Error{Kind: app.Unavailable, Message: app.Textf("Not now."), Err: errors.New("database is locked")}
	rec := do(t, w.handler(), newRequest("DELETE", "/v2/app/bot-one/delete", ""))
	if strings.Contains(rec.Body.String(), "locked") || strings.Count(text.String(), "database is locked") != 1 {
		t.Errorf("answer %s, log %s", rec.Body, text)
	}
	if rec.Header().Get("Retry-After") == "" {
		t.Error("a 503 without Retry-After")
	}
}

func TestPanicIsAnswered(t *testing.T) {
	w, text := logged(t)
	w.before = func(context.Context, string) { panic("out of cheese") }
	rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/stop", ""))
	if rec.Code != http.StatusInternalServerError || strings.Contains(rec.Body.String(), "cheese") {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
	if !strings.Contains(text.String(), "out of cheese") || !strings.Contains(text.String(), "server_test.go") {
		t.Errorf("no panic or no stack in the log: %s", text)
	}
}

func TestRequestIDs(t *testing.T) {
	h := newWorld(t).handler()
	for id, kept := range map[string]bool{
		"abc-DEF_1.2": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, "a b": false, "a\"b": false, "é": false,
	} {
		r := newRequest("GET", "/v2/user", "")
		r.Header.Set("X-Request-Id", id)
		got := do(t, h, r).Header().Get("X-Request-Id")
		if (got == id) != kept || len(got) > 64 || !isWord(got) {
			t.Errorf("%q became %q", id, got)
		}
	}
}

func TestVersionHeader(t *testing.T) {
	w := newWorld(t)
	w.config.Version = "1.2.3"
	if got := do(t, w.handler(), newRequest("GET", "/v2/user", "")).Header().Get("berth-version"); got != "1.2.3" {
		t.Errorf("berth-version is %q", got)
	}
}

func TestCancelledRequestIsNotAFault(t *testing.T) {
	w, text := logged(t)
	w.fail["Delete"] = context.Canceled
	rec := do(t, w.handler(), newRequest("DELETE", "/v2/app/bot-one/delete", ""))
	if rec.Code != http.StatusServiceUnavailable || strings.Contains(text.String(), "ERROR") {
		t.Errorf("status %d, log %s", rec.Code, text)
	}
}
