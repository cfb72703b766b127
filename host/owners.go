package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"berth/app"
)

// owners are the accounts that applications belong to, as they were last read: what an
// account may have is asked at each start and each exit, and a disk that does not answer
// must stop neither. They are safe for concurrent use.
type owners struct {
	read     func(ctx context.Context, id app.AccountID) (app.Account, error)
	changing sync.Mutex          // one change at a time: what comes of it is of the last
	dealing  sync.Mutex          // of the processor: what is dealt last is of now
	judging  *semaphore.Weighted // of the disk: two that both fit alone are judged one after the other

	mu     sync.Mutex
	known  map[app.AccountID]app.Account
	claims map[app.ID]diskClaim
}

// diskClaim is disk space of a deployment that is not where it will be measured yet.
type diskClaim struct {
	owner app.AccountID
	bytes int64 // of all the application's files
}

func newOwners(read func(context.Context, app.AccountID) (app.Account, error)) *owners {
	return &owners{read: read, judging: semaphore.NewWeighted(1), known: map[app.AccountID]app.Account{}, claims: map[app.ID]diskClaim{}}
}

// get returns an account as it was last read.
func (o *owners) get(ctx context.Context, id app.AccountID) (app.Account, error) {
	o.mu.Lock()
	a, known := o.known[id]
	o.mu.Unlock()
	if known {
		return a, nil
	}
	return o.renew(ctx, id)
}

// renew reads an account.
func (o *owners) renew(ctx context.Context, id app.AccountID) (app.Account, error) {
	a, err := o.read(ctx, id)
	if err == nil {
		o.mu.Lock()
		o.known[id] = a
		o.mu.Unlock()
	}
	return a, err
}

// limits are what an account may have. One that cannot be read has no limits of its own:
// whatever asks is about an application that was let in.
func (h *Host) limits(owner app.AccountID) app.Limits {
	a, err := h.owners.get(context.Background(), owner)
	if err != nil {
		h.Log.Error("cannot read what an account may have", "account", owner, "error", err)
	}
	return a.Limits
}

// suspended reports whether an account that was read is suspended.
func (o *owners) suspended(id app.AccountID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[id].Suspended.On
}

// AccountChanged makes what an account may have now hold for what runs: of one that is
// suspended it returns when nothing runs, and of one that is not any more what is wanted
// online starts, soon. Whoever changes an account calls it afterwards. It fails with
// app.NotFound, and with app.Unavailable when programs take far longer to end than they
// may: they end all the same.
func (h *Host) AccountChanged(ctx context.Context, owner app.AccountID) error {
	done, err := h.begin()
	if err != nil {
		return err
	}
	defer done()
	h.owners.changing.Lock()
	defer h.owners.changing.Unlock()
	before, err := h.owners.get(ctx, owner)
	if err != nil {
		return err
	}
	a, err := h.owners.renew(ctx, owner)
	if err != nil {
		return err
	}
	h.builds.bound(owner, a.Limits.Builds)
	if before.Limits.CPU != a.Limits.CPU {
		h.deal(owner)
	}
	of := func(u *unit) bool { return u.owner == owner }
	switch {
	case a.Suspended.On:
		return h.rest(ctx, of, app.Textf("the programs of the account are being stopped; that takes longer than it should, for the host or its disk is busy"))
	case before.Suspended.On && h.Held().Why == "":
		h.wake(ctx, of)
	}
	return nil
}

// rest ends everything that runs of some applications, and calls their deployments off. slow
// is the error when that takes too long.
func (h *Host) rest(ctx context.Context, some func(u *unit) bool, slow app.Text) error {
	ctx, cancel := context.WithTimeout(ctx, h.StopGrace+moreStop)
	defer cancel()
	var resting errgroup.Group
	for _, u := range h.all() {
		if some(u) {
			resting.Go(func() error {
				err := u.await(ctx, u.rest)
				if app.KindOf(err) == app.NotFound { // deleted meanwhile
					return nil
				}
				return err
			})
		}
	}
	err := resting.Wait()
	if err != nil && ctx.Err() != nil {
		return &app.Error{Kind: app.Unavailable, Message: slow}
	}
	return err
}

