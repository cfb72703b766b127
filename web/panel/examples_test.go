package panel

import (
	"archive/zip"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"berth/app"
	"berth/examples"
)

// configIn is the discloud.config of a ZIP.
func configIn(t *testing.T, data string) string {
	t.Helper()
	r, err := zip.NewReader(strings.NewReader(data), int64(len(data)))
	must(t, err)
	f, err := r.Open("discloud.config")
	must(t, err)
	text, err := io.ReadAll(f)
	must(t, err)
	return string(text)
}

func TestExamplesAreDeployed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	deploys(w)
	b := w.as("ana")
	page := b.get("/upload")
	for _, name := range examples.Names {
		page.want(t, "the page", http.StatusOK, `name="example" value="`+name+`"`)
		job := b.post("/upload/example", "example", name).Header.Get("Location")
		w.work.Wait()
		b.get(job).want(t, name, http.StatusOK, "The shop is online.")
		config := configIn(t, w.host.spooled["spool-"+string(rune('0'+len(w.host.spooled)-1))])
		if id := regexp.MustCompile(`(?m)^ID=(\S+)$`).FindStringSubmatch(config); examples.Site(name) != (id != nil) || id != nil && !regexp.MustCompile(`^`+name+`-[a-z2-7]{5}$`).MatchString(id[1]) {
			t.Errorf("%s has the config %q", name, config)
		}
		if act := w.acts.last(); act.Operation != "app.upload" || !strings.Contains(act.Detail, name) {
			t.Errorf("the audit log has %+v", act)
		}
	}
	b.post("/upload/example", "example", "../../etc").want(t, "no example", http.StatusNotFound, "There is no such example.")
	w.host.drafted = func(context.Context, app.ConfigField) (app.Draft, error) {
		return app.Draft{Found: true, Problems: []app.DraftProblem{{Field: "RAM", Text: app.Textf("the account has %d MB", 10)}}}, nil
	}
	dropped := w.host.dropped
	b.post("/upload/example", "example", "node-bot").want(t, "too little RAM", http.StatusUnprocessableEntity, "he account has 10 MB")
	if w.host.dropped != dropped+1 {
		t.Error("the file was kept")
	}
}

// An empty bot is made, not started, and opened.
func TestEmptyBot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	deploys(w)
	b := w.as("ana")
	for language, main := range map[string]string{"node": "index.js", "python": "main.py", "<script>": "index.js"} {
		job := b.post("/upload/empty", "language", language, "name", " My bot ").Header.Get("Location")
		w.work.Wait()
		if got := w.host.wanted[len(w.host.wanted)-1]; got != app.WantStopped {
			t.Errorf("it is wanted %v", got)
		}
		b.get(job).leads(t, "the job", "/apps/shop/files/view?path="+main)
	}
	if config := configIn(t, w.host.spooled["spool-0"]); !strings.HasPrefix(config, "NAME=My bot\n") {
		t.Errorf("its config is %q", config)
	}
	for _, name := range []string{"", strings.Repeat("n", 31), "a#b", "a\nMAIN=evil"} {
		b.post("/upload/empty", "language", "node", "name", name).want(t, "a bad name", http.StatusBadRequest, "The name must have 1 to 30 characters", `action="/upload/empty"`)
	}
}
