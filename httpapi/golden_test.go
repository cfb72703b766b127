package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

var update = flag.Bool("update", false, "rewrite the recorded answers in testdata")

// golden is one recorded answer.
type golden struct {
	Request   string            `json:"request"`
	Operation string            `json:"operation,omitempty"` // as in the OpenAPI document; "" for no operation
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      json.RawMessage   `json:"body,omitempty"`
	Text      string            `json:"text,omitempty"` // of an answer that is not JSON
}

// scene is one endpoint with one outcome. Its name is the name of the file.
type scene struct {
	name    string
	method  string
	path    string
	op      string // path of the operation, when it differs from path
	body    string
	header  map[string]string
	arrange func(w *world)
	pathOf  func(w *world) string // instead of path, after arrange
	raw     func(w *world) *http.Request
}

// recorded are the headers that a recording holds; the others are tested once.
var recorded = []string{
	"Content-Type", "Retry-After", "Allow", "ETag", "Content-Disposition",
	"Content-Range", "Accept-Ranges", "ratelimit-remaining", "Cache-Control",
}

func scenes() []scene {
	return slices.Concat(readScenes(), actionScenes(), settingScenes(), environmentScenes(), uploadScenes(),
		downloadScenes(), socketScenes(), routeScenes(), teamScenes(), memberScenes(), vscodeScenes(), namesScenes(), tokenScenes(), channelScenes(), hostedScenes(), removeAllScenes(), consoleScenes(), inputScenes(), historyScenes(), snapshotScenes(), eventScenes(), deviceScenes(), commonScenes())
}

// commonScenes are the refusals that every operation with a token can give.
func commonScenes() []scene {
	fault := errors.New("disk on fire: secret path")
	var list []scene
	paths := map[string]bool{}
	for _, r := range new(server).routes() {
		if r.access != byToken {
			continue
		}
		again := paths[r.Path] // by another method
		paths[r.Path] = true
		op := documentPath(r.Path)
		base := scene{method: r.Method, op: op, path: strings.NewReplacer("{appID}", "bot-one", "{locale}", "en-US", "{modID}", "8", "{name}", "TOKEN",
			"{subdomain}", "blog", "{domain}", "shop.example.org", "{tokenID}", "5", "{channelID}", "4", "{deliveryID}", "9").Replace(op)}
		add := func(outcome string, change func(s *scene)) {
			s := base
			s.name = outcomeName(r, outcome, again)
			change(&s)
			list = append(list, s)
		}
		add("unauthorized", func(s *scene) { s.header = map[string]string{tokenHeader: "wrong"} })
		add("forbidden", func(s *scene) { s.header = map[string]string{tokenHeader: offToken} })
		add("limited", func(s *scene) {
			s.arrange = func(w *world) { w.fail["Authenticate"] = app.Errorf(app.Limited, "Too many requests.") }
		})
		add("unavailable", func(s *scene) {
			s.arrange = func(w *world) {
				w.fail["Authenticate"] = app.Errorf(app.Unavailable, "The server is shutting down.")
			}
		})
		add("internal", func(s *scene) { s.arrange = func(w *world) { w.fail["Authenticate"] = fault } })
	}
	return list
}

func outcomeName(r route, outcome string, again bool) string {
	name := strings.NewReplacer("/v2/", "", "app/:appID", "app", "team/:appID", "team", "team/:modID", "team_member",
		"/:locale", "", "/:subdomain", "", "/:domain", "", "/:name", "_one", "/token/:tokenID", "token_one", "channel/:channelID/", "channel_", "/:channelID", "_one", "/:deliveryID", "", "/", "_").Replace(r.Path)
	if again || strings.HasSuffix(r.Path, "/:appID/team") || strings.HasSuffix(r.Path, "/:subdomain") { // which takes several methods
		name += "_" + strings.ToLower(r.Method)
	}
	if r.Path == "/v2/team/:appID" {
		name = "team_one" // "team" are all
	}
	return name + "_" + outcome
}

// documentPath writes a router's path the way OpenAPI does.
func documentPath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if name, param := strings.CutPrefix(s, ":"); param {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}

