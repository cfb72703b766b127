package host

import (
	"context"
	"time"

	"berth/app"
)

const (
	// freshFor is how long new code is watched at most while it is busy starting.
	freshFor = 15 * time.Second
	// judgeAgain is the pause between two looks at a program that starts, and
	// toldSoon that before the end of one which has ended is told.
	judgeAgain = 100 * time.Millisecond
	toldSoon   = 10 * time.Millisecond
)

// judge is the end of the ok delay: the program has started well, unless it has
// ended and the unit does not know yet, or new code is still busy starting.
func (u *unit) judge() {
	switch {
	case u.run.Ended():
		u.enter(app.Starting, toldSoon)
		return
	case u.fresh && u.unsettled():
		u.enter(app.Starting, judgeAgain)
		return
	}
	u.enter(app.Online, 0)
	if u.attempt > 0 {
		u.enter(app.Online, healthy)
	}
	u.verdict(nil)
}

// unsettled reports whether new code has not shown yet how it goes. On a small or
// busy machine it may have done next to nothing in the ok delay: while one of its
// tasks could run it is on its way. A program that listens has arrived.
func (u *unit) unsettled() bool {
	if u.h.ctx.Err() != nil || time.Since(u.app.StartedAt) >= freshFor || u.listening.Port > 0 || !u.run.Busy() {
		return false
	}
	l, err := u.run.Listens()
	return err != nil || l.Port == 0
}

// Outcome blocks until the program that was started last has lived for the ok delay
// or has ended, or until ctx ends, and returns how the application stands then.
// After a start that a person asked for, LastExit is nil unless the program has
// ended since. It fails with app.NotFound.
func (h *Host) Outcome(ctx context.Context, owner app.AccountID, id app.ID) (app.Snapshot, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Snapshot{}, err
	}
	var now app.Snapshot
	err = u.do(ctx, func(reply func(error)) {
		tell := func(*app.Exit) {
			u.publish()
			now = u.view.Load().Snapshot
			reply(nil)
		}
		if u.state != app.Starting || u.app.Code.Static() { // files have nothing that could end
			tell(nil)
			return
		}
		u.watch = append(u.watch, tell)
	})
	switch {
	case err == nil:
		return now, nil
	case ctx.Err() != nil: // now may still be written to
		return u.view.Load().Snapshot, nil
	}
	return app.Snapshot{}, err
}
