package panel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/web"
)

// answer is what a handler returns: a page, or where to go next.
type answer struct {
	status int    // http.StatusOK when 0
	page   string // name of the template, without its ending
	data   any    // what the template has as .Page
	to     string // a redirect, when not ""
	flash  *flash // shown once on the page that to leads to
	// stream writes the whole answer itself, such as a download or a live view.
	stream  func(w http.ResponseWriter, r *http.Request)
	refusal string // for the audit log
}

// show answers with a page.
func show(page string, data any) (answer, error) { return answer{page: page, data: data}, nil }

// leadTo redirects: what comes next is asked for with GET.
func leadTo(path string) answer { return answer{to: path} }

// done redirects with a sentence for the page that path names. It is kept on the
// server, so that no address holds it, see flashes.
func done(path, sentence string) (answer, error) {
	return answer{to: path, flash: &flash{Text: sentence}}, nil
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
		a.stream(c, c.Request)
		return
	}
	control := http.NewResponseController(c)
	_ = control.SetWriteDeadline(time.Now().Add(patience))
	if c.Partial() && control.EnableFullDuplex() == nil {
		defer c.Linger(control, 4*s.MaxUpload)
	}
	h := c.Header()
	if a.to != "" {
		h.Set("Location", a.to)
		c.WriteHeader(status)
		return
	}
	var b bytes.Buffer
	if err := s.render(&b, c, a); err != nil {
		panic(err) // a mistake in a template, which its tests find
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", c.lang.Tag())
	h.Add("Vary", "Accept-Language")
	body := packed(h, c.Request, b.Bytes())
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.WriteHeader(status)
	if c.Request.Method != http.MethodHead {
		_, _ = c.Write(body) // a failed write means that the client has gone
	}
}

// refused shows why a route's handler failed: on the page that its form is on,
// if it has one.
func (s *server) refused(c *call, r route, err error) answer {
	status, sentence := s.explain(c, err)
	if r.on != nil && status != http.StatusInternalServerError && (r.access == public || c.account.ID != 0) {
		c.problem, c.wrong = sentence, r.pattern
		if page, broken := r.on(c); broken == nil && page.to == "" {
			page.status, page.refusal = status, english(err)
			return page
		}
	}
	a := s.failed(c, err)
	a.refusal = english(err)
	return a
}

// failed is the page of an error.
func (s *server) failed(c *call, err error) answer {
	status, sentence := s.explain(c, err)
	return answer{status: status, page: "error", data: errorPage{status, sentence, c.RequestID}}
}

// errorPage is the data of error.html.
type errorPage struct {
	Status    int
	Message   string
	RequestID string
}

// explain returns what the user may know of err, in the call's language, and
// keeps the rest for the log.
func (s *server) explain(c *call, err error) (status int, sentence string) {
	var e *app.Error
	switch {
	case errors.As(err, &e) && e.Kind > app.Internal:
		if status = web.StatusOf(e.Kind); status < http.StatusBadRequest {
			status = http.StatusConflict // Already is a success for the clients of the API only
		}
		return status, c.say(e)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, c.lang.Say("The request was cancelled before it was done.")
	}
	s.Log.Error("internal error", "route", c.Pattern, "request", c.RequestID, "cause", err)
	return http.StatusInternalServerError, c.lang.Say("Something went wrong that is not your fault. The log of berth tells the cause.")
}

// say is the sentence of an error, with a capital letter and a full stop.
func (c *call) say(e *app.Error) string {
	return sentence(c.lang.SayPhrase(e.Message))
}

// english is the sentence for the audit log.
func english(err error) string {
	var e *app.Error
	if errors.As(err, &e) && e.Kind > app.Internal {
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
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}
