package panel

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/app"
	"berth/web"
)

// answer is what a handler returns: a page, or where to go next.
type answer struct {
	status  int    // http.StatusOK when 0
	page    string // name of the template, without its ending
	data    any    // what the template has as .Page
	policy  string // the page's Content-Security-Policy, when it is not that of all; then it shows nothing that others wrote
	to      string // a redirect, when not ""
	flash   *flash // shown once on the page that to leads to
	stream  func() // writes the whole answer itself, such as a download or a live view
	refusal string // for the audit log
}

// show answers with a page.
func show(page string, data any) answer { return answer{page: page, data: data} }

// leadTo redirects: the browser requests the next page with GET.
func leadTo(path string) answer { return answer{to: path} }

// done redirects with a sentence for the page that path names. It is kept on the
// server, so that no address holds it, see flashes.
func done(path, sentence string) answer { return answer{to: path, flash: &flash{Text: sentence}} }

// changed is done for a change that the program of an application gets at its next start: who may
// restart it can do that at once, where it runs.
func changed(path, sentence string) answer {
	return answer{to: path, flash: &flash{Text: sentence, Restart: true}}
}

// send writes the answer of a call.
func (s *server) send(c *call, a answer) {
	if a.flash != nil && c.session.ID != 0 {
		a.to = s.flashes.put(c.session.ID, *a.flash, a.to)
	}
	status := cmp.Or(a.status, http.StatusOK)
	if a.to != "" {
		status = http.StatusSeeOther
	}
	s.record(c, status, a.refusal)
	for _, cookie := range c.cookies {
		http.SetCookie(c, cookie)
	}
	if a.stream != nil {
		a.stream()
		return
	}
	control := http.NewResponseController(c)
	_ = control.SetWriteDeadline(time.Now().Add(patience))
	if c.Partial() && control.EnableFullDuplex() == nil {
		defer c.Linger(control, 4*s.MaxUpload)
	}
	if a.to != "" {
		c.Header().Set("Location", a.to)
		c.WriteHeader(status)
		return
	}
	var b bytes.Buffer
	if err := s.render(&b, c, a); err != nil {
		if c.ctx().Err() != nil {
			panic(http.ErrAbortHandler) // who asked has gone
		}
		panic(err) // a mistake in a template, which its tests find
	}
	if a.policy != "" {
		c.Header().Set("Content-Security-Policy", a.policy)
	}
	c.Header().Set("Content-Language", c.lang.Tag())
	c.Header().Add("Vary", "Accept-Language")
	c.sendBody(status, "text/html; charset=utf-8", b.Bytes())
}

// sendBody answers with a body, packed if the client accepts that.
func (c *call) sendBody(status int, kind string, body []byte) {
	c.sendAsIs(status, kind, packed(c.Header(), c.Request, body))
}

// sendAsIs answers with a body as it is.
func (c *call) sendAsIs(status int, kind string, body []byte) {
	_ = http.NewResponseController(c).SetWriteDeadline(time.Now().Add(patience))
	h := c.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.WriteHeader(status)
	if c.Request.Method != http.MethodHead {
		_, _ = c.Write(body) // a failed write means that the client has gone
	}
}

// sendFile answers with size bytes of a file, all of it when size is -1, and closes it.
// The client has patience for each piece.
func (c *call) sendFile(file io.ReadCloser, size int64, patience time.Duration) {
	defer func() { _ = file.Close() }() // only read, so nothing can be lost
	c.WriteHeader(http.StatusOK)
	if c.Request.Method == http.MethodHead {
		return
	}
	to := patient{c, patience}
	var err error
	if size < 0 {
		_, err = io.Copy(to, file)
	} else {
		_, err = io.CopyN(to, file, size)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // or the browser would keep a part as the whole
	}
}

// patient writes to a client that reads something every now and then.
type patient struct {
	http.ResponseWriter
	patience time.Duration
}

