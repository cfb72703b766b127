package panel

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// deploys makes every deployment succeed, as the application "shop".
func deploys(w *world) {
	w.host.deployed = func(context.Context, string) (app.Deployed, error) {
		return app.Deployed{Snapshot: w.host.all["shop"]}, nil
	}
}

// drafting makes Draft judge as the host does of a ZIP without a config: main.js alone is there.
func drafting(w *world) {
	w.host.drafted = func(ctx context.Context, fields app.ConfigField) (app.Draft, error) {
		if fields == nil {
			return app.Draft{Files: 2, Bytes: 512 << 10, Lang: "javascript", Fields: app.ConfigField{"TYPE": "bot", "NAME": app.FileNameOf(ctx), "MAIN": "main.js", "RAM": "100"}}, nil
		}
		d := app.Draft{Fields: fields, Text: "MAIN=" + fields["MAIN"] + "\nID=" + fields["ID"] + "\n"}
		if fields["MAIN"] != "main.js" {
			d.Problems = []app.DraftProblem{
				{Field: "MAIN", Text: app.Textf("must be the path of a file in the ZIP, such as src/index.js")},
				{Text: app.Textf("there is no such <file>")},
			}
			d.Dropped = []app.Text{app.Words("line <4>")}
		}
		return d, nil
	}
}

// A ZIP without a configuration waits for the form, which goes on without it being sent again.
func TestDraftBecomesApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	deploys(w)
	drafting(w)
	b := w.as("ana")
	before := len(w.acts.all)
	to := b.upload("/upload", "PK", "env", "TOKEN=hunter2\nexport A='<b>'\n").Header.Get("Location")
	if !strings.HasPrefix(to, "/drafts/") || len(w.host.done) > 0 || len(w.acts.all) != before {
		t.Fatalf("to %q, done %v, recorded %v", to, w.host.done, w.acts.all[before:])
	}
	form := b.get(to)
	form.want(t, "the form", http.StatusOK, `value="app.zip"`, `value="main.js"`, "javascript", "<code>A</code>, <code>TOKEN</code>", "512 KB")
	if strings.Contains(form.body, "hunter2") {
		t.Error("the form shows a value")
	}
	b.get("/upload").want(t, "the page", http.StatusOK, to, "app.zip waits for its configuration")
	for _, c := range []string{"", "/drop"} {
		w.as("bob").post(to+c, "MAIN", "main.js").want(t, "somebody else", http.StatusNotFound)
	}
	w.as("bob").get(to).want(t, "somebody else", http.StatusNotFound)
	b.post(to, "MAIN", `"><script>`, "TYPE", "bot").want(t, "a bad main file", http.StatusUnprocessableEntity,
		"Nothing is deployed yet", `aria-invalid="true"`, `id="MAIN-wrong"`, "Must be the path of a file in the ZIP", "here is no such &lt;file&gt;", "<li>line &lt;4&gt;</li>", `value="&#34;&gt;&lt;script&gt;"`)
	job := b.post(to, "MAIN", " main.js ", "TYPE", "bot", "ID", "not-of-a-bot").Header.Get("Location")
	w.work.Wait()
	b.get(job).want(t, "the job", http.StatusOK, "The shop is online.")
	want := app.First{Config: "MAIN=main.js\nID=\n", Variables: []app.Variable{{Name: "A", Value: "<b>"}, {Name: "TOKEN", Value: "hunter2"}}}
	if got := w.host.firsts[0]; got.Config != want.Config || !slices.Equal(got.Variables, want.Variables) {
		t.Errorf("it begins with %q %v", got.Config, got.Variables)
	}
	act := w.acts.last()
	if act.Operation != "app.upload" || act.App != "shop" || !strings.Contains(act.Detail, "env=A,TOKEN") || strings.Contains(act.Detail, "hunter2") {
		t.Errorf("the audit log has %+v", act)
	}
	if w.host.dropped != 0 {
		t.Error("the file was given back, and handed over")
	}
	b.get(to).want(t, "it is gone", http.StatusNotFound, "send it again")
	b.post(to, "MAIN", "main.js").want(t, "it is gone", http.StatusNotFound)
}

