package httpapi

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testDocument returns the description as parsed JSON.
func testDocument(t *testing.T) schemas {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(openAPI, &root); err != nil {
		t.Fatal(err)
	}
	return schemas{root: root}
}

// operations maps "GET /v2/user" to the operation object.
func (s schemas) operations() map[string]map[string]any {
	list := map[string]map[string]any{}
	for path, item := range s.root["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			list[strings.ToUpper(method)+" "+path] = op.(map[string]any)
		}
	}
	return list
}

// response returns the response object of a status, nil when it is not described.
func (s schemas) response(t *testing.T, op map[string]any, status int) map[string]any {
	t.Helper()
	r, _ := op["responses"].(map[string]any)[strconv.Itoa(status)].(map[string]any)
	if ref, is := r["$ref"].(string); is {
		target, err := s.resolve(ref)
		if err != nil {
			t.Fatal(err)
		}
		return target.(map[string]any)
	}
	return r
}

func TestDocumentAndRouterAgree(t *testing.T) {
	described := testDocument(t).operations()
	for _, r := range new(server).routes() {
		name := r.Method + " " + documentPath(r.Path)
		op, found := described[name]
		if !found {
			t.Errorf("%s is served but not described", name)
			continue
		}
		delete(described, name)
		if _, free := op["security"]; free != (r.access == public) {
			t.Errorf("%s: the document and the route disagree about the token", name)
		}
		if described := op["responses"].(map[string]any)["401"] != nil; described != (r.access != public) {
			t.Errorf("%s: 401 is described: %v", name, described)
		}
		checkParameters(t, name, op)
	}
	for name := range described {
		t.Errorf("%s is described but not served", name)
	}
}

