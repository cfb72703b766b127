package runtimes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"berth/app"

	"github.com/BurntSushi/toml"
)

// manifestLimit is more than any manifest written by a person.
const manifestLimit = 1 << 20

// read returns the text of a manifest, "" when there is none.
func (s source) read(name string) (string, error) {
	if !s.files.Exists(name) {
		return "", nil
	}
	text, err := s.files.Read(name, manifestLimit+1)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", name, err)
	}
	if len(text) > manifestLimit {
		return "", app.Errorf(app.Unusable, "%s is larger than the %d MB that berth reads of it", name, manifestLimit>>20)
	}
	return string(bytes.TrimPrefix(text, []byte("\uFEFF"))), nil
}

// lockOf returns the lock file for the manifest there is, "" when there is
// none: a commit that brings the one without the other leaves an old one
// behind.
func (s source) lockOf(manifest string, locks ...string) string {
	for _, lock := range locks {
		if s.files.Brought(lock) || s.files.Exists(lock) && !s.files.Brought(manifest) {
			return lock
		}
	}
	return ""
}

// readJSON reads a manifest; an absent one leaves into as it is.
func (s source) readJSON(name string, into any) error {
	text, err := s.read(name)
	if err != nil || !s.files.Exists(name) {
		return err
	}
	err = json.Unmarshal([]byte(text), into)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := strings.Count(text[:min(int(syntax.Offset), len(text))], "\n") + 1
		return app.Errorf(app.Unusable, "%s is not valid JSON, line %d: %v", name, line, syntax)
	}
	if err != nil {
		return app.Errorf(app.Unusable, "%s is not a JSON object", name)
	}
	return nil
}

// The parser goes one call deeper for each bracket and each part of a key, and
// a stack that is full would end the daemon.
const (
	tomlLimit = 64 << 10
	tomlDepth = 100
)

// readTOML reads a manifest; an absent one leaves into as it is.
func (s source) readTOML(name string, into any) error {
	text, err := s.read(name)
	if err != nil {
		return err
	}
	if len(text) > tomlLimit || deep(text) {
		return app.Errorf(app.Unusable, "%s is larger or nested deeper than berth reads", name)
	}
	_, err = toml.Decode(text, into)
	if syntax, ok := errors.AsType[toml.ParseError](err); ok {
		return app.Errorf(app.Unusable, "%s is not valid TOML, line %d: %.200s", name, syntax.Position.Line, syntax.Message)
	}
	if err != nil {
		return app.Errorf(app.Unusable, "%s has values of the wrong kind: %.200v", name, err)
	}
	return nil
}

// deep reports whether brackets are nested, or keys made of parts, beyond what
// people write. It takes those in texts for real.
func deep(text string) bool {
	brackets, dots := 0, 0
	for _, c := range text {
		switch c {
		case '[', '{':
			brackets++
		case ']', '}':
			brackets = max(0, brackets-1)
		case '.':
			dots++
		case '\n':
			dots = 0
		}
		if brackets > tomlDepth || dots > 3*tomlDepth {
			return true
		}
	}
	return false
}
