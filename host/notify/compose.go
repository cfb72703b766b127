package notify

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/app"
	"berth/app/text"
)

const (
	// named is how many notices of one message are told in a line each.
	named = 20
	// excerptLines is how many lines of a log are sent.
	excerptLines = 15
	// excerptTail is how much of a log is read for them, in bytes.
	excerptTail = 16 << 10
	// excerptLine is how much of one line is sent, in characters.
	excerptLine = 300
	// lateLines is how long after an exit the last lines of a program are stamped: they pass a
	// pipe.
	lateLines = 200 * time.Millisecond

	mb = 1 << 20
)

// item is one notice that is told, with what is known around it.
type item struct {
	notice  app.Notice
	held    int       // notices of the same topic that no message told of
	since   time.Time // the first of them
	app     app.Snapshot
	warned  *app.MemoryWarning // that the run had before it was killed
	advice  app.Text           // which RAM fits
	excerpt string
}

// compose makes the message of items, of which there is at least one, in a language: in full of
// one, else a list.
func compose(l text.Language, items []item, base string, now time.Time) app.Message {
	slices.SortStableFunc(items, func(a, b item) int { return int(about(b.notice.Kind).Severity - about(a.notice.Kind).Severity) })
	worst := items[0]
	m := app.Message{
		ID: "msg_" + rand.Text(), At: now, Kind: worst.notice.Kind, Severity: about(worst.notice.Kind).Severity,
		App: worst.notice.App, AppName: worst.app.Name, Title: title(l, worst), Count: len(items),
	}
	if several(items) {
		m.App, m.AppName = "", ""
		m.Title = l.Say("%d events, the first: %s", len(items), m.Title)
		for _, i := range items[:min(len(items), named)] {
			m.Lines = append(m.Lines, title(l, i))
		}
		m.Lines = append(m.Lines, others(l, items)...)
		m.Link = link(base, "/")
		return m
	}
	for n, i := range items[:min(len(items), named)] {
		if n > 0 {
			m.Lines = append(m.Lines, title(l, i))
		}
		m.Lines = append(m.Lines, lines(l, i, now)...)
		if m.Excerpt == "" {
			m.Excerpt = i.excerpt
		}
	}
	m.Lines = append(m.Lines, others(l, items)...)
	m.Link = link(base, "/")
	switch {
	case m.App != "":
		m.Link = link(base, "/apps/"+string(m.App))
	case m.Kind == app.NoticeSignIn, m.Kind == app.NoticeToken:
		m.Link = link(base, "/account")
	case about(m.Kind).Host:
		m.Link = link(base, "/host")
	}
	return m
}

// several reports whether items are not all about the same.
func several(items []item) bool {
	return slices.ContainsFunc(items, func(i item) bool { return i.notice.App != items[0].notice.App })
}

// others says how many items are not told in words.
func others(l text.Language, items []item) []string {
	if more := len(items) - named; more > 0 {
		return []string{l.Say("and %d more", more)}
	}
	return nil
}

// link is an address in the panel; "" where the host has not said where it is.
func link(base, path string) string {
	if base == "" {
		return ""
	}
	return base + path
}

