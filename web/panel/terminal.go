package panel

import (
	"context"
	"net/http"
	"strings"
	"time"

	"berth/app"
	"berth/web"
	"berth/web/terminal"
)

// terminalPages open a shell in an application, for its owner alone, as the API does: a shell can read
// what the variables are.
type terminalPages struct {
	livePages
	apps    app.Applications
	run     app.ExecService
	record  func(*call, error) // into the audit log
	baseURL string
}

func (p terminalPages) show(*call) (answer, error) {
	return answer{page: "terminal", policy: terminalPolicy}, nil
}

// open is the WebSocket of the page: the session that httpapi opens for a token, for the cookie of a
// session of the panel.
func (p terminalPages) open(c *call) (answer, error) {
	if !strings.EqualFold(c.Request.Header.Get("Upgrade"), "websocket") {
		return answer{}, app.Errorf(app.Invalid, "this address is for the terminal's page alone")
	}
	origin := c.Request.Header.Get("Origin")
	if origin == "" || !web.SameOrigin(origin, c.Request.Host, p.baseURL, c.encrypted) {
		return answer{}, app.Errorf(app.Forbidden, "A page of another origin may not speak WebSocket with this server.")
	}
	size, err := terminal.SizeOf(c.Request.URL.Query())
	if err != nil {
		return answer{}, err
	}
	c.audit.Operation = "" // it is recorded once the session is open
	return answer{stream: func() { p.serve(c, app.Exec{TTY: true, Term: terminal.DefaultTerm, Size: size}) }}, nil
}

// serve runs a session, and records its begin and its end.
func (p terminalPages) serve(c *call, e app.Exec) {
	conn, err := terminal.Accept(c, c.Request)
	if err != nil {
		c.Cause = err
		return
	}
	defer func() { _ = conn.CloseNow() }()
	began := time.Time{}
	session := terminal.Session{
		Owner: c.owner, App: c.app.ID, Exec: e, Run: p.run,
		Translate: func(t app.Text) string { return c.lang.SayPhrase(t) },
		MayStill: func(ctx context.Context) error {
			if err := p.stillSignedIn(ctx, c); err != nil {
				return err
			}
			_, err := p.apps.App(c.owner, c.app.ID)
			return err
		},
		Opened: func() {
			began = time.Now()
			c.audit.Operation = "app.exec"
			p.record(c, nil)
		},
	}
	shell, err := session.Serve(c.ctx(), conn)
	if err != nil {
		c.audit.Operation = "app.exec"
		p.record(c, err)
		status := http.StatusInternalServerError
		if e := sayable(err); e != nil {
			status = web.StatusOf(e.Kind)
		}
		terminal.Refuse(context.WithoutCancel(c.ctx()), conn, status, c.say(err))
		return
	}
	c.audit.Operation = "app.exec.end"
	c.audit.Note("seconds=%d code=%d", int(time.Since(began)/time.Second), shell.Exit.Code)
	if !shell.Cut.IsZero() {
		c.audit.Note("reason=%q", shell.Cut.String())
	}
	p.record(c, nil)
}