// wake starts what of some applications is wanted online and does not run, as after a boot.
func (h *Host) wake(ctx context.Context, some func(u *unit) bool) {
	var units []*unit
	for _, u := range h.all() {
		if !some(u) {
			continue
		}
		units = append(units, u)
		u.call(ctx, u.wake)
	}
	h.startQueued(units)
}

// barred refuses what starts something on a host that holds its programs, or of an account
// that is suspended.
func (h *Host) barred(owner app.AccountID) error {
	if err := h.Held().Refusal(); err != nil {
		return err
	}
	if h.owners.suspended(owner) {
		return app.Errorf(app.Forbidden, "the account that owns this application is suspended, and nothing of it runs; ask the owner of the server")
	}
	return nil
}

// admitNew judges whether an account may have another application.
func admitNew(owner app.Account, used app.Use) error {
	if err := owner.Closed(); owner.Suspended.On { // the owner of the host acts for one that is disabled
		return err
	}
	if most := owner.Limits.Apps; most > 0 && used.Apps >= most {
		return app.Errorf(app.Exhausted,
			"the account has %d of %d applications; delete one, or ask the owner of this host for more", used.Apps, most)
	}
	return nil
}

// deal deals out the processor that an account may have, among those of its applications
// that something runs in, by their RAM.
func (h *Host) deal(owner app.AccountID) {
	h.owners.dealing.Lock()
	defer h.owners.dealing.Unlock()
	shares := h.shares(owner)
	for _, id := range slices.Sorted(maps.Keys(shares)) {
		if err := h.LimitCPU(id, shares[id]); err != nil {
			h.Log.Error("cannot limit the processor time of an application", "app", id, "error", err)
		}
	}
}

// shares returns the percentages of one processor that the applications of an account
// may have now, 0 for no limit of the account's.
func (h *Host) shares(owner app.AccountID) map[app.ID]int {
	most, weights, sum := h.limits(owner).CPU, map[app.ID]int{}, 0
	for _, u := range h.all() {
		if u.owner != owner {
			continue
		}
		if ram := h.capacity.of(u.id); ram > 0 {
			weights[u.id] = int(ram)
			sum += int(ram)
		}
	}
	for id, weight := range weights {
		weights[id] = 0
		if most > 0 {
			weights[id] = max(most*weight/sum, 1)
		}
	}
	return weights
}

// ran is called when something began to run in an application, or ended.
func (h *Host) ran(id app.ID) {
	base, _, _ := strings.Cut(string(id), " ") // which no id holds
	h.mu.RLock()
	u := h.units[app.ID(base)]
	h.mu.RUnlock()
	if u != nil && h.limits(u.owner).CPU > 0 {
		h.deal(u.owner)
	}
}

// share is the part of its account's processor that an application in which something
// begins to run may have, 0 for no limit.
func (h *Host) share(owner app.AccountID, id app.ID) int {
	if h.limits(owner).CPU == 0 {
		return 0
	}
	return h.shares(owner)[id]
}

// claimStage counts the files of an application as what a stage makes of them at least,
// until unclaim is called, unless its account may not have so much. over is the
// application that the stage is laid over, "" for a new one. It fails with app.Unusable.
func (h *Host) claimStage(ctx context.Context, owner app.AccountID, id, over app.ID, stage app.Stage) error {
	if h.limits(owner).Disk == 0 {
		return nil
	}
	s, err := h.disk.After(ctx, stage, over)
	if err != nil {
		return err
	}
	had := app.Space{}
	if u, err := h.find(owner, over); err == nil {
		if had, err = u.disk.recent(ctx); err != nil {
			return err
		}
	}
	return h.claimDisk(ctx, owner, id, had.Bytes, s.Bytes, app.Words("deploy the application"))
}

