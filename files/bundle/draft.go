package bundle

import (
	"slices"
	"strings"

	"berth/app"
)

// OpenDraft opens the ZIP of a new application as Open does, but for its discloud.config: what is
// wrong with that is in the Draft, where the keys of fields take the place of its lines unless
// fields is nil. The caller MUST Close the archive.
func OpenDraft(path string, lim Limits, fields app.ConfigField) (*Archive, app.Draft, error) {
	a, err := open(path, &Archive{lim: lim.withDefaults(), loose: true})
	if err != nil {
		return nil, app.Draft{}, err
	}
	d := app.Draft{Bytes: a.Bytes, Found: a.Found}
	for _, e := range a.entries {
		if !e.dir {
			d.Files++
		}
	}
	text, err := a.configText()
	if err == nil && fields != nil {
		d.Text, d.Problems = editConfig(text, fields)
		_ = a.Close()
		a, err = open(path, &Archive{lim: lim.withDefaults(), config: &d.Text, loose: true}) // it says what is left out
	}
	if err != nil {
		if a != nil {
			_ = a.Close()
		}
		return nil, app.Draft{}, err
	}
	cfg, broken := parseLines(text)
	d.Fields = fieldsOf(text)
	for _, b := range broken {
		switch known := slices.Contains(app.ConfigFields, b.key); {
		case known && fields == nil:
			d.Problems = append(d.Problems, app.DraftProblem{Field: b.key, Text: b.want})
		case !known && len(d.Dropped) < maxDropped:
			d.Dropped = append(d.Dropped, app.Textf("%v", b.error))
		}
	}
	if fields != nil {
		d.Fields = fields
		cfg, broken = parseLines(d.Text)
		for _, b := range broken {
			d.Problems = append(d.Problems, app.DraftProblem{Field: b.key, Text: b.want})
		}
	}
	a.Config = cfg
	return a, d, nil
}

// maxDropped is how many lines that cannot be read are listed.
const maxDropped = 10

// configText is the text of the ZIP's own discloud.config, "" where there is none.
func (a *Archive) configText() (string, error) {
	i := a.find(ConfigName)
	if i < 0 || a.entries[i].zf == nil {
		return "", nil
	}
	return parsed(ConfigName, a.entries[i].zf, readConfig)
}

// fieldsOf returns what a config says of the keys of app.ConfigFields, whether that can be or not.
func fieldsOf(text string) app.ConfigField {
	fields := app.ConfigField{}
	for line := range strings.SplitSeq(text, "\n") {
		key, value := keyOf(line)
		if _, twice := fields[key]; !twice && slices.Contains(app.ConfigFields, key) {
			if key == "TYPE" || key == "AUTORESTART" { // whose case does not count
				value = strings.ToLower(value)
			}
			fields[key] = value
		}
	}
	return fields
}

// keyOf is the key of a line in capitals, and its value.
func keyOf(line string) (key, value string) {
	key, value, _ = strings.Cut(uncomment(strings.TrimSuffix(line, "\r")), "=")
	return strings.ToUpper(strings.TrimSpace(key)), strings.TrimSpace(value)
}

// editConfig returns a config that says fields, and keeps every other line that can be read.
// The text leaves out what no config can hold, and lists it.
func editConfig(text string, fields app.ConfigField) (string, []app.DraftProblem) {
	_, broken := parseLines(text)
	drop := map[int]bool{}
	for _, b := range broken {
		drop[b.line] = true
	}
	var lines []string
	var problems []app.DraftProblem
	for _, key := range app.ConfigFields {
		value := strings.TrimSpace(fields[key])
		switch {
		case value == "":
		case strings.ContainsAny(value, "#\r\n"):
			problems = append(problems, app.DraftProblem{Field: key, Text: app.Textf("must not hold # or the end of a line")})
		default:
			lines = append(lines, key+"="+value)
		}
	}
	n := 0
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		n++
		if key, _ := keyOf(line); !drop[n] && !slices.Contains(app.ConfigFields, key) {
			lines = append(lines, strings.TrimSuffix(line, "\r"))
		}
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n", problems
}
