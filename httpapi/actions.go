package httpapi

import (
	"context"
	"strings"

	"berth/app"
)

type startAnswer struct {
	Status    string    `json:"status"`
	Message   string    `json:"message"`
	AppStatus appStatus `json:"appStatus"`
}

type appStatus struct {
	Online    bool `json:"online"`
	RAMKilled bool `json:"ramKilled"`
	ExitCode  int  `json:"exitCode"`
}

// The lists of an action on all applications. Clients need every key; failed
// is ours and appears only when it says something.
type startedApps struct {
	Started          []app.ID `json:"started"`
	AlreadyOnline    []app.ID `json:"alreadyOnline"`
	AlreadyInProcess []app.ID `json:"alreadyInProcess"`
	Failed           []app.ID `json:"failed,omitempty"`
}

type restartedApps struct {
	Restarted        []app.ID `json:"restarted"`
	AlreadyOffline   []app.ID `json:"alreadyOffline"`
	AlreadyInProcess []app.ID `json:"alreadyInProcess"`
	Failed           []app.ID `json:"failed,omitempty"`
}

type stoppedApps struct {
	Stoped           []app.ID `json:"stoped"` // the hosted service's spelling, which most clients read
	Stopped          []app.ID `json:"stopped"`
	AlreadyOffline   []app.ID `json:"alreadyOffline"`
	AlreadyInProcess []app.ID `json:"alreadyInProcess"`
	Failed           []app.ID `json:"failed,omitempty"`
}

type removedApps struct {
	RemovedAll       []app.ID `json:"removealled"` // the hosted service's word
	AlreadyOffline   []app.ID `json:"alreadyOffline"`
	AlreadyInProcess []app.ID `json:"alreadyInProcess"`
	Failed           []app.ID `json:"failed,omitempty"`
}

func (s *server) start(c *call) (response, error) {
	snap, err := s.Control.Start(c.r.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	return ok(startAnswer{statusOK, c.tell(outcome(app.Textf("Your application was started"), snap, s.Now())), appStatus{
		Online:    snap.Running,
		RAMKilled: snap.RAMKilled(),
		ExitCode:  snap.ExitCode(),
	}})
}

func (s *server) restart(c *call) (response, error) {
	return onOne(c, s.Control.Restart, app.Textf("Your application was restarted."))
}

func (s *server) stop(c *call) (response, error) {
	return onOne(c, s.Control.Stop, app.Textf("Your application was stopped."))
}

// onOne runs an action that has nothing to tell but that it was done.
func onOne(c *call, do action, done app.Text) (response, error) {
	if err := do(c.r.Context(), c.owner(), c.id); err != nil {
		return response{}, err
	}
	return ok(plain{statusOK, c.tell(done)})
}

func (s *server) startAll(c *call) (response, error) {
	start := func(ctx context.Context, owner app.AccountID, id app.ID) error {
		_, err := s.Control.Start(ctx, owner, id)
		return err
	}
	return s.onAll(c, start, wereStarted, wereOnline, func(t tally) any {
		return startedApps{t.done, t.already, t.busy, t.failed}
	})
}

func (s *server) restartAll(c *call) (response, error) {
	return s.onAll(c, s.Control.Restart, wereRestarted, wereOffline, func(t tally) any {
		return restartedApps{t.done, t.already, t.busy, t.failed}
	})
}

func (s *server) stopAll(c *call) (response, error) {
	return s.onAll(c, s.Control.Stop, wereStopped, wereOfflineAlready, func(t tally) any {
		return stoppedApps{t.done, t.done, t.already, t.busy, t.failed}
	})
}

func (s *server) deleteAll(c *call) (response, error) {
	return s.onAll(c, s.Settings.Delete, wereDeleted, wereGone, func(t tally) any {
		return removedApps{t.done, t.already, t.busy, t.failed}
	})
}

// onAll runs one action on every application of the account. It fails only as
// a whole.
func (s *server) onAll(c *call, do action, done, already func(n int) app.Text, lists func(t tally) any) (response, error) {
	t := s.act(c, do)
	if len(t.done) == 0 && t.first != nil {
		return response{}, t.first
	}
	return ok(appsAnswer{statusOK, t.message(c, done, already), lists(t)})
}

// What became of n applications, and what the others were.
func wereStarted(n int) app.Text {
	return counted(n, "%d application was started", "%d applications were started")
}

func wereRestarted(n int) app.Text {
	return counted(n, "%d application was restarted", "%d applications were restarted")
}

func wereStopped(n int) app.Text {
	return counted(n, "%d application was stopped", "%d applications were stopped")
}

func wereDeleted(n int) app.Text {
	return counted(n, "%d application was deleted", "%d applications were deleted")
}

func wereOnline(n int) app.Text {
	return counted(n, "%d was online already", "%d were online already")
}

func wereOffline(n int) app.Text { return counted(n, "%d was offline", "%d were offline") }

func wereOfflineAlready(n int) app.Text {
	return counted(n, "%d was offline already", "%d were offline already")
}

func wereGone(n int) app.Text { return counted(n, "%d was gone already", "%d were gone already") }

// action is a method of Control.
type action = func(ctx context.Context, owner app.AccountID, id app.ID) error

// tally sorts applications by what came of an action.
type tally struct {
	done, already, busy, failed []app.ID
	reasons                     []string // why each of failed failed
	first                       error    // of the failures, in the order of the applications
}

// act runs one action on every application that is meant.
func (s *server) act(c *call, do action) tally {
	ctx := c.r.Context()
	meant := s.meant(c)
	results := each(ctx, meant, actors, func(snap app.Snapshot) (struct{}, error) {
		return struct{}{}, do(ctx, snap.Account, snap.ID)
	})
	parted(c, meant, results)
	t := tally{done: []app.ID{}, already: []app.ID{}, busy: []app.ID{}}
	for _, r := range results {
		s.count(c, &t, r.id, r.err)
	}
	return t
}

func (s *server) count(c *call, t *tally, id app.ID, err error) {
	switch {
	case err == nil:
		t.done = append(t.done, id)
	case app.KindOf(err) == app.Already:
		t.already = append(t.already, id)
	case app.KindOf(err) == app.Conflict:
		t.busy = append(t.busy, id)
	default:
		_, message, _ := s.explain(c, err)
		t.failed = append(t.failed, id)
		t.reasons = append(t.reasons, c.say("%s failed: %s", id, message))
		if t.first == nil {
			t.first = err
		}
	}
}

// message sums the lists up: "2 applications were started, 1 was offline. x failed: ...".
func (t tally) message(c *call, done, already func(n int) app.Text) string {
	if len(t.done)+len(t.already)+len(t.busy)+len(t.failed) == 0 {
		return c.say(noApplications)
	}
	parts := []string{c.tell(done(len(t.done)))}
	if n := len(t.already); n > 0 {
		parts = append(parts, c.tell(already(n)))
	}
	if n := len(t.busy); n > 0 {
		parts = append(parts, c.tell(counted(n, "%d was busy with another operation", "%d were busy with another operation")))
	}
	text := strings.Join(parts, ", ") + "."
	for _, reason := range t.reasons {
		text += " " + sentence(reason)
	}
	return text
}
