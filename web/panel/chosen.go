package panel

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/web"
)

const (
	batchTime     = time.Hour   // how long one is known after its end
	accountBatch  = 4           // of one account under way
	keptBatches   = 8           // of one account that have ended
	allBatches    = 256         // of all accounts
	batchAtOnce   = 4           // applications of one that are changed at once
	batchPatience = time.Second // how long a form waits for the end of one
)

// deed is what can be done to many applications at once.
type deed struct {
	name   string // in forms
	icon   string
	audit  string
	needs  app.Permission
	starts bool // a program, which may crash at once
	may    func(actions) bool
	do     func(p *appPages, ctx context.Context, owner app.AccountID, id app.ID) error
}

// deeds are all of them.
var deeds = []deed{
	{"start", "play", "app.start", app.StartApp, true, func(a actions) bool { return a.Start }, (*appPages).startOne},
	{"restart", "restart", "app.restart", app.RestartApp, true, func(a actions) bool { return a.Restart }, (*appPages).restartOne},
	{"stop", "stop", "app.stop", app.StopApp, false, func(a actions) bool { return a.Stop }, (*appPages).stopOne},
}

func (p *appPages) startOne(ctx context.Context, owner app.AccountID, id app.ID) error {
	_, err := p.apps.Start(ctx, owner, id)
	return err
}

func (p *appPages) restartOne(ctx context.Context, owner app.AccountID, id app.ID) error {
	return p.apps.Restart(ctx, owner, id)
}

func (p *appPages) stopOne(ctx context.Context, owner app.AccountID, id app.ID) error {
	return p.apps.Stop(ctx, owner, id)
}

// Word is what its button says.
func (d deed) Word(l text.Language) string {
	switch d.name {
	case "start":
		return l.Say("Start")
	case "restart":
		return l.Say("Restart")
	}
	return l.Say("Stop")
}

// ask asks whether it is meant.
func (d deed) ask(l text.Language, n int) string {
	switch d.name {
	case "start":
		return l.Count(n, "Start %d application?", "Start %d applications?", n)
	case "restart":
		return l.Count(n, "Restart %d application?", "Restart %d applications?", n)
	}
	return l.Count(n, "Stop %d application?", "Stop %d applications?", n)
}

// told says how many it was done to.
func (d deed) told(l text.Language, n int) string {
	switch d.name {
	case "start":
		return l.Count(n, "%d application was started", "%d applications were started", n)
	case "restart":
		return l.Count(n, "%d application was restarted", "%d applications were restarted", n)
	}
	return l.Count(n, "%d application was stopped", "%d applications were stopped", n)
}

// Choosable reports whether anything can be done to the application of a row together with others.
func (r appRow) Choosable() bool {
	return r.Can.Has(app.StartApp) || r.Can.Has(app.RestartApp) || r.Can.Has(app.StopApp)
}

// chosenPage is the data of chosen.html: what is about to be done to many applications.
type chosenPage struct {
	Title, Word, Icon, Do string
	Rows                  []appRow // to which it is done
	Out                   []leftOut
	Back                  string
}

// leftOut is an application to which it cannot be done.
type leftOut struct {
	appRow
	Reason string
}

