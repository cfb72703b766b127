package db

import "context"

// Life is what is known of a daemon.
type Life struct {
	Boot    string // of the kernel that it runs on
	Version string
	Ended   bool // as it should
}

// Began remembers that a daemon runs, and returns what was known of the one before: the zero
// value for the first.
func (db *DB) Began(ctx context.Context, now Life) (Life, error) {
	return put(ctx, db, "store that berth runs", func(t tx) (Life, error) {
		before, err := one(t, func(row scanner) (l Life, err error) {
			err = row.Scan(&l.Boot, &l.Version, &l.Ended)
			return l, err
		}, nil, "SELECT boot, version, ended FROM life")
		if err != nil {
			return before, err
		}
		if err := t.exec("DELETE FROM life"); err != nil {
			return before, err
		}
		return before, t.exec("INSERT INTO life (boot, version, ended) VALUES (?, ?, ?)", now.Boot, now.Version, now.Ended)
	})
}

// Ended remembers that the daemon ends as it should.
func (db *DB) Ended(ctx context.Context) error {
	return db.update(ctx, "store that berth ends", nil, "UPDATE life SET ended = 1")
}
