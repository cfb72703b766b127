package e2e

import (
	"strings"
	"sync"
	"testing"
)

// TestManyUploads: of twelve at once, the six that fit succeed.
func TestManyUploads(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 6*32)
	body := shellBot(idleShell, "RAM=32").zip()
	answers := make([]answer, 12)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			a, err := c.try(c.form("POST", "/v2/upload", body))
			if err != nil {
				t.Error(err)
			}
			answers[i] = a
		})
	}
	wg.Wait()
	good := map[string]bool{}
	for _, a := range answers {
		if a.code == 200 {
			good[a.text("app.id")] = true
			continue
		}
		a.want(422, "status", "error").says("message", "the account has 192 MB")
	}
	if ids := c.ids(); len(good) != 6 || len(ids) != 6 {
		t.Errorf("%d uploads succeeded and %d applications are there, want 6", len(good), len(ids))
	}
	c.get("/user").want(200, "user.ramUsedMb", 192)
	seen := map[int]bool{}
	for id := range good {
		c.info(id).want(200, "apps.online", true)
		seen[d.uidOf(id)] = true
	}
	if len(seen) != 6 || len(d.processes()) != 6 || len(d.files("apps")) != 6 || len(d.files("staging")) != 0 {
		t.Errorf("uids %v, processes %v, apps %v, staging %v", seen, d.processes(), d.files("apps"), d.files("staging"))
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
		ids = append(ids, c.upload(shellBot(idleShell, "RAM=32")))
	}
	change := files{"start.sh": "echo new; exec sleep 1000"}.zip()
	var wg sync.WaitGroup
	do := func(id, method, what, body string) {
		wg.Go(func() {
			r := c.request(method, "/v2/app/"+id+what, strings.NewReader(body))
			if what == "/commit" {
				r = c.form(method, "/v2/app/"+id+what, change)
			}
			switch a, err := c.try(r); {
			case err != nil:
				t.Error(err)
			case a.code >= 500:
				t.Errorf("%s %s: %d %s", method, what, a.code, a.body)
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
		c.info(id).want(404)
	}
	online := 0
	for _, id := range ids[2:] {
		a := c.info(id).want(200)
		running := d.of(id)
		if (a.text("apps.online") == "true") != (len(running) == 1) || len(running) > 1 {
			t.Errorf("%s while %v run", a.body, running)
		}
		online += len(running)
		c.put("/app/"+id+"/stop", "").want(200)
		c.put("/app/"+id+"/start", "").want(200, "status", "ok")
	}
	if all := len(d.processes()); all != 3 || online > 3 {
		t.Errorf("%d processes, want 3", all)
	}
	if len(c.ids()) != 3 || len(d.files("apps")) != 3 || len(d.files("logs")) != 3 || len(d.files("staging")) != 0 || len(d.files("rollback")) > 3 {
		t.Errorf("apps %v, logs %v, staging %v, rollback %v", d.files("apps"), d.files("logs"), d.files("staging"), d.files("rollback"))
	}
}
