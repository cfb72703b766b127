package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"berth/test/harness"
)

// sdk is a program that calls methods of discloud.app.
type sdk struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

// result is what a call came to.
type result struct {
	t     *testing.T
	call  string
	Value any
	Error string
	Code  any
	Kind  string
}

// sdk starts one that has its address from berth client-env, and logs in.
func (d *daemon) sdk(t *testing.T, token string) *sdk {
	t.Helper()
	s := startSDK(t, d.clientEnv(t, t.TempDir(), "discloud.app", ""), "sdk.cjs")
	s.call("login", token)
	return s
}

func startSDK(t *testing.T, env []string, args ...string) *sdk {
	t.Helper()
	cmd := exec.Command("node", args...)
	cmd.Env = append(env, "NODE_PATH="+clients+"/node_modules")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	problems := &harness.Output{}
	cmd.Stderr = problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil || problems.String() != "" {
			t.Errorf("the SDK's program: %v %s", err, problems)
		}
	})
	s := &sdk{t, in, bufio.NewScanner(out)}
	s.out.Buffer(nil, 16<<20)
	return s
}

// try calls a method of the SDK.
func (s *sdk) try(method string, args ...any) result {
	s.t.Helper()
	if args == nil {
		args = []any{}
	}
	line, err := json.Marshal(map[string]any{"method": method, "args": args})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		s.t.Fatal(err)
	}
	if !s.out.Scan() {
		s.t.Fatalf("%s: the SDK's program ended: %v", line, s.out.Err())
	}
	r := result{t: s.t, call: string(line)}
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		s.t.Fatalf("%s: %q", line, s.out.Text())
	}
	return r
}

// call is try for what must work.
func (s *sdk) call(method string, args ...any) result {
	s.t.Helper()
	r := s.try(method, args...)
	if r.Error != "" {
		s.t.Fatalf("%s: %s %v %s", r.call, r.Kind, r.Code, r.Error)
	}
	return r
}

// at is the value below a dotted path; "" is the whole.
func (r result) at(path string) any {
	v := r.Value
	for key := range strings.SplitSeq(path, ".") {
		if key == "" {
			continue
		}
		object, _ := v.(map[string]any)
		v = object[key]
	}
	return v
}

func (r result) text(path string) string { return fmt.Sprint(r.at(path)) }

// want checks pairs of path and value.
func (r result) want(pairs ...any) result {
	r.t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		if got, want := r.text(pairs[i].(string)), fmt.Sprint(pairs[i+1]); got != want {
			r.t.Errorf("%s: %s is %s, want %s, in %v", r.call, pairs[i], got, want, r.Value)
		}
	}
	return r
}

// refused checks the status and the sentence of a call that fails.
func (r result) refused(code int, parts ...string) {
	r.t.Helper()
	if fmt.Sprint(r.Code) != fmt.Sprint(code) {
		r.t.Errorf("%s: code %v %s, want %d", r.call, r.Code, r.Error, code)
	}
	for _, part := range parts {
		if !strings.Contains(r.Error, part) {
			r.t.Errorf("%s: %q, want %q in it", r.call, r.Error, part)
		}
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestSDK(t *testing.T) {
	d := launch(t)
	s := d.sdk(t, d.token)

	s.call("user.fetch").want("id", d.id, "totalRamMb", 4096, "ramUsedMb", 0, "plan", "Diamond", "locale", "en-US", "appIDs", "[]")
	s.call("user.setLocale", "pt-BR").want("", true)
	s.try("user.setLocale", "xx-XX").refused(404)
	s.call("apps.fetch").want("", "map[]")

	// A file by its path, whose name is the field's.
	up := s.call("apps.create", map[string]any{"file": zipped(t, "demo.zip", bot("Demo", idle))}).
		want("status", "ok", "statusCode", 200, "app.name", "Demo", "app.ram", 100, "app.mainFile", "index.js", "app.lang", "javascript")
	id := up.text("app.appId")
	if id == "" || id == "<nil>" {
		t.Fatalf("no id: %v", up.Value)
	}
	other := s.call("apps.create", map[string]any{"file": zipped(t, "file.zip", bot("Other", idle))}).text("app.appId")
	bad := map[string]string{"discloud.config": "MAIN=gone.js\n", "index.js": idle}
	s.try("apps.create", map[string]any{"file": zipped(t, "bad.zip", bad)}).refused(422, "gone.js")

	s.call("apps.fetch", id).want("id", id, "name", "Demo", "online", true, "ramKilled", false, "exitCode", 0, "ram", 100, "type", 0, "lang", "javascript")
	equal(t, "the number of applications", len(s.call("apps.fetch").Value.(map[string]any)), 2)
	s.call("apps.status", id).want("container", "Online")
	if m := s.call("apps.status", id).text("memoryUsage"); m == "<nil>" || m == "NaN" {
		t.Errorf("the SDK cannot tell the memory: %s", m)
	}
	harness.Eventually(t, "the log says up", func() bool { return strings.Contains(s.call("apps.terminal", id).text("big"), "up") })
	equal(t, "the number of logs", len(s.call("apps.terminal").Value.(map[string]any)), 2)
	if url := s.call("apps.backup", id).text("url"); !strings.HasPrefix(url, d.Base+"/d/") || !strings.HasSuffix(url, ".zip") {
		t.Errorf("the backup is at %s", url)
	}
	equal(t, "the number of backups", len(s.call("apps.backup").Value.(map[string]any)), 2)

	s.call("apps.stop", id).want("status", "ok")
	s.call("apps.fetch", id).want("online", false)
	s.call("apps.start", id).want("status", "ok")
	s.call("apps.start", id).want("status", "error") // online already: no exception
	s.call("apps.restart", id).want("status", "ok")
	s.call("apps.ram", id, 150).want("status", "ok", "statusCode", 200)
	s.call("apps.ram", id, 100000).want("status", "error")
	s.call("apps.profile", id, map[string]any{"name": "Renamed"}).want("status", "ok")
	s.call("apps.profile", id, map[string]any{"avatarURL": "https://example.org/a.png"}).want("status", "ok")
	s.call("apps.fetch", id).want("name", "Renamed", "ram", 150, "avatarURL", "https://example.org/a.png")
	s.call("apps.update", id, map[string]any{"file": zipped(t, "commit.zip", map[string]string{"index.js": "console.log('second');" + idle})}).want("status", "ok")
	harness.Eventually(t, "the new code runs", func() bool { return strings.Contains(s.call("apps.terminal", id).text("big"), "second") })

	equal(t, "stop all", len(s.call("apps.stop").at("stoped").([]any)), 2)
	equal(t, "start all", len(s.call("apps.start").at("started").([]any)), 2)
	equal(t, "restart all", len(s.call("apps.restart").at("restarted").([]any)), 2)
	s.call("apps.delete", other).want("status", "ok")
	s.try("apps.fetch", other).refused(404)
	s.try("apps.stop", "1").refused(404)

	stranger := d.sdk(t, d.token)
	stranger.try("login", "wrong").refused(401)
}
