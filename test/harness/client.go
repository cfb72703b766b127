package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Client is somebody with a token.
type Client struct {
	T       *testing.T
	Berth   *Berth
	Name    string
	Account string // its id
	Token   string
	By      *http.Client // nil: Web
}

// In is the same client for a subtest.
func (c *Client) In(t *testing.T) *Client {
	copied := *c
	copied.T = t
	return &copied
}

// Answer is what the API said.
type Answer struct {
	T      *testing.T
	Code   int
	Header http.Header
	Body   []byte
	Value  any
}

// Web is the client that all requests are made with. berth itself ends a build after ten
// minutes and says why, so Web waits longer.
var Web = &http.Client{Timeout: 11 * time.Minute}

// Request makes a request with the token in it.
func (c *Client) Request(method, path string, body io.Reader) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), method, c.Berth.Base+path, body)
	if err != nil {
		panic(err)
	}
	r.Header.Set("api-token", c.Token)
	return r
}

// Try sends a request; it may be called from any goroutine.
func (c *Client) Try(r *http.Request) (Answer, error) {
	by := c.By
	if by == nil {
		by = Web
	}
	resp, err := by.Do(r)
	if err != nil {
		return Answer{T: c.T}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a := Answer{T: c.T, Code: resp.StatusCode, Header: resp.Header, Body: body}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && len(body) > 0 {
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err == nil {
			err = d.Decode(&a.Value)
		}
	}
	return a, err
}

// Send sends a request, which must be answered.
func (c *Client) Send(r *http.Request) Answer {
	c.T.Helper()
	a, err := c.Try(r)
	if err != nil {
		c.T.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return a
}

// Get asks for what is below /v2.
func (c *Client) Get(path string) Answer {
	c.T.Helper()
	return c.Send(c.Request(http.MethodGet, "/v2"+path, nil))
}

// Put sends a JSON body, none when it is "".
func (c *Client) Put(path, body string) Answer {
	c.T.Helper()
	r := c.Request(http.MethodPut, "/v2"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.Send(r)
}

// Delete deletes an application.
func (c *Client) Delete(id string) Answer {
	c.T.Helper()
	return c.Send(c.Request(http.MethodDelete, "/v2/app/"+id+"/delete", nil))
}

// DeleteAll deletes every application of the account.
func (c *Client) DeleteAll() {
	c.T.Helper()
	for _, id := range c.IDs() {
		c.Delete(id).Want(200)
	}
}

// IDs are the applications of the account.
func (c *Client) IDs() []string {
	c.T.Helper()
	return c.Get("/user").List("user.apps")
}

// Form is a multipart request with a ZIP in it.
func (c *Client) Form(method, path string, zip []byte) *http.Request {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, _ := w.CreateFormFile("file", "app.zip") // a Buffer takes everything
	_, _ = part.Write(zip)
	_ = w.Close()
	r := c.Request(method, path, &b)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return r
}

// Post uploads a ZIP as a new application.
func (c *Client) Post(zip []byte) Answer {
	c.T.Helper()
	return c.Send(c.Form(http.MethodPost, "/v2/upload", zip))
}

// Upload makes an application and returns its id.
func (c *Client) Upload(f Files) string {
	c.T.Helper()
	a := c.Post(f.Zip())
	if a.Code != 200 {
		c.T.Fatalf("upload: %d %s", a.Code, a.Body)
	}
	return a.Text("app.id")
}

// Commit lays files over an application.
func (c *Client) Commit(id string, f Files) Answer {
	c.T.Helper()
	return c.Send(c.Form(http.MethodPut, "/v2/app/"+id+"/commit", f.Zip()))
}

// CommitExact lays files over an application, and removes what earlier ZIPs brought and
// this one has not.
func (c *Client) CommitExact(id string, f Files) Answer {
	c.T.Helper()
	return c.Send(c.Form(http.MethodPut, "/v2/app/"+id+"/commit?exact=true", f.Zip()))
}

// Info asks for the information of an application.
func (c *Client) Info(id string) Answer {
	c.T.Helper()
	return c.Get("/app/" + id)
}

// Until polls an application's information until it holds these pairs of
// path and value.
func (c *Client) Until(id string, pairs ...any) {
	c.T.Helper()
	var last Answer
	ok := false
	defer func() {
		if !ok {
			c.T.Logf("the last answer: %s", last.Body)
		}
	}()
	Eventually(c.T, fmt.Sprintf("%s has %v", id, pairs), func() bool {
		last = c.Info(id)
		ok = last.Code == 200 && len(last.Missing(pairs)) == 0
		return ok
	})
}

// Log is the whole log of an application, by its address, without a token.
func (c *Client) Log(id string) string {
	c.T.Helper()
	link := c.Get("/app/" + id + "/logs").Text("apps.terminal.url")
	return string(c.Download(link))
}

// Download fetches a link as a browser would.
func (c *Client) Download(link string) []byte {
	c.T.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, link, http.NoBody)
	if err != nil {
		c.T.Fatal(err)
	}
	resp, err := Web.Do(r)
	if err != nil {
		c.T.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		c.T.Fatalf("GET %s: %d %v %s", link, resp.StatusCode, err, body)
	}
	return body
}

// UntilLog polls the log until it holds a text, and returns it.
func (c *Client) UntilLog(id, text string) (log string) {
	c.T.Helper()
	defer func() {
		if !strings.Contains(log, text) {
			c.T.Logf("the log is:\n%s", Tail(log, 3000))
		}
	}()
	Eventually(c.T, fmt.Sprintf("the log says %q", text), func() bool {
		log = c.Log(id)
		return strings.Contains(log, text)
	})
	return log
}

// At is the value under a dotted path, nil when there is none.
func (a Answer) At(path string) any {
	v := a.Value
	for key := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[key]
	}
	return v
}

// Text is the value under a dotted path as text.
func (a Answer) Text(path string) string { return fmt.Sprint(a.At(path)) }

// List is an array of texts, sorted.
func (a Answer) List(path string) []string {
	a.T.Helper()
	values, ok := a.At(path).([]any)
	if !ok {
		a.T.Errorf("%s is no array in %s", path, a.Body)
	}
	var texts []string
	for _, v := range values {
		texts = append(texts, fmt.Sprint(v))
	}
	slices.Sort(texts)
	return texts
}

// Missing are those of the pairs of path and value that do not hold.
func (a Answer) Missing(pairs []any) []string {
	var wrong []string
	for i := 0; i+1 < len(pairs); i += 2 {
		path, want := pairs[i].(string), fmt.Sprint(pairs[i+1])
		if got := a.Text(path); got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %s, want %s", path, got, want))
		}
	}
	return wrong
}

// Want checks the HTTP status and pairs of path and value.
func (a Answer) Want(code int, pairs ...any) Answer {
	a.T.Helper()
	wrong := a.Missing(pairs)
	if a.Code != code {
		wrong = append(wrong, fmt.Sprintf("the status is %d, want %d", a.Code, code))
	}
	if len(wrong) > 0 {
		a.T.Errorf("%s\nin %s", strings.Join(wrong, "\n"), a.Body)
	}
	return a
}

// Says checks that the text under a path contains all of these.
func (a Answer) Says(path string, parts ...string) Answer {
	a.T.Helper()
	for _, part := range parts {
		if !strings.Contains(a.Text(path), part) {
			a.T.Errorf("%s is %q, want %q in it", path, a.Text(path), part)
		}
	}
	return a
}
