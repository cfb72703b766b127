package e2e

import (
	"strings"
	"sync"
	"testing"

	"berth/test/harness"
)

// TestManyUploads: of twelve at once, the six that fit succeed.
func TestManyUploads(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 6*32)
	body := harness.ShellBot(harness.IdleShell, "RAM=32").Zip()
	answers := make([]harness.Answer, 12)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			a, err := c.Try(c.Form("POST", "/v2/upload", body))
			if err != nil {
				t.Error(err)
			}
			answers[i] = a
		})
	}
	wg.Wait()
	good := map[string]bool{}
	for _, a := range answers {
		if a.Code == 200 {
			good[a.Text("app.id")] = true
			continue
		}
		a.Want(422, "status", "error").Says("message", "the account has 192 MB")
	}
	if ids := c.IDs(); len(good) != 6 || len(ids) != 6 {
		t.Errorf("%d uploads succeeded and %d applications are there, want 6", len(good), len(ids))
	}
	c.Get("/user").Want(200, "user.ramUsedMb", 192)
	seen := map[int]bool{}
	for id := range good {
		c.Info(id).Want(200, "apps.online", true)
		seen[d.UIDOf(id)] = true
	}
	if len(seen) != 6 || len(d.Processes()) != 6 || len(d.Entries("apps")) != 6 || len(d.Entries("staging")) != 0 {
		t.Errorf("uids %v, processes %v, apps %v, staging %v", seen, d.Processes(), d.Entries("apps"), d.Entries("staging"))
	}
}

// TestManyAtOnce sends starts, stops, restarts, commits, changes of RAM and
// deletes at the same time; whatever came of them, the state must be one.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 600)
	var ids []string
	for range 5 {
		ids = append(ids, c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32")))
	}
	change := harness.Files{"start.sh": "echo new; exec sleep 1000"}.Zip()
	var wg sync.WaitGroup
	do := func(id, method, what, body string) {
		wg.Go(func() {
			r := c.Request(method, "/v2/app/"+id+what, strings.NewReader(body))
			if what == "/commit" {
				r = c.Form(method, "/v2/app/"+id+what, change)
			}
			switch a, err := c.Try(r); {
			case err != nil:
				t.Error(err)
			case a.Code >= 500:
				t.Errorf("%s %s: %d %s", method, what, a.Code, a.Body)
			}
		})
	}
	for round := range 4 {
		for _, id := range ids {
			for _, what := range []string{"/stop", "/start", "/restart", "/start", "/commit"} {
				do(id, "PUT", what, "")
			}
			do(id, "PUT", "/ram", `{"ramMB":64}`)
			do(id, "GET", "/status", "")
			do(id, "GET", "/backup", "")
		}
		if round == 2 {
			do(ids[0], "DELETE", "/delete", "")
			do(ids[0], "DELETE", "/delete", "")
			do(ids[1], "DELETE", "/delete", "")
		}
	}
	wg.Wait()
	for _, id := range ids[:2] {
		c.Info(id).Want(404)
	}
	online := 0
	for _, id := range ids[2:] {
		a := c.Info(id).Want(200)
		running := d.Of(id)
		if (a.Text("apps.online") == "true") != (len(running) == 1) || len(running) > 1 {
			t.Errorf("%s while %v run", a.Body, running)
		}
		online += len(running)
		c.Put("/app/"+id+"/stop", "").Want(200)
		c.Put("/app/"+id+"/start", "").Want(200, "status", "ok")
	}
	if all := len(d.Processes()); all != 3 || online > 3 {
		t.Errorf("%d processes, want 3", all)
	}
	if len(c.IDs()) != 3 || len(d.Entries("apps")) != 3 || len(d.Entries("logs")) != 3 || len(d.Entries("staging")) != 0 || len(d.Entries("rollback")) > 3 {
		t.Errorf("apps %v, logs %v, staging %v, rollback %v", d.Entries("apps"), d.Entries("logs"), d.Entries("staging"), d.Entries("rollback"))
	}
}
