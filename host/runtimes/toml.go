package runtimes

import (
	"errors"

	"github.com/BurntSushi/toml"

	"berth/app"
)

// The parser goes one call deeper for each bracket and each part of a key, and
// a stack that is full would end the daemon.
const (
	tomlLimit = 64 << 10
	tomlDepth = 100
)

// readTOML reads a manifest; an absent one leaves into as it is.
func (p *project) readTOML(name string, into any) error {
	text, err := p.read(name)
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
