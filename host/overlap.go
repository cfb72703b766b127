package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/app"
)

// healthEvery is the pause between two looks at a new run.
const healthEvery = 250 * time.Millisecond

// afterSecondRun ends the second run, if there is one, and returns when it has ended.
func (c *commit) afterSecondRun() {
	_ = c.u.await(context.Background(), func(reply func(error)) {
		c.u.stopSecond()
		c.u.after(stay, reply, nil)
	})
}

// overlap lays the new code over the tree under the running program, starts it
// beside that, and brings the visitors to it when it is well. Until then a
// failure, a stop or a delete leaves the program as it is, and its files as they
// were.
func (c *commit) overlap(ctx context.Context, next *run, stageOf func(context.Context) (app.Stage, error)) (app.Deployed, error) {
	h, u := c.h, c.u
	printed := h.Logs.Mark(u.id)
	done, err := c.apply(ctx, stageOf)
	if err == nil {
		err = u.do(context.Background(), func() error { return u.startBeside(c, next) })
	}
	if err == nil {
		err = c.await(ctx, next)
	}
	if err == nil {
		err = c.record(context.Background(), done)
	}
	if err != nil {
		return app.Deployed{}, c.backBeside(next, withLogs(err, printed(lastLines)))
	}
	u.call(context.Background(), func() { u.promote(c, next) })
	return h.deployed(u, c.plan, nil, nil, printed), nil
}

// await blocks until the new run has lived for the ok delay and is well, or
// returns why that will not be.
func (c *commit) await(ctx context.Context, next *run) error {
	limited, cancel := context.WithTimeout(ctx, c.h.HealthTimeout)
	defer cancel()
	defer context.AfterFunc(next.life, cancel)()
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	why := errors.New("it was not asked")
	for {
		if now := c.check(limited, next); limited.Err() == nil {
			if why = now; why == nil && time.Since(c.started) >= c.h.OKDelay {
				return nil
			}
		}
		select {
		case <-ticker.C:
		case <-limited.Done():
			return c.unwell(ctx, next, why)
		}
	}
}

// check looks once whether the new run is well.
func (c *commit) check(ctx context.Context, next *run) error {
	if next.Ended() { // what it left running may still listen
		return errors.New("it has ended")
	}
	l, err := next.Listens()
	path := c.plan.Code.Health
	switch {
	case err != nil:
		return err
	case !l.At.IsValid():
		return errors.New("it has opened no port; listen on process.env.PORT")
	case !l.Own:
		return fmt.Errorf("it listens on port %d; listen on process.env.PORT", l.Port)
	}
	if c.listening = l; path == "" {
		return nil
	}
	return c.h.Visits.Healthy(ctx, c.u.id, l.At, path)
}

// unwell is the error of a new run that is not.
func (c *commit) unwell(ctx context.Context, next *run, why error) error {
	if ctx.Err() != nil {
		return c.h.calledOff()
	}
	if next.life.Err() != nil {
		hint := ""
		if !next.exit.OOM {
			hint = "; if no two copies of it can run at once, set HEALTH=off"
		}
		return app.Errorf(app.Unusable, "cannot start the new code beside the old (%s): the program from before the %s goes on%s", sentence(next.exit), c.kind, hint)
	}
	if why == nil {
		why = errors.New("it has not run for long enough")
	}
	return app.Errorf(app.Unusable, "cannot bring visitors to the new code: it was not well within %s (%v); the program from before the %s goes on; if the new one needs longer to start, set HEALTH=off",
		lasted(c.h.HealthTimeout), why, c.kind)
}

// backBeside ends the new run, undoes what was applied and returns err.
func (c *commit) backBeside(next *run, err error) error {
	c.afterSecondRun() // nothing of the new code runs while its files go
	undo := c.h.settle(context.Background(), c.u.id, c.before.UID)
	c.u.call(context.Background(), func() { c.u.giveUp(next, undo == nil) })
	if undo == nil {
		return err
	}
	const sorry = "the deployment failed and the code from before it could not be brought back: what runs goes on, and cannot be started again; commit the whole code again"
	return c.notUndone(app.Words(sorry), err, undo)
}
