package db

import (
	"context"
	"crypto/rand"
	"database/sql"
)

// LinkKey returns the 32 random bytes that sign links, the same for the life
// of the file. The first call makes them.
func (db *DB) LinkKey(ctx context.Context) ([]byte, error) {
	var key []byte
	err := db.write(ctx, "read the link key", func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT link_key FROM meta").Scan(&key)
		if err != nil || key != nil {
			return err
		}
		key = make([]byte, 32)
		rand.Read(key) // never fails, see crypto/rand
		_, err = tx.ExecContext(ctx, "UPDATE meta SET link_key = ?", key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return key, nil
}
