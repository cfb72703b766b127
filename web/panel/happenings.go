package panel

import (
	"context"
	"time"

	"berth/app"
	"berth/app/text"
)

// happening is a row of what happened to an application.
type happening struct {
	At          time.Time
	Class, Icon string
	Text        string // a sentence without a full stop
	More        string // what else is known, may be empty
	Who         string // who sent a deploy
	Deploy      bool
}

// happenings are the rows of what happened, newest first.
func (s *server) happenings(c *call, all []app.HistoryEvent) []happening {
	names := s.namer(c)
	rows := make([]happening, len(all))
	for i, h := range all {
		rows[i] = happeningOf(c.lang, h)
		if rows[i].Deploy {
			rows[i].Who = names(h.By)
		}
	}
	return rows
}

func happeningOf(l text.Language, h app.HistoryEvent) happening {
	r := happening{At: h.At}
	switch h.Kind {
	case app.HistoryExit:
		if h.Exit != nil {
			r.Class, r.Icon, r.Text, r.More = exitRow(l, h.Exit)
		}
	case app.HistoryDeploy:
		r.Class, r.Icon, r.Text, r.More, r.Deploy = "good", "up", deployWord(l, h.Deploy), h.Text, true
	case app.HistoryFailure:
		r.Class, r.Icon, r.Text, r.More, r.Deploy = "bad", "cross", failureWord(l, h.Deploy), h.Text, true
	case app.HistoryRefusal:
		r.Class, r.Icon, r.Text, r.More = "bad", "cross", l.Say("It could not be started"), h.Text
	}
	return r
}

// exitRow tells how a run ended.
func exitRow(l text.Language, e *app.Exit) (class, icon, text, more string) {
	more = l.Say("after %s", span(l, e.Ran))
	text = endingOf(l, e)
	switch {
	case e.OOM:
		if e.PeakBytes > 0 {
			more = l.Say("peak %s, after %s", size(l, e.PeakBytes), span(l, e.Ran))
		}
		return "bad", "warning", text, more
	case e.Asked, e.Code == 0:
		return "off", "pause", text, more
	}
	return "bad", "cross", text, more
}

func deployWord(l text.Language, k app.DeployKind) string {
	switch k {
	case app.DeployUpload:
		return l.Say("It was uploaded")
	case app.DeployRestore:
		return l.Say("It was restored from a backup")
	case app.DeployRollback:
		return l.Say("Earlier code was brought back")
	case app.DeployCommit:
	}
	return l.Say("New code is in place")
}

func failureWord(l text.Language, k app.DeployKind) string {
	switch k {
	case app.DeployRestore:
		return l.Say("A backup could not be restored; the code from before is in place")
	case app.DeployRollback:
		return l.Say("Earlier code could not be brought back; the code from before is in place")
	case app.DeployUpload, app.DeployCommit:
	}
	return l.Say("New code could not be deployed; the code from before is in place")
}

// namer returns a function that tells the names of accounts, asked once each.
func (s *server) namer(c *call) func(app.AccountID) string {
	known := map[app.AccountID]string{c.account.ID: c.account.Name, 0: ""}
	return func(id app.AccountID) string {
		name, ok := known[id]
		if !ok {
			name = c.lang.Say("account %d", id)
			if a, err := s.Account(c.Request.Context(), id); err == nil {
				name = a.Name
			}
			known[id] = name
		}
		return name
	}
}

// stopperActs is how many records are looked through for who stopped something.
const stopperActs = 50

// stopper is who asked for the stop that ended the last run, "" when that is not
// known. It never fails a page.
func (s *server) stopper(ctx context.Context, a app.Snapshot) string {
	if a.LastExit == nil || !a.LastExit.Asked {
		return ""
	}
	acts, err := s.AuditRecords(ctx, app.AuditQuery{App: a.ID, Since: a.LastExit.At.Add(-time.Minute), Limit: stopperActs})
	if err != nil {
		s.Log.Error("cannot read who stopped an application", "app", a.ID, "cause", err)
		return ""
	}
	who := ""
	for _, act := range acts {
		if act.Operation == "app.stop" && act.Refusal == "" && act.Name != "" {
			who = act.Name
			if act.Label != "" && act.Label != "panel" {
				who += " (" + act.Label + ")"
			}
		}
	}
	return who
}
