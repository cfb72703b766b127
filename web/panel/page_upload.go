package panel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"berth/app"
	"berth/web"
)

// buildTail is how much of a build's output is shown, in bytes.
const buildTail = 64 << 10

// uploadPage is the data of upload.html, and of commit.html.
type uploadPage struct {
	Max  int64 // bytes of a ZIP
	Jobs []jobRow
}

// jobRow is one job of a list.
type jobRow struct {
	ID, Word, Class, Icon string
	jobFacts
}

func (s *server) upload(c *call) (answer, error) {
	page := uploadPage{Max: s.MaxFile}
	for _, j := range s.jobs.list(c.account.ID) {
		state, at := j.look()
		row := jobRow{ID: j.id, jobFacts: at, Word: stepWords(c, j.kind)[state], Class: "busy", Icon: "clock"}
		switch state {
		case jobDone:
			row.Class, row.Icon = "good", "check"
		case jobFailed:
			row.Class, row.Icon = "bad", "cross"
		case jobSending, jobChecking, jobQueued, jobBuilding, jobStarting:
		}
		page.Jobs = append(page.Jobs, row)
	}
	return show("upload", page)
}

func (s *server) commit(c *call) (answer, error) {
	return show("commit", uploadPage{Max: s.MaxFile})
}

func noFields(string, string) {}

func noRules() error { return nil }

func (s *server) sendUpload(c *call) (answer, error) {
	return s.deploy(c, jobUpload, func(_ context.Context, j *job) (string, error) {
		return s.spool(c, j, noFields, noRules)
	}, func(ctx context.Context, file string) (app.Deployed, error) {
		return s.Deployments.Upload(ctx, c.account, file)
	})
}

func (s *server) sendCommit(c *call) (answer, error) {
	return s.deploy(c, jobCommit, func(_ context.Context, j *job) (string, error) {
		return s.spool(c, j, noFields, noRules)
	}, func(ctx context.Context, file string) (app.Deployed, error) {
		return s.Deployments.Commit(ctx, c.owner, c.app.ID, file)
	})
}

// deploy makes a job of a deployment: fetch brings the ZIP while the browser waits,
// run deploys it while nobody needs to. The audit log hears of it at its end.
func (s *server) deploy(c *call, kind jobKind, fetch func(context.Context, *job) (string, error),
	run func(context.Context, string) (app.Deployed, error),
) (answer, error) {
	j, err := s.jobs.begin(c.account.ID, kind, c.app, c.Request.ContentLength)
	if err != nil {
		return answer{}, err
	}
	file, err := fetch(c.Request.Context(), j)
	if err == nil {
		err = s.stillMay(c, file)
	}
	if err != nil {
		j.end(app.Deployed{}, err)
		return answer{}, err
	}
	j.to(jobChecking)
	late := &call{
		Call: web.Call{Request: c.Request, RequestID: c.RequestID, Pattern: c.Pattern},
		from: c.from, account: c.account, app: c.app, owner: c.owner, audit: c.audit, lang: c.lang,
	}
	ctx := app.WithProgress(app.WithActor(context.WithoutCancel(c.Request.Context()), c.account.ID), j.tell)
	began := s.Go(func() {
		var d app.Deployed
		err := errPanic
		s.guarded(late, func() { d, err = run(ctx, file) })
		status, refusal := http.StatusOK, ""
		if err != nil {
			status, _ = s.explain(late, err)
			refusal = english(err)
		} else {
			late.app = d.Snapshot
		}
		j.end(d, err)
		s.record(late, status, refusal)
	})
	if !began {
		s.Deployments.DropSpool(file)
		err := app.Errorf(app.Unavailable, "the server is shutting down; upload it again in a minute")
		j.end(app.Deployed{}, err)
		return answer{}, err
	}
	c.audit.Operation = "" // see above
	return leadTo("/uploads/" + j.id), nil
}

