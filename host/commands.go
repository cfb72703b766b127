package host

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"berth/app"
)

const (
	smallTail = 1800
	bigTail   = 64 << 10
	// diskAge is how old a measured size may be: measuring walks the tree.
	diskAge = time.Minute
	// usageAge is how old measured use may be: a panel that asks for a hundred
	// applications at once, many times a second, costs as much as one that asks
	// twice.
	usageAge = 500 * time.Millisecond
	// moreStop is how much longer than a program may take a stop is waited for.
	moreStop = 15 * time.Second
)

// Apps returns the account's applications, oldest first.
func (h *Host) Apps(owner app.AccountID) []app.Snapshot {
	positions := h.builds.positions()
	list := []app.Snapshot{}
	for _, u := range h.all() {
		if u.owner == owner {
			list = append(list, h.shown(u, positions))
		}
	}
	return list
}

// App returns one application of the account, or app.NotFound.
func (h *Host) App(owner app.AccountID, id app.ID) (app.Snapshot, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Snapshot{}, err
	}
	return h.shown(u, h.builds.positions()), nil
}

// shown is what is known of a unit from outside it, too.
func (h *Host) shown(u *unit, positions map[app.ID]int) app.Snapshot {
	s := u.view.Load().Snapshot
	s.Position = positions[s.ID]
	if s.Running && h.Stale != nil {
		s.Stale = h.Stale(s.ID)
	}
	return s
}

// Find returns an application, whoever has it: for those who bring requests to
// it, not for those who ask about it.
func (h *Host) Find(id app.ID) (app.Snapshot, bool) {
	h.mu.RLock()
	u := h.units[id]
	h.mu.RUnlock()
	if u == nil {
		return app.Snapshot{}, false
	}
	return u.view.Load().Snapshot, true
}

// Dial connects to a site's program at an address that its snapshot gave, other than its own
// port, for those who bring requests to it. It fails when the program is not there any more.
func (h *Host) Dial(ctx context.Context, id app.ID, at netip.AddrPort) (net.Conn, error) {
	h.mu.RLock()
	u := h.units[id]
	h.mu.RUnlock()
	if u != nil {
		if now := u.view.Load(); now.run != nil && now.Reach == at {
			return now.run.Dial(ctx, at)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(at), Err: noApp(id)}
}

// Status returns what an application uses now, or app.NotFound; the figures
// may be half a second old, the state never is. It may block for a tenth of a
// second to measure, and longer the first time a large tree is measured.
func (h *Host) Status(ctx context.Context, owner app.AccountID, id app.ID) (app.Status, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Status{}, err
	}
	v := u.view.Load()
	m := u.measured.Load()
	if m == nil || m.of != v || time.Since(m.at) >= usageAge {
		m = &measured{of: v, at: time.Now()}
		if m.status, err = h.measure(ctx, u, v); err != nil {
			return app.Status{}, err
		}
		u.measured.Store(m)
	}
	s := m.status
	s.Position = h.builds.positions()[id]
	return s, nil
}

// measure asks the kernel and the disk about the run of a view.
func (h *Host) measure(ctx context.Context, u *unit, v *view) (app.Status, error) {
	s := app.Status{Snapshot: v.Snapshot}
	var err error
	if v.Running && v.run != nil {
		if s.Usage, err = v.run.Usage(ctx); err != nil {
			// It may have ended since the snapshot; then that is the answer.
			if now := u.view.Load(); now.run == v.run {
				return app.Status{}, err
			}
			s = app.Status{Snapshot: u.view.Load().Snapshot}
		}
	}
	space, err := u.disk.recent(ctx)
	s.DiskBytes = space.Bytes
	return s, err
}

// Terminal returns the end of an application's output, or app.NotFound.
func (h *Host) Terminal(owner app.AccountID, id app.ID) (app.Terminal, error) {
	if _, err := h.find(owner, id); err != nil {
		return app.Terminal{}, err
	}
	return app.Terminal{Small: h.Logs.Tail(id, false, smallTail), Big: h.Logs.Tail(id, false, bigTail)}, nil
}

