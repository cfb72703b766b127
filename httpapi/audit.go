package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"berth/app"
	"berth/web"
)

// The names of what is recorded beside the operations of the routes.
const (
	authFailed  = "auth.failed"
	authLimited = "auth.limited"
)

// statusGone stands in the audit log for an answer that nobody waited for.
const statusGone = 499

// trail is what a call gathers for the audit log on its way.
type trail struct {
	web.Trail
	name    string // of the application
	parts   []part // of a call about all applications
	status  int    // of the last frame of a WebSocket
	refusal string // in that frame
	done    bool   // it is recorded
}

// part is what came of one application among all.
type part struct {
	app.Snapshot
	err error
}

// about names the application that a call has made.
func (c *call) about(s app.Snapshot) { c.id, c.audit.name = s.ID, s.Name }

// concluded keeps what a client was told last over a WebSocket.
func (c *call) concluded(status int, refusal string) {
	if c.audit.status == 0 {
		c.audit.status, c.audit.refusal = status, refusal
	}
}

// begin looks the application's name up while there is one: it may be gone when
// the call is recorded.
func (s *server) begin(c *call) {
	if c.audit.Operation == "" || c.head() || s.Record == nil {
		c.audit.done = true
		return
	}
	c.audit.name = s.nameOf(c.account.ID, c.params.ByName("appID"))
}

func (s *server) nameOf(owner app.AccountID, id string) string {
	if !app.ValidID(id) {
		return ""
	}
	snap, err := s.Applications.App(owner, app.ID(id))
	if err != nil {
		return ""
	}
	return snap.Name
}

// record writes what came of a call into the audit log, once.
func (s *server) record(c *call, resp response) {
	if c.audit.done || c.audit.Operation == "" || c.account.ID == 0 || s.Record == nil {
		return
	}
	c.audit.done = true
	act := s.actOf(c, c.account, c.audit.Operation)
	act.Account, act.App, act.AppName, act.Detail = c.owner(), c.id, c.audit.name, c.audit.Detail
	if act.App == "" {
		act.App = app.ID(c.params.ByName("appID"))
	}
	if act.AppName == "" && c.actsFor != 0 {
		act.AppName = s.nameOf(c.actsFor, string(act.App))
	}
	act.Status, act.Refusal = c.result(resp)
	// Clients ask for logs every few seconds, and each time are given an address.
	act.Counted = act.Operation == "app.logs"
	if len(c.audit.parts) == 0 {
		s.Record(act)
	}
	for _, p := range c.audit.parts {
		act.Account, act.App, act.AppName = p.Account, p.ID, p.Name
		act.Status, act.Refusal = http.StatusOK, ""
		if p.err != nil {
			act.Status, act.Refusal = toldInEnglish(p.err)
		}
		s.Record(act)
	}
}

// recordFailure counts a request that was refused for its token. The account is
// known of those that are disabled, or ask too often.
func (s *server) recordFailure(c *call, account app.Account, err error) {
	if s.Record == nil {
		return
	}
	act := s.actOf(c, account, authFailed)
	if act.Actor == 0 {
		act.Actor, act.From = app.Stranger, addressKey(c.Request.RemoteAddr)
	}
	if app.KindOf(err) == app.Limited {
		act.Operation = authLimited
	}
	// The first of a minute speaks for all of them, so it names no request.
	act.Account, act.Counted, act.Request = account.ID, true, ""
	act.Status, act.Refusal = toldInEnglish(err)
	s.Record(act)
}

// actOf is what every record of a call has.
func (s *server) actOf(c *call, actor app.Account, operation string) app.AuditRecord {
	return app.AuditRecord{
		At: s.Now(), Actor: actor.ID, Name: actor.Name, Token: c.with.ID, Label: c.with.Label,
		From: addressOf(c.Request.RemoteAddr), Operation: operation, Request: c.RequestID, Times: 1,
	}
}

// result returns the status of an answer, and the sentence if it refuses.
func (c *call) result(resp response) (status int, refusal string) {
	if _, is := resp.body.(errorBody); is {
		return resp.status, resp.refusal
	}
	switch {
	case c.audit.status != 0:
		return c.audit.status, c.audit.refusal
	case resp.stream != nil:
		return statusGone, "The client went away."
	case resp.status == 0: // a panic in the middle of an answer
		return http.StatusInternalServerError, internalMessage
	}
	return resp.status, ""
}

// parted keeps what came of each application. Those that were there already
// are no change.
func parted[T any](c *call, meant []app.Snapshot, results []result[T]) {
	for _, r := range results {
		i := slices.IndexFunc(meant, func(s app.Snapshot) bool { return s.ID == r.id })
		if i >= 0 && app.KindOf(r.err) != app.Already {
			c.audit.parts = append(c.audit.parts, part{meant[i], r.err})
		}
	}
}

// namesOf lists the names of variables: those that are set, then those removed.
func namesOf(change map[string]*string) string {
	var set, removed []string
	for name, value := range change {
		name, _, _ = strings.Cut(name, "=") // a mistake may have a value behind it
		if value == nil {
			removed = append(removed, name)
		} else {
			set = append(set, name)
		}
	}
	slices.Sort(set)
	slices.Sort(removed)
	var b strings.Builder
	for _, l := range []struct {
		what  string
		names []string
	}{{"set=", set}, {"removed=", removed}} {
		if len(l.names) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(l.what + strings.Join(l.names, ","))
	}
	return b.String()
}
