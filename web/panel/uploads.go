package panel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/app"
	"berth/app/diagnosis"
	"berth/web"
)

// uploadPages receive ZIPs, and make jobs of their deployment.
type uploadPages struct {
	deployments        app.Deployments
	teams              app.Teams
	logs               app.Logs
	maxUpload, maxFile int64
	jobs               *jobs
	drafts             *drafts
	beside             func(f func()) bool      // Config.Go
	record             func(c *call, err error) // what came of a job, for the audit log
	log                *slog.Logger
}

// buildTail is how much of a build's output is shown, in bytes.
const buildTail = 64 << 10

// uploadPage is the data of upload.html, and of commit.html.
type uploadPage struct {
	Max      int64 // bytes of a ZIP
	Examples []example
	Drafts   []*draft // that wait for their configuration
	Jobs     []jobRow
}

// jobRow is one job of a list.
type jobRow struct {
	jobFacts
	standing
	ID string
}

func (p *uploadPages) upload(c *call) (answer, error) {
	page := uploadPage{Max: p.maxFile, Examples: examplesIn(c.lang), Drafts: p.drafts.list(c.account.ID)}
	for _, j := range p.jobs.list(c.account.ID) {
		at := j.facts()
		word := stepWords(c, j.kind)[at.State]
		if at.crashed() {
			word = c.lang.Say("Crashed")
		}
		page.Jobs = append(page.Jobs, jobRow{at, stepOf(word, at.State == jobDone, at.State == jobFailed || at.crashed()), j.id})
	}
	return show("upload", page), nil
}

func (p *uploadPages) commit(*call) (answer, error) {
	return show("commit", uploadPage{Max: p.maxFile}), nil
}

// sendUpload takes the ZIP of a new application in. What has no discloud.config, or one that
// cannot be, leads to the form that writes one; so does what was sent with look=true.
func (p *uploadPages) sendUpload(c *call) (answer, error) {
	var first app.First
	look := false
	j, file, err := p.take(c, jobUpload, func(c *call, u *web.Upload) (string, error) {
		u.MaxText = maxBlock
		u.Field = func(name, text string) error {
			look = look || name == "look" && text == "true"
			if name != "env" || strings.TrimSpace(text) == "" {
				return nil
			}
			var err error
			first.Variables, err = variablesOf(text)
			return err
		}
		return p.receive(c, u)
	})
	if err != nil {
		return answer{}, err
	}
	ctx := app.WithFirst(app.WithFileName(context.WithoutCancel(c.ctx()), c.FileName), first)
	found, err := p.deployments.Draft(ctx, c.account, file, nil)
	if err != nil {
		p.deployments.DropSpool(file)
		j.finish(app.Deployed{}, err)
		return answer{}, err
	}
	if look || !found.Found || len(found.Problems)+len(found.Dropped) > 0 {
		p.jobs.forget(j)
		d := &draft{account: c.account.ID, file: file, Name: c.FileName, Variables: first.Variables, bytes: found.Bytes}
		if err := p.drafts.put(d); err != nil {
			return answer{}, err
		}
		c.audit.Operation = "" // nothing is made yet
		return leadTo("/drafts/" + d.ID), nil
	}
	return p.launchNew(c, j, file, first, app.WantOnline)
}

// launchNew makes an application of a file that was taken in, as a job.
func (p *uploadPages) launchNew(c *call, j *job, file string, first app.First, wanted app.Wanted) (answer, error) {
	if len(first.Variables) > 0 {
		c.audit.Note("env=%s", strings.Join(variableNames(first.Variables), ","))
	}
	j.to(jobChecking)
	return p.launch(c, j, func(ctx context.Context) (app.Deployed, error) {
		return p.deployments.Upload(app.WithWanted(app.WithFirst(ctx, first), wanted), c.account, file)
	}, func() { p.deployments.DropSpool(file) })
}

func (p *uploadPages) sendCommit(c *call) (answer, error) {
	exact := false
	return p.deploy(c, jobCommit, func(c *call, u *web.Upload) (string, error) {
		u.Field = func(name, text string) error {
			exact = exact || name == "exact" && text == "true"
			return nil
		}
		file, err := p.receive(c, u)
		if exact {
			c.audit.Note("exact=true")
		}
		return file, err
	}, func(ctx context.Context, file string) (app.Deployed, error) {
		return p.deployments.Commit(ctx, c.owner, c.app.ID, file, exact)
	})
}

// fileForm is how the file of a form is received.
func fileForm() web.Upload {
	none := app.Errorf(app.Invalid, "choose a ZIP file to upload")
	return web.Upload{
		NoForm: none, NoFile: none, Crowded: app.Errorf(app.Invalid, "there is too much before the file"),
		TooLarge: errTooLarge, Blame: blame,
	}
}

