package panel

import (
	"math"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/app/text"
)

// size writes bytes in the largest fitting unit of 1024: "0 B", "12.3 MB", "2 GB".
func size(l text.Language, bytes int64) string {
	units := [...]string{"B", "KB", "MB", "GB", "TB"}
	v, unit := float64(bytes), 0
	for unit < len(units)-1 && math.Round(v*10)/10 >= 1024 {
		v /= 1024
		unit++
	}
	decimals := 1
	if unit == 0 || v >= 100 || math.Round(v*10) == math.Round(v)*10 {
		decimals = 0
	}
	return l.Number(v, decimals) + " " + units[unit]
}

// grouped writes a whole number with marks between its thousands.
func grouped(l text.Language, n uint64) string {
	s := strconv.FormatUint(n, 10)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	if l == (text.Language{}) {
		return s
	}
	return strings.ReplaceAll(s, ",", ".")
}

// span writes the largest unit of d, and the next below it while it matters.
func span(l text.Language, d time.Duration) string {
	seconds := int64(max(d, 0) / time.Second)
	days, hours, minutes := seconds/86400, seconds/3600%24, seconds/60%60
	switch {
	case days > 9 || days > 0 && hours == 0:
		return l.Count(int(days), "%d day", "%d days", days)
	case days > 0:
		return l.Say("%d d %d h", days, hours)
	case hours > 0 && minutes > 0:
		return l.Say("%d h %d min", hours, minutes)
	case hours > 0:
		return l.Say("%d h", hours)
	case minutes > 0:
		return l.Say("%d min", minutes)
	}
	return l.Say("%d s", seconds)
}

// ago says how long ago something was.
func ago(l text.Language, d time.Duration) string {
	if d < time.Minute {
		return l.Say("just now")
	}
	return l.Say("%s ago", span(l, d))
}

// clock writes the time of day of a moment, and the day too when that is not clear.
func clock(l text.Language, t time.Time, since time.Duration) string {
	if since < 12*time.Hour {
		return t.UTC().Format("15:04")
	}
	return l.Time(t.UTC())
}

// standing is how something is, for people: a word with an icon and a class of
// panel.css, and what explains it.
type standing struct {
	Class  string // "good", "busy", "bad" or "off"
	Icon   string
	Word   string
	Detail string // "" when the word says everything
}

// rank puts problems first.
func (s standing) rank() int { return strings.Index("bad  busy good off", s.Class) }

// standingOf explains a snapshot.
func standingOf(l text.Language, a app.Snapshot) standing {
	e := a.LastExit
	switch a.State {
	case app.Waiting:
		return standing{"bad", "warning", l.Say("Restarting"), l.Say("%s. It restarts in %s (attempt %d).",
			ending(l, e), span(l, max(time.Until(a.RetryAt), time.Second)), max(1, a.Attempt))}
	case app.Preparing:
		s := standing{"busy", "clock", l.Say("Deploying"), ""}
		if a.Position > 0 {
			s.Detail = l.Say("It waits to be built: it is number %d in the queue.", a.Position)
		}
		return s
	case app.Starting:
		return standing{"busy", "clock", l.Say("Starting"), ""}
	case app.Stopping:
		return standing{"busy", "clock", l.Say("Stopping"), ""}
	case app.Online:
		if !a.Stale.IsZero() {
			return standing{"busy", "warning", l.Say("Not heard of"), sentence(l.Say("It was online when this host heard of it last: %s", l.SayPhrase(a.Stale)))}
		}
		switch a.Reachable() {
		case app.SiteStarting:
			return standing{"busy", "clock", l.Say("Starting"), l.Say("It runs, and has opened no port for visitors yet.")}
		case app.SiteSilent:
			return standing{"bad", "warning", l.Say("Not listening"), sentence(l.SayPhrase(a.Why))}
		case app.SiteUnwell:
			return standing{"bad", "warning", l.Say("Not answering"), sentence(l.SayPhrase(a.Why))}
		case app.SiteReached, app.SiteOffline: // nor a bot
		}
		return standing{"good", "check", l.Say("Online"), ""}
	case app.Stopped:
	}
	switch {
	case a.Suspended:
		return standing{"off", "pause", l.Say("Suspended"), l.Say("Its account is suspended, so it does not start.")}
	case a.RAMKilled():
		return standing{"bad", "warning", l.Say("Out of memory"), ending(l, e) + "."}
	case e == nil || e.Asked:
		return standing{"off", "pause", l.Say("Stopped"), ""}
	case e.Code != 0:
		return standing{"bad", "cross", l.Say("Crashed"), ending(l, e) + "."}
	}
	return standing{"off", "pause", l.Say("Ended"), ending(l, e) + "."}
}

