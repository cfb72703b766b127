package httpapi

import (
	"context"
	"slices"
	"strings"
	"time"

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
	snap, err := s.Applications.Start(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	if now, err := s.Applications.Outcome(c.Request.Context(), c.owner(), c.id); err == nil { // else it is gone: it was started
		snap = now
	}
	return ok(startAnswer{statusOK, c.tell(outcome(app.Textf("Your application was started"), snap, s.Now())), appStatus{
		Online:    snap.Running,
		RAMKilled: snap.RAMKilled(),
		ExitCode:  snap.ExitCode(),
	}})
}

func (s *server) restart(c *call) (response, error) {
	if err := s.Applications.Restart(c.Request.Context(), c.owner(), c.id); err != nil {
		return response{}, err
	}
	done := app.Textf("Your application was restarted")
	if snap, err := s.Applications.Outcome(c.Request.Context(), c.owner(), c.id); err == nil {
		return ok(plain{statusOK, c.tell(outcome(done, snap, s.Now()))})
	}
	return ok(plain{statusOK, c.tell(app.Textf("%v.", done))}) // it is gone: it was restarted
}

func (s *server) stop(c *call) (response, error) {
	return onOne(c, s.Applications.Stop, app.Textf("Your application was stopped."))
}

// onOne runs an action that has nothing to tell but that it was done.
func onOne(c *call, do action, done app.Text) (response, error) {
	if err := do(c.Request.Context(), c.owner(), c.id); err != nil {
		return response{}, err
	}
	return ok(plain{statusOK, c.tell(done)})
}

func (s *server) startAll(c *call) (response, error) {
	start := func(ctx context.Context, owner app.AccountID, id app.ID) error {
		_, err := s.Applications.Start(ctx, owner, id)
		return err
	}
	t := s.actAndWatch(c, start)
	return t.answer(c, wereStarted, wereOnline, startedApps{t.done, t.already, t.busy, t.failed})
}

func (s *server) restartAll(c *call) (response, error) {
	t := s.actAndWatch(c, s.Applications.Restart)
	return t.answer(c, wereRestarted, wereOffline, restartedApps{t.done, t.already, t.busy, t.failed})
}

func (s *server) stopAll(c *call) (response, error) {
	t := s.act(c, s.Applications.Stop)
	return t.answer(c, wereStopped, wereOfflineAlready, stoppedApps{t.done, t.done, t.already, t.busy, t.failed})
}

func (s *server) deleteAll(c *call) (response, error) {
	t := s.act(c, s.Settings.Delete)
	return t.answer(c, wereDeleted, wereGone, removedApps{t.done, t.already, t.busy, t.failed})
}

// answer is the answer of an action on every application of the account, with its
// lists. It fails only as a whole.
func (t tally) answer(c *call, done, already func(n int) app.Text, lists any) (response, error) {
	if len(t.done) == 0 && !t.watched && t.first != nil {
		return response{}, t.first
	}
	return ok(appsAnswer{statusOK, t.message(c, done, already), lists})
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
	watched                     bool     // something was started, whatever has become of it
}

// act runs one action on every application that is meant.
func (s *server) act(c *call, do action) tally {
	ctx := c.Request.Context()
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

const (
	// watchAll bounds the answer of a start or restart of all, and watchLast is how
	// long at least the last program is watched where the starts alone took as long.
	watchAll  = 2800 * time.Millisecond
	watchLast = 1200 * time.Millisecond
)

// actAndWatch is act for starts: programs that have ended once they have been
// watched are among those that failed.
func (s *server) actAndWatch(c *call, do action) tally {
	begun := time.Now()
	t := s.act(c, do)
	ctx, cancel := context.WithTimeout(c.Request.Context(), max(watchAll-time.Since(begun), watchLast))
	defer cancel()
	var started []app.Snapshot
	for _, snap := range s.meant(c) {
		if slices.Contains(t.done, snap.ID) {
			started = append(started, snap)
		}
	}
	results := each(ctx, started, len(started), func(snap app.Snapshot) (app.Snapshot, error) {
		return s.Applications.Outcome(ctx, snap.Account, snap.ID)
	})
	t.watched = len(started) > 0
	for _, r := range results {
		now := r.value
		if r.err != nil || now.Running || now.LastExit == nil || now.LastExit.Asked {
			continue
		}
		t.done = slices.DeleteFunc(t.done, func(id app.ID) bool { return id == r.id })
		t.failed = append(t.failed, r.id)
		t.reasons = append(t.reasons, c.say("%s failed: it %v", r.id, ending(*now.LastExit)))
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
