package httpapi

import (
	"slices"
	"strings"

	"berth/app"
)

// need is what a route asks of a token with bounds. The zero value is unbounded, so that a
// route of which nobody has thought refuses such tokens.
type need struct {
	kind needKind
	may  app.Permission // of withPermission
}

type needKind int

const (
	withoutBounds  needKind = iota
	withPermission          // with the application, or with those of "all"
	withCover               // the application is within the bounds, whatever may be done with it
	withNothing             // the answer holds what is within the bounds, or there is no token
)

var (
	unbounded = need{}
	covered   = need{kind: withCover}
	listed    = need{kind: withNothing}
	open      = need{kind: withNothing} // of routes without a token
)

// may is the need of a permission with the application of the route.
func may(p app.Permission) need { return need{withPermission, p} }

// check refuses a call that the bounds of its token do not allow. Whether there is such an
// application is not said.
func (n need) check(c *call) error {
	b := c.token.Bounds
	if b == nil || n.kind == withNothing {
		return nil
	}
	if n.kind == withoutBounds {
		return app.Errorf(app.Forbidden, "This token may not do that: it was created for some applications only, with %s.", strings.Join(b.May.Names(), ", "))
	}
	if n.kind == withPermission && !b.May.Has(n.may) {
		return lacksPermission(n.may)
	}
	if id := app.ID(c.params.ByName("appID")); id != app.All && !b.Covers(id) {
		return outOfBounds()
	}
	return nil
}

func lacksPermission(p app.Permission) error {
	return app.Errorf(app.Forbidden, "This token may not do that: it was created without %s.", p.String())
}

func outOfBounds() error {
	return app.Errorf(app.Forbidden, "This token was created for other applications.")
}

// covered returns the applications that are within the bounds of the call's token.
func (c *call) covered(all []app.Snapshot) []app.Snapshot {
	if c.token.Bounds == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(s app.Snapshot) bool { return !c.token.Bounds.Covers(s.ID) })
}

// checkWatch refuses to follow what the bounds of the token do not show.
func checkWatch(c *call, w app.Watch) error {
	b := c.token.Bounds
	if b == nil {
		return nil
	}
	if w.App != app.All && !b.Covers(w.App) {
		return outOfBounds()
	}
	if w.Kinds.Has(app.LogEvent) && !b.May.Has(app.LogsApp) {
		return lacksPermission(app.LogsApp)
	}
	if w.Kinds&^app.LogEvent != 0 && !b.May.Has(app.StatusApp) {
		return lacksPermission(app.StatusApp)
	}
	return nil
}

// visible returns the events that are within the bounds of the call's token.
func (c *call) visible(events []app.Event) []app.Event {
	if c.token.Bounds == nil {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e app.Event) bool { return e.App != "" && !c.token.Bounds.Covers(e.App) })
}