// chosen does something to the applications that were chosen, and first asks whether that is meant.
func (p *appPages) chosen(c *call, f url.Values) (answer, error) {
	at := slices.IndexFunc(deeds, func(d deed) bool { return d.name == f.Get("do") })
	ids := slices.Compact(slices.Sorted(slices.Values(f["app"])))
	if at < 0 || len(ids) > pageRows {
		return answer{}, app.Errorf(app.Invalid, "the form could not be read")
	}
	if len(ids) == 0 {
		return answer{}, app.Errorf(app.Invalid, "choose the applications first")
	}
	if f.Get("sure") == "true" {
		return p.begin(c, deeds[at], ids)
	}
	d := deeds[at]
	page := chosenPage{Word: d.Word(c.lang), Icon: d.icon, Do: d.name, Back: c.back()}
	rows, err := p.rows(c)
	if err != nil {
		return answer{}, err
	}
	for _, r := range rows {
		if _, asked := slices.BinarySearch(ids, string(r.ID)); !asked {
			continue
		}
		switch {
		case !r.Can.Has(d.needs):
			page.Out = append(page.Out, leftOut{r, c.lang.Say("You may not do this with it.")})
		case !d.may(r.May):
			page.Out = append(page.Out, leftOut{r, ""})
		default:
			page.Rows = append(page.Rows, r)
		}
	}
	slices.SortStableFunc(page.Rows, listPage{Sort: "name"}.compare)
	slices.SortStableFunc(page.Out, func(a, b leftOut) int { return listPage{Sort: "name"}.compare(a.appRow, b.appRow) })
	page.Title = d.ask(c.lang, len(page.Rows))
	if len(page.Rows) == 0 {
		page.Title = c.lang.Say("This can be done with none of the chosen applications.")
	}
	return show("chosen", page), nil
}

// begin makes a batch of what was confirmed, and leads to its page.
func (p *appPages) begin(c *call, d deed, ids []string) (answer, error) {
	b, err := p.batches.begin(c.account.ID, d, len(ids), c.back())
	if err != nil {
		return answer{}, err
	}
	ctx := context.WithoutCancel(c.ctx())
	began := p.beside(func() {
		defer b.finish()
		var work sync.WaitGroup
		turns := make(chan struct{}, batchAtOnce)
		for _, id := range ids {
			turns <- struct{}{}
			work.Go(func() {
				defer func() { <-turns }()
				p.one(ctx, c, b, app.ID(id))
			})
		}
		work.Wait()
	})
	if !began {
		b.finish()
		return answer{}, app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
	}
	select {
	case <-b.over:
	case <-time.After(batchPatience):
	}
	return leadTo("/chosen/" + b.id), nil
}

// one does it to one application, as if it was asked for that alone: who may do it is checked
// again, and the audit log hears of it.
func (p *appPages) one(ctx context.Context, c *call, b *batch, id app.ID) {
	alone := &call{
		Call: web.Call{Request: c.Request.WithContext(ctx), RequestID: c.RequestID, Pattern: c.Pattern},
		from: c.from, account: c.account, session: c.session, lang: c.lang,
	}
	alone.audit.Operation = b.deed.audit
	err := errors.New("a panic, see above")
	guarded(p.log, alone, func() {
		if err = alone.means(p.apps, p.teams, id, b.deed.needs); err == nil {
			err = b.deed.do(p, ctx, alone.owner, id)
		}
	})
	p.record(alone, err)
	o := outcome{id, cmp.Or(alone.app.Name, string(id)), err, nil}
	if err == nil && b.deed.starts {
		guarded(p.log, alone, func() {
			if now, err := p.apps.Outcome(ctx, alone.owner, id); err == nil && hasCrashed(now) {
				o.crash = now.LastExit
			}
		})
	}
	b.came(o)
}

// outcome is what came of one application.
type outcome struct {
	ID    app.ID
	Name  string
	err   error
	crash *app.Exit // it was started, and its program ended at once
}

// failedOne is an application to which it could not be done, and why.
type failedOne struct {
	outcome
	Why string
}

// batchPage is the data of batch.html.
type batchPage struct {
	ID, Do, Icon, Word string
	Title              string
	Began, Ended       time.Time
	All, Came          int
	Done               []outcome
	Failed             []failedOne
	Back               string
}

