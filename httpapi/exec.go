package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"berth/app"
	"berth/web/terminal"
)

const (
	// execEnded is recorded when a session ends; that it began is the route's operation.
	execEnded = "app.exec.end"

	maxTerm = 64 // bytes
)

// exec opens a session in an application of the account. Members of its team have no
// permission for that: a session may read what the owner's variables are.
func (s *sockets) exec(c *call) (response, error) {
	if err := s.mayExec(c); err != nil {
		return response{}, err
	}
	if refused := handshake(c, s.baseURL); refused != nil {
		return *refused, nil
	}
	e, err := execOf(c.Request.URL.RawQuery)
	if err != nil {
		return response{}, err
	}
	return response{stream: func(w http.ResponseWriter) {
		v := newConversation(s, c, w)
		if v == nil {
			return
		}
		defer v.close()
		s.serveSession(v, e)
	}}, nil
}

// serveSession runs a session on a connection, and records its begin and its end.
func (s *sockets) serveSession(v *conversation, e app.Exec) {
	c, began := v.c, time.Time{}
	session := terminal.Session{
		Owner: c.account.ID, App: c.id, Exec: e, Run: s.run, Translate: c.translate,
		MayStill: func(ctx context.Context) error {
			if _, err := c.reauthenticate(ctx); err != nil {
				return err
			}
			_, err := s.deployments.apps.App(c.account.ID, c.id)
			return err
		},
		Opened: func() {
			began = c.now()
			s.auditor.record(c, response{status: http.StatusSwitchingProtocols})
		},
	}
	shell, err := session.Serve(v.life, v.conn)
	if err != nil {
		v.finish(v.failure(err), false)
		return
	}
	c.audit.Operation, c.audit.done = execEnded, s.auditor.write == nil
	c.audit.Note("seconds=%d code=%d", int(c.now().Sub(began)/time.Second), shell.Exit.Code)
	if !shell.Cut.IsZero() {
		c.audit.Note("reason=%q", shell.Cut.String())
	}
	c.audit.conclude(http.StatusOK, "")
}

// mayExec refuses who does not own the application.
func (s *sockets) mayExec(c *call) error {
	_, err := s.deployments.apps.App(c.account.ID, c.id)
	if app.KindOf(err) != app.NotFound {
		return err
	}
	all, asked := s.teams.Memberships(c.Request.Context(), c.account.ID)
	if asked == nil && slices.ContainsFunc(all, func(m app.Membership) bool { return m.App == c.id }) {
		return app.Errorf(app.Forbidden, "Only the owner of the application may open a session in it.")
	}
	return err
}

// execOf reads what a session is to run: command, tty, term, cols and rows.
func execOf(rawQuery string) (app.Exec, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return app.Exec{}, app.Errorf(app.Invalid, "The parameters of the address are malformed.")
	}
	e := app.Exec{Command: query.Get("command"), TTY: true, Term: terminal.DefaultTerm}
	if len(e.Command) > maxCommand {
		return e, app.Errorf(app.Invalid, "The command is longer than the %s that are allowed.", size(maxCommand))
	}
	if query.Has("tty") {
		if e.TTY, err = strconv.ParseBool(query.Get("tty")); err != nil {
			return e, app.Errorf(app.Invalid, "The parameter tty is true or false.")
		}
	}
	if query.Has("term") {
		e.Term = query.Get("term")
	}
	if len(e.Term) > maxTerm || !isWord(e.Term) {
		return e, app.Errorf(app.Invalid, "The parameter term is the name of a terminal, such as %s.", terminal.DefaultTerm)
	}
	e.Size, err = terminal.SizeOf(query)
	return e, err
}
