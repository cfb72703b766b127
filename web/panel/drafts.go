package panel

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/app"
)

const (
	draftTime = 30 * time.Minute // how long a ZIP waits for its configuration
	allDrafts = 64
	// draftSpace is how many of the largest ZIPs those of all accounts may take together.
	draftSpace = 4
)

// draft is a ZIP that is here and waits for its configuration. Its account alone knows of it.
type draft struct {
	ID        string // unguessable
	Name      string // of the file, as its owner calls it
	Variables []app.Variable
	Until     time.Time

	account app.AccountID
	file    string // of Deployments.Spool
	bytes   int64
	gone    *time.Timer
}

// drafts are those of all accounts, in memory: the next start of the daemon removes their files.
// An account has one, the newest. They are bounded, and safe for concurrent use.
type drafts struct {
	drop  func(file string)
	space int64 // bytes of all

	mu  sync.Mutex
	all map[string]*draft
}

func newDrafts(drop func(file string), largest int64) *drafts {
	return &drafts{drop: drop, space: draftSpace * largest, all: map[string]*draft{}}
}

// put keeps a draft for draftTime, in the place of the one that its account has. It takes the
// file over, and fails with app.Unavailable when others take up the space.
func (ds *drafts) put(d *draft) error {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	used, others := d.bytes, 0
	var own []*draft
	for _, old := range ds.all {
		if old.account == d.account {
			own = append(own, old)
			continue
		}
		others++
		used += old.bytes
	}
	if others >= allDrafts || used > ds.space {
		ds.drop(d.file)
		return app.Errorf(app.Unavailable, "many uploads wait for their configuration on this host: put a discloud.config into the ZIP, or try again in %d minutes",
			int(draftTime.Minutes()))
	}
	for _, old := range own {
		ds.remove(old)
		ds.drop(old.file)
	}
	d.ID, d.Until = rand.Text(), time.Now().Add(draftTime)
	ds.all[d.ID] = d
	d.gone = time.AfterFunc(draftTime, func() {
		if ds.take(d) {
			ds.drop(d.file)
		}
	})
	return nil
}

// remove forgets a draft. The caller holds mu.
func (ds *drafts) remove(d *draft) {
	d.gone.Stop()
	delete(ds.all, d.ID)
}

// take forgets a draft, whose file is the caller's then; false when it is gone.
func (ds *drafts) take(d *draft) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.all[d.ID] != d {
		return false
	}
	ds.remove(d)
	return true
}

// list returns those of an account.
func (ds *drafts) list(account app.AccountID) []*draft {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var own []*draft
	for _, d := range ds.all {
		if d.account == account {
			own = append(own, d)
		}
	}
	return own
}

// find returns a draft of an account, or app.NotFound.
func (ds *drafts) find(account app.AccountID, id string) (*draft, error) {
	for _, d := range ds.list(account) {
		if d.ID == id {
			return d, nil
		}
	}
	return nil, errNoDraft()
}

func errNoDraft() error {
	return app.Errorf(app.NotFound, "this upload is not here any more: it waits for its configuration for %d minutes, and until the next upload; send it again",
		int(draftTime.Minutes()))
}

// draftPage is the data of draft.html.
type draftPage struct {
	app.Draft
	ID    string
	Name  string
	Until time.Time
	Names []string            // of the variables that it gets
	Lines []string            // of its discloud.config that are left out, and why
	Wrong map[string]app.Text // by field; "" for what is of no single one
	Sent  bool                // the form was sent, and is shown again
}

// draft shows the form that writes a discloud.config.
func (p *uploadPages) draft(c *call) (answer, error) {
	d, err := p.drafts.find(c.account.ID, c.Request.PathValue("draft"))
	if err != nil {
		return answer{}, err
	}
	found, err := p.judge(c, d, nil)
	return show("draft", draftPageOf(c, d, found)), err
}

func draftPageOf(c *call, d *draft, found app.Draft) draftPage {
	page := draftPage{Draft: found, ID: d.ID, Name: d.Name, Until: d.Until, Names: variableNames(d.Variables), Wrong: map[string]app.Text{}}
	for _, problem := range found.Problems {
		if _, twice := page.Wrong[problem.Field]; !twice {
			page.Wrong[problem.Field] = problem.Text
		}
	}
	for _, line := range found.Dropped {
		page.Lines = append(page.Lines, c.lang.SayPhrase(line))
	}
	return page
}

// judge is Deployments.Draft of a draft, whose file may go away meanwhile.
func (p *uploadPages) judge(c *call, d *draft, fields app.ConfigField) (app.Draft, error) {
	ctx := app.WithFirst(app.WithFileName(c.ctx(), d.Name), app.First{Variables: d.Variables})
	found, err := p.deployments.Draft(ctx, c.account, d.file, fields)
	if err != nil && !slices.Contains(p.drafts.list(c.account.ID), d) {
		err = errNoDraft()
	}
	return found, err
}

// sendDraft deploys a draft with the configuration of the form, or shows what is wrong with it.
func (p *uploadPages) sendDraft(c *call, f url.Values) (answer, error) {
	d, err := p.drafts.find(c.account.ID, c.Request.PathValue("draft"))
	if err != nil {
		return answer{}, err
	}
	fields := app.ConfigField{}
	for _, key := range app.ConfigFields {
		fields[key] = strings.TrimSpace(f.Get(key))
	}
	if fields["TYPE"] != app.Site.String() {
		fields["ID"] = "" // the subdomain of a site
	}
	found, err := p.judge(c, d, fields)
	if err != nil {
		return answer{}, err
	}
	if len(found.Problems) > 0 {
		page := draftPageOf(c, d, found)
		page.Sent = true
		a := show("draft", page)
		a.status, a.refusal = http.StatusUnprocessableEntity, "The configuration has errors."
		return a, nil
	}
	j, err := p.jobs.begin(c.account.ID, jobUpload, app.Snapshot{}, 0)
	if err != nil {
		return answer{}, err
	}
	if !p.drafts.take(d) {
		p.jobs.forget(j)
		return answer{}, errNoDraft()
	}
	c.FileName = d.Name
	return p.launchNew(c, j, d.file, app.First{Config: found.Text, Variables: d.Variables}, app.WantOnline)
}

// dropDraft gives a draft up.
func (p *uploadPages) dropDraft(c *call) (answer, error) {
	d, err := p.drafts.find(c.account.ID, c.Request.PathValue("draft"))
	if err == nil && p.drafts.take(d) {
		p.deployments.DropSpool(d.file)
	}
	return done("/upload", c.lang.Say("The upload was discarded.")), err
}

// spooled is a file that the panel has itself, taken in as an upload is.
func (p *uploadPages) spooled(ctx context.Context, data []byte) (string, error) {
	return p.deployments.Spool(ctx, strings.NewReader(string(data)))
}
