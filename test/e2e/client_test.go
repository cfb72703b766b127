package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/test/harness"
)

// client is somebody with a token.
type client struct {
	t       *testing.T
	d       *daemon
	name    string
	account string // its id
	token   string
}

// in is the same client for a subtest.
func (c *client) in(t *testing.T) *client {
	copied := *c
	copied.t = t
	return &copied
}

// answer is what the API said.
type answer struct {
	t      *testing.T
	code   int
	header http.Header
	body   []byte
	value  any
}

var web = &http.Client{Timeout: 2 * time.Minute}

// request makes a request with the token in it.
func (c *client) request(method, path string, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, c.d.Base+path, body)
	if err != nil {
		panic(err)
	}
	r.Header.Set("api-token", c.token)
	return r
}

// try sends a request; it may be called from any goroutine.
func (c *client) try(r *http.Request) (answer, error) {
	resp, err := web.Do(r)
	if err != nil {
		return answer{t: c.t}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a := answer{t: c.t, code: resp.StatusCode, header: resp.Header, body: body}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && len(body) > 0 {
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err == nil {
			err = d.Decode(&a.value)
		}
	}
	return a, err
}

func (c *client) send(r *http.Request) answer {
	c.t.Helper()
	a, err := c.try(r)
	if err != nil {
		c.t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return a
}

func (c *client) get(path string) answer {
	c.t.Helper()
	return c.send(c.request(http.MethodGet, "/v2"+path, nil))
}

// put sends a JSON body, none when it is "".
func (c *client) put(path, body string) answer {
	c.t.Helper()
	r := c.request(http.MethodPut, "/v2"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.send(r)
}

func (c *client) delete(id string) answer {
	c.t.Helper()
	return c.send(c.request(http.MethodDelete, "/v2/app/"+id+"/delete", nil))
}

// deleteAll deletes every application of the account.
func (c *client) deleteAll() {
	c.t.Helper()
	for _, id := range c.ids() {
		c.delete(id).want(200)
	}
}

// ids are the applications of the account.
func (c *client) ids() []string {
	c.t.Helper()
	return c.get("/user").list("user.apps")
}

// form is a multipart request with a ZIP in it.
func (c *client) form(method, path string, zip []byte) *http.Request {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, _ := w.CreateFormFile("file", "app.zip") // a Buffer takes everything
	_, _ = part.Write(zip)
	_ = w.Close()
	r := c.request(method, path, &b)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return r
}

func (c *client) post(zip []byte) answer {
	c.t.Helper()
	return c.send(c.form(http.MethodPost, "/v2/upload", zip))
}

// upload makes an application and returns its id.
func (c *client) upload(f files) string {
	c.t.Helper()
	a := c.post(f.zip())
	if a.code != 200 {
		c.t.Fatalf("upload: %d %s", a.code, a.body)
	}
	return a.text("app.id")
}

func (c *client) commit(id string, f files) answer {
	c.t.Helper()
	return c.send(c.form(http.MethodPut, "/v2/app/"+id+"/commit", f.zip()))
}

func (c *client) info(id string) answer {
	c.t.Helper()
	return c.get("/app/" + id)
}

// until polls an application's information until it holds these pairs of
// path and value.
func (c *client) until(id string, pairs ...any) {
	c.t.Helper()
	var last answer
	ok := false
	defer func() {
		if !ok {
			c.t.Logf("the last answer: %s", last.body)
		}
	}()
	harness.Eventually(c.t, fmt.Sprintf("%s has %v", id, pairs), func() bool {
		last = c.info(id)
		ok = last.code == 200 && len(last.missing(pairs)) == 0
		return ok
	})
}

// log is the whole log of an application, by its address, without a token.
func (c *client) log(id string) string {
	c.t.Helper()
	link := c.get("/app/" + id + "/logs").text("apps.terminal.url")
	return string(c.download(link))
}

// download fetches a link as a browser would.
func (c *client) download(link string) []byte {
	c.t.Helper()
	resp, err := web.Get(link)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		c.t.Fatalf("GET %s: %d %v %s", link, resp.StatusCode, err, body)
	}
	return body
}

// untilLog polls the log until it holds a text, and returns it.
func (c *client) untilLog(id, text string) (log string) {
	c.t.Helper()
	defer func() {
		if !strings.Contains(log, text) {
			c.t.Logf("the log is:\n%s", tail(log, 3000))
		}
	}()
	harness.Eventually(c.t, fmt.Sprintf("the log says %q", text), func() bool {
		log = c.log(id)
		return strings.Contains(log, text)
	})
	return log
}

// at is the value under a dotted path, nil when there is none.
func (a answer) at(path string) any {
	v := a.value
	for key := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[key]
	}
	return v
}

func (a answer) text(path string) string { return fmt.Sprint(a.at(path)) }

// list is an array of texts, sorted.
func (a answer) list(path string) []string {
	a.t.Helper()
	values, ok := a.at(path).([]any)
	if !ok {
		a.t.Errorf("%s is no array in %s", path, a.body)
	}
	var texts []string
	for _, v := range values {
		texts = append(texts, fmt.Sprint(v))
	}
	slices.Sort(texts)
	return texts
}

// missing are those of the pairs of path and value that do not hold.
func (a answer) missing(pairs []any) []string {
	var wrong []string
	for i := 0; i+1 < len(pairs); i += 2 {
		path, want := pairs[i].(string), fmt.Sprint(pairs[i+1])
		if got := a.text(path); got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %s, want %s", path, got, want))
		}
	}
	return wrong
}

// want checks the HTTP status and pairs of path and value.
func (a answer) want(code int, pairs ...any) answer {
	a.t.Helper()
	wrong := a.missing(pairs)
	if a.code != code {
		wrong = append(wrong, fmt.Sprintf("the status is %d, want %d", a.code, code))
	}
	if len(wrong) > 0 {
		a.t.Errorf("%s\nin %s", strings.Join(wrong, "\n"), a.body)
	}
	return a
}

// says checks that the text under a path contains all of these.
func (a answer) says(path string, parts ...string) answer {
	a.t.Helper()
	for _, part := range parts {
		if !strings.Contains(a.text(path), part) {
			a.t.Errorf("%s is %q, want %q in it", path, a.text(path), part)
		}
	}
	return a
}
