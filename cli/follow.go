package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"berth/client"
)

// errEnough ends a stream of events that has brought what was asked for.
var errEnough = errors.New("that is all")

// maxLost is how often a stream that has an end is sought again, one after the other.
const maxLost = 5

// following is a stream of events, over lost connections, restarts and upgrades of berth.
type following struct {
	path func() string
	last string // the ID of the last event that is known, "" for none
	each func(client.Event) error
	note func(text string) // says what the connection does
	ends bool              // it is not sought for ever
}

// follow reads a stream until each or the context ends it.
func (c *caller) follow(ctx context.Context, w *way, f following) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	losses := 0
	err := w.Follow(ctx, &client.Following{
		Path: f.path,
		Last: f.last,
		Each: func(e client.Event) error {
			losses = 0
			return f.each(e)
		},
		Lost: func(err error, _ time.Duration) {
			if losses++; f.ends && losses > maxLost {
				cancel(err)
				return
			}
			f.note(fmt.Sprintf("%v; trying again", err))
		},
		Back: func() { f.note("connected again") },
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	if why := context.Cause(ctx); why != nil && errors.Is(err, context.Canceled) {
		return why
	}
	return err
}

// noteTo is following.note on the standard error.
func (c *caller) noteTo(text string) { c.Tell("berth: %s", text) }

// eventsPath is the address of a stream of events of an application, "" for all; types "" are
// those that the server sends unasked, which an older one knows fewer of.
func eventsPath(id, types string) string {
	query := url.Values{}
	if types != "" {
		query.Set("types", types)
	}
	if id != "" {
		query.Set("app", id)
	}
	return "/v2/events?" + query.Encode()
}

// clock is a time for a terminal, where the date is known.
func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }

// dim is text that stands back.
func dim(text string, colour bool) string {
	if !colour || text == "" {
		return text
	}
	return "\x1b[2m" + text + "\x1b[0m"
}
