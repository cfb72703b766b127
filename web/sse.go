package web

import (
	"context"
	"net/http"
	"time"

	"berth/app"
)

// A stream of events (WHATWG HTML, server-sent events).
const (
	// StreamRetry is how long clients wait before they come again, in ms.
	StreamRetry = 3000
	// StreamPing is how long a stream is silent at most.
	StreamPing = 15 * time.Second
	// StreamCheck is how soon a token that was revoked, a session that has ended, or a
	// permission that was taken away, ends a stream.
	StreamCheck = 5 * time.Second
	// StreamPatience is how long a client may take to read a frame.
	StreamPatience = 20 * time.Second
)

// BeginStream writes the header of a stream of events.
func BeginStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
}

// Stream writes first and then the frames of events, until the client goes or takes
// nothing, mayStill fails for who may not see it any more, or the daemon ends. An error of
// the check itself ends no stream.
func (c *Call) Stream(from app.Stream, first []byte, frames func([]app.Event) []byte, mayStill func(context.Context) error) {
	control := http.NewResponseController(c.ResponseWriter)
	write := func(text []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(StreamPatience)) // that Serve lifts for the next answer
		_, err := c.Write(text)
		return err == nil && control.Flush() == nil
	}
	if !write(first) {
		return
	}
	ctx := c.Request.Context()
	checked, wrote := time.Now(), time.Now()
	for {
		wait, cancel := context.WithDeadline(ctx, checked.Add(StreamCheck))
		events, err := from.Next(wait)
		late := wait.Err() != nil
		cancel()
		if ctx.Err() != nil || err != nil && !late {
			return
		}
		if time.Since(checked) >= StreamCheck {
			switch app.KindOf(mayStill(ctx)) {
			case app.Unauthorized, app.Forbidden, app.NotFound:
				return
			default:
			}
			checked = time.Now()
		}
		text := frames(events)
		if len(text) == 0 && time.Since(wrote) >= StreamPing {
			text = []byte(": ping\n\n")
		}
		if len(text) > 0 {
			if !write(text) {
				return
			}
			wrote = time.Now()
		}
	}
}