// OpenLog opens everything that is kept of a log: app.NotFound unless the id names the
// application with this uid, not a later one of the same name. The caller closes.
func (h *Host) OpenLog(id app.ID, uid int64) (io.ReadCloser, error) {
	if s, found := h.Find(id); !found || int64(s.UID) != uid {
		return nil, app.Errorf(app.NotFound, "this log is gone: its application was deleted")
	}
	return h.Logs.Open(id, false)
}

// Each calls f for every application, oldest first, with the disk space of its files when that
// was last measured, -1 where it was not. It blocks for nothing.
func (h *Host) Each(f func(s app.Snapshot, disk int64)) {
	for _, u := range h.all() {
		disk := int64(-1)
		if space, ok := u.disk.known(); ok {
			disk = space.Bytes
		}
		f(u.view.Load().Snapshot, disk)
	}
}

// AvailableRAM returns the most RAM that an application can have beside what else runs
// now. It reserves nothing.
func (h *Host) AvailableRAM(id app.ID) app.MB { return h.capacity.available(id) }

// Start starts an application and returns it once its program runs. It fails
// with app.NotFound, app.Already, app.Conflict, app.Exhausted when the host
// has no memory left for it, and app.Unusable when it cannot be started.
func (h *Host) Start(ctx context.Context, owner app.AccountID, id app.ID) (app.Snapshot, error) {
	u, err := h.find(owner, id)
	if err == nil {
		err = u.do(ctx, u.start)
	}
	if err != nil {
		return app.Snapshot{}, err
	}
	return u.view.Load().Snapshot, nil
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
	now, err := request(ctx, u, func(reply func(app.Snapshot, error)) {
		report := func(*app.Exit) {
			u.publish()
			reply(u.view.Load().Snapshot, nil)
		}
		if u.state != app.Starting || u.app.Code.Static() { // files have nothing that could end
			report(nil)
			return
		}
		u.outcome = append(u.outcome, report)
	})
	if err != nil && ctx.Err() != nil {
		return u.view.Load().Snapshot, nil
	}
	return now, err
}

// Console runs one shell command as the application's user: beside its program
// and with the program's RAM when it is online, else in place of the program,
// counted as a run. It blocks until nothing of the command runs any more: when
// it ends, at the latest after the timeout, when the program ends, when the
// application's state or code changes, or when ctx does, which it returns the
// error of. A command that fails is no error. It fails with app.NotFound; with
// app.Conflict while another one of the application runs, or when it is being
// stopped or deployed; with app.Exhausted when the host has no memory left for
// it; and with app.Unavailable when too many run.
func (h *Host) Console(ctx context.Context, owner app.AccountID, id app.ID, command string) (app.Shell, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Shell{}, err
	}
	done, err := h.begin()
	if err != nil {
		return app.Shell{}, err
	}
	defer done()
	release, err := h.consoles.forConsole(owner)
	if err != nil {
		return app.Shell{}, err
	}
	defer release()
	c, err := ask(context.WithoutCancel(ctx), u, func() (*console, error) { return u.startConsole(command, nil) })
	if err != nil {
		return app.Shell{}, err
	}
	limited, cancel := context.WithTimeout(ctx, h.ConsoleTimeout)
	defer cancel()
	stop := context.AfterFunc(limited, func() {
		c.end(app.Textf("it took longer than %s, the most it may", lasted(h.ConsoleTimeout)))
	})
	shell := u.ended(c)
	stop()
	u.log.Info("console command ended", "account", owner, "online", c.beside != nil, "code", shell.Exit.Code, "ms", shell.Exit.Ran.Milliseconds())
	return shell, ctx.Err()
}