// blame says what was wrong with a body that could not be read.
func blame(b *web.Body, err error) error {
	switch fault, err := b.Fault(err); fault {
	case web.Cut:
		return err
	case web.TooLarge:
		return errTooLarge(b.Limit())
	case web.Slow, web.Silent:
		return app.Errorf(app.Invalid, "the upload came too slowly, so it was given up")
	case web.Malformed:
	}
	return app.Errorf(app.Invalid, "the upload ended early or is malformed")
}

func errTooLarge(limit int64) error {
	return app.Errorf(app.TooLarge, "the upload is larger than the %d MB that are allowed", max(1, limit>>20))
}

// receive streams the ZIP of a form to the deployer.
func (p *uploadPages) receive(c *call, u *web.Upload) (string, error) {
	if c.Request.ContentLength > p.maxUpload {
		return "", errTooLarge(p.maxFile)
	}
	return u.Take(&c.Call)
}

// deploy makes a job of a deployment: fetch brings the ZIP while the browser waits,
// run deploys it while nobody needs to. The audit log has it at its end.
func (p *uploadPages) deploy(c *call, kind jobKind, fetch func(*call, *web.Upload) (string, error),
	run func(context.Context, string) (app.Deployed, error),
) (answer, error) {
	j, file, err := p.take(c, kind, fetch)
	if err != nil {
		return answer{}, err
	}
	j.to(jobChecking)
	return p.launch(c, j, func(ctx context.Context) (app.Deployed, error) { return run(ctx, file) }, func() { p.deployments.DropSpool(file) })
}

// take begins a job, and fetches its file while the browser waits.
func (p *uploadPages) take(c *call, kind jobKind, fetch func(*call, *web.Upload) (string, error)) (*job, string, error) {
	j, err := p.jobs.begin(c.account.ID, kind, c.app, c.Request.ContentLength)
	if err != nil {
		return nil, "", err
	}
	u := fileForm()
	u.MaxBody, u.MaxFile, u.Came = p.maxUpload, p.maxFile, j.came
	u.Spool, u.DropSpool = p.deployments.Spool, p.deployments.DropSpool
	file, err := fetch(c, &u)
	if err == nil {
		err = p.stillMay(c, file)
	}
	if err != nil {
		j.finish(app.Deployed{}, err)
		return nil, "", err
	}
	return j, file, nil
}

// deployStored makes a job of a deployment whose files are on the host: run fetches them too,
// while nobody needs to wait.
func (p *uploadPages) deployStored(c *call, kind jobKind, run func(context.Context) (app.Deployed, error)) (answer, error) {
	j, err := p.jobs.begin(c.account.ID, kind, c.app, 0)
	if err != nil {
		return answer{}, err
	}
	return p.launch(c, j, run, func() {})
}

// launch runs a job beside the request, and leads to its page. Where nothing runs any more it
// calls drop.
func (p *uploadPages) launch(c *call, j *job, run func(context.Context) (app.Deployed, error), drop func()) (answer, error) {
	late := &call{
		Call: web.Call{Request: c.Request, RequestID: c.RequestID, Pattern: c.Pattern},
		from: c.from, account: c.account, app: c.app, owner: c.owner, audit: c.audit, lang: c.lang,
	}
	ctx := app.WithFileName(context.WithoutCancel(c.ctx()), c.FileName)
	ctx = app.WithProgress(app.WithActor(ctx, c.account.ID), j.progress)
	began := p.beside(func() {
		var d app.Deployed
		err := errors.New("a panic, see above")
		guarded(p.log, late, func() { d, err = run(ctx) })
		if err == nil {
			late.app = d.Snapshot
		}
		j.finish(d, err)
		p.record(late, err)
	})
	if !began {
		drop()
		err := app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
		j.finish(app.Deployed{}, err)
		return answer{}, err
	}
	c.audit.Operation = "" // it is recorded at its end
	return leadTo("/uploads/" + j.id), nil
}

// guarded runs f beside a request as net/http runs a request: what it panics with is
// logged, and ends f, not the daemon.
func guarded(log *slog.Logger, c *call, f func()) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("panic beside a request", "route", c.Pattern, "request", c.RequestID, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	f()
}

// stillMay drops the file if the member who sent it was taken out of the team
// meanwhile: a file can be long on its way.
func (p *uploadPages) stillMay(c *call, file string) error {
	if c.owner == 0 || c.own() {
		return nil
	}
	_, err := p.teams.Authorize(context.WithoutCancel(c.ctx()), c.account.ID, c.app.ID, app.CommitApp)
	if err != nil {
		p.deployments.DropSpool(file)
	}
	return err
}