// errPanic is what came of a job that panicked.
var errPanic = errors.New("a panic, see above")

// guarded runs f beside a request as net/http runs a request: what it panics with is
// logged, and ends f, not the daemon.
func (s *server) guarded(c *call, f func()) {
	defer func() {
		if v := recover(); v != nil {
			s.Log.Error("panic beside a request", "route", c.Pattern, "request", c.RequestID, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	f()
}

// stillMay gives the file back if the member who sent it was taken out of the team
// meanwhile: a file can be long on its way.
func (s *server) stillMay(c *call, file string) error {
	if c.owner == 0 || c.own() {
		return nil
	}
	_, err := s.Teams.Authorize(context.WithoutCancel(c.Request.Context()), c.account.ID, c.app.ID, app.CommitApp)
	if err != nil {
		s.Deployments.DropSpool(file)
	}
	return err
}

// jobPage is the data of job.html.
type jobPage struct {
	jobFacts
	ID              string
	Title           string
	Ended           bool
	Failed          bool
	Share           int // of the body that has come
	Sending, Queued bool
	Steps           []step
	Output          string
	Why             string
	Again           string // where to try again
}

// step is one state of a job in its list.
type step struct{ Word, Class, Icon string }

// job shows how far a deployment has come.
func (s *server) job(c *call) (answer, error) {
	j, err := s.jobs.find(c.account.ID, c.Request.PathValue("job"))
	if err != nil {
		return answer{}, err
	}
	state, at := j.look()
	page := jobPage{
		jobFacts: at, ID: j.id, Ended: !at.Ended.IsZero(), Failed: state == jobFailed,
		Share: share(at.Sent, at.Size), Output: at.Logs, Again: "/upload",
	}
	switch j.kind {
	case jobUpload:
		page.Title = c.lang.Say("Upload of a new application")
	case jobCommit:
		page.Title, page.Again = c.lang.Say("New version of %s", at.Name), "/apps/"+string(at.App)+"/commit"
	case jobRestore:
		page.Title, page.Again = c.lang.Say("Restore of %s", at.Name), "/apps/"+string(at.App)+"/backups"
	}
	page.Sending, page.Queued = state == jobSending && j.kind != jobRestore, state == jobQueued
	reached := state
	if page.Failed {
		reached = at.Reached
		page.Why = whyOf(c, at.Err)
	}
	if state == jobBuilding || state == jobStarting {
		page.Output = s.Logs.Tail(at.App, true, buildTail)
	}
	for n, word := range stepWords(c, j.kind)[:jobFailed] {
		step := step{word, "off", "dot"}
		switch n := jobState(n); {
		case n == jobQueued && reached != jobQueued:
			continue
		case n == reached && page.Failed:
			step.Class, step.Icon = "bad", "cross"
		case n < reached || state == jobDone:
			step.Class, step.Icon = "good", "check"
		case n == reached:
			step.Class, step.Icon = "busy", "clock"
		}
		page.Steps = append(page.Steps, step)
	}
	return show("job", page)
}

// whyOf is explain for an error that the log has heard of when it happened.
func whyOf(c *call, err error) string {
	var e *app.Error
	if errors.As(err, &e) && e.Kind > app.Internal {
		return c.say(e)
	}
	return c.lang.Say("Something went wrong that is not your fault. The log of berth tells the cause.")
}

// stepWords are the states in words, by their number.
func stepWords(c *call, kind jobKind) []string {
	l := c.lang
	sending := l.Say("Sending")
	if kind == jobRestore {
		sending = l.Say("Fetching the ZIP")
	}
	return []string{sending, l.Say("Checking and unpacking"), l.Say("Waiting to be built"), l.Say("Building"), l.Say("Starting"), l.Say("Done"), l.Say("Failed")}
}

// logsOf is the output that explains an error, "" for none.
func logsOf(err error) string {
	var e *app.Error
	if errors.As(err, &e) {
		return e.Logs
	}
	return ""
}