// Type sends a line to the input of a program: see app.Services.
func (h *Host) Type(ctx context.Context, owner app.AccountID, id app.ID, line string) error {
	u, err := h.find(owner, id)
	if err != nil {
		return err
	}
	v := u.view.Load()
	switch {
	case len(line) > app.MaxInput:
		return app.Errorf(app.Invalid, "a line has at most %d bytes, and this one has %d", app.MaxInput, len(line))
	case strings.ContainsAny(line, "\r\n\x00"):
		return app.Errorf(app.Invalid, "this is more than one line, or has a NUL character; send one line at a time")
	case !v.Code.Stdin || v.Code.Static():
		return app.Errorf(app.Unusable, "this application reads no input: write STDIN=true into its discloud.config, and deploy that")
	case !v.Running:
		return app.Errorf(app.Conflict, "the application is offline, so nothing reads this line; start it first")
	case v.run.Ended(): // its unit does not know yet, and its input may be gone
		return app.Errorf(app.Conflict, "the program has just ended; try again in a moment")
	}
	return h.Config.Type(ctx, id, v.run.number, line)
}

// Exec is an app.ExecService: a command as Console runs it, but with somebody at it, and
// without a timeout. Beside a program several may run; in its place one.
func (h *Host) Exec(
	ctx context.Context, owner app.AccountID, id app.ID, e app.Exec, use func(context.Context, app.Streams),
) (app.Shell, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Shell{}, err
	}
	done, err := h.begin()
	if err != nil {
		return app.Shell{}, err
	}
	defer done()
	release, err := h.sessions.forSession(owner)
	if err != nil {
		return app.Shell{}, err
	}
	defer release()
	c, err := ask(context.WithoutCancel(ctx), u, func() (*console, error) { return u.startConsole(cmp.Or(e.Command, interactive), &e) })
	if err != nil {
		return app.Shell{}, err
	}
	// The seat in the application is free as soon as the command has ended, whether or
	// not its output was read.
	ended := make(chan app.Shell, 1)
	h.waits.Go(func() { ended <- u.ended(c) })
	c.use(ctx, h.ctx, use)
	shell := <-ended
	u.log.Info("session ended", "account", owner, "online", c.beside != nil, "tty", e.TTY, "code", shell.Exit.Code, "ms", shell.Exit.Ran.Milliseconds())
	return shell, nil
}

// ended waits for the end of a console command or a session, and forgets it.
func (u *unit) ended(c *console) app.Shell {
	shell := c.command.Wait()
	if c.held {
		u.h.capacity.release(consoleOf(u.id))
	}
	u.call(context.Background(), func() {
		u.consoles = slices.DeleteFunc(u.consoles, func(other *console) bool { return other == c })
	})
	shell.Cut = c.verdict(shell)
	return shell
}

// Restart ends the program and starts it again, with Start's errors; it fails
// with app.Already when it is offline.
func (h *Host) Restart(ctx context.Context, owner app.AccountID, id app.ID) error {
	return h.await(ctx, owner, id, (*unit).restart)
}

// Stop ends the program, or calls off a restart that waits or a deployment
// under way, and returns when nothing of it runs; after a first deployment
// nothing of the application is left either. It fails with app.Already when
// it is offline, and with app.Unavailable when that takes far longer than a
// program may, as while the disk does not take its last words: it ends all the
// same.
func (h *Host) Stop(ctx context.Context, owner app.AccountID, id app.ID) error {
	bound, cancel := context.WithTimeout(ctx, h.StopGrace+moreStop)
	defer cancel()
	err := h.await(bound, owner, id, (*unit).stop)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		return app.Errorf(app.Unavailable, "the application is being stopped; that takes longer than it should, for the host or its disk is busy")
	}
	return err
}

// Delete ends the program and removes everything of the application.
func (h *Host) Delete(ctx context.Context, owner app.AccountID, id app.ID) error {
	return h.await(ctx, owner, id, (*unit).remove)
}

func (h *Host) await(ctx context.Context, owner app.AccountID, id app.ID, command func(*unit, func(error))) error {
	u, err := h.find(owner, id)
	if err != nil {
		return err
	}
	return u.await(ctx, func(reply func(error)) { command(u, reply) })
}