// jobPage is the data of job.html.
type jobPage struct {
	jobFacts
	ID              string
	Kind            jobKind
	From            app.ID // the application that it is of; App is what comes of it
	Sending, Queued bool
	Steps           []standing
	Output          string
	Why             string // it failed
	Reason          string // what its output tells of that; "" when no rule knows it
	Also            string // its hint
	Crashed         string // it is deployed, and its program ended by itself: how
	Crash           *crash
}

// job shows how far a deployment has come.
func (p *uploadPages) job(c *call) (answer, error) {
	j, err := p.jobs.find(c.account.ID, c.Request.PathValue("job"))
	if err != nil {
		return answer{}, err
	}
	at := j.facts()
	if at.Opens != "" && at.State == jobDone {
		said := c.lang.Say("%s is deployed and not started: write its code, set its variables, then start it.", at.Name)
		a := done("/apps/"+string(at.App)+"/files/view?"+query("path", at.Opens), said)
		a.flash.Link, a.flash.Word = "/apps/"+string(at.App)+"/env", c.lang.Say("Set its variables")
		return a, nil
	}
	page := jobPage{jobFacts: at, ID: j.id, Kind: j.kind, From: j.from, Output: at.Logs, Also: c.lang.SayPhrase(at.Hint)}
	page.Sending, page.Queued = at.State == jobSending && !j.kind.restores(), at.State == jobQueued
	reached, failed := at.State, at.Err != nil
	switch {
	case failed:
		reached = at.Reached
		page.Why = c.say(at.Err)
		if d := diagnosis.Of(at.App, strings.Split(withoutEscapes(at.Logs), "\n")); !d.Why.IsZero() {
			page.Reason = c.lang.SayPhrase(d.Why)
		}
	case at.crashed():
		reached, failed = jobStarting, true
		page.Crashed = ending(c.lang, at.Snapshot.LastExit) + "."
		if at.Snapshot.Account == c.account.ID { // of a team it is on the application's page, by what a member may
			page.Crash = crashOf(c.lang, p.logs, at.Snapshot, app.AllPermissions, true)
		}
	}
	if at.State == jobBuilding || at.State == jobStarting {
		page.Output = p.logs.Tail(at.App, true, buildTail)
	}
	for n, word := range stepWords(c, j.kind)[:jobFailed] {
		step := standing{"off", "dot", word, ""}
		n := jobState(n)
		if n == jobQueued && reached != jobQueued {
			continue
		}
		if n <= reached {
			step = stepOf(word, n < reached || reached == jobDone, n == reached && failed)
		}
		page.Steps = append(page.Steps, step)
	}
	return show("job", page), nil
}

// stepOf is a state that a job has reached.
func stepOf(word string, done, failed bool) standing {
	switch {
	case failed:
		return standing{"bad", "cross", word, ""}
	case done:
		return standing{"good", "check", word, ""}
	}
	return standing{"busy", "clock", word, ""}
}

// stepWords are the states in words, by their number.
func stepWords(c *call, kind jobKind) []string {
	l := c.lang
	sending := l.Say("Sending")
	if kind.restores() {
		sending = l.Say("Fetching the files")
	}
	return []string{sending, l.Say("Checking and unpacking"), l.Say("Waiting to be built"), l.Say("Building"), l.Say("Starting"), l.Say("Done"), l.Say("Failed")}
}

const (
	jobTime     = time.Hour // how long one is known after its end
	accountJobs = 8         // of one account under way: each can hold a connection, and disk space
	keptJobs    = 16        // of one account that have ended
	allJobs     = 512
)

// jobKind is what a job does with a ZIP.
type jobKind string

// The kinds of jobs, as job.html knows them.
const (
	jobUpload  jobKind = "upload"
	jobCommit  jobKind = "commit"
	jobRestore jobKind = "restore"
	jobCopy    jobKind = "copy"
)

// restores reports whether it brings back files that are on the host.
func (k jobKind) restores() bool { return k == jobRestore || k == jobCopy }

// jobState is where a job stands.
type jobState int

// The states, in their order. Queued is left out when nothing waits.
const (
	jobSending jobState = iota
	jobChecking
	jobQueued
	jobBuilding
	jobStarting
	jobDone
	jobFailed
)

// jobs are those of all accounts, in memory: the next start of the daemon knows
// none of them. It is bounded, and safe for concurrent use.
type jobs struct {
	mu  sync.Mutex
	all map[string]*job
}

func newJobs() *jobs { return &jobs{all: map[string]*job{}} }