// built is claimStage for the tree of a new application after its build.
func (h *Host) built(ctx context.Context, u *unit) error {
	if h.limits(u.owner).Disk == 0 {
		return nil
	}
	s, err := u.disk.recent(ctx)
	if err != nil {
		return err
	}
	return h.claimDisk(ctx, u.owner, u.id, 0, s.Bytes, app.Words("deploy the application"))
}

// claimDisk is claimStage for what had so many bytes and is to have others. What becomes
// smaller always may. what completes "cannot ...".
func (h *Host) claimDisk(ctx context.Context, owner app.AccountID, id app.ID, had, bytes int64, what app.Text) error {
	most := h.limits(owner).Disk
	if most == 0 {
		return nil
	}
	if err := h.owners.judging.Acquire(ctx, 1); err != nil {
		return err
	}
	defer h.owners.judging.Release(1)
	use, err := h.DiskUse(ctx, owner)
	if err != nil {
		return err
	}
	if sum := use.Bytes() - use.Files[id] + bytes; sum > most.Bytes() && bytes > had {
		return app.Errorf(app.Unusable,
			"cannot %s: the files and backups of the account would take %d MB of disk, and may take %d MB; remove some, or ask the owner of this host for more",
			what, wide(sum), most)
	}
	h.owners.mu.Lock()
	defer h.owners.mu.Unlock()
	h.owners.claims[id] = diskClaim{owner, bytes}
	return nil
}

// unclaim is the end of a claim, if there is one.
func (h *Host) unclaim(id app.ID) {
	h.owners.mu.Lock()
	defer h.owners.mu.Unlock()
	delete(h.owners.claims, id)
}

// roomForBackup returns what a backup of an application may take and how many of them are
// kept, or refuses when its account has as many as it may, of other applications, or no
// disk space left.
func (h *Host) roomForBackup(ctx context.Context, owner app.AccountID, id app.ID) (room app.BackupRoom, err error) {
	limits := h.limits(owner)
	if limits.Backups == 0 && limits.Disk == 0 {
		return room, nil
	}
	use, err := h.DiskUse(ctx, owner)
	if err != nil {
		return room, err
	}
	if most := limits.Backups; most > 0 {
		own, err := h.Trees.Backups(id, h.BackupTTL)
		if err != nil {
			return room, err
		}
		if room.Keep = most - use.Backups + len(own); room.Keep <= 0 {
			return room, app.Errorf(app.Exhausted,
				"cannot write the backup: the account has %d of %d backups, all of other applications; wait until one expires, or ask the owner of this host for more",
				use.Backups, most)
		}
	}
	if most := limits.Disk; most > 0 {
		if room.Bytes = most.Bytes() - use.Bytes(); room.Bytes <= 0 {
			return room, app.Errorf(app.Unusable,
				"cannot write the backup: the files and backups of the account take %d MB of disk, and may take %d MB; remove some, or ask the owner of this host for more",
				wide(use.Bytes()), most)
		}
	}
	return room, nil
}

// diskOf adds up what the applications of an account have on the disk; measure returns the
// size of one.
func (h *Host) diskOf(ctx context.Context, owner app.AccountID, measure func(u *unit) (app.Space, error)) (app.DiskUse, error) {
	use := app.DiskUse{Files: map[app.ID]int64{}}
	o := h.owners
	o.mu.Lock()
	for id, c := range o.claims {
		if c.owner == owner {
			use.Files[id] = c.bytes
		}
	}
	o.mu.Unlock()
	for _, u := range h.all() {
		if u.owner != owner {
			continue
		}
		s, err := measure(u)
		if app.KindOf(err) == app.NotFound { // deleted meanwhile
			continue
		}
		if err != nil {
			return use, err
		}
		use.Files[u.id] = max(use.Files[u.id], s.Bytes)
		kept, err := h.Trees.Backups(u.id, h.BackupTTL)
		if err != nil {
			return use, err
		}
		use.Backups += len(kept)
		for _, b := range kept {
			use.BackupBytes += b.Bytes
		}
	}
	return use, ctx.Err()
}

