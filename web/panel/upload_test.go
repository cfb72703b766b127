package panel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// upload posts a ZIP.
func (b *browser) upload(path, content string, fields ...string) page {
	b.w.t.Helper()
	body, kind := zipForm(b.w.t, content, fields...)
	return b.sendTo(path, kind, bytes.NewReader(body))
}

// A ZIP becomes a job that goes on without the browser and tells how far it is, in
// every language; the audit log hears of it at its end.
func TestUploadIsAJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, audit, done string
		fields            []string
	}{
		{"/upload", "app.upload", "upload PK new", nil},
		{"/apps/shop/commit", "app.commit", "commit PK shop", nil},
		{"/apps/shop/commit", "app.commit", "exact PK shop", []string{"exact", "true"}},
		{"/apps/shop/restore/zip", "app.restore", "restore PK true shop", []string{"env", "true", "sure", "true"}},
		{"/apps/shop/restore/zip", "app.restore", "restore PK false shop", []string{"sure", "true"}},
	} {
		w := newWorld(t)
		seed(w)
		step, told := make(chan struct{}), make(chan struct{})
		w.host.deployed = func(ctx context.Context, _ string) (app.Deployed, error) {
			tell := app.ProgressOf(ctx)
			for _, p := range []app.Progress{
				{Phase: app.Checked, App: "shop"},
				{Phase: app.Queued, App: "shop", Position: 2},
				{Phase: app.Building, App: "shop"},
				{Phase: app.Launching, App: "shop"},
			} {
				tell(p)
				told <- struct{}{}
				<-step
			}
			if app.ActorOf(ctx, 0) != w.ana.ID {
				t.Error("the deployment is in nobody's name")
			}
			if app.FileNameOf(ctx) != "app.zip" {
				t.Errorf("the file is called %q", app.FileNameOf(ctx))
			}
			return app.Deployed{Snapshot: w.host.all["shop"], Logs: "the last <line>", Hint: app.Words("there are two of <them>")}, nil
		}
		w.host.output = "npm <install>"
		b := w.as("ana")
		p := b.upload(c.path, "PK", c.fields...)
		to := p.Header.Get("Location")
		if p.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/uploads/") {
			t.Fatalf("%s: %d to %q: %s", c.path, p.StatusCode, to, p.body)
		}
		if act := w.acts.last(); act.Operation == c.audit {
			t.Errorf("%s: recorded before its end: %+v", c.path, act)
		}
		for _, says := range [][]string{
			{"Checking and unpacking"}, {"Waiting to be built", "number 2 in the queue"}, {"Building", "npm &lt;install&gt;"}, {"Starting"},
		} {
			<-told
			b.get(to).want(t, c.path, http.StatusOK, append(says, `http-equiv="refresh"`, "safe to close", `data-poll=`)...)
			step <- struct{}{}
		}
		w.work.Wait()
		end := b.get(to)
		end.want(t, "the end", http.StatusOK, "The shop is online.", "the last &lt;line&gt;", "there are two of &lt;them&gt;", `href="/apps/shop"`)
		if strings.Contains(end.body, "refresh") || strings.Contains(end.body, "data-poll") {
			t.Error("an ended job is looked at again and again")
		}
		if act := w.acts.last(); act.Operation != c.audit || act.App != "shop" || act.Status != http.StatusOK || act.Actor != w.ana.ID {
			t.Errorf("%s: the audit log has %+v", c.path, act)
		}
		if got := strings.Join(w.host.done, "|"); got != c.done {
			t.Errorf("%s: done is %q, want %q", c.path, got, c.done)
		}
		b.get("/upload").want(t, "the list", http.StatusOK, to, "Done")
		w.as("bob").get(to).want(t, "somebody else's", http.StatusNotFound)
	}
}