// batch shows how far a batch is, or its result.
func (p *appPages) batch(c *call) (answer, error) {
	b, err := p.batches.find(c.account.ID, c.Request.PathValue("batch"))
	if err != nil {
		return answer{}, err
	}
	came, ended := b.results()
	page := batchPage{
		ID: b.id, Do: b.deed.name, Icon: b.deed.icon, Word: b.deed.Word(c.lang), All: b.size, Came: len(came),
		Began: b.began, Ended: ended, Back: b.back,
	}
	for _, o := range came {
		switch {
		case o.err != nil:
			page.Failed = append(page.Failed, failedOne{o, c.say(o.err)})
		case o.crash != nil:
			page.Failed = append(page.Failed, failedOne{o, ending(c.lang, o.crash) + "."})
		default:
			page.Done = append(page.Done, o)
		}
	}
	page.Title = b.deed.told(c.lang, len(page.Done))
	return show("batch", page), nil
}

// batches are those of all accounts, in memory: the next start of the daemon knows none of them.
// It is bounded, and safe for concurrent use.
type batches struct {
	mu  sync.Mutex
	all map[string]*batch
}

func newBatches() *batches { return &batches{all: map[string]*batch{}} }

// batch is something that is done to many applications. It goes on without the browser.
type batch struct {
	id      string // unguessable, and shown to its account alone
	account app.AccountID
	deed    deed
	size    int
	back    string // the page that it began on
	began   time.Time
	over    chan struct{} // closed at its end

	mu    *sync.Mutex // of all batches
	sofar []outcome
	ended time.Time
}

// begin makes a batch of an account. It fails with app.Limited when the account has many, and with
// app.Unavailable when all have.
func (bs *batches) begin(account app.AccountID, d deed, size int, back string) (*batch, error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	mine := bs.of(account)
	ended := slices.DeleteFunc(slices.Clone(mine), func(b *batch) bool { return b.ended.IsZero() })
	if len(mine)-len(ended) >= accountBatch {
		return nil, app.Errorf(app.Limited, "%d of these are under way for your account already; wait until one has ended", len(mine)-len(ended))
	}
	for _, b := range ended[min(len(ended), keptBatches-1):] {
		delete(bs.all, b.id)
	}
	if len(bs.all) >= allBatches {
		bs.drop()
	}
	if len(bs.all) >= allBatches {
		return nil, app.Errorf(app.Unavailable, "too much is under way on this host; try again in a few minutes")
	}
	b := &batch{
		id: rand.Text(), account: account, deed: d, size: size, back: back, began: time.Now(), over: make(chan struct{}), mu: &bs.mu,
	}
	bs.all[b.id] = b
	return b, nil
}

// drop forgets the one of all accounts that ended first. The caller holds mu.
func (bs *batches) drop() {
	var oldest *batch
	for _, b := range bs.all {
		if !b.ended.IsZero() && (oldest == nil || b.ended.Before(oldest.ended)) {
			oldest = b
		}
	}
	if oldest != nil {
		delete(bs.all, oldest.id)
	}
}

// of returns those of an account, the newest first, and forgets all that ended long ago. The caller
// holds mu.
func (bs *batches) of(account app.AccountID) []*batch {
	maps.DeleteFunc(bs.all, func(_ string, b *batch) bool { return !b.ended.IsZero() && time.Since(b.ended) > batchTime })
	var mine []*batch
	for _, b := range bs.all {
		if b.account == account {
			mine = append(mine, b)
		}
	}
	slices.SortFunc(mine, func(a, b *batch) int { return b.began.Compare(a.began) })
	return mine
}

// find returns a batch of an account, or app.NotFound.
func (bs *batches) find(account app.AccountID, id string) (*batch, error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.of(account) {
		if b.id == id {
			return b, nil
		}
	}
	return nil, app.Errorf(app.NotFound, "this result is not known any more: it is told of for an hour, and until berth is started anew")
}

// came adds what came of one application.
func (b *batch) came(o outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sofar = append(b.sofar, o)
}

// finish says that all has come.
func (b *batch) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = time.Now()
	close(b.over)
}

// results are what came so far, by name, and when it ended.
func (b *batch) results() ([]outcome, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.sofar)
	slices.SortFunc(all, func(x, y outcome) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID, y.ID)) })
	return all, b.ended
}