// DiskUse returns what an account has on the disk. What was measured a minute ago will do.
func (h *Host) DiskUse(ctx context.Context, owner app.AccountID) (app.DiskUse, error) {
	return h.diskOf(ctx, owner, func(u *unit) (app.Space, error) { return u.disk.recent(ctx) })
}

// startable refuses to start an application whose account is known to take more of the
// disk than it may, or was not measured yet.
func (h *Host) startable(owner app.AccountID) error {
	most := h.limits(owner).Disk
	if most == 0 {
		return nil
	}
	ctx := context.Background()
	use, err := h.diskOf(ctx, owner, func(u *unit) (app.Space, error) {
		return u.disk.get(ctx, func(app.Space, time.Time) bool { return true })
	})
	if err == nil && use.Bytes() > most.Bytes() {
		err = app.Errorf(app.Unusable,
			"cannot start the application: the files and backups of its account take %d MB of disk, and may take %d MB; remove some with a console command, or ask the owner of this host for more",
			wide(use.Bytes()), most)
	}
	return err
}

// roundAccounts stops, of each account that takes more of the disk than it may, the
// program whose files take the most; another one only if it takes still more by then.
// evicted is what an account took when a program was stopped.
func (h *Host) roundAccounts(ctx context.Context, evicted map[app.AccountID]int64) {
	seen := map[app.AccountID]bool{}
	for _, u := range h.all() {
		most := h.limits(u.owner).Disk
		if most == 0 || seen[u.owner] || ctx.Err() != nil {
			continue
		}
		seen[u.owner] = true
		use, err := h.DiskUse(ctx, u.owner)
		if err != nil {
			u.log.Warn("cannot measure the disk space of an account", "account", u.owner, "error", err)
			continue
		}
		if use.Bytes() <= most.Bytes() {
			delete(evicted, u.owner)
			continue
		}
		if use.Bytes() <= evicted[u.owner] {
			continue
		}
		evicted[u.owner] = use.Bytes()
		why := fmt.Sprintf("the files and backups of its account take %d MB of disk, and may take %d MB", wide(use.Bytes()), most)
		if largest := h.largest(u.owner, use.Files); largest != nil {
			largest.call(ctx, func() { largest.evict(why) })
		}
	}
}

// largest returns the application of an account that runs and has the most files, nil
// when nothing runs.
func (h *Host) largest(owner app.AccountID, files map[app.ID]int64) (largest *unit) {
	for _, u := range h.all() {
		v := u.view.Load()
		if u.owner != owner || v.Deploying || !v.Running && v.State != app.Waiting {
			continue
		}
		if largest == nil || files[u.id] > files[largest.id] {
			largest = u
		}
	}
	return largest
}

// limitsDisk reports whether an account of those that have applications has a limit of its
// disk space.
func (h *Host) limitsDisk() bool {
	return slices.ContainsFunc(h.all(), func(u *unit) bool { return h.limits(u.owner).Disk > 0 })
}

// rest ends what runs while the account is suspended, or the host holds its programs, and calls
// a deployment off; of a first one nothing stays. What is wanted stays as it is.
func (u *unit) rest(reply func(error)) {
	switch u.closing {
	case remove: // its program may take a while to end
		u.after(rest, reply, nil)
		return
	case shutdown, detach:
		reply(u.refuse())
		return
	case stay, start, again, deploy, rest:
	}
	if u.deploy != nil {
		u.deploy.cancel()
	}
	if u.state == app.Stopped && !u.resting && u.deploy == nil {
		u.resign() // it ended a moment ago
	}
	u.resting = true
	if u.state != app.Stopped {
		why := "the account is suspended"
		if u.h.Held().Why != "" {
			why = "the programs of this host are held"
		}
		u.h.Logs.Note(u.id, why+"; the application is stopped until that ends")
	}
	u.after(rest, reply, nil)
}

// wake queues up what is wanted online and does not run, like boot.
func (u *unit) wake() {
	u.resting = false
	if u.closing == stay && u.deploy == nil && u.state == app.Stopped && u.app.Wanted == app.WantOnline && !u.mixedTree {
		u.enter(app.Waiting, 0)
		u.retryAt = time.Time{}
	}
}