func TestGolden(t *testing.T) {
	known := map[string]bool{}
	for _, s := range scenes() {
		file := filepath.Join("testdata", s.name+".json")
		if known[file] {
			t.Fatalf("two scenes are named %s", s.name)
		}
		known[file] = true
		t.Run(s.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := json.Indent(&b, encode(play(t, s)), "", "  "); err != nil {
				t.Fatal(err)
			}
			got := append(b.Bytes(), '\n')
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("the answer changed; rewrite with -update if that is right\ngot:\n%s\nwant:\n%s", got, want)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !known[file] {
			t.Errorf("%s belongs to no scene", file)
		}
	}
}

// play runs a scene and records the answer.
func play(t *testing.T, s scene) golden { return playIn(t, s, "") }

// playIn is play for an account and a client of a locale, "" for those of the scene.
func playIn(t *testing.T, s scene, locale string) golden {
	t.Helper()
	w := newWorld(t)
	if s.arrange != nil {
		s.arrange(w)
	}
	if s.pathOf != nil {
		s.path = s.pathOf(w)
	}
	r := newRequest(s.method, s.path, s.body)
	if s.raw != nil {
		r = s.raw(w)
	}
	for name, value := range s.header {
		r.Header.Set(name, value)
	}
	if locale != "" {
		w.account.Locale = locale
		r.Header.Set("Accept-Language", locale)
	}
	rec := httptest.NewRecorder()
	w.handler().ServeHTTP(rec, r)
	checkInvariants(t, r, rec)

	g := golden{Request: s.method + " " + s.path, Status: rec.Code, Headers: map[string]string{}}
	if s.op != "-" {
		g.Operation = s.method + " " + s.op
		if s.op == "" {
			g.Operation = s.method + " " + s.path
		}
	}
	for _, name := range recorded {
		if v := rec.Header().Get(name); v != "" {
			g.Headers[name] = v
		}
	}
	switch body := rec.Body.Bytes(); {
	case len(body) == 0:
	case strings.HasPrefix(rec.Header().Get("Content-Type"), "application/json"):
		g.Body = body
	default:
		g.Text = string(body)
	}
	return g
}

// testCall is a call of a server that nothing is set of.
func testCall(w http.ResponseWriter, r *http.Request) *call {
	s := &server{Config: Config{Now: func() time.Time { return testNow }, Log: slog.New(slog.DiscardHandler)}}
	return s.newCall(w, r)
}

// newRequest makes a request with a good token and a fixed request ID.
func newRequest(method, path, body string) *http.Request {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(context.Background(), method, path, reader)
	r.Header.Set(tokenHeader, goodToken)
	r.Header.Set("X-Request-Id", "request-1")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// checkInvariants tests what holds for every answer.
func checkInvariants(t testing.TB, r *http.Request, rec *httptest.ResponseRecorder) {
	t.Helper()
	h := rec.Header()
	for _, name := range []string{"X-Request-Id", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"} {
		if h.Get(name) == "" {
			t.Errorf("no header %s", name)
		}
	}
	if !strings.HasSuffix(h.Get("Cache-Control"), "no-store") {
		t.Errorf("Cache-Control is %q", h.Get("Cache-Control"))
	}
	if h.Get("X-Content-Type-Options") != "nosniff" {
		t.Error("no nosniff")
	}
	if (h.Get("ratelimit-remaining") == "0") != (rec.Code == http.StatusTooManyRequests) {
		t.Errorf("ratelimit-remaining is %s with status %d", h.Get("ratelimit-remaining"), rec.Code)
	}
	if rec.Code >= 300 && rec.Code < 400 && rec.Code != http.StatusNotModified || h.Get("Location") != "" {
		t.Errorf("a redirect: %d to %q", rec.Code, h.Get("Location"))
	}
	bodyless := r.Method == http.MethodHead || rec.Code == http.StatusNoContent || rec.Code == http.StatusNotModified
	if bodyless != (rec.Body.Len() == 0) {
		t.Errorf("%d bytes of body with %s and status %d", rec.Body.Len(), r.Method, rec.Code)
	}
	if rec.Code >= 400 && !bodyless {
		var e errorBody
		if err := json.Unmarshal(rec.Body.Bytes(), &e); err != nil {
			t.Errorf("the error is not JSON: %v", err)
		} else if e.Status != "error" || e.Code != rec.Code || e.StatusCode != rec.Code || e.Message == "" ||
			e.RequestID != h.Get("X-Request-Id") {
			t.Errorf("odd error body %+v", e)
		}
	}
	if strings.Contains(fmt.Sprint(h), goodToken) {
		t.Error("a header holds the token")
	}
}

// do runs one request against h.
func do(t testing.TB, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	checkInvariants(t, r, rec)
	return rec
}
