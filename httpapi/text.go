package httpapi

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"berth/app"
)

// number writes f with at most one decimal and no ".0": "1.5", "12", "0".
func number(f float64) string {
	if !(f > 0) || math.IsInf(f, 0) { // NaN is not above 0 either
		return "0"
	}
	return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64)
}

// size writes bytes in the largest fitting unit of 1024: "0B", "12.3MB", "2GB".
func size(bytes int64) string {
	units := [...]string{"B", "KB", "MB", "GB"}
	v, unit := float64(bytes), 0
	// What would be written as 1024 belongs to the next unit.
	for unit < len(units)-1 && math.Round(v*10)/10 >= 1024 {
		v /= 1024
		unit++
	}
	return number(v) + units[unit]
}

// memory writes use and limit in the same unit, because clients divide the two
// numbers and ignore the units.
func memory(used, limit int64) string {
	const mb = 1 << 20
	return number(float64(used)/mb) + "MB/" + number(float64(limit)/mb) + "MB"
}

func percent(f float64) string { return number(f) + "%" }

// elapsed writes the two largest units of d: "1d 4h", "2h 3m", "2h", "5s".
func elapsed(d time.Duration) string {
	seconds := int64(max(d, 0) / time.Second)
	units := [...]struct {
		name   string
		length int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}
	var parts []string
	for _, u := range units {
		begun := len(parts) > 0
		if n := seconds / u.length; n > 0 {
			parts = append(parts, strconv.FormatInt(n, 10)+u.name)
		}
		if begun {
			break
		}
		seconds %= u.length
	}
	return cmp.Or(strings.Join(parts, " "), "0s")
}

// until writes the time from now to t, rounded up so that it never says 0s too early.
func until(t, now time.Time) string {
	return elapsed(t.Sub(now) + time.Second - 1)
}

// since writes the time since the last start.
func since(t, now time.Time) string {
	if t.IsZero() {
		return "never started"
	}
	return elapsed(now.Sub(t))
}

// timestamp writes ISO 8601 in UTC with milliseconds, "" for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// container names the state. Clients compare only "Online".
func container(s app.Snapshot, now time.Time) string {
	if s.Running {
		return "Online"
	}
	switch s.State {
	case app.Waiting:
		return "Restarting in " + until(s.RetryAt, now)
	case app.Starting:
		return "Starting"
	case app.Stopping:
		return "Stopping"
	case app.Preparing:
		if s.Position > 0 {
			return fmt.Sprintf("Waiting to be built (number %d)", s.Position)
		}
		return "Preparing"
	case app.Online, app.Stopped:
	}
	return "Offline"
}

// standing is the message of an application's information: it explains what
// the fields alone do not.
func standing(s app.Snapshot, now time.Time) app.Text {
	switch {
	case !s.Stale.IsZero():
		return app.Textf("Your application was online when this host heard of it last: %v.", s.Stale)
	case s.Position > 0 && s.Running:
		return app.Textf("Your application is online. Its new code waits to be built: it is number %d in the queue.", s.Position)
	case s.Position > 0:
		return app.Textf("Your application waits to be built: it is number %d in the queue.", s.Position)
	case s.Silent, s.Unwell:
		return app.Textf("Your site is online, but %v.", s.Why)
	case s.State == app.Starting && !s.Running:
		return app.Textf("Your application waits for its turn to be started: the server was started a moment ago.")
	case s.State == app.Waiting && s.LastExit != nil:
		return app.Textf("Your application %s. It restarts in %s (attempt %d).",
			s.LastExit.Ending(), until(s.RetryAt, now), max(1, s.Attempt))
	case s.State == app.Waiting:
		return app.Textf("Your application could not be started yet, as its log explains. It is tried again in %s (attempt %d).", until(s.RetryAt, now), max(1, s.Attempt))
	case s.State == app.Stopped && !s.Running && s.RAMKilled():
		return app.Textf("Your application %s. Raise its RAM and start it again.", s.LastExit.Ending())
	default:
		return app.Textf("The information of your application has been loaded.")
	}
}

// outcome is the message after something that should leave the application
// running: done, then how it stands.
func outcome(done app.Text, s app.Snapshot, now time.Time) app.Text {
	switch {
	case s.Running:
		return app.Textf("%v.", done)
	case s.State == app.Waiting && s.LastExit != nil:
		return app.Textf("%s, but it %s. It restarts in %s (attempt %d).",
			done, s.LastExit.Ending(), until(s.RetryAt, now), max(1, s.Attempt))
	case s.LastExit != nil && (s.State == app.Stopped || s.State == app.Preparing && !s.LastExit.Asked):
		// A commit that answers is still a deployment under way.
		return app.Textf("%s, but it %s.", done, s.LastExit.Ending())
	case s.State == app.Stopped:
		return app.Textf("%v. It is not online.", done)
	default:
		return app.Textf("%v. It is not online yet.", done)
	}
}

// quotedName is a name of a stranger's as an answer repeats it: not all of one that
// fills the body, nor what follows a "=", which was meant to be a value.
func quotedName(name string) string {
	name, _, _ = strings.Cut(name, "=")
	return fmt.Sprintf("%.64q", name)
}

const noApplications = "You have no applications."

// counted is one or many, with the number n that both write.
func counted(n int, one, many string) app.Text {
	if n == 1 {
		return app.Textf(one, n)
	}
	return app.Textf(many, n)
}

// sentence ends s with a full stop, unless it ends a sentence already.
func sentence(s string) string {
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}
