package diagnosis

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"berth/app"
)

// Help is something that an owner can do about a program that ended.
type Help string

// What helps. The order of a Diagnosis is that of how much.
const (
	Variables Help = "variables" // set environment variables
	Files     Help = "files"     // change a file
	Version   Help = "version"   // deploy new code
	RAM       Help = "ram"       // give it more RAM
)

// Diagnosis is what the lines of a run say of its end.
type Diagnosis struct {
	Line int      // the index of the line that says why, -1 for none
	Why  app.Text // and what to do; zero when no rule knows it
	Help []Help   // nil when no rule knows it
	File string   // the program's own file that the mistake is in, below its directory; "" when that is not known
	At   int      // the line of File; 0 when that is not known
}

const (
	// maxLines is how many lines are looked at, the last ones: a runtime says more of a crash than
	// one line.
	maxLines = 200
	// maxLine is how much of a line is looked at, in bytes.
	maxLine = 2000
	// maxName is how much of a name from a line is in a sentence, in bytes.
	maxName = 80
	// near is how many lines before its own a rule may look at.
	near = 4
)

// Of reads the lines of a run in the order in which they were printed, without their
// stamps and without escapes of terminals. id is the application's. Of two lines that say why, the later one is right: runtimes
// print what caused an error before it.
func Of(id app.ID, lines []string) Diagnosis {
	d := Diagnosis{Line: -1}
	first := max(len(lines)-maxLines, 0)
	cut := make([]string, 0, len(lines)-first)
	for _, line := range lines[first:] {
		cut = append(cut, strings.TrimRight(line[:min(len(line), maxLine)], " \r"))
	}
	for i, line := range slices.Backward(cut) {
		if r, m := ruleFor(cut, i); r != nil {
			d.Line, d.Help = i, r.help
			d.File, d.At = place(id, cut, i)
			d.Why = r.why(found{m, d.File, d.At})
			break
		}
		if d.Line < 0 && plain.MatchString(line) {
			d.Line = i
		}
	}
	if d.Line < 0 {
		d.Line = lastWord(cut)
	}
	if d.File == "" && d.Line >= 0 {
		d.File, d.At = place(id, cut, d.Line)
	}
	if d.Line >= 0 {
		d.Line += first
	}
	return d
}

// ruleFor returns the rule that knows the line i, and what it matched; nil for none.
func ruleFor(lines []string, i int) (*rule, []string) {
	for n := range rules {
		r := &rules[n]
		m := r.line.FindStringSubmatch(lines[i])
		if m == nil || r.before != nil && !slices.ContainsFunc(lines[max(i-near, 0):i], r.before.MatchString) ||
			r.after != nil && !slices.ContainsFunc(lines[i+1:min(i+1+near, len(lines))], r.after.MatchString) {
			continue
		}
		return r, m
	}
	return nil, nil
}

// plain is a line with which a runtime says that something went wrong, whatever that is.
var plain = regexp.MustCompile(`^(?:Uncaught )?[A-Za-z_$][\w$.]*` + // Node.js, Python
	`(?:Error|Exception|Rejection|Failure|Interrupt|Required)(?: \[\w+\])?(?::|$)` +
	`|^(?:PHP )?(?:Fatal|Parse) error: ` +
	`|^(?:panic|fatal error): ` + // Go
	`|^Exception in thread |^Error: |^Caused by: ` + // Java
	`|^thread '.{0,100}' panicked at ` + // Rust
	`|^\S+:\d+:in .{1,200} \(\w+\)$`) // Ruby

// lastWord is the last line that is no frame of a stack, -1 for none.
func lastWord(lines []string) int {
	for i, line := range slices.Backward(lines) {
		inset := line == "" || strings.ContainsAny(line[:1], " \t}")
		if !inset && !strings.HasPrefix(line, "Node.js v") && !strings.HasPrefix(line, "exit status ") {
			return i
		}
	}
	return -1
}

// frame is where a runtime says that something is: Node.js and Go (path:line), Python (File "path", line N), PHP
// (in path on line N, in path:line).
var frame = regexp.MustCompile(`apps/(\d+)/([^\s"':()]{1,200})(?::|", line | on line )(\d{1,7})`)

// place finds the program's own file in a line, in those before it, of which the nearest counts, and
// in those after it. Packages are not the program's own.
func place(id app.ID, lines []string, at int) (file string, line int) {
	look := func(text string) bool {
		for _, m := range frame.FindAllStringSubmatch(text, -1) {
			clean := path.Clean(m[2])
			if m[1] != string(id) || clean != m[2] || foreign.MatchString(clean) {
				continue
			}
			file = clean
			line, _ = strconv.Atoi(m[3]) // digits
			return true
		}
		return false
	}
	if look(lines[at]) {
		return file, line
	}
	for i := at - 1; i >= max(at-2*near, 0); i-- {
		if look(lines[i]) {
			return file, line
		}
	}
	for i := at + 1; i < min(at+5*near, len(lines)); i++ {
		if look(lines[i]) {
			return file, line
		}
	}
	return "", 0
}

// foreign are files of an application that its packages brought.
var foreign = regexp.MustCompile(`(?:^|/)(?:node_modules|vendor|site-packages|\.venv|venv|\.\.)/`)
