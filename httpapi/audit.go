package httpapi

import (
	"fmt"
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

// conclude keeps the status and the refusal of the last frame of a WebSocket. Only the
// first call does.
func (t *trail) conclude(status int, refusal string) {
	if t.status == 0 {
		t.status, t.refusal = status, refusal
	}
}

// result returns the status of an answer, and the sentence if it refuses.
func (t *trail) result(resp response) (status int, refusal string) {
	_, refused := resp.body.(*errorBody)
	switch {
	case refused:
		return resp.status, resp.refusal
	case t.status != 0:
		return t.status, t.refusal
	case resp.stream != nil:
		return statusGone, "The client went away."
	case resp.status == 0: // a panic in the middle of an answer
		return http.StatusInternalServerError, internalMessage
	}
	return resp.status, ""
}

// keepParts keeps what came of each application. Those that were there already are no
// change.
func keepParts[T any](t *trail, results []result[T]) {
	for _, r := range results {
		if app.KindOf(r.err) != app.Already {
			t.parts = append(t.parts, part{*r.of, r.err})
		}
	}
}

// auditor writes the audit log.
type auditor struct {
	write func(app.AuditRecord) // nil: nothing is recorded
	apps  app.Applications
}

// begin looks the application's name up while there is one: it may be gone when
// the call is recorded.
func (a auditor) begin(c *call) {
	c.audit.done = c.audit.Operation == "" || c.head() || a.write == nil
	if !c.audit.done {
		c.audit.name = a.nameOf(c.account.ID, c.params.ByName("appID"))
	}
}

// nameOf returns the name of an application, "" when there is none.
func (a auditor) nameOf(owner app.AccountID, id string) string {
	if app.ValidID(id) {
		if snap, err := a.apps.App(owner, app.ID(id)); err == nil {
			return snap.Name
		}
	}
	return ""
}

// record writes what came of a call into the audit log, once.
func (a auditor) record(c *call, resp response) {
	if c.audit.done || c.account.ID == 0 && c.hostToken.ID == 0 && !c.byOwner {
		return
	}
	c.audit.done = true
	record := recordOf(c, c.account, c.audit.Operation)
	record.Account, record.App, record.AppName, record.Detail = c.owner(), c.id, c.audit.name, c.audit.Detail
	if record.App == "" {
		record.App = app.ID(c.params.ByName("appID"))
	}
	if record.AppName == "" && c.actsFor != 0 {
		record.AppName = a.nameOf(c.actsFor, string(record.App))
	}
	record.Status, record.Refusal = c.audit.result(resp)
	// Clients ask for logs every few seconds, and each time are given an address.
	record.Counted = record.Operation == "app.logs"
	if len(c.audit.parts) == 0 {
		a.write(record)
	}
	for _, p := range c.audit.parts {
		record.Account, record.App, record.AppName = p.Account, p.ID, p.Name
		record.Status, record.Refusal = http.StatusOK, ""
		if p.err != nil {
			record.Status, record.Refusal = english(p.err)
		}
		a.write(record)
	}
}

// recordFailure counts a request that was refused for its token. The account is
// known of those that are disabled, or ask too often.
func (a auditor) recordFailure(c *call, account app.Account, err error) {
	if a.write == nil {
		return
	}
	record := recordOf(c, account, authFailed)
	if record.Actor == 0 {
		record.Actor, record.From = app.Stranger, addressKey(c.Request.RemoteAddr)
	}
	if app.KindOf(err) == app.Limited {
		record.Operation = authLimited
	}
	// The first of a minute speaks for all of them, so it names no request.
	record.Account, record.Counted, record.Request = account.ID, true, ""
	record.Status, record.Refusal = english(err)
	a.write(record)
}

// recordOf is what every record of a call has.
func recordOf(c *call, actor app.Account, operation string) app.AuditRecord {
	r := app.AuditRecord{
		At: c.now(), Actor: actor.ID, Name: actor.Name, Token: c.token.ID, Label: c.token.Label,
		From: addressOf(c.Request.RemoteAddr), Operation: operation, Request: c.RequestID, Times: 1,
	}
	if c.hostToken.ID != 0 {
		r.Actor, r.Name, r.Label = app.Owner, "", fmt.Sprintf("host token %d %q", c.hostToken.ID, c.hostToken.Label)
	}
	if c.byOwner { // for the account
		r.Actor, r.Name, r.From = app.Owner, "", ""
	}
	return r
}

// english is shown in the language of the audit log.
func english(err error) (status int, message string) {
	status, text := shown(err)
	return status, text.String()
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
	var list []string
	if len(set) > 0 {
		list = append(list, "set="+strings.Join(set, ","))
	}
	if len(removed) > 0 {
		list = append(list, "removed="+strings.Join(removed, ","))
	}
	return strings.Join(list, " ")
}
