package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/app"
)

// FuzzUpload sends any bytes as a multipart body: whatever happens, a spooled
// file is handed over or dropped, exactly once, and the answer is JSON.
func FuzzUpload(f *testing.F) {
	whole, err := io.ReadAll(zipRequest("POST", "/v2/upload", "PK content").Body)
	if err != nil {
		f.Fatal(err)
	}
	const form = "multipart/form-data; boundary=boundary-of-the-test"
	f.Add(form, whole, true)
	f.Add(form, whole[:len(whole)-8], false)
	f.Add(form, append(slices.Clone(whole), whole...), true)
	f.Add("multipart/form-data; boundary=b", []byte(uploadBody), false)
	f.Add("multipart/mixed; boundary=b", []byte("--b\r\nContent-Transfer-Encoding: quoted-printable\r\nContent-Disposition: x; filename=\xff\r\n\r\n=\r\n--b"), true)
	f.Add("application/json", []byte("{}"), true)
	f.Fuzz(func(t *testing.T, contentType string, body []byte, measured bool) {
		w := newWorld(t)
		w.config.MaxUpload = 64 << 10
		w.deployed.Snapshot = bot("bot-one")
		r := newRequest("POST", "/v2/upload", string(body))
		r.Header["Content-Type"] = []string{contentType}
		if !measured {
			r.ContentLength = -1
		}
		rec := do(t, w.handler(), r)
		w.checkSpools(t)
		if n := len(w.handed); n > 1 || (n == 1) != (rec.Code == http.StatusOK) {
			t.Errorf("status %d with %d files handed over", rec.Code, n)
		}
		if !slices.Contains([]int{200, 400, 404, 413}, rec.Code) {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
	})
}

// FuzzFields sends any bytes as a JSON body: an application is changed once, to
// what encoding/json reads of the same body, or not at all.
func FuzzFields(f *testing.F) {
	for _, body := range []string{
		`{"ramMB":200}`, `{"ramMB":1e2}`, `{"ramMB":-9223372036854775808}`, `{"ramMB":1,"ramMB":2}`, `{"RAMMB":5,"ramMB":null}`,
		`{"name":"x","avatarURL":""}`, `{"name":"\ud800\u0000"}`, `{"avatarURL":"http://[::1]%25/x"}`, `[{"ramMB":1}]`, `{"a":`, `{}{}`, "\ufeff{}", "\xff",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, what := range []string{"ram", "profile"} {
			w := newWorld(t)
			rec := do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/"+what, body))
			changed := slices.DeleteFunc(w.calls, func(call string) bool { return !strings.HasPrefix(call, "Set") })
			switch rec.Code {
			case http.StatusOK:
				if want := wantedChange(t, what, body); len(changed) != 1 || changed[0] != want {
					t.Errorf("%q did %q, want %q", body, changed, want)
				}
			case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
				if len(changed) > 0 {
					t.Errorf("refused %q and did %q", body, changed)
				}
			default:
				t.Errorf("status %d: %s", rec.Code, rec.Body)
			}
		}
	})
}

// wantedChange is the call that a body asks for.
func wantedChange(t *testing.T, what, body string) string {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("took %q: %v", body, err)
	}
	if what == "ram" {
		var mb int64
		if err := json.Unmarshal(all["ramMB"], &mb); err != nil {
			t.Fatalf("took %q: %v", body, err)
		}
		return fmt.Sprintf("SetRAM bot-one %d", mb)
	}
	call := "SetProfile bot-one"
	for _, name := range []string{"name", "avatarURL"} {
		var text *string
		if value := all[name]; value != nil {
			if err := json.Unmarshal(value, &text); err != nil {
				t.Fatalf("took %q: %v", body, err)
			}
		}
		if text == nil {
			call += " -"
			continue
		}
		call += " " + strconv.Quote(strings.TrimSpace(*text))
	}
	return call
}

// FuzzTokenHeader sends any token: only the good one is let in, and none comes
// back in an answer.
func FuzzTokenHeader(f *testing.F) {
	for _, token := range []string{goodToken, offToken, goodToken + " ", "", "\x00", strings.ToUpper(goodToken), strings.Repeat("x", 10_000), "Bearer " + goodToken} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		w := newWorld(t)
		r := newRequest("GET", "/v2/user", "")
		r.Header[http.CanonicalHeaderKey(tokenHeader)] = []string{token}
		rec := do(t, w.handler(), r)
		if (rec.Code == http.StatusOK) != (token == goodToken) || (rec.Code == http.StatusForbidden) != (token == offToken) || rec.Code >= 500 {
			t.Errorf("status %d for %q", rec.Code, token)
		}
		if len(token) >= 16 && strings.Contains(rec.Body.String(), token) {
			t.Errorf("the answer repeats the token: %s", rec.Body)
		}
	})
}

// FuzzPath asks for any path: no panic, no redirect, nothing done to an
// application whose ID is not valid.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"/v2/app/bot-one/start", "/v2/app/all/stop", "/v2/app/a%2Fb", "/v2/app//status", "//", "/v2/../d/x/y.zip",
		"/d/l_bot-one_20001_9999999999/bot-one.log", "/v2/locale/%00", "/v2/openapi.json/", "*", "", "/%", "/v2/app/é/ram",
	} {
		f.Add("GET", path)
		f.Add("PUT", path)
	}
	f.Add("OPTIONS", "*")
	f.Add("BREW", "/v2/user")
	f.Fuzz(func(t *testing.T, method, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || method == "" {
			return
		}
		w := newWorld(t)
		w.logText = strings.NewReader("line\n")
		r := newRequest("GET", "/", "")
		r.Method, r.URL = method, u
		rec := do(t, w.handler(), r)
		if rec.Code >= 500 {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
		for _, call := range w.calls {
			words := strings.Fields(call)
			if len(words) > 1 && words[0] != "SetLocale" && !app.ValidID(words[1]) {
				t.Errorf("called %q", call)
			}
		}
	})
}
