package notify

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"berth/app"
	"berth/app/text"
)

// Store is what is remembered. Each method is one transaction.
type Store interface {
	Channels
	Outbox
}

// Channels are where messages go.
type Channels interface {
	Channels(ctx context.Context, account app.AccountID) ([]app.Channel, error)
	// AnyChannel returns a channel of any account, or app.NotFound.
	AnyChannel(ctx context.Context, id int64) (app.Channel, error)
	// AddChannel fails with app.Exhausted where the account has most channels, and with
	// app.Conflict for a name that is taken.
	AddChannel(ctx context.Context, c app.Channel, most int) (app.Channel, error)
	SetChannel(ctx context.Context, account app.AccountID, id int64, change func(*app.Channel) error) (app.Channel, error)
	RemoveChannel(ctx context.Context, account app.AccountID, id int64) error
	// Use fails with app.Limited where the account has done what most times since.
	Use(ctx context.Context, account app.AccountID, what string, most int, since time.Time) error
}

// Outbox is what is to be told, and on its way.
type Outbox interface {
	// Unheard returns the notices that no Tell has taken, oldest first.
	Unheard(ctx context.Context) ([]app.Notice, error)
	Troubles(ctx context.Context) ([]app.Trouble, error)
	// Tell takes notices, stores troubles, forgets those that are over, and stores messages.
	Tell(ctx context.Context, heard []int64, told, over []app.Trouble, messages []app.Delivery) error

	// Due returns of each channel the delivery whose try is next, the soonest first.
	Due(ctx context.Context) ([]app.Delivery, error)
	// Tried stores how a try ended. hold lets all that waits for the channel wait until d.NextAt;
	// stopped, if it is not "", stops the channel for that.
	Tried(ctx context.Context, d app.Delivery, hold bool, stopped string) error
	Deliveries(ctx context.Context, account app.AccountID, channel int64) ([]app.Delivery, error)
	SendAgain(ctx context.Context, account app.AccountID, id int64) error
}

// Sender knows the services.
type Sender interface {
	// Send blocks until the service has answered, or for 15 seconds. It takes a message as it is but for
	// the limits of the service.
	Send(ctx context.Context, c app.Channel, m app.Message) app.Receipt
	// Check fails with app.Invalid for a channel that cannot work, and with app.Unusable for one
	// of Email where the host has no mail server.
	Check(c app.Channel) error
	// Mask is the Target as it may be shown.
	Mask(c app.Channel) string
}

// Config is what a Notifier asks. All MUST be safe for concurrent use.
type Config struct {
	Store  Store
	Sender Sender
	// App returns an application as it is now, or app.NotFound.
	App func(owner app.AccountID, id app.ID) (app.Snapshot, error)
	// Tail returns the end of a log, of its build or of its program.
	Tail func(id app.ID, build bool, max int) string
	// Variables returns those of an application, for their values to be left out.
	Variables func(ctx context.Context, id app.ID) ([]app.Variable, error)
	// RightSize returns which RAM fits an application.
	RightSize func(ctx context.Context, a app.Snapshot) (app.RightSize, error)
	BaseURL   string // of the host, for links; "" for none
	Log       *slog.Logger
}

// topic names a trouble.
type topic struct {
	account app.AccountID
	app     app.ID
	name    string
}

func topicOfTrouble(r app.Trouble) topic { return topic{r.Account, r.App, r.Topic} }

// Notifier makes messages of notices and sends them. Its methods are those of app.Notices,
// and Run.
type Notifier struct {
	Config
	wake chan struct{} // something was stored
	send chan struct{} // a message was stored

	// Of Run alone.
	troubles map[topic]app.Trouble
	rhythms  map[app.AccountID]*rhythm
}

// New returns a notifier that does nothing before Run.
func New(c Config) *Notifier {
	return &Notifier{
		Config: c, wake: make(chan struct{}, 1), send: make(chan struct{}, 1),
		troubles: map[topic]app.Trouble{}, rhythms: map[app.AccountID]*rhythm{},
	}
}

// Wake says that a notice was stored. It does not block.
func (n *Notifier) Wake() { poke(n.wake) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const (
	// lookEvery is the longest pause between two looks: commands of the host store notices too,
	// and wake nobody.
	lookEvery = time.Minute
	// failPause is the pause after the store has failed.
	failPause = 10 * time.Second
)

// Run makes messages and sends them until ctx ends, and returns when no sending is under way
// any more. It is called once.
func (n *Notifier) Run(ctx context.Context) {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		n.deliver(ctx)
	}()
	defer func() { <-sent }()
	for !n.restore(ctx) {
		if !pause(ctx, failPause, nil) {
			return
		}
	}
	for {
		if !pause(ctx, n.step(ctx), n.wake) {
			return
		}
	}
}

