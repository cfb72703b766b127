package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"berth/app"
	"berth/web"
)

const (
	maxFields  = 64 << 10 // bytes of a JSON body
	maxCommand = 8 << 10  // of a console command
)

// blame turns an error met while parsing a body into what the client did wrong;
// what says it when nothing more is known.
func blame(b *web.Body, err error, what app.Text) error {
	fault, err := b.Fault(err)
	switch fault {
	case web.Cut:
		return err
	case web.TooLarge:
		return tooLargeError(b.Limit())
	case web.Slow:
		what = tooSlow(b.Limit())
	case web.Silent:
		what = app.Textf("No data came for %s, so the request was given up.", elapsed(web.Patience))
	case web.Malformed:
	}
	return &app.Error{Kind: app.Invalid, Err: err, Message: what}
}

func tooSlow(limit int64) app.Text {
	return app.Textf("The body did not come within %s, so the request was given up.", elapsed(web.Longest(limit)))
}

func tooLargeError(limit int64) error {
	if limit >= 1<<20 {
		limit = limit >> 20 << 20 // what is around the file is not the user's to count
	}
	return app.Errorf(app.TooLarge, "The body of the request is larger than the %s that are allowed.", size(limit))
}

// fields are the members of a JSON object, by their exact names. Reading a member that
// is not as it must be sets err, the first time, and yields nothing.
type fields struct {
	members map[string]json.RawMessage
	err     error
}

// fields reads a JSON object. Unknown members are the caller's to ignore.
func (c *call) fields() *fields { return c.fieldsWithin(maxFields) }

// fieldsWithin is fields for a body of at most limit bytes.
func (c *call) fieldsWithin(limit int64) *fields {
	members, err := c.members(limit)
	return &fields{members, err}
}

func (c *call) members(limit int64) (map[string]json.RawMessage, error) {
	if !acceptsJSON(c.Request.Header.Get("Content-Type")) {
		return nil, app.Errorf(app.Invalid, "Send JSON, with the header Content-Type: application/json.")
	}
	b := c.Body(limit)
	defer b.Done()
	text, err := io.ReadAll(b)
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // which editors of Windows write
	switch {
	case err != nil:
		return nil, blame(b, err, app.Textf("The body of the request ended early."))
	case len(bytes.TrimSpace(text)) == 0:
		return nil, app.Errorf(app.Invalid, "The request has no body. Send a JSON object.")
	case !utf8.Valid(text):
		return nil, app.Errorf(app.Invalid, "The body is not valid JSON: it is not UTF-8.")
	}
	return parseObject(text)
}

// acceptsJSON reports whether a body of this type may be JSON. Some clients
// send none.
func acceptsJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}

