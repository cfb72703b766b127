package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/app"
)

func TestEncodeIsCompactAndReadable(t *testing.T) {
	if got, want := string(encode(object{{"status", "ok"}, {"message", "a & <b>\n"}})), `{"status":"ok","message":"a & <b>\n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string(encode(object{{"status", ""}, {"message", "bad \xff"}})); got != "{\"status\":\"\",\"message\":\"bad \ufffd\"}" && got != `{"status":"","message":"bad \ufffd"}` {
		t.Errorf("bytes that are not UTF-8 became %s", got)
	}
}

func TestEncodePanicsOnWhatIsNotJSON(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	encode(make(chan int))
}

func TestSend(t *testing.T) {
	for _, tt := range []struct {
		method string
		resp   response
		body   string
	}{
		{"GET", response{status: 200, raw: []byte(`{}`), header: map[string]string{"ETag": `"x"`}}, "{}"},
		{"HEAD", response{status: 200, raw: []byte(`{}`), header: map[string]string{"ETag": `"x"`}}, ""},
		{"GET", response{status: 304, header: map[string]string{"ETag": `"x"`}}, ""},
		{"GET", response{header: map[string]string{"ETag": `"x"`}, stream: func(w http.ResponseWriter) { _, _ = w.Write([]byte("file")) }}, "file"},
	} {
		rec := httptest.NewRecorder()
		c := testCall(rec, newRequest(tt.method, "/", ""))
		c.send(tt.resp)
		if rec.Body.String() != tt.body || rec.Header().Get("ETag") != `"x"` || c.Status != rec.Code {
			t.Errorf("%s %+v: %d %q", tt.method, tt.resp, rec.Code, rec.Body)
		}
	}
}

func TestFailure(t *testing.T) {
	for _, tt := range []struct {
		err     error
		status  int
		message string
		logs    string
	}{
		{app.Errorf(app.Already, "It is online already."), 200, "It is online already.", ""},
		{fmt.Errorf("cannot start: %w", app.Errorf(app.Conflict, "Busy.")), 409, "Busy.", ""},
		{&app.Error{Kind: app.Unusable, Message: app.Textf("It ended."), Logs: "boom", Err: http.ErrBodyNotAllowed}, 422, "It ended.\nboom", "boom"},
		{&app.Error{Kind: app.NotFound}, 404, fallbackMessage, ""},
		{&app.Error{Kind: app.Internal, Message: app.Textf("secret"), Logs: "secret"}, 500, internalMessage, ""},
		{http.ErrBodyNotAllowed, 500, internalMessage, ""},
	} {
		c := testCall(httptest.NewRecorder(), newRequest("GET", "/", ""))
		resp := c.failure(tt.err)
		body := resp.body.(*errorBody)
		if resp.status != tt.status || body.Code != tt.status || tt.status != 200 && body.StatusCode != tt.status || tt.status == 200 && body.StatusCode != 0 ||
			body.Message != tt.message || body.Logs != tt.logs || body.Status != "error" || body.RequestID != "request-1" {
			t.Errorf("%v: status %d, body %+v", tt.err, resp.status, body)
		}
	}
}

// Most command lines show no logs of what failed, so the message has their end.
func TestMessageOfAnErrorHasItsOutput(t *testing.T) {
	const m = "the command in BUILD failed; its output tells why."
	long, many := strings.Repeat("x", maxOutputBytes-1), strings.Repeat("a\n", maxOutputLines+5)
	for logs, want := range map[string]string{
		"":   m,
		"\n": m,
		"2026-11-20T18:23:41.687Z compiling\n2026-11-20T18:23:41.688Z \tTS1005\n":            m + "\ncompiling\n\tTS1005",
		"2026-11-20T18:23:41.687Z boom\n2026-11-20T18:23:41.7Z [berth] exited with code 1\n": m + "\nboom",
		"\x1b[31mred\x1b[0m\x07\r\n":                                          m + "\nred",
		"\x1b]0;a title\x07words \x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\\n": m + "\nwords link",
		"2026-11-20T18:23:41.687Z \n":                                         m,
		"first\n" + long + "\n":                                               m + "\n" + long,
		"first\n" + long + "y\n":                                              m,
		many:                                                                  m + strings.Repeat("\na", maxOutputLines),
	} {
		if got := withOutput(m, logs); got != want {
			t.Errorf("%.60q: %q, want %q", logs, got, want)
		}
	}
}