// title says a notice in a line.
func title(l text.Language, i item) string {
	name, arg := i.app.Name, func(n int) string { return i.notice.Args[n] }
	switch i.notice.Kind {
	case app.NoticeCrashed, app.NoticeOutOfMemory:
		return l.Say("%s %v", name, i.notice.Happened.Exit.Ending())
	case app.NoticeMemoryHigh:
		return l.Say("%s needs %d %% of its RAM", name, i.notice.Happened.Memory.Level)
	case app.NoticeStartFailed:
		return l.Say("%s could not be started", name)
	case app.NoticeStartsSpent:
		return l.Say("berth has started %s too often and waits", name)
	case app.NoticeBackOnline:
		return l.Say("%s runs again", name)
	case app.NoticeDeployed:
		return l.Say("New code of %s was deployed", name)
	case app.NoticeDeployFailed:
		return l.Say("A deployment of %s failed", name)
	case app.NoticeNotListening:
		return l.Say("%s takes no visitors", name)
	case app.NoticeNotAnswering:
		return l.Say("%s does not answer", name)
	case app.NoticeDisk:
		return l.Say("%s was stopped: its disk space is used up", name)
	case app.NoticeHostDisk:
		return l.Say("The disk of this host is nearly full")
	case app.NoticeHostMemory:
		return l.Say("This host ran short of memory")
	case app.NoticeCertificate:
		return l.Say("The certificate of %s was not renewed", arg(0))
	case app.NoticeBackupFailed:
		if arg(0) == string(app.BackupRehearsed) {
			return l.Say("A rehearsal of this host's backup failed")
		}
		return l.Say("A backup of this host failed")
	case app.NoticeBackupIncomplete:
		return l.Say("The backup of this host lacks some applications")
	case app.NoticeBackupMissing:
		return l.Say("This host has no new backup")
	case app.NoticeBackupUnrehearsed:
		return l.Say("The backup of this host was not rehearsed")
	case app.NoticeBackupKey:
		return l.Say("Nobody was shown the key that opens this host's backups")
	case app.NoticeSignIn:
		return l.Say("Somebody signed in to your account with a new browser")
	case app.NoticeToken:
		return l.Say("A new API token was created: %s", arg(0))
	case app.NoticeUpgraded:
		return l.Say("This host runs berth %s now", arg(1))
	case app.NoticeRestarted:
		return l.Say("berth ended unexpectedly and runs again")
	case app.NoticeRebooted:
		return l.Say("This host was restarted")
	case app.NoticeTest:
		return l.Say("This channel works")
	}
	return string(i.notice.Kind)
}

// lines are what else is to be said of a notice: facts, and what comes next.
func lines(l text.Language, i item, now time.Time) []string {
	var said []string
	say := func(s string) { said = append(said, s) }
	if p := i.notice.Happened; p != nil {
		if e := p.Exit; e != nil {
			say(l.Say("It had run for %s.", lasted(e.Ran)))
			if e.PeakBytes > 0 && e.LimitMB > 0 {
				say(l.Say("At most it needed %d of %d MB.", e.PeakBytes/mb, e.LimitMB))
			}
		}
		if w := p.Memory; w != nil {
			say(l.Say("It needs %d of %d MB.", (w.HeldBytes+mb-1)/mb, w.LimitBytes/mb))
			if w.FullIn > 0 {
				say(l.Say("If it grows on like this, it is killed in %s.", lasted(w.FullIn)))
			}
		}
		if p.Text != "" {
			say(p.Text)
		}
	}
	if w := i.warned; w != nil && w.FullIn > 0 {
		say(l.Say("Before that it grew by %d MB a minute.", max(1, int64(float64(w.LimitBytes-w.HeldBytes)/w.FullIn.Minutes()/mb))))
	}
	if !i.advice.IsZero() {
		say(l.SayPhrase(i.advice))
	}
	switch i.notice.Kind {
	case app.NoticeSignIn:
		say(l.Say("With %s, from %s.", i.notice.Args[0], i.notice.Args[1]))
		say(l.Say("If that was not you, change your password and end that session in the panel."))
	case app.NoticeToken:
		say(l.Say("If that was not you, revoke it in the panel."))
	case app.NoticeUpgraded:
		say(l.Say("Before it was %s.", i.notice.Args[0]))
	case app.NoticeCertificate:
		say(i.notice.Args[1])
	case app.NoticeBackupFailed:
		say(i.notice.Args[1])
		say(l.Say("berth tries again by itself. berth backup status shows how it goes."))
	case app.NoticeBackupIncomplete:
		say(l.Say("It has no files of %s. The log of berth says why: journalctl -u berth", i.notice.Args[0]))
	case app.NoticeBackupMissing:
		if i.notice.Args[0] == "" {
			say(l.Say("None has been made yet. berth backup status shows why."))
		} else {
			say(l.Say("The last good one is of %s. berth backup status shows why.", i.notice.Args[0]))
		}
	case app.NoticeBackupUnrehearsed:
		if i.notice.Args[0] == "" {
			say(l.Say("Nobody knows yet whether it can be restored. berth backup rehearse finds out."))
		} else {
			say(l.Say("The last rehearsal was on %s. berth backup rehearse finds out whether the backup can be restored.", i.notice.Args[0]))
		}
	case app.NoticeBackupKey:
		say(l.Say("If you lose this machine, nobody can open them. sudo berth backup key prints the key; keep it in a safe place."))
	case app.NoticeHostDisk:
		say(l.Say("It has %s MB left. Uploads and builds are refused until its owner makes room.", i.notice.Args[0]))
	case app.NoticeHostMemory:
		said = append(said, shortage(l, i.notice.Args)...)
	case app.NoticeRestarted:
		say(l.Say("Programs kept running. The log may say why: journalctl -u berth"))
	case app.NoticeRebooted:
		say(l.Say("berth has started everything again that was online."))
	default:
	}
	if i.held > 0 {
		say(l.Count(i.held, "%d more event of this kind happened since %s.", "%d more events of this kind happened since %s.", i.held, clock(l, i.since)))
	}
	if about(i.notice.Kind).ends {
		say(next(l, i.app))
	}
	if i.notice.Kind == app.NoticeBackOnline {
		say(l.Say("It has run since %s.", clock(l, i.app.StartedAt)))
	}
	if now.Sub(i.notice.At) > time.Minute {
		say(l.Say("That was at %s.", clock(l, i.notice.At)))
	}
	return said
}

