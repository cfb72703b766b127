package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
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