// ending is how a run ended, without a full stop; nil is one that did not begin.
func ending(l text.Language, e *app.Exit) string {
	switch {
	case e == nil:
		return l.Say("It could not be started")
	case e.OOM && e.LimitMB > 0:
		return l.Say("It needed more than its %d MB of RAM", e.LimitMB)
	case e.OOM:
		return l.Say("It needed more than its RAM")
	case e.HostOOM && !e.Asked:
		return l.Say("It was killed because the host ran short of memory, not for its own %d MB", e.LimitMB)
	case e.Asked:
		return l.Say("It was stopped")
	case e.HeapFull != app.NoHeap && e.HeapMB > 0:
		return l.Say("Its %s heap was full, %d of %d MB", e.HeapFull, e.HeapMB, e.LimitMB)
	case e.HeapFull != app.NoHeap:
		return l.Say("Its %s heap was full; it had %d MB of RAM", e.HeapFull, e.LimitMB)
	case e.Signal > 0:
		return l.Say("It ended with code %d (signal %d)", e.Code, e.Signal)
	case e.Code == app.UnknownCode:
		return l.Say("It ended, and berth did not see how")
	case e.Code == 0:
		return l.Say("It ended by itself, without an error")
	}
	return l.Say("It ended with code %d", e.Code)
}

// endingStanding is how a run ended, and after how long.
func endingStanding(l text.Language, e *app.Exit) standing {
	s := standing{"bad", "cross", ending(l, e), l.Say("after %s", span(l, e.Ran))}
	switch {
	case e.OOM:
		s.Icon = "warning"
		if e.PeakBytes > 0 {
			s.Detail = l.Say("peak %s, after %s", size(l, e.PeakBytes), span(l, e.Ran))
		}
	case e.Asked, e.Code == 0:
		s.Class, s.Icon = "off", "pause"
	}
	return s
}

// warningStanding is that a program needs nearly all of its RAM.
func warningStanding(l text.Language, w *app.MemoryWarning) standing {
	s := standing{"busy", "warning", l.Say("Its RAM was %d %% full", w.Level), l.Say("it needed %s of %s", size(l, w.HeldBytes), size(l, w.LimitBytes))}
	if w.FullIn > 0 {
		s.Detail = l.Say("it needed %s of %s, and would have needed all in %s", size(l, w.HeldBytes), size(l, w.LimitBytes), span(l, w.FullIn))
	}
	return s
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
	return l.Say("New code was deployed")
}

// levelWord says how serious a line of a log is.
func levelWord(l text.Language, of level) string {
	switch of {
	case debugLevel:
		return l.Say("debug")
	case infoLevel:
		return l.Say("info")
	case warnLevel:
		return l.Say("warning")
	case errorLevel:
		return l.Say("error")
	case noLevel, ownLevel:
	}
	return ""
}

// permissionWord is what a permission lets somebody do.
func permissionWord(l text.Language, name string) string {
	switch p, _ := app.ParsePermission(name); p {
	case app.StartApp:
		return l.Say("start")
	case app.StopApp:
		return l.Say("stop")
	case app.RestartApp:
		return l.Say("restart")
	case app.LogsApp:
		return l.Say("read the log")
	case app.CommitApp:
		return l.Say("deploy new versions")
	case app.EditRAM:
		return l.Say("set the RAM")
	case app.BackupApp:
		return l.Say("make backups and read files")
	case app.StatusApp:
		return l.Say("see state and usage")
	}
	return name
}

func failureWord(l text.Language, k app.DeployKind) string {
	switch k {
	case app.DeployRestore:
		return l.Say("A backup could not be restored; the application keeps its code")
	case app.DeployRollback:
		return l.Say("Earlier code could not be brought back; the application keeps its code")
	case app.DeployUpload, app.DeployCommit:
	}
	return l.Say("New code could not be deployed; the application keeps its code")
}

// browserWord is what a browser calls itself, as people know it.
func browserWord(l text.Language, ua string) string {
	switch browser, system := app.BrowserOf(ua); {
	case browser != "" && system != "":
		return l.Say("%s on %s", browser, system)
	case browser+system != "":
		return browser + system
	case ua == "":
		return l.Say("A browser without a name")
	case len(ua) > 40:
		return strings.ToValidUTF8(ua[:40], "") + "…"
	}
	return ua
}

// localeWord is what a language calls itself.
func localeWord(locale string) string {
	switch locale {
	case "pt-BR":
		return "Português (Brasil)"
	case "es":
		return "Español"
	case "en-US":
		return "English"
	}
	return locale
}

// roomWord is whether the host's RAM would be enough.
func roomWord(l text.Language, v app.RAMVerdict) string {
	switch v {
	case app.RAMFits:
		return l.Say("fits")
	case app.RAMTight:
		return l.Say("tight")
	case app.RAMShort:
		return l.Say("too much")
	case app.RAMUnknown:
	}
	return ""
}
