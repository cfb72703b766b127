package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"testing"

	"berth/web"

	"berth/app"
)

// zipRequest makes an upload with one file.
func zipRequest(method, path, content string) *http.Request {
	return formRequest(method, path, func(m *multipart.Writer) {
		part, _ := m.CreateFormFile("file", "demo.zip")
		_, _ = io.WriteString(part, content)
	})
}

func formRequest(method, path string, write func(m *multipart.Writer)) *http.Request {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	_ = m.SetBoundary("boundary-of-the-test")
	write(m)
	_ = m.Close()
	r := httptest.NewRequestWithContext(context.Background(), method, path, &b)
	r.Header.Set(tokenHeader, goodToken)
	r.Header.Set("X-Request-Id", "request-1")
	r.Header.Set("Content-Type", m.FormDataContentType())
	return r
}

func uploadScenes() []scene {
	var list []scene
	for _, target := range []struct{ name, method, path, op, call, done string }{
		{"upload", "POST", "/v2/upload", "", "Upload", "uploaded"},
		{"app_commit", "PUT", "/v2/app/bot-one/commit", "/v2/app/{appID}/commit", "Commit", "updated"},
	} {
		add := func(outcome string, arrange func(w *world), raw func(w *world) *http.Request) {
			list = append(list, scene{
				name: target.name + "_" + outcome, method: target.method,
				path: target.path, op: target.op, arrange: arrange, raw: raw,
			})
		}
		zip := func(*world) *http.Request { return zipRequest(target.method, target.path, "PK") }
		result := func(s app.Snapshot, logs string) func(*world) {
			return func(w *world) { w.deployed = app.Deployed{Snapshot: s, Logs: logs} }
		}
		add("ok", result(bot("bot-one"), ""), zip)
		add("ok_site", result(visited("shop"), ""), zip)
		add("ok_with_logs", result(bot("bot-one"), "added 12 packages\n"), zip)
		add("ok_ended", result(killed("bot-one"), "out of memory\n"), zip)
		add("ok_narrated", result(bot("bot-one"), ""), func(*world) *http.Request {
			r := zipRequest(target.method, target.path, "PK")
			r.Header.Set("Accept", "text/event-stream")
			return r
		})
		add("invalid", nil, func(*world) *http.Request { return newRequest(target.method, target.path, "{}") })
		add("missing_file", nil, func(*world) *http.Request {
			return formRequest(target.method, target.path, func(m *multipart.Writer) { _ = m.WriteField("file", "text") })
		})
		add("conflict", failing(target.call, app.Conflict, "The subdomain shop is taken."), zip)
		add("queue_full", failing(target.call, app.Unavailable, "Too many builds wait already."), zip)
		add("too_large", func(w *world) { w.config.MaxUpload = 100 }, zip)
		add("unusable", func(w *world) {
			w.fail[target.call] = &app.Error{Kind: app.Unusable, Message: app.Textf("The build failed."), Logs: "npm ERR! 404\n"}
		}, zip)
	}
	return list
}

func TestUploadTakesTheFirstPartWithAFileName(t *testing.T) {
	part := func(m *multipart.Writer, disposition, content string) {
		p, err := m.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(p, content)
	}
	for disposition, taken := range map[string]bool{
		`form-data; name="file"; filename="a.zip"`:                true,
		`form-data; name="a.zip"; filename="a.zip"`:               true,
		`form-data; name="data"; filename*=UTF-8''na%C3%AFve.zip`: true,
		`form-data; name="data"; filename="naïve.zip"`:            true,
		`form-data; name="x"; filename=a b.zip`:                   true,
		`form-data; filename="C:\dir\a.zip"`:                      true,
		`form-data; name="file"; filename=""`:                     false,
		`form-data; name="file"`:                                  false,
		`form-data; name="filename"`:                              false,
	} {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		r := formRequest("POST", "/v2/upload", func(m *multipart.Writer) {
			_ = m.WriteField("before", "text")
			part(m, disposition, "PK first")
			_ = m.WriteField("after", "text")
		})
		rec := do(t, w.handler(), r)
		want := http.StatusNotFound
		if taken {
			want = http.StatusOK
			if w.spooled["spool-1"] != "PK first" {
				t.Errorf("%s: spooled %q", disposition, w.spooled)
			}
		}
		if rec.Code != want {
			t.Errorf("%s: status %d, want %d: %s", disposition, rec.Code, want, rec.Body)
		}
		w.checkSpools(t)
	}
}

// checkSpools tests that every spooled file was handed over or dropped, once.
func (w *world) checkSpools(t testing.TB) {
	t.Helper()
	ends := map[string]int{}
	for _, file := range append(append([]string{}, w.handed...), w.dropped...) {
		ends[file]++
	}
	for file := range w.spooled {
		if ends[file] != 1 {
			t.Errorf("%s ended %d times", file, ends[file])
		}
		delete(ends, file)
	}
	if len(ends) > 0 {
		t.Errorf("files that were never spooled: %v", ends)
	}
}