// checkParameters tests that the parameters of a path are those described.
func checkParameters(t *testing.T, name string, op map[string]any) {
	t.Helper()
	s := testDocument(t)
	var got []string
	list, _ := op["parameters"].([]any)
	for _, p := range list {
		m := p.(map[string]any)
		if ref, is := m["$ref"].(string); is {
			target, err := s.resolve(ref)
			if err != nil {
				t.Fatal(err)
			}
			m = target.(map[string]any)
		}
		if m["in"] == "path" {
			got = append(got, m["name"].(string))
		}
	}
	var want []string
	for _, m := range regexp.MustCompile(`{(\w+)}`).FindAllStringSubmatch(name, -1) {
		want = append(want, m[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: parameters %v, want %v", name, got, want)
	}
}

// TestRecordedAnswersKeepTheDocument holds every recorded answer against the
// schema of its operation and status, and the document against the recordings.
func TestRecordedAnswersKeepTheDocument(t *testing.T) {
	s := testDocument(t)
	ops := s.operations()
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded answers: %v", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var g golden
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		seen[g.Operation+" "+strconv.Itoa(g.Status)] = true
		s.checkAnswer(t, file, g, ops[g.Operation])
	}
	// The document itself is not recorded a second time; TestDocumentIsServed reads it.
	seen["GET /v2/openapi.json 200"] = true
	// Nor is what is no answer but the beginning of a conversation: socket_test.go.
	for _, path := range []string{"upload", "app/{appID}/commit", "app/{appID}/exec", "team/{appID}/commit"} {
		seen["GET /v2/ws/"+path+" 101"] = true
	}
	for name, op := range ops {
		for status := range op["responses"].(map[string]any) {
			if !seen[name+" "+status] {
				t.Errorf("%s can answer %s, but no such answer is recorded", name, status)
			}
		}
	}
}

func (s schemas) checkAnswer(t *testing.T, file string, g golden, op map[string]any) {
	t.Helper()
	if g.Operation == "" { // no operation: an error or nothing
		if g.Body == nil {
			return
		}
		schema, err := s.resolve("#/components/schemas/Error")
		if err != nil {
			t.Fatal(err)
		}
		s.checkBody(t, file, g, schema)
		return
	}
	if op == nil {
		t.Errorf("%s: no operation %s", file, g.Operation)
		return
	}
	r := s.response(t, op, g.Status)
	if r == nil {
		t.Errorf("%s: %s does not describe status %d", file, g.Operation, g.Status)
		return
	}
	content, _ := r["content"].(map[string]any)
	if content == nil {
		if g.Body != nil || g.Text != "" {
			t.Errorf("%s: a body where none is described", file)
		}
		return
	}
	mediaType, _, _ := strings.Cut(g.Headers["Content-Type"], ";")
	media, described := content[mediaType].(map[string]any)
	if !described {
		t.Errorf("%s: %q is not described", file, mediaType)
		return
	}
	if g.Body != nil {
		s.checkBody(t, file, g, media["schema"])
	}
}

func (s schemas) checkBody(t *testing.T, file string, g golden, schema any) {
	t.Helper()
	var v any
	if err := json.Unmarshal(g.Body, &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, exact := range []bool{false, true} {
		if err := (schemas{s.root, exact}).check(schema, v, "body"); err != nil {
			t.Errorf("%s: exactly %v: %v", file, exact, err)
		}
	}
}

// TestAnswersMayGrow: a client that is generated from the document must take a later
// berth, whose answers have more fields; what it sends is what is described.
func TestAnswersMayGrow(t *testing.T) {
	s := testDocument(t)
	var walk func(v any, at string, closed bool)
	walk = func(v any, at string, closed bool) {
		switch v := v.(type) {
		case map[string]any:
			if ref, is := v["$ref"].(string); is {
				target, err := s.resolve(ref)
				if err != nil {
					t.Fatal(err)
				}
				walk(target, at+" "+ref, closed)
				return
			}
			if _, object := v["properties"].(map[string]any); object && (v["additionalProperties"] == false) != closed {
				t.Errorf("%s: additionalProperties is %v", at, v["additionalProperties"])
			}
			for name, part := range v {
				walk(part, at+"/"+name, closed)
			}
		case []any:
			for _, part := range v {
				walk(part, at, closed)
			}
		}
	}
	for name, op := range s.operations() {
		walk(op["responses"], name, false)
		body, _ := op["requestBody"].(map[string]any)
		content, _ := body["content"].(map[string]any)
		walk(content["application/json"], name, true) // the fields of a form are as clients name them
	}
}

func TestDocumentIsServed(t *testing.T) {
	h := newWorld(t).handler()
	r := newRequest("GET", "/v2/openapi.json", "")
	r.Header.Del(tokenHeader)
	rec := do(t, h, r)
	var root struct {
		OpenAPI string
		Info    struct{ Version string }
	}
	decode(t, rec, &root)
	if rec.Code != 200 || root.Info.Version != "2.0.0" || !strings.HasPrefix(root.OpenAPI, "3.1.") || strings.Contains(rec.Body.String(), "\n") {
		t.Errorf("status %d, %+v", rec.Code, root)
	}
	etag := rec.Header().Get("ETag")
	for header, want := range map[string]int{
		etag: 304, "W/" + etag: 304, `"x", ` + etag: 304, "*": 304, `"x"`: 200, "": 200,
	} {
		r := newRequest("GET", "/v2/openapi.json", "")
		r.Header.Set("If-None-Match", header)
		if rec := do(t, h, r); rec.Code != want || rec.Header().Get("ETag") != etag {
			t.Errorf("If-None-Match %s: status %d, want %d", header, rec.Code, want)
		}
	}
}

// TestDocumentHoldsTogether follows every reference and looks for leftovers.
func TestDocumentHoldsTogether(t *testing.T) {
	s := testDocument(t)
	used := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, is := v["$ref"].(string); is {
				used[ref] = true
				if _, err := s.resolve(ref); err != nil {
					t.Error(err)
				}
			}
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(s.root)
	for kind, items := range s.root["components"].(map[string]any) {
		for name := range items.(map[string]any) {
			if kind != "securitySchemes" && !used["#/components/"+kind+"/"+name] {
				t.Errorf("%s %s is not used", kind, name)
			}
		}
	}
	ids := map[string]bool{}
	for name, op := range s.operations() {
		id, _ := op["operationId"].(string)
		if id == "" || ids[id] {
			t.Errorf("%s has no operationId of its own", name)
		}
		ids[id] = true
		for status := range op["responses"].(map[string]any) {
			if n, err := strconv.Atoi(status); err != nil || http.StatusText(n) == "" {
				t.Errorf("%s: odd status %s", name, status)
			}
		}
	}
}
