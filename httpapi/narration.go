package httpapi

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/web"
)

// narration is an answer that tells how a deployment goes: server-sent events, of which
// the last, done, is the ordinary answer.
type narration struct {
	*call
	control *http.ResponseController
	over    bool // the client has gone, or takes nothing
	wrote   time.Time
}

// deploy answers with what do makes of what has come. A client that accepts events is told
// how it goes meanwhile. do goes on when the client hangs up.
func (d deployments) deploy(c *call, do func(ctx context.Context) (response, error)) (response, error) {
	ctx := context.WithoutCancel(c.Request.Context())
	if !acceptsEvents(c.Request.Header) {
		return do(ctx)
	}
	return response{stream: func(http.ResponseWriter) {
		n := &narration{call: c, control: http.NewResponseController(c.ResponseWriter)}
		web.BeginStream(c)
		n.write(": begun\n\n") // the client hears that its file has come
		r := newReporter(c, d, n.tell)
		quiet := r.begin()
		defer quiet() // also after a panic
		answer, err := do(app.WithProgress(ctx, r.progress))
		if err != nil {
			answer = c.failure(err)
		}
		c.audit.conclude(answer.status, answer.refusal)
		quiet()
		n.event("done", answer.body)
	}}, nil
}

// acceptsEvents reports whether an Accept header names server-sent events: no client does
// that can do without them.
func acceptsEvents(h http.Header) bool {
	for _, line := range h.Values("Accept") {
		for each := range strings.SplitSeq(line, ",") {
			kind, parameters, err := mime.ParseMediaType(each)
			if err != nil || kind != "text/event-stream" {
				continue
			}
			weight, err := strconv.ParseFloat(parameters["q"], 64)
			return err != nil || weight > 0
		}
	}
	return false
}

// tell sends what is new, and something at least every web.StreamPing.
func (n *narration) tell(all []news) {
	for _, x := range all {
		for first, rest := cutOutput(x.output); ; first, rest = cutOutput(rest) {
			n.event("progress", object{
				{"id", x.app}, {"phase", x.phase.Word()}, {"position", x.place}, {"log", first},
			})
			if rest == "" {
				break
			}
		}
	}
	if time.Since(n.wrote) >= web.StreamPing {
		n.write(": ping\n\n")
	}
}

func (n *narration) event(name string, data any) {
	n.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, encode(data))) // which has no line end in it
}

// write sends a frame; a client that does not take it in time has gone.
func (n *narration) write(text string) {
	if n.over {
		return
	}
	_ = n.control.SetWriteDeadline(time.Now().Add(web.StreamPatience)) // that web.Call.Serve lifts for the next answer
	_, err := n.Write([]byte(text))
	n.over = err != nil || n.control.Flush() != nil
	n.wrote = time.Now()
}