func TestUploadBoundsWhatComesBeforeTheFile(t *testing.T) {
	for name, write := range map[string]func(m *multipart.Writer){
		"bytes": func(m *multipart.Writer) {
			_ = m.WriteField("a", strings.Repeat("x", web.MaxTextBytes))
			_ = m.WriteField("b", "y")
		},
		"parts": func(m *multipart.Writer) {
			for i := range web.MaxTextParts {
				_ = m.WriteField(fmt.Sprint(i), "")
			}
		},
	} {
		w := newWorld(t)
		r := formRequest("POST", "/v2/upload", func(m *multipart.Writer) {
			write(m)
			_, _ = m.CreateFormFile("file", "a.zip")
		})
		if rec := do(t, w.handler(), r); rec.Code != http.StatusBadRequest || w.called("Spool") != 0 {
			t.Errorf("%s: status %d, calls %v", name, rec.Code, w.calls)
		}
	}
}

func TestUploadThatIsCutShortIsNotHandedOver(t *testing.T) {
	whole, err := io.ReadAll(zipRequest("POST", "/v2/upload", strings.Repeat("PK", 5000)).Body)
	if err != nil {
		t.Fatal(err)
	}
	closing := len("\r\n--boundary-of-the-test--\r\n")
	for _, cut := range []int{0, 10, 60, 200, 5000, len(whole) - closing, len(whole) - closing + 4} {
		w := newWorld(t)
		r := newRequest("POST", "/v2/upload", string(whole[:cut]))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=boundary-of-the-test")
		rec := do(t, w.handler(), r)
		if rec.Code != http.StatusBadRequest && rec.Code != http.StatusNotFound || len(w.handed) > 0 {
			t.Errorf("cut at %d: status %d, handed over %v", cut, rec.Code, w.handed)
		}
		w.checkSpools(t)
	}
}

func TestUploadThatBreaksAfterTheFileIsDropped(t *testing.T) {
	w := newWorld(t)
	text, err := io.ReadAll(zipRequest("POST", "/v2/upload", "PK").Body)
	if err != nil {
		t.Fatal(err)
	}
	// More than multipart reads ahead, then the connection breaks.
	body := io.MultiReader(bytes.NewReader(text), strings.NewReader(strings.Repeat(" ", 1<<16)), errorReader{})
	r := zipRequest("POST", "/v2/upload", "PK")
	r.Body, r.ContentLength = io.NopCloser(body), -1
	rec := do(t, w.handler(), r)
	if rec.Code != http.StatusBadRequest || len(w.handed) != 0 || len(w.dropped) != 1 {
		t.Errorf("status %d, handed over %v, dropped %v", rec.Code, w.handed, w.dropped)
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestUploadOverTheLimitIsRefused(t *testing.T) {
	announced := func() *http.Request {
		return zipRequest("POST", "/v2/upload", strings.Repeat("x", 9000))
	}
	chunked := func() *http.Request {
		r := announced()
		r.ContentLength = -1
		return r
	}
	for name, r := range map[string]*http.Request{"announced": announced(), "chunked": chunked()} {
		w := newWorld(t)
		w.config.MaxUpload = 8 << 10
		rec := do(t, w.handler(), r)
		if rec.Code != http.StatusRequestEntityTooLarge || !strings.Contains(rec.Body.String(), "8KB") {
			t.Errorf("%s: status %d: %s", name, rec.Code, rec.Body)
		}
		if read := w.called("Spool"); read != 0 {
			t.Errorf("%s: spooled", name)
		}
		w.checkSpools(t)
	}
}

func TestSpoolsOwnRefusalIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.fail["Spool"] = app.Errorf(app.Exhausted, "The disk is full.")
	if rec := do(t, w.handler(), zipRequest("POST", "/v2/upload", "PK")); rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("status %d, want 422", rec.Code)
	}
}

func TestCommitAsksBeforeItReads(t *testing.T) {
	w := newWorld(t)
	r := zipRequest("PUT", "/v2/app/nobody/commit", "PK")
	r.Body = io.NopCloser(errorReader{})
	if rec := do(t, w.handler(), r); rec.Code != http.StatusNotFound {
		t.Errorf("status %d, want 404", rec.Code)
	}
}

func TestNotMultipart(t *testing.T) {
	for _, contentType := range []string{"", "application/zip", "multipart/form-data", "multipart/form-data; boundary="} {
		w := newWorld(t)
		r := newRequest("POST", "/v2/upload", "PK")
		r.Header.Set("Content-Type", contentType)
		rec := do(t, w.handler(), r)
		if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "multipart/form-data") {
			t.Errorf("%q: status %d: %s", contentType, rec.Code, rec.Body)
		}
	}
}

// The host hears what the file is called, and the answer ends with what the host adds.
func TestUploadSaysMore(t *testing.T) {
	w := newWorld(t)
	w.deployed = app.Deployed{Snapshot: bot("bot-one"), Hint: app.Words("You have two of them.")}
	rec := do(t, w.handler(), zipRequest("POST", "/v2/upload", "PK"))
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"message":"Your application was uploaded. You have two of them."`) || w.fileName != "demo.zip" {
		t.Errorf("%d %s, from %q", rec.Code, rec.Body, w.fileName)
	}
}
