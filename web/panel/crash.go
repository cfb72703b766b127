package panel

import (
	"strings"

	"berth/app"
	"berth/app/diagnosis"
	"berth/app/text"
)

const (
	// crashTail is how much of a log is read for what a program printed last, in bytes.
	crashTail = 32 << 10
	// crashLines is how many lines of it are shown.
	crashLines = 15
	// crashLead is how many lines are shown before the likely one, where it is further up than that.
	crashLead = 2
	// saidLength is how much of a line is in a list, in characters.
	saidLength = 140
)

// crash is why a program ended, as far as its last lines tell, and what can be done.
type crash struct {
	Why   string // a sentence; "" when no rule knows the mistake
	Lines []crashLine
	Do    []link
	said  string
}

// crashLine is a line that the program printed. Likely is the one that says why it ended.
type crashLine struct {
	logLine
	Likely bool
}

// link is a button that leads somewhere.
type link struct {
	URL, Icon, Word string
	Main            bool // it is the one that helps most
}

// Said is the likely line, cut to fit a list; "" for none.
func (k *crash) Said() string {
	if k == nil {
		return ""
	}
	if all := []rune(k.said); len(all) > saidLength {
		return string(all[:saidLength-1]) + "…"
	}
	return k.said
}

// hasCrashed reports whether a program ended by itself with an error and does not run again.
func hasCrashed(a app.Snapshot) bool {
	e := a.LastExit
	return !a.Running && (a.State == app.Stopped || a.State == app.Waiting) && e != nil && !e.Asked && (e.Code != 0 || e.OOM)
}

// crashOf reads the last lines of an application that has crashed; nil when it has not, or when
// they are not for the person.
func crashOf(l text.Language, logs app.Logs, a app.Snapshot, can app.Permissions, own bool) *crash {
	if !hasCrashed(a) || !can.Has(app.LogsApp) {
		return nil
	}
	lines := lastRun(linesOf(logs.Tail(a.ID, false, crashTail)))
	plain := make([]string, len(lines))
	for i, line := range lines {
		plain[i] = line.plain()
	}
	d := diagnosis.Of(a.ID, plain)
	k := &crash{}
	if a.LastExit.OOM { // what berth knows goes before what the lines tell
		d = diagnosis.Diagnosis{Line: -1, Help: []diagnosis.Help{diagnosis.RAM, diagnosis.Files}}
	}
	if !d.Why.IsZero() {
		k.Why = l.SayPhrase(d.Why)
	}
	first := max(len(lines)-crashLines, 0)
	if d.Line >= 0 {
		k.said = strings.TrimSpace(plain[d.Line])
		first = min(first, max(d.Line-crashLead, 0))
	}
	for i, line := range lines[first:min(first+crashLines, len(lines))] {
		k.Lines = append(k.Lines, crashLine{line, first+i == d.Line})
	}
	k.Do = helpFor(l, a, d, can, own)
	return k
}

// lastRun are the lines that a program printed since its last start, without berth's own.
func lastRun(lines []logLine) []logLine {
	last := len(lines)
	for last > 0 && lines[last-1].Own {
		last--
	}
	first := last
	for first > 0 && !lines[first-1].Own {
		first--
	}
	return lines[first:last]
}

// plain is the line's text without colours.
func (l logLine) plain() string {
	var b strings.Builder
	for _, part := range l.Parts {
		b.WriteString(part.Text)
	}
	return b.String()
}

// helpFor are the buttons that help, those of the diagnosis first. Without one they are what helps most often.
func helpFor(l text.Language, a app.Snapshot, d diagnosis.Diagnosis, can app.Permissions, own bool) []link {
	at := "/apps/" + string(a.ID)
	help := d.Help
	known := help != nil
	if !known {
		help = []diagnosis.Help{diagnosis.Files, diagnosis.Variables, diagnosis.Version}
	}
	var all []link
	add := func(may bool, url, icon, word string) {
		if may {
			all = append(all, link{url, icon, word, known && len(all) == 0})
		}
	}
	for _, h := range help {
		switch h {
		case diagnosis.Variables:
			add(own, at+"/env", "key", l.Say("Set variables"))
		case diagnosis.Files:
			if d.File != "" && own {
				add(can.Has(app.BackupApp), at+"/files/view?"+query("path", d.File), "file", l.Say("Edit %s", visible(d.File)))
			} else {
				add(can.Has(app.BackupApp), at+"/files", "file", l.Say("Edit files"))
			}
		case diagnosis.Version:
			add(can.Has(app.CommitApp), at+"/commit", "upload", l.Say("New version"))
		case diagnosis.RAM:
			add(can.Has(app.EditRAM), at+"/settings", "up", l.Say("Raise RAM"))
		}
	}
	add(true, at+"/logs", "lines", l.Say("See the whole log"))
	return all
}