// change runs f on the goroutine of an application that exists, so that it
// cannot be deleted, and its name given to another account's, meanwhile. It fails with
// app.NotFound, and with app.Conflict while the application is deployed for the first
// time.
func (h *Host) change(ctx context.Context, owner app.AccountID, id app.ID, f func(context.Context, *unit) error) error {
	_, err := changing(ctx, h, owner, id, func(ctx context.Context, u *unit) (struct{}, error) { return struct{}{}, f(ctx, u) })
	return err
}

// changing is change with an answer.
func changing[T any](
	ctx context.Context, h *Host, owner app.AccountID, id app.ID, f func(context.Context, *unit) (T, error),
) (none T, err error) {
	u, err := h.find(owner, id)
	if err != nil {
		return none, err
	}
	return ask(ctx, u, func() (T, error) {
		if err := u.refuse(); err != nil {
			return none, err
		}
		return f(context.WithoutCancel(ctx), u)
	})
}

// SetProfile changes an application's name or avatar.
func (h *Host) SetProfile(ctx context.Context, owner app.AccountID, id app.ID, p app.Profile) error {
	return h.change(ctx, owner, id, func(_ context.Context, u *unit) error {
		write := func(ctx context.Context) error { return h.Records.SetProfile(ctx, id, p) }
		return u.records.store("store the profile", write, func() error {
			if p.Name != nil {
				u.app.Name = *p.Name
			}
			if p.AvatarURL != nil {
				u.app.AvatarURL = *p.AvatarURL
			}
			return nil
		})
	})
}

// SetAutoRestart sets whether the program is started again when it fails, until a
// deployment says otherwise; what waits for a restart goes on waiting.
func (h *Host) SetAutoRestart(ctx context.Context, owner app.AccountID, id app.ID, on bool) error {
	return h.change(ctx, owner, id, func(ctx context.Context, u *unit) error {
		err := h.Records.SetAutoRestart(ctx, id, on)
		if err == nil {
			u.app.AutoRestart = on
		}
		return err
	})
}

// SetRAM changes an application's RAM, at once if its program runs. It fails
// with app.Exhausted when the account, the host, or what the program uses now
// does not allow it, and with app.Unusable below the least an application may
// have; then nothing has changed.
func (h *Host) SetRAM(ctx context.Context, owner app.AccountID, id app.ID, ram app.MB) error {
	return h.change(ctx, owner, id, func(_ context.Context, u *unit) error { return u.setRAM(ram) })
}

// Variables returns the environment variables that the owner of an application
// set, by name, with the errors of change.
func (h *Host) Variables(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Variable, error) {
	return changing(ctx, h, owner, id, func(ctx context.Context, _ *unit) ([]app.Variable, error) { return h.Records.Variables(ctx, id) })
}

// SetVariables changes variables, in effect from the next start: see
// ChangeVariables, whose errors it returns.
func (h *Host) SetVariables(ctx context.Context, owner app.AccountID, id app.ID, change map[string]*string) error {
	return h.changeVariables(ctx, owner, id, func(set map[string]string) error { return ChangeVariables(set, change) })
}

// RemoveVariable removes one, in effect from the next start, or fails with
// app.NotFound.
func (h *Host) RemoveVariable(ctx context.Context, owner app.AccountID, id app.ID, name string) error {
	return h.changeVariables(ctx, owner, id, func(set map[string]string) error { return RemoveVariables(set, name) })
}

func (h *Host) changeVariables(ctx context.Context, owner app.AccountID, id app.ID, change func(map[string]string) error) error {
	return h.change(ctx, owner, id, func(ctx context.Context, u *unit) error {
		err := h.Records.ChangeVariables(ctx, id, change)
		if err == nil {
			u.log.Info("environment variables changed")
		}
		return err
	})
}

