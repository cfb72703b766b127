package host

import (
	"context"

	"berth/app"
)

// Held returns the hold of the host as it was last read: the zero value for none.
func (h *Host) Held() app.Hold {
	if hold := h.hold.Load(); hold != nil {
		return *hold
	}
	return app.Hold{}
}

// readHold reads whether the host holds its programs.
func (h *Host) readHold(ctx context.Context) error {
	if h.ReadHold == nil {
		return nil
	}
	hold, _, err := h.ReadHold(ctx)
	if err == nil {
		h.hold.Store(&hold)
	}
	return err
}

// HoldChanged reads the hold of the host anew, after somebody has set or dropped it in the
// records. With a hold it returns when nothing runs; what is wanted stays as it is. Without
// one that was there before, what is wanted online starts, a few at a time, soon. It fails
// with app.Unavailable when programs take far longer to end than they may: they end all the same.
func (h *Host) HoldChanged(ctx context.Context) error {
	done, err := h.begin()
	if err != nil {
		return err
	}
	defer done()
	h.owners.changing.Lock()
	defer h.owners.changing.Unlock()
	before := h.Held()
	if err := h.readHold(ctx); err != nil {
		return err
	}
	switch now := h.Held(); {
	case now.Why != "":
		h.Log.Warn("the programs of this host are held", "why", now.Why, "peer", now.Peer)
		return h.rest(ctx, func(*unit) bool { return true }, app.Textf("the programs of this host are being stopped; that takes longer than it should, for the host or its disk is busy"))
	case before.Why != "":
		h.Log.Info("the programs of this host are not held any more: what is wanted online starts")
		h.wake(ctx, func(u *unit) bool { return !h.owners.suspended(u.owner) })
	}
	return nil
}

// rests reports whether nothing of an account may run now.
func (h *Host) rests(owner app.AccountID) bool {
	return h.Held().Why != "" || h.owners.suspended(owner)
}