// Write sets the deadline of one piece.
func (p patient) Write(b []byte) (int, error) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.patience))
	return p.ResponseWriter.Write(b)
}

// render writes a page.
func (s *server) render(b *bytes.Buffer, c *call, a answer) error {
	v := view{
		Account: c.account, Path: c.Request.URL.Path, Here: a.page, Theme: c.choice(themeSuffix, themes), Lang: c.lang.Tag(),
		Problem: c.problem, Version: s.Version, Page: a.data,
	}
	if at, ok := helps[a.page]; ok && c.account.ID != 0 {
		v.Help = docsPath + "/" + at
	}
	once := strings.HasPrefix(v.Path, "/setup/") || strings.HasPrefix(v.Path, "/invitation/") || strings.HasPrefix(v.Path, "/sign-in/") || strings.HasPrefix(v.Path, "/notify/")
	if once || c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead {
		v.Path = "/"
		v.Own = c.ownOf(a.page)
	}
	if s.Held != nil && c.account.Admin {
		v.Held = sentence(c.lang.SayPhrase(s.Held().Text()))
	}
	if c.problem != "" {
		v.Typed = c.Request.PostForm
	}
	if c.session.ID != 0 && !c.session.Bare && a.policy == "" {
		all, err := s.NewSignIns.NewSignIns(c.ctx(), c.account.ID, c.session.ID)
		if err != nil {
			return err
		}
		v.News, v.Keys = newsOf(all), c.choice(keysSuffix, switches)
	}
	if c.app.Account != 0 && a.page != "apps" && a.page != "error" {
		can, owner, err := permissions(c, s.Teams)
		if err != nil {
			return err
		}
		bar := []appRow{rowOf(c, c.app, can, owner)}
		if err := (iconPages{s.Icons}).picture(c, bar); err != nil {
			return err
		}
		v.Bar = &bar[0]
	}
	page := templates[c.lang.Tag()]()[a.page]
	if page == nil {
		return fmt.Errorf("there is no template %q", a.page)
	}
	if c.session.ID != 0 && c.Request.Method == http.MethodGet { // last: a page that fails would use it up
		v.Flash = s.flashes.pop(c.session.ID, c.Request.URL.Query().Get(onceParam))
	}
	return page.ExecuteTemplate(b, "layout.html", v)
}

// record hands what came of a call to the audit log. The label says that it was
// done here.
func (s *server) record(c *call, status int, refusal string) {
	if c.audit.Operation == "" || s.Record == nil {
		return
	}
	who := c.account
	if c.audit.actor.ID != 0 {
		who = c.audit.actor
	}
	act := app.AuditRecord{
		At: time.Now(), Actor: who.ID, Name: who.Name, Label: "panel", Account: cmp.Or(c.owner, who.ID), From: c.from.Address,
		Operation: c.audit.Operation, App: c.app.ID, AppName: c.app.Name, Detail: c.audit.Detail,
		Status: status, Refusal: refusal, Request: c.RequestID, Times: 1,
	}
	if who.ID == 0 || c.audit.stranger {
		act.Actor, act.Name, act.From = app.Stranger, "", c.from.Key
		act.Counted, act.Request = true, "" // the first of a minute speaks for all of them
	}
	s.Record(act)
}

// recordLate is record for what went on after the answer, and ended with err.
func (s *server) recordLate(c *call, err error) {
	status, refusal := http.StatusOK, ""
	if err != nil {
		status, _ = s.explain(c, err)
		refusal = english(err)
	}
	s.record(c, status, refusal)
}

// errorPage is the data of error.html.
type errorPage struct {
	Status    int
	Message   string
	RequestID string
}

// refused shows why a call failed: on the page that on makes, or on a page of its own
// when that is nil.
func (s *server) refused(c *call, on handler, err error) answer {
	status, sentence := s.explain(c, err)
	a := answer{page: "error", data: errorPage{status, sentence, c.RequestID}}
	if on != nil && status != http.StatusInternalServerError {
		c.problem = sentence
		if page, broken := on(c); broken == nil && page.to == "" {
			a = page
		}
	}
	a.status, a.refusal = status, english(err)
	return a
}