// job is a deployment that somebody's browser began. It goes on without it.
type job struct {
	id      string // unguessable, and shown to its account alone
	account app.AccountID
	kind    jobKind
	from    app.ID // the application that it is of; "" for a new one

	mu *sync.Mutex // of all jobs
	at jobFacts
}

// jobFacts is what is known of a job at one moment.
type jobFacts struct {
	State        jobState
	Began, Ended time.Time
	App          app.ID // "" while it is not known
	Name         string
	Sent, Size   int64    // bytes of the body; Size is 0 when nobody has said
	Position     int      // in the queue of builds
	Reached      jobState // before it ended
	Logs         string
	Err          error
	Snapshot     app.Snapshot // of what came of it
	Hint         app.Text     // app.Deployed.Hint
	Opens        string       // the file that is opened for its owner once it is done; "" for none
}

// crashed reports whether what came of it ended by itself.
func (f jobFacts) crashed() bool { return f.State == jobDone && hasCrashed(f.Snapshot) }

// facts returns where the job stands.
func (j *job) facts() jobFacts {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at
}

func (j *job) change(f func(at *jobFacts)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.at)
}

// came counts bytes of the body.
func (j *job) came(n int) { j.change(func(at *jobFacts) { at.Sent += int64(n) }) }

// to moves the job on.
func (j *job) to(s jobState) { j.change(func(at *jobFacts) { at.State = s }) }

// progress moves the job on as its deployment does.
func (j *job) progress(p app.Progress) {
	j.change(func(at *jobFacts) {
		at.App, at.Position = p.App, p.Position
		switch p.Phase {
		case app.Checked:
			at.State = jobChecking
		case app.Queued:
			at.State = jobQueued
		case app.Building:
			at.State = jobBuilding
		case app.Launching:
			at.State = jobStarting
		}
	})
}

// finish says what came of it.
func (j *job) finish(d app.Deployed, err error) {
	j.change(func(at *jobFacts) {
		at.Reached, at.Ended, at.Err = at.State, time.Now(), err
		if err == nil {
			at.State, at.Logs, at.Snapshot, at.App, at.Name, at.Hint = jobDone, d.Logs, d.Snapshot, d.ID, d.Name, d.Hint
			return
		}
		at.State = jobFailed
		if e, ok := errors.AsType[*app.Error](err); ok {
			at.Logs = e.Logs // the output that explains it
		}
	})
}

// begin makes a job for an account, whose browser sends size bytes. It fails with
// app.Limited when the account has many, and with app.Unavailable when all have.
func (js *jobs) begin(account app.AccountID, kind jobKind, of app.Snapshot, size int64) (*job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	mine := js.of(account)
	ended := slices.DeleteFunc(slices.Clone(mine), func(j *job) bool { return j.at.Ended.IsZero() })
	if under := len(mine) - len(ended); under >= accountJobs {
		return nil, app.Errorf(app.Limited, "your account has %d uploads under way, the most that an account may have; wait until one has ended", under)
	}
	for _, j := range ended[min(len(ended), keptJobs-1):] {
		delete(js.all, j.id)
	}
	if len(js.all) >= allJobs {
		return nil, app.Errorf(app.Unavailable, "many uploads are under way on this host; try again in a few minutes")
	}
	j := &job{id: rand.Text(), account: account, kind: kind, from: of.ID, mu: &js.mu}
	j.at = jobFacts{Began: time.Now(), App: of.ID, Name: of.Name, Size: max(size, 0)}
	js.all[j.id] = j
	return j, nil
}

// forget removes one that came to nothing.
func (js *jobs) forget(j *job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	delete(js.all, j.id)
}

// of returns those of an account, the newest first, and forgets all that ended long
// ago. The caller holds mu.
func (js *jobs) of(account app.AccountID) []*job {
	maps.DeleteFunc(js.all, func(_ string, j *job) bool { return !j.at.Ended.IsZero() && time.Since(j.at.Ended) > jobTime })
	var mine []*job
	for _, j := range js.all {
		if j.account == account {
			mine = append(mine, j)
		}
	}
	slices.SortFunc(mine, func(a, b *job) int { return b.at.Began.Compare(a.at.Began) })
	return mine
}

// list returns those of an account, the newest first.
func (js *jobs) list(account app.AccountID) []*job {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.of(account)
}

// find returns a job of an account, or app.NotFound.
func (js *jobs) find(account app.AccountID, id string) (*job, error) {
	for _, j := range js.list(account) {
		if j.id == id {
			return j, nil
		}
	}
	return nil, app.Errorf(app.NotFound, "berth does not know this upload any more: it remembers an upload for an hour, and until its own restart")
}
