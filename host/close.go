package host

import (
	"context"
	"errors"

	"berth/app"
)

// remove deletes the application: it calls off a deployment, ends the
// program, and then forgets everything.
func (u *unit) remove(reply func(error)) {
	if u.closing != open {
		reply(u.refuse())
		return
	}
	u.closing = byDelete
	u.settle(func() {
		if u.unborn { // abandoned, with everything
			reply(nil)
			return
		}
		err := u.erase()
		u.closing = ended
		if err != nil && u.h.ctx.Err() == nil {
			u.closing = open // still there, and says so
			if u.app.Wanted == app.WantOnline && !u.broken {
				u.retry()
			}
		}
		reply(err)
	})
}

// erase forgets the application. The record goes first: a crash after it
// leaves files that the next boot removes, never a record without files. The
// place goes last: nobody gets the name or the uid while files have them. Only
// on a full disk the files must go first, for they make the room that the
// record takes to be forgotten.
func (u *unit) erase() error {
	ctx := context.Background()
	err := u.h.Registry.DeleteApp(ctx, u.id)
	if app.KindOf(err) == app.NoSpace {
		u.means(app.WantStopped) // nothing is left to be started
		if err := errors.Join(u.h.Trees.Remove(ctx, u.id), u.h.Logs.Remove(u.id)); err != nil {
			return err
		}
		err = u.h.Registry.DeleteApp(ctx, u.id)
	}
	if err != nil {
		return err
	}
	u.h.unregister(u.id)
	u.h.release(ctx, u.app)
	u.tellRemoved()
	u.log.Info("application deleted")
	return nil
}

// shutdown ends the program and the unit; what is wanted stays.
func (u *unit) shutdown(reply func(error)) {
	reply(nil)
	if u.closing != open {
		return
	}
	u.closing = byShutdown
	u.settle(func() { u.closing = ended })
}

// leave ends the unit and lets its program run on; what is wanted stays. A stop
// under way is waited for.
func (u *unit) leave(reply func(error)) {
	reply(nil)
	if u.closing != open {
		return
	}
	u.closing = byLeave
	u.depart()
}

func (u *unit) depart() {
	switch {
	case u.deploy != nil:
		u.deploy()
		u.resting = u.depart
	case u.state == app.Stopping:
		u.follow(u.part)
	default:
		u.without(func() { u.hush(app.Textf("the server is shutting down"), u.part) })
	}
}

// part is the end of a unit that was left. A program that has ended meanwhile is
// first told of as ever.
func (u *unit) part() {
	if u.twin.runs() || u.run != nil && !u.run.Leave() {
		return // until exited, or twinEnded
	}
	u.verdict(nil) // who waits for a start hears that it goes on
	u.closing = ended
}

// kill is a shutdown that does not wait for the program.
func (u *unit) kill(reply func(error)) {
	if u.closing == open {
		u.shutdown(func(error) {})
	}
	if u.run != nil {
		u.run.Stop(0)
	}
	if u.twin.runs() {
		u.twin.run.Stop(0)
	}
	reply(nil)
}

// settle brings the unit to rest, with no deployment, no program and no console
// command, and then runs then.
func (u *unit) settle(then func()) {
	why := app.Textf("the application was deleted")
	if u.closing == byShutdown {
		why = app.Textf("the server is shutting down")
	}
	if u.deploy != nil {
		u.deploy()
		u.resting = func() { u.settle(then) }
		return
	}
	switch u.state {
	case app.Starting, app.Online:
		u.halt(why, func() { u.hush(why, then) }) // one that was there before the program may still be ending
	case app.Stopping: // a restart's or stop's end; both are answered first
		u.follow(func() { u.settle(then) })
	case app.Stopped, app.Waiting, app.Preparing:
		u.enter(app.Stopped, 0)
		u.without(func() { u.hush(why, then) })
	}
}
