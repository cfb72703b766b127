package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	"berth/app"
)

// typeTime is how long a line may take on its way to a program. The machine keeps about 100 KB that a program has not read;
// then it takes no more.
const typeTime = 5 * time.Second

// Type implements host.Config.Type. Lines of one program go one after the other, each by a connection of its own: the
// end of that is the only sign that all before has arrived.
func (e *Engine) Type(ctx context.Context, id app.ID, number int, line string) error {
	e.mu.Lock()
	r := e.runs[e.podName(id, number)]
	e.mu.Unlock()
	if r == nil {
		return app.Errorf(app.Conflict, "the program has just ended; try again in a moment")
	}
	ctx, cancel := context.WithTimeout(ctx, typeTime)
	defer cancel()
	err := r.takesInput(ctx, line)
	switch {
	case err == nil:
		return nil
	case r.Ended():
		return app.Errorf(app.Conflict, "the program has just ended; try again in a moment")
	case errors.Is(err, context.DeadlineExceeded) && e.Away() == nil:
		return app.Errorf(app.Unavailable, "the program does not read its input, so this line may come to it later; try again later")
	}
	return refused(app.Textf("send the line"), err)
}

// takesInput sends a line once those before it have arrived.
func (r *run) takesInput(ctx context.Context, line string) error {
	select {
	case r.typing <- struct{}{}:
		defer func() { <-r.typing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.engine.kube.Attach(ctx, r.name, box, strings.NewReader(line+"\n"))
}
