package httpapi

import (
	"io"
	"net/http"
	"net/url"
	"slices"
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
