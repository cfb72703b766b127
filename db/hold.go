package db

import (
	"context"

	"berth/app"
)

// Holds remembers whether the host holds its programs.
type Holds struct{ db *DB }

// HoldOf returns the hold of this host, and whether there is one.
func (s Holds) HoldOf(ctx context.Context) (h app.Hold, held bool, err error) {
	h, err = get(ctx, s.db, "read why programs are held", func(t tx) (app.Hold, error) {
		return one(t, func(row scanner) (h app.Hold, err error) {
			err = row.Scan(&h.Why, &h.Peer, asTime(&h.At))
			return h, err
		}, nil, "SELECT why, peer, at FROM hold")
	})
	return h, h.Why != "", err
}

// SetHold makes h the hold of this host, in place of the one that it has.
func (s Holds) SetHold(ctx context.Context, h app.Hold) error {
	_, err := put(ctx, s.db, "store that programs are held", func(t tx) (struct{}, error) {
		if err := t.exec("DELETE FROM hold"); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, t.exec("INSERT INTO hold (why, peer, at) VALUES (?, ?, ?)", h.Why, h.Peer, stamp(h.At))
	})
	return err
}

// DropHold ends the hold, if there is one.
func (s Holds) DropHold(ctx context.Context) error {
	return s.db.update(ctx, "store that programs are not held", nil, "DELETE FROM hold")
}
