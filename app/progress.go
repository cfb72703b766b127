package app

import "context"

// Phase is how far a deployment has come.
type Phase int

// The phases, in their order. A deployment may skip some, and be Queued more
// than once with another Position.
const (
	Checked   Phase = iota // the ZIP is unpacked and there is a plan
	Queued                 // its build waits
	Building               // its build begins; the build's log is empty still
	Launching              // what was built is started
)

// Progress is what a deployment tells while it is under way.
type Progress struct {
	Phase    Phase
	App      ID
	Position int // of its build in the queue, 1 being next, while Queued
}

// progressKey is the key of the function in a context.
type progressKey struct{}

// WithProgress returns a context whose deployment calls tell. tell MUST NOT
// block: the deployment waits for it. It is called by one goroutine at a time.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// ProgressOf returns the function of a context, or one that does nothing.
func ProgressOf(ctx context.Context) func(Progress) {
	if tell, _ := ctx.Value(progressKey{}).(func(Progress)); tell != nil {
		return tell
	}
	return func(Progress) {}
}
