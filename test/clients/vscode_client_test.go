package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// extension is the REST side of the extension of VS Code, version 2.29.11. It
// sends what the extension sends, by the fetch of Node.js, and takes of the
// answers what the extension takes.
type extension struct {
	t     *testing.T
	d     *daemon
	token string
}

const extensionName = "vscode/2.29.11 (Linux 6.18; linux; x64)"

// ask sends a request, with a JSON body unless that is nil, and returns the
// answer, which must have this status.
func (x *extension) ask(status int, method, route string, body any) object {
	x.t.Helper()
	header, text := http.Header{}, []byte(nil)
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			x.t.Fatal(err)
		}
		header.Set("Content-Type", "application/json")
	}
	return x.fetch(status, method, route, header, text)
}

// offer sends a ZIP in a form, as a File of which name and field are file.zip.
func (x *extension) offer(status int, method, route, path string) object {
	x.t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		x.t.Fatal(err)
	}
	const boundary = "----formdata-undici-068283647754"
	form := fmt.Sprintf("--%s\r\nContent-Disposition: form-data; name=\"file.zip\"; filename=\"file.zip\"\r\n"+
		"Content-Type: application/octet-stream\r\n\r\n%s\r\n--%s--\r\n", boundary, file, boundary)
	return x.fetch(status, method, route, http.Header{"Content-Type": {"multipart/form-data; boundary=" + boundary}}, []byte(form))
}

func (x *extension) fetch(status int, method, route string, header http.Header, body []byte) object {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), method, x.d.Base+"/v2"+route, bytes.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	maps.Copy(r.Header, http.Header{
		"Api-Token": {x.token}, "User-Agent": {extensionName}, "Accept": {"*/*"}, "Accept-Language": {"*"},
		"Sec-Fetch-Mode": {"cors"}, "Accept-Encoding": {"gzip, deflate"},
	})
	maps.Copy(r.Header, header)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	a := object{t: x.t, of: method + " " + route + ": " + string(text)}
	if resp.StatusCode != status {
		x.t.Fatalf("%s has the status %d, want %d", a.of, resp.StatusCode, status)
	}
	x.limits(resp)
	// What is no JSON it takes for bytes, and shows nothing of it.
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		x.t.Fatalf("%s is %q", a.of, resp.Header.Get("Content-Type"))
	}
	if err := json.Unmarshal(text, &a.fields); err != nil {
		x.t.Fatalf("%s: %v", a.of, err)
	}
	a.texts("status", "message") // which it shows of every answer, good or bad
	return a
}

// limits reads the headers after which the extension stops to ask: remaining
// below 1 does it, until reset seconds are over.
func (x *extension) limits(resp *http.Response) {
	x.t.Helper()
	for _, name := range []string{"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"} {
		if n, err := strconv.Atoi(resp.Header.Get(name)); err != nil || n < 1 {
			x.t.Errorf("%s is %q", name, resp.Header.Get(name))
		}
	}
}

// object is a JSON object of an answer. Its methods fail the test when a field
// is missing or of another type than the extension reads.
type object struct {
	t      *testing.T
	of     string // the answer, for the failure
	fields map[string]any
}

func read[T any](o object, name string) T {
	o.t.Helper()
	v, is := o.fields[name].(T)
	if !is {
		o.t.Fatalf("%s is %T in %s", name, o.fields[name], o.of)
	}
	return v
}

func (o object) text(name string) string { o.t.Helper(); return read[string](o, name) }
func (o object) number(name string) int  { o.t.Helper(); return int(read[float64](o, name)) }
func (o object) bool(name string) bool   { o.t.Helper(); return read[bool](o, name) }
func (o object) object(name string) object {
	o.t.Helper()
	return o.below(read[map[string]any](o, name))
}

func (o object) below(fields map[string]any) object { return object{o.t, o.of, fields} }

func (o object) texts(names ...string) {
	o.t.Helper()
	for _, name := range names {
		o.text(name)
	}
}

func (o object) numbers(names ...string) {
	o.t.Helper()
	for _, name := range names {
		o.number(name)
	}
}

// list is an array of texts.
func (o object) list(name string) []string {
	o.t.Helper()
	list := []string{}
	for _, v := range read[[]any](o, name) {
		s, is := v.(string)
		if !is {
			o.t.Fatalf("%s holds a %T in %s", name, v, o.of)
		}
		list = append(list, s)
	}
	return list
}

// objects is an array of objects.
func (o object) objects(name string) []object {
	o.t.Helper()
	list := []object{}
	for _, v := range read[[]any](o, name) {
		fields, is := v.(map[string]any)
		if !is {
			o.t.Fatalf("%s holds a %T in %s", name, v, o.of)
		}
		list = append(list, o.below(fields))
	}
	return list
}

// says checks status and message.
func (o object) says(status, part string) object {
	o.t.Helper()
	if o.text("status") != status || !strings.Contains(o.text("message"), part) {
		o.t.Errorf("want %s and %q in %s", status, part, o.of)
	}
	return o
}

// icon is what the extension shows beside an application.
func (o object) icon() string {
	o.t.Helper()
	switch {
	case o.bool("online"):
		return "on"
	case o.bool("ramKilled"):
		return "ramKilled"
	case o.number("exitCode") == 1:
		return "errorCode"
	}
	return "off"
}

// shown checks all that the extension keeps of an application of the account.
func (o object) shown(id, name, icon string) {
	o.t.Helper()
	o.texts("avatarURL", "clusterName", "lang", "mainFile", "version")
	o.numbers("type", "ram")
	o.bool("autoRestart")
	o.list("apts")
	if o.text("id") != id || o.text("name") != name || o.icon() != icon {
		o.t.Errorf("want %s %q, %s, in %s", id, name, icon, o.of)
	}
}

// user is all that its views are filled with.
func (x *extension) user() object {
	x.t.Helper()
	u := x.ask(http.StatusOK, http.MethodGet, "/vscode", nil).object("user")
	u.texts("userID", "username", "plan", "planDataEnd", "locale")
	u.numbers("ramUsedMb", "totalRamMb")
	for _, name := range []string{"appsTeam", "customdomains", "subdomains"} {
		u.list(name)
	}
	if avatar, there := u.fields["avatar"]; !there || avatar != nil {
		u.text("avatar")
	}
	return u
}

// apps are those of the account, by id.
func (x *extension) apps() map[string]object {
	x.t.Helper()
	u, apps := x.user(), map[string]object{}
	for _, a := range u.objects("appsStatus") {
		apps[a.text("id")] = a
	}
	if ids := u.list("apps"); len(ids) != len(apps) || slices.ContainsFunc(ids, func(id string) bool { return apps[id].fields == nil }) {
		x.t.Errorf("apps and appsStatus disagree in %s", u.of)
	}
	return apps
}

var usage = regexp.MustCompile(`[\d.]+`) // the first is used, the second the limit

// status is what it adds to an application that is unfolded.
func (x *extension) status(route string) object {
	x.t.Helper()
	s := x.ask(http.StatusOK, http.MethodGet, route, nil).object("apps")
	s.texts("container", "cpu", "ssd", "last_restart", "startedAt")
	s.object("netIO").texts("down", "up")
	if len(usage.FindAllString(s.text("memory"), -1)) != 2 {
		x.t.Errorf("no use and limit of memory in %s", s.of)
	}
	return s
}