// pause waits so long, or until something comes; false when ctx has ended.
func pause(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-woken:
	}
	return ctx.Err() == nil
}

// restore reads what was told by an earlier daemon.
func (n *Notifier) restore(ctx context.Context) bool {
	all, err := n.Store.Troubles(ctx)
	if err != nil {
		n.failed(ctx, "cannot read what was told", err)
		return false
	}
	for _, r := range all {
		n.troubles[topicOfTrouble(r)] = r
	}
	return true
}

func (n *Notifier) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		n.Log.Error(what, "error", err)
	}
}

// step makes the messages that are due, and returns after how long to look again.
func (n *Notifier) step(ctx context.Context) time.Duration {
	unheard, err := n.Store.Unheard(ctx)
	if err != nil {
		n.failed(ctx, "cannot read the notices", err)
		return failPause
	}
	now := time.Now()
	waiting := map[app.AccountID][]app.Notice{}
	for _, one := range unheard {
		waiting[one.Account] = append(waiting[one.Account], one)
	}
	for account := range n.lasting(now) {
		if _, ok := waiting[account]; !ok {
			waiting[account] = nil // it has something to say, or to forget, without a notice
		}
	}
	for account, r := range n.rhythms {
		if r.at.IsZero() && now.Sub(r.last) >= quiet {
			delete(n.rhythms, account)
		}
	}
	next := lookEvery
	for account, notices := range waiting {
		if n.rhythms[account] == nil {
			n.rhythms[account] = &rhythm{}
		}
		r := n.rhythms[account]
		if at := r.heard(now); at.After(now) {
			next = min(next, at.Sub(now))
			continue
		}
		told, err := n.tell(ctx, account, notices, now)
		if err != nil {
			n.failed(ctx, "cannot make messages", err)
			next = min(next, failPause)
			continue
		}
		if told {
			r.told(now)
		} else {
			r.at = time.Time{}
		}
	}
	return next
}

// lasting are the accounts with troubles of which there may be something to say, or to forget.
func (n *Notifier) lasting(now time.Time) map[app.AccountID]bool {
	found := map[app.AccountID]bool{}
	for _, r := range n.troubles {
		if due(r, now) || forgotten(r, now) || r.Lasts && n.over(r, now) != goesOn {
			found[r.Account] = true
		}
	}
	return found
}

// How a trouble goes on.
type course int

const (
	goesOn course = iota
	ended         // its owner wanted that, or it is gone
	well          // it runs again
)

// over looks how the application of a trouble is.
func (n *Notifier) over(r app.Trouble, now time.Time) course {
	if r.App == "" {
		return goesOn
	}
	switch a, err := n.App(r.Account, r.App); {
	case app.KindOf(err) == app.NotFound:
		return ended
	case err != nil:
		return goesOn
	case a.Running && a.State == app.Online && !a.Unwell && !a.Silent && now.Sub(a.StartedAt) >= healthy && now.Sub(r.Last.At) >= healthy:
		return well
	case a.Wanted != app.WantOnline && now.Sub(r.Last.At) >= healthy:
		return ended
	}
	return goesOn
}

