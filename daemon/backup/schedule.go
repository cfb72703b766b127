package backup

import (
	"time"

	"berth/app"
)

// The pauses after tries that failed: the first one, and so on; the last one goes on.
var pauses = []time.Duration{15 * time.Minute, time.Hour, 4 * time.Hour}

// rehearsalPause is the pause after a rehearsal that failed.
const rehearsalPause = 24 * time.Hour

// clockSlip is how far in the future something may have begun: beyond it the clock was wrong then.
const clockSlip = time.Hour

// Due returns what is to be done next for the backup of a host, and when: not before now. A backup
// that was missed, because the host was off or a try failed, is made up at once, or after a pause that
// grows with failed, the number of tries in a row that came to nothing. Between backups
// the newest one is rehearsed. The location of now is that of the policy.
func Due(st app.BackupStatus, failed int, now time.Time) (kind app.BackupKind, at time.Time) {
	before := lastTime(st.Policy.At, now)
	good := st.Good
	if good != nil && good.Began.After(now.Add(clockSlip)) {
		good = nil
	}
	if good == nil || good.Began.Before(before) {
		at := now
		if st.Last != nil && failed > 0 {
			at = st.Last.Ended.Add(pauses[min(failed, len(pauses))-1])
		}
		return app.BackupMade, later(at, now)
	}
	next := lastTime(st.Policy.At, now.AddDate(0, 0, 1))
	if at = later(rehearsal(st, now), now); at.Before(next) {
		return app.BackupRehearsed, at
	}
	return app.BackupMade, next
}

// rehearsal is when a host with a good backup rehearses it.
func rehearsal(st app.BackupStatus, now time.Time) time.Time {
	switch last := st.Rehearsed; {
	case last == nil, last.Began.After(now.Add(clockSlip)):
		return now
	case !last.Good():
		return last.Ended.Add(rehearsalPause)
	default:
		return last.Began.Add(st.Policy.Rehearse)
	}
}

// lastTime returns the last moment, not after now, at which a clock there shows HH:MM. On a day
// that leaves it out, time.Date says which moment counts.
func lastTime(clock string, now time.Time) time.Time {
	at, _ := time.Parse("15:04", clock) // checked when it was set
	day := time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), 0, 0, now.Location())
	if day.After(now) {
		day = time.Date(now.Year(), now.Month(), now.Day()-1, at.Hour(), at.Minute(), 0, 0, now.Location())
	}
	return day
}

// later is the later one of two moments, or now when at is far in the future: the clock was wrong
// when that was made of it.
func later(at, now time.Time) time.Time {
	if at.Before(now) || at.After(now.Add(400*24*time.Hour)) {
		return now
	}
	return at
}

// Failures counts the tries of a kind that came to nothing since the last good one. runs are newest first.
func Failures(runs []app.BackupRun, kind app.BackupKind) int {
	n := 0
	for _, r := range runs {
		if r.Kind != kind || r.Ended.IsZero() {
			continue
		}
		if r.Good() {
			break
		}
		n++
	}
	return n
}