// explain returns what the user may know of err, in the call's language, and
// keeps the rest for the log.
func (s *server) explain(c *call, err error) (status int, sentence string) {
	switch e := sayable(err); {
	case e != nil:
		if status = web.StatusOf(e.Kind); status < http.StatusBadRequest {
			status = http.StatusConflict // Already is a success for the clients of the API only
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, c.lang.Say("The request was cancelled before it was done.")
	default:
		s.Log.Error("internal error", "route", c.Pattern, "request", c.RequestID, "cause", err)
		status = http.StatusInternalServerError
	}
	return status, c.say(err)
}

// sayable is an error that says what the user may know, nil for an internal one.
func sayable(err error) *app.Error {
	if e, ok := errors.AsType[*app.Error](err); ok && e.Kind > app.Internal {
		return e
	}
	return nil
}

// say is the sentence of an error, with a capital letter and a full stop.
func (c *call) say(err error) string {
	if e := sayable(err); e != nil {
		return sentence(c.lang.SayPhrase(e.Message))
	}
	return c.lang.Say("berth could not do this. The log of berth has the cause.")
}

// english is the sentence for the audit log.
func english(err error) string {
	if e := sayable(err); e != nil {
		return sentence(e.Message.String())
	}
	return "internal error"
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	if first := s[0]; first >= 'a' && first <= 'z' {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}

// flash is shown once, on the page that a form leads to.
type flash struct {
	Text   string
	But    string // what is wrong with it all the same
	Secret string // a new token or link, which is shown nowhere else
	Codes  string // new recovery codes, one on a line
	Link   string // an address of this server, and Word, what it is called
	Word   string
	// Restart: a running program gets what was changed at its next start.
	Restart bool

	session int64
	until   time.Time
}

const (
	flashTime  = 2 * time.Minute // a redirect is followed at once, or never
	maxFlashes = 1024
	// ownFlashes bounds those of one session, so that nobody pushes out what is
	// another's.
	ownFlashes = 16
	// onceParam is the parameter of an address that names what its page shows once.
	onceParam = "once"
)

// flashes are kept in memory: a secret must be in no address, and in no database. The
// address that a form leads to has a key instead, which is of use once, to the session
// that sent the form. So the page that is being left, whose script may fetch it again
// before the browser follows the redirect, and a second tab remove nothing. It is
// safe for concurrent use, and bounded.
type flashes struct {
	mu  sync.Mutex
	all map[string]flash // by key
}

func newFlashes() *flashes { return &flashes{all: map[string]flash{}} }

// put keeps what the page at an address is to show once to a session, and returns the
// address to lead to.
func (f *flashes) put(session int64, what flash, to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return to // no address of this panel: it leads nowhere
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(ownFlashes-1, func(old flash) bool { return old.session == session })
	f.keep(maxFlashes-1, func(flash) bool { return true })
	key := rand.Text()
	what.session, what.until = session, time.Now().Add(flashTime)
	f.all[key] = what
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += onceParam + "=" + key
	return u.String()
}

// keep drops what is over, and the oldest of some until there are at most that many.
func (f *flashes) keep(most int, some func(flash) bool) {
	var keys []string
	for key, what := range f.all {
		switch {
		case time.Now().After(what.until):
			delete(f.all, key)
		case some(what):
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return f.all[a].until.Compare(f.all[b].until) })
	for _, key := range keys[:max(len(keys)-most, 0)] {
		delete(f.all, key)
	}
}

// pop returns what the page with a key is to show, nil for nothing.
func (f *flashes) pop(session int64, key string) *flash {
	f.mu.Lock()
	defer f.mu.Unlock()
	what, ok := f.all[key]
	if !ok || what.session != session {
		return nil
	}
	delete(f.all, key)
	if time.Now().After(what.until) {
		return nil
	}
	return &what
}