// tell makes the messages of an account, and reports whether there was one to make. What is
// held back is stored all the same.
func (n *Notifier) tell(ctx context.Context, account app.AccountID, notices []app.Notice, now time.Time) (bool, error) {
	var heard []int64
	var items []item
	changed, over := map[topic]app.Trouble{}, []app.Trouble(nil)
	told := map[topic]int{} // where in items a topic is
	for _, one := range notices {
		heard = append(heard, one.ID)
		key := topic{account, one.App, topicOf(one)}
		if key.name == "" {
			items = append(items, item{notice: one})
			continue
		}
		r, ok := changed[key]
		if !ok {
			r = n.troubles[key]
			r.Topic = key.name
		}
		r, due := hear(r, one, now)
		if at, there := told[key]; there { // again in the same moment
			items[at].notice, items[at].held = one, items[at].held+1
			r.Held = 0
			r.Last = one
		} else if due {
			told[key] = len(items)
			items = append(items, item{notice: one, held: r.Held, since: r.Since})
			r = afterTelling(r, now, about(one.Kind).ends)
		}
		changed[key] = r
	}
	for key, r := range n.troubles {
		if _, ok := changed[key]; ok || key.account != account {
			continue
		}
		course := goesOn
		if r.Lasts || r.Held > 0 {
			course = n.over(r, now)
		}
		switch {
		case course == ended, course == goesOn && forgotten(r, now):
			over = append(over, r)
		case course == well && r.Lasts:
			items = append(items, item{
				notice: app.Notice{Account: account, App: r.App, At: now, Kind: app.NoticeBackOnline}, held: r.Held, since: r.Since,
			})
			r.Lasts, r.Held = false, 0
			changed[key] = r
		case due(r, now):
			items = append(items, item{notice: r.Last, held: r.Held - 1, since: r.Since})
			changed[key] = afterTelling(r, now, about(r.Last.Kind).ends && course != well)
		}
	}
	messages, err := n.messages(ctx, account, items, changed, now)
	if err != nil {
		return false, err
	}
	if len(heard)+len(changed)+len(over) == 0 {
		return false, nil
	}
	var keep []app.Trouble
	for _, r := range changed {
		keep = append(keep, r)
	}
	if err := n.Store.Tell(ctx, heard, keep, over, messages); err != nil {
		return false, err
	}
	for key, r := range changed {
		n.troubles[key] = r
	}
	for _, r := range over {
		delete(n.troubles, topicOfTrouble(r))
	}
	poke(n.send)
	return len(messages) > 0, nil
}

// messages makes one message for each channel that wants any of items.
func (n *Notifier) messages(
	ctx context.Context, account app.AccountID, items []item, changed map[topic]app.Trouble, now time.Time,
) ([]app.Delivery, error) {
	if len(items) == 0 {
		return nil, nil
	}
	channels, err := n.Store.Channels(ctx, account)
	if err != nil {
		return nil, err
	}
	items = n.there(items)
	hide := map[app.ID]secrets{}
	var made []app.Delivery
	for _, c := range channels {
		wanted := slices.Clone(items)
		wanted = slices.DeleteFunc(wanted, func(i item) bool { return !wants(c, i.notice) })
		if len(wanted) == 0 {
			continue
		}
		if !several(wanted) { // a list has no details
			for at := range wanted[:min(len(wanted), named)] {
				n.complete(ctx, &wanted[at], changed, hide)
			}
		}
		m := hide[wanted[0].notice.App].clean(compose(text.In(c.Lang), wanted, n.BaseURL, now))
		made = append(made, app.Delivery{Channel: c.ID, Account: account, Message: m, State: app.DeliveryWaiting, NextAt: now})
	}
	return made, nil
}

// there are the items whose applications there still are, with them.
func (n *Notifier) there(items []item) []item {
	for at := range items {
		if i := &items[at]; i.notice.App != "" {
			i.app, _ = n.App(i.notice.Account, i.notice.App)
		}
	}
	return slices.DeleteFunc(items, func(i item) bool { return i.app.ID != i.notice.App })
}

// complete finds out what is around a notice about an application.
func (n *Notifier) complete(ctx context.Context, i *item, changed map[topic]app.Trouble, hide map[app.ID]secrets) {
	id := i.notice.App
	if id == "" {
		return
	}
	if _, ok := hide[id]; !ok {
		variables, err := n.Variables(ctx, id)
		if err != nil {
			n.failed(ctx, "cannot read the variables, so no log is sent", err)
			hide[id] = secrets{}
		} else {
			hide[id] = secretsOf(variables)
		}
	}
	if hide[id].values == nil {
		return
	}
	k, until := about(i.notice.Kind), i.notice.At.Add(lateLines)
	switch {
	case k.log:
		i.excerpt = excerpt(n.Tail(id, false, excerptTail), until, hide[id])
	case k.Kind == app.NoticeDeployFailed:
		i.excerpt = excerpt(n.Tail(id, true, excerptTail), until, hide[id])
	}
	if k.Kind != app.NoticeOutOfMemory {
		return
	}
	memory := topic{i.notice.Account, id, "memory"}
	r, ok := changed[memory]
	if !ok {
		r = n.troubles[memory]
	}
	if p := r.Last.Happened; p != nil && p.Memory != nil && p.Memory.Run == i.notice.Happened.Exit.Run {
		i.warned = p.Memory
	}
	if size, err := n.RightSize(ctx, i.app); err == nil && size.Changes() {
		i.advice = size.Why
	}
}

// clean returns m without secrets.
func (s secrets) clean(m app.Message) app.Message {
	m.Title, m.Excerpt = s.without(m.Title), s.without(m.Excerpt)
	for n, line := range m.Lines {
		m.Lines[n] = s.without(line)
	}
	return m
}