// Variables of the form are there from the first start on; what cannot be read is refused before
// a byte of the file.
func TestUploadWithVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	deploys(w)
	b := w.as("ana")
	b.upload("/upload", "PK", "env", "  \n", "look", "false")
	w.work.Wait()
	b.upload("/upload", "PK", "env", "TOKEN=hunter2")
	w.work.Wait()
	if f := w.host.firsts; len(f) != 2 || len(f[0].Variables) != 0 || len(f[1].Variables) != 1 || f[1].Variables[0].Value != "hunter2" || f[1].Config != "" {
		t.Errorf("they begin with %+v", f)
	}
	spooled := len(w.host.spooled)
	p := b.upload("/upload", "PK", "env", "TOKEN: hunter2")
	p.want(t, "a broken line", http.StatusBadRequest, "Line 1 is not NAME=VALUE.")
	if len(w.host.spooled) != spooled || strings.Contains(p.body, "hunter2") || strings.Contains(w.acts.last().Refusal+w.acts.last().Detail, "hunter2") {
		t.Error("it was taken in, or its value is shown")
	}
	if to := b.upload("/upload", "PK", "look", "true").Header.Get("Location"); !strings.HasPrefix(to, "/drafts/") {
		t.Errorf("the configuration was asked for: to %q", to)
	}
}

// A line of the configuration that cannot be read leads to the form, which lists it.
func TestDraftOfABrokenLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	w.host.drafted = func(context.Context, app.ConfigField) (app.Draft, error) {
		return app.Draft{Found: true, Files: 2, Fields: app.ConfigField{"TYPE": "bot", "MAIN": "main.js"}, Dropped: []app.Text{app.Words("line <4>")}}, nil
	}
	b := w.as("ana")
	to := b.upload("/upload", "PK").Header.Get("Location")
	if !strings.HasPrefix(to, "/drafts/") {
		t.Fatalf("it leads to %q", to)
	}
	b.get(to).want(t, "the form", http.StatusOK, "line &lt;4&gt;")
}

// A draft is one of its account: the next one, the button, and time give its file back.
func TestDraftsAreGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	drafting(w)
	b := w.as("ana")
	first := b.upload("/upload", "PK").Header.Get("Location")
	second := b.upload("/upload", "PK").Header.Get("Location")
	b.get(first).want(t, "the first", http.StatusNotFound)
	b.get(second).want(t, "the second", http.StatusOK)
	if w.host.dropped != 1 {
		t.Errorf("%d files were given back", w.host.dropped)
	}
	b.post(second+"/drop").leads(t, "the button", "/upload")
	if w.host.dropped != 2 {
		t.Errorf("%d files were given back", w.host.dropped)
	}
}

func TestDraftsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testDraftsAreBounded)
}

func testDraftsAreBounded(t *testing.T) {
	var mu sync.Mutex // two may end at once
	var dropped []string
	ds := newDrafts(func(file string) {
		mu.Lock()
		defer mu.Unlock()
		dropped = append(dropped, file)
	}, 100)
	must(t, ds.put(&draft{account: 1, file: "a", bytes: 100}))
	must(t, ds.put(&draft{account: 1, file: "b", bytes: 100}))
	must(t, ds.put(&draft{account: 2, file: "c", bytes: 300}))
	if err := ds.put(&draft{account: 3, file: "d", bytes: 1}); app.KindOf(err) != app.Unavailable {
		t.Errorf("beyond the space: %v", err)
	}
	if err := ds.put(&draft{account: 1, file: "d", bytes: 101}); app.KindOf(err) != app.Unavailable || len(ds.list(1)) != 1 {
		t.Errorf("in place of another, beyond the space: %v, and has %v", err, ds.list(1))
	}
	if !slices.Equal(dropped, []string{"a", "d", "d"}) {
		t.Errorf("given back: %v", dropped)
	}
	taken := ds.list(2)[0]
	if !ds.take(taken) || ds.take(taken) {
		t.Error("it is taken once")
	}
	time.Sleep(draftTime + time.Second)
	synctest.Wait()
	if len(ds.all) != 0 || !slices.Equal(dropped, []string{"a", "d", "d", "b"}) {
		t.Errorf("after its time: %v, given back %v", ds.all, dropped)
	}
	for id := app.AccountID(10); int(id) < 10+allDrafts; id++ {
		must(t, ds.put(&draft{account: id, file: "e"}))
	}
	if err := ds.put(&draft{account: 9, file: "f"}); app.KindOf(err) != app.Unavailable {
		t.Errorf("beyond the count: %v", err)
	}
	time.Sleep(draftTime + time.Second)
	synctest.Wait()
}