// AddApts adds system packages to those that an application asks for and
// returns what the host lacks of these. It fails with app.Invalid.
func (h *Host) AddApts(ctx context.Context, owner app.AccountID, id app.ID, list []string) (app.Wishes, error) {
	wishes, err := h.Wish(list)
	if err != nil {
		return app.Wishes{}, err
	}
	return wishes, h.change(ctx, owner, id, func(_ context.Context, u *unit) error {
		all, err := h.Wish(slices.Concat(u.app.Apts, wishes.Names))
		if err != nil {
			return err
		}
		return u.storeApts(all.Names)
	})
}

// DropApts removes system packages from those that an application asks for and
// returns their names. It fails with app.Invalid, and with app.Already when it
// asks for none of them.
func (h *Host) DropApts(ctx context.Context, owner app.AccountID, id app.ID, list []string) ([]string, error) {
	wishes, err := h.Wish(list)
	if err != nil {
		return nil, err
	}
	return wishes.Names, h.change(ctx, owner, id, func(_ context.Context, u *unit) error {
		left := slices.DeleteFunc(slices.Clone(u.app.Apts), func(name string) bool { return slices.Contains(wishes.Names, name) })
		if len(left) == len(u.app.Apts) {
			return app.Errorf(app.Already, "the application does not ask for %s", strings.Join(wishes.Names, ", "))
		}
		return u.storeApts(left)
	})
}

// EventLog returns what happened to an application lately, newest first, with the errors
// of change.
func (h *Host) EventLog(ctx context.Context, owner app.AccountID, id app.ID) ([]app.HistoryEvent, error) {
	all, err := changing(ctx, h, owner, id, func(ctx context.Context, _ *unit) ([]app.HistoryEvent, error) {
		return h.Registry.EventLog(ctx, id)
	})
	for i := range all {
		all[i].Text = Words(all[i], h.StopGrace)
	}
	return all, err
}

// Deploys returns the history of an application, newest first, with the errors of change.
func (h *Host) Deploys(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Deploy, error) {
	all, err := changing(ctx, h, owner, id, func(ctx context.Context, _ *unit) ([]app.Deploy, error) { return h.Registry.Deploys(ctx, id) })
	Reach(all)
	return all, err
}

// Backup writes a ZIP of an application's tree as it is now and returns its
// name; withVariables puts the environment variables into it, in plain. It fails
// with app.NotFound, and with app.Conflict while it is deployed for the first
// time. Expired ones are dropped first.
func (h *Host) Backup(ctx context.Context, owner app.AccountID, id app.ID, withVariables bool) (app.Backup, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Backup{}, err
	}
	if err := u.do(ctx, u.refuse); err != nil {
		return app.Backup{}, err
	}
	if err := h.DropBackups(); err != nil {
		h.Log.Error("cannot drop expired backups", "error", err)
	}
	if err := h.backups.Acquire(ctx, 1); err != nil {
		return app.Backup{}, err
	}
	defer h.backups.Release(1)
	var variables []app.Variable
	if withVariables {
		all, err := h.Variables(ctx, owner, id)
		if err != nil {
			return app.Backup{}, err
		}
		variables = append([]app.Variable{}, all...) // not nil: none is an answer too
	}
	room, err := h.roomForBackup(ctx, owner, id)
	if err != nil {
		return app.Backup{}, err
	}
	file, err := h.Trees.Backup(ctx, id, variables, room)
	if err != nil {
		return app.Backup{}, err
	}
	// It may have waited long. What was deleted meanwhile left its name to others,
	// whose files these may be.
	if now, err := h.find(owner, id); err != nil || now != u {
		return app.Backup{}, noApp(id)
	}
	if withVariables {
		h.Log.Info("a backup holds the environment variables", "app", id, "account", owner)
	}
	return app.Backup{App: id, File: file, Expires: time.Now().Add(h.BackupTTL)}, nil
}

// DropBackups removes expired backups.
func (h *Host) DropBackups() error {
	_, err := h.Trees.DropBackups(time.Now().Add(-h.BackupTTL))
	return err
}
