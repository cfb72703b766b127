package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/mattn/go-sqlite3"
)

// access is how a pool uses the file.
type access int

const (
	reading access = iota
	writing
)

const (
	readers     = 4
	busyTimeout = 5 * time.Second
)

// createFile makes the file, empty and private. SQLite gives the files beside
// it (-wal, -shm) the same mode. An existing file is never opened here: closing
// any descriptor of it would drop the locks that this process holds on it
// through SQLite (https://sqlite.org/howtocorrupt.html, 2.2).
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return tighten(path)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close()) // Chmod: the umask may have taken more
}

// tighten takes the file away from group and others, who may have got it with
// a restored backup: it holds the key that signs the links.
func tighten(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(path, 0o600)
}

// openPool makes a pool and connects nothing yet. What connects after at
// has remembered its files connects to those or fails.
func openPool(path string, a access, at *origin) (*sql.DB, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	at.path = absolute
	options := url.Values{
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_foreign_keys": {"on"},
	}
	size := readers
	if a == writing {
		size = 1
		options.Set("mode", "rw")
		options.Set("_txlock", "immediate") // a late upgrade to writer could fail as busy at once
		options.Set("_journal_mode", "WAL")
		options.Set("_synchronous", "FULL") // NORMAL may lose the last commits on a power cut
		options.Set("_secure_delete", "on") // what is removed was a secret, perhaps
	} else {
		options.Set("mode", "ro")
		options.Set("_txlock", "deferred")
	}
	name := url.URL{Scheme: "file", Path: absolute, RawQuery: options.Encode()}
	pool := sql.OpenDB(&connector{dsn: name.String(), at: at})
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool, nil
}

// connector opens connections without a driver registered for everybody.
type connector struct {
	dsn string
	at  *origin
}

// Driver returns the SQLite driver as berth uses it.
func (c *connector) Driver() driver.Driver {
	return &sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		// A schema that somebody else wrote must not run code in this process.
		_, err := conn.Exec("PRAGMA trusted_schema = OFF", nil)
		return err
	}}
}

// Connect opens one connection. Opening is quick, so ctx is not consulted.
func (c *connector) Connect(context.Context) (driver.Conn, error) {
	if err := c.at.moved(); err != nil { // a reader would make files beside another database
		return nil, err
	}
	conn, err := c.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	if err := c.at.moved(); err != nil { // it was opened by its name
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// connect makes the first connection of a pool. Two processes that turn the
// same new file to WAL at the same time can both be told "busy" at once,
// without the busy timeout; only asking again helps.
func connect(ctx context.Context, pool *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	for {
		err := pool.PingContext(ctx)
		if err == nil || !isCode(err, sqlite3.ErrBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}
