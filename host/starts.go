package host

import (
	"fmt"
	"time"

	"berth/app"
)

// day is what the budget of automatic starts is for.
const day = 24 * time.Hour

// healthyAfter returns how long a program must run before its crashes are counted anew: as
// long as berth has waited between its starts, and ten minutes. A bot that lives for a
// minute each time has not recovered.
func healthyAfter(waited time.Duration) time.Duration { return max(10*time.Minute, waited) }

// nextStart returns when berth may start an application by itself again that it has started
// at these times, oldest first: budget times in 24 hours, any number if budget is 0.
func nextStart(started []time.Time, budget int, now time.Time) time.Time {
	if budget == 0 || len(started) < budget {
		return now
	}
	if free := started[len(started)-budget].Add(day); free.After(now) {
		return free
	}
	return now
}

// noteStart remembers a start by berth alone. Snapshots have the times from before.
func (u *unit) noteStart(at time.Time) {
	recent := make([]time.Time, 0, len(u.starts)+1)
	for _, start := range u.starts {
		if at.Sub(start) < day {
			recent = append(recent, start)
		}
	}
	u.starts = append(recent, at)
}

// recovered forgets the crashes from before.
func (u *unit) recovered() { u.attempt, u.waited, u.spent = 0, 0, false }

// wait puts off the next automatic start, by pause at least.
func (u *unit) wait(why string, pause time.Duration) {
	now := time.Now()
	u.retryAt = now.Add(pause)
	if next := nextStart(u.starts, u.h.DailyStarts, now); next.After(u.retryAt) {
		u.retryAt = next
		u.spend(why)
	} else if pause == 0 {
		u.h.Logs.Note(u.id, why+"; restarting now")
	} else {
		u.h.Logs.Note(u.id, fmt.Sprintf("%s; restart %d follows in %s", why, u.attempt, lasted(pause)))
	}
	u.waited += u.retryAt.Sub(now)
	u.enter(app.Waiting, max(u.retryAt.Sub(now), 1))
}

// spend tells, once until the program has recovered, that the budget of starts is spent.
func (u *unit) spend(why string) {
	text := app.Textf("berth has started it %d times in 24 hours and waits until %s; you can start it at any time",
		len(u.starts), u.retryAt.UTC().Format("2006-01-02 15:04 UTC"))
	u.h.Logs.Note(u.id, why+"; "+text.String())
	if u.spent {
		return
	}
	u.spent = true
	u.logEvent(app.HistoryEvent{Kind: app.HistorySpent, Text: text.String()})
}

// startLater starts a program again that berth has ended itself, after the pause of a crash.
func (u *unit) startLater() {
	if u.state != app.Stopped || u.app.Wanted != app.WantOnline || u.deploy != nil || u.closing != stay || u.resting {
		return // something else has come between
	}
	u.attempt++
	u.wait("it did not answer", backoff(u.attempt))
}
