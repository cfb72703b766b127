package notify

import (
	"time"

	"berth/app"
)

// distances are how long nothing is told about a topic after each message about it; the last
// one goes on.
var distances = []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

// healthy is how long a program must run before its owner is told that it is back.
const healthy = 10 * time.Minute

// distance is how long nothing is told after the last message of a trouble.
func distance(r app.Trouble) time.Duration {
	if r.Level == 0 {
		return 0
	}
	return distances[min(r.Level, len(distances))-1]
}

// hear notes a notice, and reports whether it is told now.
func hear(r app.Trouble, n app.Notice, now time.Time) (app.Trouble, bool) {
	if r.Level == 0 || forgotten(r, now) {
		r = app.Trouble{Account: n.Account, App: n.App, Topic: r.Topic, Since: n.At}
	}
	r.Last = n
	if now.Sub(r.Told) < distance(r) {
		r.Held++
		return r, false
	}
	return r, true
}

// due reports whether it is time to tell what was held back.
func due(r app.Trouble, now time.Time) bool { return r.Held > 0 && now.Sub(r.Told) >= distance(r) }

// afterTelling notes that a message says everything up to now; lasts says whether one must
// follow that tells the end.
func afterTelling(r app.Trouble, now time.Time, lasts bool) app.Trouble {
	r.Told, r.Held, r.Lasts = now, 0, lasts
	r.Level = min(r.Level+1, len(distances))
	return r
}

// forgotten reports whether nothing was heard of a trouble for so long that the next notice is
// a new one.
func forgotten(r app.Trouble, now time.Time) bool {
	last := r.Told
	if r.Last.At.After(last) {
		last = r.Last.At
	}
	return !r.Lasts && r.Held == 0 && now.Sub(last) >= distance(r)
}

// moments are how long berth waits for what happens at the same time before it makes the next
// message of an account: the first after a quiet minute comes soon, and no more than five in a
// minute.
var moments = []time.Duration{200 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond}

// quiet is how long nothing must be told to an account before its next message comes soon
// again.
const quiet = time.Minute

// rhythm is when the messages of one account are made.
type rhythm struct {
	at    time.Time // of the next one; zero while nothing waits
	last  time.Time // of the last one
	count int       // since it was quiet
}

// heard notes that something waits to be told, and returns when that is due.
func (r *rhythm) heard(now time.Time) time.Time {
	if !r.at.IsZero() {
		return r.at
	}
	if now.Sub(r.last) >= quiet {
		r.count = 0
	}
	wait := quiet
	if r.count < len(moments) {
		wait = moments[r.count]
	}
	r.at = now.Add(wait)
	return r.at
}

// told notes that a message was made.
func (r *rhythm) told(now time.Time) { r.at, r.last, r.count = time.Time{}, now, r.count+1 }