// shortage says which programs have grown most on a host that is short of memory.
func shortage(l text.Language, args []string) []string {
	said := []string{l.Say("It has %s of %s MB left. Builds and starts wait until that is over.", args[0], args[1])}
	for grown := range slices.Chunk(args[2:], 3) {
		said = append(said, l.Say("%s uses %s MB, and %s MB usually.", grown[0], grown[1], grown[2]))
	}
	return said
}

// next says how an application that had trouble is now.
func next(l text.Language, a app.Snapshot) string {
	switch {
	case a.Running && a.State != app.Stopping:
		return l.Say("It runs now.")
	case a.State == app.Starting, a.State == app.Preparing:
		return l.Say("It is being started again.")
	case a.State == app.Waiting && !a.RetryAt.IsZero():
		return l.Say("berth starts it again at %s (attempt %d).", clock(l, a.RetryAt), max(1, a.Attempt))
	case !a.AutoRestart:
		return l.Say("berth does not start it again by itself: AUTORESTART is off.")
	}
	return l.Say("It does not run.")
}

func clock(l text.Language, t time.Time) string { return l.Time(t.UTC()) + " UTC" }

// lasted is a duration for people.
func lasted(d time.Duration) string {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// excerpt is the end of a log as it may be sent: the lines up to a time, without their stamps,
// secrets and what no reader could see.
func excerpt(log string, until time.Time, hide secrets) string {
	var shown []string
	for line := range strings.Lines(log) {
		stamp, words, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		at, err := time.Parse(time.RFC3339, stamp)
		if !ok || err != nil {
			words = line
		} else if at.After(until) {
			break
		}
		shown = append(shown, app.Printable(words))
	}
	shown = strings.Split(hide.without(strings.Join(shown, "\n")), "\n")
	shown = shown[max(0, len(shown)-excerptLines):]
	for n, line := range shown {
		if runes := []rune(line); len(runes) > excerptLine {
			shown[n] = fmt.Sprint(string(runes[:excerptLine]), "…")
		}
	}
	return strings.TrimSpace(strings.Join(shown, "\n"))
}
