package host

import "context"

// places bounds how many of one kind of work are under way at once.
type places chan struct{}

// take waits for a place and returns what gives it back, or the error of ctx.
func (p places) take(ctx context.Context) (give func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
