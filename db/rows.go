package db

import (
	"database/sql"
	"errors"
)

// scanner is one row of a result.
type scanner interface {
	Scan(dest ...any) error
}

// collect reads every row and closes the result.
func collect[T any](rows *sql.Rows, scan func(scanner) (T, error)) (all []T, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
