package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxLine bounds one line of a log; the rest of a longer one is left out.
const maxLine = 256 << 10

// Line is one line that a program printed.
type Line struct {
	At     time.Time // as the machine stamped it, to the nanosecond
	Text   []byte    // without its end; good until the next line is read
	Behind Place     // from which a log goes on with the next line
	Gap    bool      // its machine has dropped lines between it and the place that was read from
}

// Place is how far a log was read: the stamp of the last line, and how many lines with that stamp were read. Lines of
// one moment have one stamp, so both are needed to go on without a gap and without a line twice.
type Place struct {
	At    time.Time
	Lines int
}

// Log reads the log of a pod's container behind a place, and gives each line to each. With follow it goes on until the
// program has ended, as far as the machine tells: a stream may end early, without an error, so who follows MUST read
// again without follow once the program has ended, from the place that is returned.
//
// The errors are ErrAway, a refusal (400 for a container that has not started, 404 for a pod that is gone, or that its
// machine does not know yet), that of ctx and that of each. The place is good whatever the error.
func (c *Client) Log(ctx context.Context, pod, container string, from Place, follow bool, each func(Line) error) (Place, error) {
	query := url.Values{"container": {container}, "timestamps": {"true"}}
	if follow {
		query.Set("follow", "true")
	}
	if !from.At.IsZero() {
		query.Set("sinceTime", from.At.UTC().Format(time.RFC3339)) // it counts seconds
	}
	resp, err := c.send(ctx, c.calls, c.server, request{method: http.MethodGet, path: c.pods(pod, "log"), query: query})
	if err != nil {
		return from, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	at := from
	seen := 0 // lines with the stamp of from
	for {
		text, err := readLine(lines)
		if err != nil && (len(text) == 0 || !errors.Is(err, io.EOF)) {
			if errors.Is(err, io.EOF) {
				return at, nil
			}
			return at, broken(ctx, err)
		}
		stamp, rest, _ := bytes.Cut(text, []byte(" "))
		when, wrong := time.Parse(time.RFC3339Nano, string(stamp))
		if wrong != nil { // a sentence of the machine's own, such as that the log is gone
			return at, &Error{Code: http.StatusInternalServerError, Message: string(text)}
		}
		if when.Before(from.At) {
			continue
		}
		if when.Equal(from.At) {
			if seen++; seen <= from.Lines {
				continue
			}
		}
		next := Place{when, 1}
		if when.Equal(at.At) {
			next.Lines = at.Lines + 1
		}
		// The line at the place is in the log, unless its file was rotated away.
		if err := each(Line{when, rest, next, at == from && seen < from.Lines}); err != nil {
			return at, err
		}
		at = next
	}
}

// readLine reads a line without its end; of one that is too long the beginning.
func readLine(r *bufio.Reader) (text []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if room := maxLine - len(text); len(part) > 0 && room > 0 {
			text = append(text, part[:min(len(part), room)]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSuffix(text, []byte("\n")), err
	}
}