// parseObject takes exactly one object, without duplicate names: two readers of
// such a body could see two different requests.
func parseObject(text []byte) (map[string]json.RawMessage, error) {
	malformed := func(err error) error {
		return &app.Error{Kind: app.Invalid, Err: err, Message: app.Textf("The body is not valid JSON.")}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	switch first, err := d.Token(); {
	case err != nil:
		return nil, malformed(err)
	case first != json.Delim('{'):
		return nil, app.Errorf(app.Invalid, "The body must be a JSON object.")
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, malformed(err)
		}
		key, _ := name.(string) // the decoder refuses other names
		if _, twice := members[key]; twice {
			return nil, app.Errorf(app.Invalid, "The field %s appears twice.", quotedName(key))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, malformed(err)
		}
		members[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, malformed(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, app.Errorf(app.Invalid, "The body holds more than one JSON value.")
	}
	return members, nil
}

// has reports whether a field is there and not null.
func (f *fields) has(name string) bool {
	value, there := f.members[name]
	return there && string(value) != "null"
}

// wrong remembers what is wrong with the fields.
func (f *fields) wrong(format string, args ...any) {
	if f.err == nil {
		f.err = app.Errorf(app.Invalid, format, args...)
	}
}

// integer returns a required whole number.
func (f *fields) integer(name string) (n int64) {
	if !f.has(name) {
		f.wrong("The field %s is missing. It must be a whole number.", name)
	} else if json.Unmarshal(f.members[name], &n) != nil {
		f.wrong("The field %s must be a whole number.", name)
	}
	return n
}

// boolean returns a required true or false.
func (f *fields) boolean(name string) (b bool) {
	if !f.has(name) || json.Unmarshal(f.members[name], &b) != nil {
		f.wrong("The field %s must be true or false.", name)
	}
	return b
}

// text returns an optional string, nil when it is absent or null.
func (f *fields) text(name string) *string {
	var s *string
	if f.has(name) && json.Unmarshal(f.members[name], &s) != nil {
		f.wrong("The field %s must be a text.", name)
	}
	return s
}

// texts returns a required array of strings.
func (f *fields) texts(name string) []string {
	list := []*string{} // null is no string
	if json.Unmarshal(f.members[name], &list) != nil || !f.has(name) || slices.Contains(list, nil) {
		f.wrong("The field %s must be an array of texts.", name)
		return nil
	}
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = *s
	}
	return texts
}

// variables returns the field env: a text sets the variable of that name, null
// removes it. An error repeats no value, and has no cause that might.
func (f *fields) variables() map[string]*string {
	if !f.has("env") || !bytes.HasPrefix(f.members["env"], []byte("{")) {
		f.wrong(`The field env must be an object of names and values, such as {"NAME":"value"}.`)
		return nil
	}
	members, err := parseObject(f.members["env"])
	if err != nil {
		f.err = err
	}
	change := make(map[string]*string, len(members))
	for name, value := range members {
		var text *string // stays nil for null
		if json.Unmarshal(value, &text) != nil {
			f.wrong("The value of the variable %s must be a text or null.", quotedName(name))
		}
		change[name] = text
	}
	return change
}

// command returns the field command as it is: it is the shell's to judge.
func (f *fields) command() string {
	command := f.text("command")
	switch {
	case command == nil, strings.TrimSpace(*command) == "":
		f.wrong("The field command is missing or empty. Send a shell command.")
		return ""
	case len(*command) > maxCommand:
		f.wrong("The command is too long: it has %d bytes, and %d are allowed. Put it into a script and commit that.", len(*command), maxCommand)
	case strings.Contains(*command, "\x00"):
		f.wrong("The command holds a NUL character, which no command can.")
	}
	return *command
}

// profile takes either field alone, as some clients send only what changed.
func (f *fields) profile() app.Profile {
	p := app.Profile{Name: f.text("name"), AvatarURL: f.text("avatarURL")}
	if p.Name == nil && p.AvatarURL == nil {
		f.wrong("Send the field name, the field avatarURL or both.")
	}
	if p.Name != nil {
		if *p.Name = strings.TrimSpace(*p.Name); !app.ValidName(*p.Name) {
			f.wrong("The field name must have 1 to %d characters and no control characters.", app.MaxName)
		}
	}
	if p.AvatarURL != nil {
		if *p.AvatarURL = strings.TrimSpace(*p.AvatarURL); !app.ValidAvatar(*p.AvatarURL) {
			f.wrong("The field avatarURL must be an http or https address of at most %d characters, or empty.", app.MaxAvatarURL)
		}
	}
	return p
}

// modID returns the account that a body names, by a text or a number.
func (f *fields) modID() app.AccountID {
	text := string(f.members["modID"])
	var unquoted string
	if json.Unmarshal(f.members["modID"], &unquoted) == nil {
		text = unquoted
	}
	id, known := accountID(text)
	if !known {
		f.wrong(`The field modID must be the number of an account, such as "42".`)
	}
	return id
}

// appID returns a required application's ID: NotFound when it can be none.
func (f *fields) appID(name string) app.ID {
	text := f.text(name)
	switch {
	case f.err != nil:
	case text == nil:
		f.wrong("The field %s is missing. It must be the ID of one of your applications.", name)
	case !app.ValidID(*text):
		f.err = errNoApp
	default:
		return app.ID(*text)
	}
	return ""
}