// A failure keeps its sentence, and what the build has printed.
func TestUploadFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	w.host.deployed = func(ctx context.Context, _ string) (app.Deployed, error) {
		app.ProgressOf(ctx)(app.Progress{Phase: app.Building, App: "shop"})
		return app.Deployed{}, &app.Error{Kind: app.Unusable, Message: app.Textf("cannot prepare the application: it failed"), Logs: "ERR <x>"}
	}
	b := w.as("ana")
	to := b.upload("/apps/shop/commit", "PK").Header.Get("Location")
	w.work.Wait()
	p := b.get(to)
	p.want(t, "a failed build", http.StatusOK, "Cannot prepare the application: it failed.", "ERR &lt;x&gt;", `href="/apps/shop/commit"`)
	if i, j := strings.Index(p.body, `<li class="good"`), strings.Index(p.body, `<li class="bad"`); i < 0 || j < i {
		t.Error("the steps do not show where it failed")
	}
	if act := w.acts.last(); act.Operation != "app.commit" || act.Status != 422 || act.Refusal == "" {
		t.Errorf("the audit log has %+v", act)
	}
	w.host.deployed = func(context.Context, string) (app.Deployed, error) {
		return app.Deployed{}, errors.New("the disk's secret name")
	}
	to = b.upload("/upload", "PK").Header.Get("Location")
	w.work.Wait()
	if p := b.get(to); !strings.Contains(p.body, "berth could not do this") || strings.Contains(p.body, "secret name") {
		t.Error("the cause is shown")
	}
}

// watched tells whether it was read.
type watched struct {
	io.Reader
	read int
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.read += n
	return n, err
}

// Who may not send is told so before a byte is read; what is no ZIP form, or too
// large, is refused on its page, and nothing stays.
func TestUploadRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	w.person("carl")
	body, kind := zipForm(t, "PK")
	ana, bob := w.as("ana"), w.as("bob")
	cross := w.as("ana")
	cross.header["Sec-Fetch-Site"] = "cross-site"
	for _, c := range []struct {
		what   string
		b      *browser
		path   string
		status int
	}{
		{"without a session", w.browser(), "/upload", 303},
		{"from another site", cross, "/upload", 403},
		{"from another site", cross, "/apps/shop/commit", 403},
		{"a member without the permission", bob, "/apps/shop/commit", 403},
		{"a member", bob, "/apps/shop/restore/zip", 404},
		{"a stranger", w.as("carl"), "/apps/shop/commit", 404},
		{"a stranger", w.as("carl"), "/apps/shop/restore/zip", 404},
		{"a stranger", w.as("carl"), "/apps/shop/files/upload", 404},
		{"a member", bob, "/apps/shop/files/upload", 404},
		{"a stranger", w.as("carl"), "/apps/shop/files/unzip/upload", 404},
		{"a member", bob, "/apps/shop/files/unzip/upload", 404},
		{"from another site", cross, "/apps/shop/files/unzip/upload", 403},
		{"from another site", cross, "/apps/shop/files/upload", 403},
		{"without a session", w.browser(), "/apps/shop/files/upload", 303},
	} {
		r := &watched{Reader: bytes.NewReader(body)}
		c.b.sendTo(c.path, kind, r).want(t, c.what+" at "+c.path, c.status)
		if r.read > 0 {
			t.Errorf("%s: %d bytes were read", c.what, r.read)
		}
	}
	large := strings.Repeat("x", 1<<20+1)
	empty, noFile := zipForm(t, "")
	for _, c := range []struct {
		what string
		send func() page
		code int
		says string
	}{
		{"no form", func() page { return ana.post("/upload") }, 400, "Choose a ZIP file to upload."},
		{"no file", func() page {
			return ana.sendTo("/upload", noFile, bytes.NewReader(bytes.Replace(empty, []byte(`filename="app.zip"`), []byte(`filename=""`), 1)))
		}, 400, "Choose a ZIP file to upload."},
		{"cut off", func() page { return ana.sendTo("/upload", kind, bytes.NewReader(body[:len(body)-10])) }, 400, "The upload ended early or is malformed."},
		{"too large", func() page { return ana.upload("/upload", large) }, 413, "The upload is larger than the 1 MB that are allowed."},
		{"far too large", func() page { return ana.upload("/upload", large+strings.Repeat("y", 8192)) }, 413, "larger than the 1 MB"},
		{"too much before", func() page { return ana.upload("/upload", "PK", "a", strings.Repeat("y", maxBlock+1)) }, 400, "There is too much before the file."},
		{"too large a file", func() page { return ana.upload("/apps/shop/files/upload", large) }, 409, "larger than the 1 MB"},
		{"far too large a file", func() page { return ana.upload("/apps/shop/files/upload", strings.Repeat(large, 64)) }, 413, "larger than the 64 MB"},
		{"too large a ZIP for a directory", func() page { return ana.upload("/apps/shop/files/unzip/upload", large) }, 413, "larger than the 1 MB"},
		{"no file form", func() page { return ana.post("/apps/shop/files/upload") }, 400, "Choose a file to upload."},
		{"a file cut off", func() page {
			return ana.sendTo("/apps/shop/files/upload", kind, bytes.NewReader(body[:len(body)-10]))
		}, 400, "The upload ended early or is malformed."},
		{"not sure", func() page { return ana.upload("/apps/shop/restore/zip", "PK", "env", "true") }, 400, "To replace the files, tick the box"},
	} {
		c.send().want(t, c.what, c.code, c.says, `type="file"`)
	}
	w.ending = true
	ana.upload("/upload", "PK").want(t, "while the daemon ends", 503, "shutting down")
	w.work.Wait()
	if len(w.host.done) > 0 || w.host.dropped != len(w.host.spooled) {
		t.Errorf("done: %v, %d of %d files were given back", w.host.done, w.host.dropped, len(w.host.spooled))
	}
}

