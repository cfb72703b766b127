package lang

import (
	"errors"

	"github.com/BurntSushi/toml"

	"berth/app"
)

// readTOML reads a manifest; an absent one leaves into as it is.
func (p *project) readTOML(name string, into any) error {
	text, err := p.read(name)
	if err != nil {
		return err
	}
	_, err = toml.Decode(text, into)
	if syntax, ok := errors.AsType[toml.ParseError](err); ok {
		return app.Errorf(app.Unusable, "%s is not valid TOML, line %d: %s", name, syntax.Position.Line, syntax.Message)
	}
	if err != nil {
		return app.Errorf(app.Unusable, "%s has values of the wrong kind: %v", name, err)
	}
	return nil
}
