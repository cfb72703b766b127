package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// watchTime is how long the server is asked to keep one watch open.
	watchTime = 5 * time.Minute
	// watchSilence is how long a watch may be silent: the server sends a bookmark each minute.
	watchSilence = 100 * time.Second
	// retryFirst and retryMost bound the pause after a watch that failed.
	retryFirst = 250 * time.Millisecond
	retryMost  = 10 * time.Second
)

// Watcher hears of the pods that a selector chooses. Its functions are called one after the other, and MUST NOT block.
type Watcher struct {
	Selector string
	// All hears all pods there are: at first, and when the server does not know any more what was missed.
	All func(pods []Pod)
	// Changed hears of a pod that is new or another.
	Changed func(p Pod)
	// Gone hears of a pod that was removed, as it was last.
	Gone func(p Pod)
	// Lost hears that nothing is heard, and why: an ErrAway or a refusal. What was heard is old from then on, until
	// Back is called. It may be called again.
	Lost func(err error)
	// Back hears that everything is known again.
	Back func()
}

// Watch watches until ctx ends, and returns its error. It waits out everything else: a server that is away, a refusal,
// and changes that the server has forgotten (410), after which it lists anew.
func (c *Client) Watch(ctx context.Context, w Watcher) error {
	version, pause, lost := "", retryFirst, false
	for {
		err := ctx.Err()
		if err == nil && version == "" {
			var all []Pod
			if all, version, err = c.List(ctx, w.Selector); err == nil {
				w.All(all)
			}
		}
		if err == nil {
			if lost {
				lost = false
				w.Back()
			}
			began := time.Now()
			version, err = c.watch(ctx, w, version)
			if time.Since(began) > retryMost {
				pause = retryFirst
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if CodeOf(err) == http.StatusGone {
			version, err = "", nil
		}
		if err == nil || errors.Is(err, io.EOF) { // a watch has its end
			pause = retryFirst
			continue
		}
		lost = true
		w.Lost(err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, retryMost)
	}
}

// watch hears of changes after a version, and returns the last one. Its end is io.EOF.
func (c *Client) watch(ctx context.Context, w Watcher, version string) (last string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(watchSilence, func() { cancel(ErrAway) })
	defer silent.Stop()
	query := url.Values{
		"labelSelector": {w.Selector}, "watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(int(watchTime / time.Second))},
	}
	resp, err := c.send(ctx, c.calls, c.server, request{method: http.MethodGet, path: c.pods(), query: query})
	if err != nil {
		return version, silence(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	events := json.NewDecoder(resp.Body)
	for {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			return version, io.EOF
		} else if err != nil {
			return version, silence(ctx, broken(ctx, err))
		}
		silent.Reset(watchSilence)
		if e.Type == "ERROR" {
			var status struct {
				Code            int
				Reason, Message string
			}
			_ = json.Unmarshal(e.Object, &status) // an error without words is one
			return version, &Error{Code: status.Code, Reason: status.Reason, Message: status.Message}
		}
		var p Pod
		if err := json.Unmarshal(e.Object, &p); err != nil {
			return "", err // what it was is not known: list anew
		}
		version = p.Metadata.ResourceVersion
		switch e.Type {
		case "ADDED", "MODIFIED":
			w.Changed(p)
		case "DELETED":
			w.Gone(p)
		}
	}
}

// silence is the error of a stream that was ended because nothing came.
func silence(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrAway) {
		return cause
	}
	return err
}