// A member may send a new version with the permission, unless it is taken away
// while the file is on its way.
func TestMemberCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	set := func(names ...string) {
		must(t, onlyError(w.config.Teams.SetMember(t.Context(), w.ana.ID, "shop", w.bob.ID, names)))
	}
	set("commit_app")
	b := w.as("bob")
	b.get("/apps/shop/commit").want(t, "the page", http.StatusOK, "New version")
	to := b.upload("/apps/shop/commit", "PK").Header.Get("Location")
	w.work.Wait()
	b.get(to).want(t, "the job", http.StatusOK, "The shop is online.")
	if act := w.acts.last(); act.Actor != w.bob.ID || act.Account != w.ana.ID {
		t.Errorf("the audit log has %+v", act)
	}
	body, kind := zipForm(t, "PK")
	taken := io.MultiReader(bytes.NewReader(body[:20]), &onRead{do: func() { set("stop_app") }}, bytes.NewReader(body[20:]))
	b.sendTo("/apps/shop/commit", kind, taken).want(t, "taken away meanwhile", http.StatusForbidden, "needs the permission")
	w.work.Wait()
	if len(w.host.done) != 1 || w.host.dropped != 1 {
		t.Errorf("done: %v, dropped %d", w.host.done, w.host.dropped)
	}
}

// onRead does something once, and is empty.
type onRead struct{ do func() }

func (r *onRead) Read([]byte) (int, error) {
	if r.do != nil {
		r.do()
		r.do = nil
	}
	return 0, io.EOF
}

// Jobs are bounded for each account, and forgotten after an hour.
func TestJobsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testJobsAreBounded)
}

func testJobsAreBounded(t *testing.T) {
	js := newJobs()
	var under []*job
	for range accountJobs {
		j, err := js.begin(1, jobUpload, app.Snapshot{}, 10)
		must(t, err)
		under = append(under, j)
	}
	if _, err := js.begin(1, jobUpload, app.Snapshot{}, 10); app.KindOf(err) != app.Limited {
		t.Errorf("one more: %v", err)
	}
	must(t, onlyError(js.begin(2, jobUpload, app.Snapshot{}, 10)))
	for _, j := range under {
		j.finish(app.Deployed{}, nil)
	}
	for range 3 * keptJobs {
		time.Sleep(time.Second)
		j, err := js.begin(1, jobUpload, app.Snapshot{}, 10)
		must(t, err)
		j.finish(app.Deployed{}, nil)
	}
	if n := len(js.list(1)); n != keptJobs {
		t.Errorf("%d are kept", n)
	}
	time.Sleep(jobTime + time.Second)
	if len(js.list(1)) != 0 || len(js.list(2)) != 1 {
		t.Errorf("after an hour %d and %d are known", len(js.list(1)), len(js.list(2)))
	}
	for id := app.AccountID(10); ; id++ {
		if _, err := js.begin(id, jobUpload, app.Snapshot{}, 10); err != nil {
			if app.KindOf(err) != app.Unavailable || len(js.all) != allJobs {
				t.Errorf("%d jobs: %v", len(js.all), err)
			}
			return
		}
	}
}
