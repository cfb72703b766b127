package db

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
)

// Key seals secrets. It is 32 random bytes, and nowhere in the database.
type Key [chacha20poly1305.KeySize]byte

// ID names a key, and tells nothing of it: eight hexadecimal digits.
func (k Key) ID() string {
	sum := sha256.Sum256(append([]byte("berth key id "), k[:]...))
	return hex.EncodeToString(sum[:keyIDSize])
}

// Keys are the keys that there are. Its methods are called within transactions, by any
// number of goroutines, and MUST NOT call the DB.
type Keys interface {
	// Key returns the key of an id. ok is false if there is no such key. It fails if the keys
	// cannot be read, also for "", which is the id of none.
	Key(id string) (key Key, ok bool, err error)
}

// UseKeys lets db seal secrets and read those that are sealed. Without keys it reads only secrets
// that are stored in plain, and stores new ones in plain until Reseal has named a key. It MUST be
// called before other goroutines use db.
func (db *DB) UseKeys(keys Keys) { db.keys = keys }

// sealedColumn is a column of secrets: every value in it is sealed, for its row alone.
type sealedColumn struct {
	table, column string
	row           []string // the columns that name the row
}

// sealedColumns are all of them; NULL in one stays NULL. A secret that must be read again
// belongs here, one that is only compared is stored as a hash.
var sealedColumns = []sealedColumn{
	{"acme_account", "key", []string{"ca"}},
	{"certificate", "key", []string{"ca", "name"}},
	{"channel", "secrets", []string{"account", "name"}},
	{"channel", "target", []string{"account", "name"}},
	{"env", "value", []string{"app", "name"}},
	{"meta", "links", nil},
	{"totp", "seed", []string{"account"}},
}

// A sealed value is sealMark, the id of its key, a nonce and the ciphertext of
// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), whose additional data names the column and
// the row: a value that somebody moves to another row cannot be opened there. No text in UTF-8
// and no key in DER or PEM begins with sealMark.
const (
	sealMark  = 0xB1
	keyIDSize = 4
	sealHead  = 1 + keyIDSize + chacha20poly1305.NonceSizeX
)

func isSealed(value []byte) bool {
	return len(value) >= sealHead+chacha20poly1305.Overhead && value[0] == sealMark
}

// rowOf names a row for seal and unseal by its columns. None of them holds a NUL.
func rowOf(columns ...string) string { return strings.Join(columns, "\x00") }

func sealContext(column, row string) []byte { return []byte("berth\x00" + column + "\x00" + row) }

// ErrKeyMissing is the error of a secret that is sealed with a key that is not there.
var ErrKeyMissing = errors.New("its key is not there")

// errKeysUnread is an ErrKeyMissing of a key that may be there: the keys cannot be read now.
// What the key has sealed is not lost, so nothing takes its place.
var errKeysUnread = fmt.Errorf("%w as long as the keys cannot be read", ErrKeyMissing)

// errUnsealed is the error of a secret that is not stored, because nothing can seal it.
var errUnsealed = errors.New("nothing can seal the secret")

// aead returns what seals with a key, or ErrKeyMissing.
func (t tx) aead(id string) (cipher.AEAD, error) {
	missing := fmt.Errorf("%w (%s)", ErrKeyMissing, id)
	if t.keys == nil {
		return nil, missing
	}
	key, ok, err := t.keys.Key(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKeysUnread, err)
	}
	if !ok {
		return nil, missing
	}
	return chacha20poly1305.NewX(key[:])
}

// seal returns what is stored of a secret in a column ("table.column") of sealedColumns, for
// the row that rowOf names. Before there is a key the secret itself is stored. It fails with
// app.Unavailable if the key is not there, or if the keys cannot be read.
func (t tx) seal(column, row string, plain []byte) ([]byte, error) {
	id, err := one(t, value[string], sql.ErrNoRows, "SELECT seal_key FROM meta")
	if err != nil {
		return nil, err
	}
	if id != "" {
		sealed, err := t.sealWith(id, column, row, plain)
		if errors.Is(err, ErrKeyMissing) {
			err = fmt.Errorf("%w: %w", errUnsealed, err)
		}
		return sealed, err
	}
	if t.keys != nil {
		if _, _, err := t.keys.Key(id); err != nil {
			return nil, fmt.Errorf("%w: %w", errUnsealed, err)
		}
	}
	return blob(plain), nil
}

func (t tx) sealWith(id, column, row string, plain []byte) ([]byte, error) {
	with, err := t.aead(id)
	if err != nil {
		return nil, fmt.Errorf("cannot seal a secret: %w", err)
	}
	number, err := hex.DecodeString(id)
	if err != nil || len(number) != keyIDSize {
		return nil, fmt.Errorf("cannot seal a secret: %q is no id of a key", id)
	}
	sealed := make([]byte, sealHead, sealHead+len(plain)+chacha20poly1305.Overhead)
	sealed[0] = sealMark
	copy(sealed[1:], number)
	nonce := sealed[1+keyIDSize:]
	rand.Read(nonce) // never fails, see crypto/rand
	return with.Seal(sealed, nonce, plain, sealContext(column, row)), nil
}

// unseal returns the secret that is stored in a column for a row. It fails with ErrKeyMissing.
func (t tx) unseal(column, row string, stored []byte) ([]byte, error) {
	if !isSealed(stored) {
		return stored, nil
	}
	with, err := t.aead(hex.EncodeToString(stored[1 : 1+keyIDSize]))
	if err != nil {
		return nil, err
	}
	plain, err := with.Open(nil, stored[1+keyIDSize:sealHead], stored[sealHead:], sealContext(column, row))
	if err != nil {
		return nil, fmt.Errorf("the secret in %s of %q is damaged, or is that of another row", column, strings.ReplaceAll(row, "\x00", " "))
	}
	return plain, nil
}

// Seals is how the secrets of a database are stored.
type Seals struct {
	Key      string    // the id of the key that new ones are sealed with, "" while they are stored in plain
	Scrubbed bool      // no page of the file holds one that was there in plain, or under another key
	Shown    time.Time // when somebody was last shown the key; zero: never
}

// Seals returns how secrets are stored.
func (db *DB) Seals(ctx context.Context) (Seals, error) {
	return get(ctx, db, "read how secrets are stored", func(t tx) (Seals, error) {
		return one(t, func(row scanner) (s Seals, err error) {
			err = row.Scan(&s.Key, &s.Scrubbed, asTime(&s.Shown))
			return s, err
		}, sql.ErrNoRows, "SELECT seal_key, scrubbed, seal_shown FROM meta")
	})
}

// ShownKey remembers that somebody is shown the key.
func (db *DB) ShownKey(ctx context.Context) error {
	return db.update(ctx, "store that the key was shown", nil, "UPDATE meta SET seal_shown = ?", stamp(db.now()))
}

// Alone runs fn while nobody else, also of other processes, can write to the database. fn MUST
// NOT call the DB.
func (db *DB) Alone(ctx context.Context, fn func() error) error {
	return db.write(ctx, "keep others off the database", func(tx) error { return fn() })
}

// Secret names one secret: its column, such as "env.value", and its row, such as the id of an
// application and the name of a variable.
type Secret struct {
	Column string
	Row    []string
	in     sealedColumn
	stored []byte
}

// secrets returns every secret as it is stored.
func (t tx) secrets() ([]Secret, error) {
	var found []Secret
	for _, c := range sealedColumns {
		rows, err := all(t, func(row scanner) (Secret, error) {
			s := Secret{Column: c.table + "." + c.column, Row: make([]string, len(c.row)), in: c}
			into := []any{&s.stored}
			for i := range s.Row {
				into = append(into, &s.Row[i])
			}
			err := row.Scan(into...)
			return s, err
		}, "SELECT "+strings.Join(append([]string{c.column}, c.row...), ", ")+" FROM "+c.table+" WHERE "+c.column+" IS NOT NULL")
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	return found, nil
}

// at is the condition of a statement that names the secret's row, and its arguments.
func (s Secret) at() (where string, args []any) {
	where = " WHERE 1"
	for i, name := range s.in.row {
		where += " AND " + name + " = ?"
		args = append(args, s.Row[i])
	}
	return where, args
}

// Secrets returns every secret.
func (db *DB) Secrets(ctx context.Context) ([]Secret, error) {
	return get(ctx, db, "list the secrets", tx.secrets)
}

// Lost returns the secrets that cannot be read, because their keys are not there.
func (db *DB) Lost(ctx context.Context) ([]Secret, error) {
	return get(ctx, db, "look for secrets whose key is not there", func(t tx) (lost []Secret, err error) {
		found, err := t.secrets()
		for _, s := range found {
			if _, failed := t.unseal(s.Column, rowOf(s.Row...), s.stored); errors.Is(failed, ErrKeyMissing) {
				lost = append(lost, s)
			}
		}
		return lost, err
	})
}

// Reseal seals every secret with the key whose id makeKey returns, and new ones from then on;
// for "" it leaves those that are there as they are, and new ones are stored in plain. makeKey
// runs while nobody else, also of other processes, can write or reseal; on its error nothing
// changes. What cannot be opened, because its key is not there, stays as it is and is returned;
// forget removes it. Scrub removes what was there before from the file.
func (db *DB) Reseal(ctx context.Context, forget bool, makeKey func() (id string, err error)) ([]Secret, error) {
	return put(ctx, db, "seal the secrets", func(t tx) (lost []Secret, err error) {
		id, err := makeKey()
		if err != nil {
			return nil, err
		}
		found, err := t.secrets()
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			plain, err := t.unseal(s.Column, rowOf(s.Row...), s.stored)
			if errors.Is(err, ErrKeyMissing) {
				lost, err = append(lost, s), nil
				if forget {
					err = t.forget(s)
				}
			} else if err == nil && id != "" {
				err = t.reseal(s, id, plain)
			}
			if err != nil {
				return nil, err
			}
		}
		return lost, t.exec("UPDATE meta SET seal_shown = CASE WHEN seal_key = ?1 THEN seal_shown ELSE 0 END, seal_key = ?1, scrubbed = 0", id)
	})
}

func (t tx) reseal(s Secret, id string, plain []byte) error {
	sealed, err := t.sealWith(id, s.Column, rowOf(s.Row...), plain)
	if err != nil {
		return err
	}
	where, args := s.at()
	return t.exec("UPDATE "+s.in.table+" SET "+s.in.column+" = ?"+where, append([]any{sealed}, args...)...)
}

// forget removes the row of a secret, which says nothing without it; of the only row of meta
// the secret alone, which is made anew.
func (t tx) forget(s Secret) error {
	if len(s.in.row) == 0 {
		return t.exec("UPDATE " + s.in.table + " SET " + s.in.column + " = NULL")
	}
	where, args := s.at()
	return t.exec("DELETE FROM "+s.in.table+where, args...)
}

// Scrub makes the file hold nothing but what it stores: no page of it, and none of its log,
// has what Reseal replaced. It waits for other users of the file for some seconds, and reports
// false when they were not done; then it is to be called again.
func (db *DB) Scrub(ctx context.Context) (bool, error) {
	if err := db.Moved(); err != nil {
		return false, err
	}
	if _, err := db.writer.ExecContext(ctx, "VACUUM"); err != nil {
		return false, explain("scrub the database", err)
	}
	if err := db.update(ctx, "scrub the database", nil, "UPDATE meta SET scrubbed = 1"); err != nil {
		return false, err
	}
	// The log may hold pages from before until it is cut.
	var busy, pages, moved int
	if err := db.writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved); err != nil {
		return false, explain("scrub the database", err)
	}
	if busy == 0 {
		return true, nil
	}
	return false, db.update(ctx, "scrub the database", nil, "UPDATE meta SET scrubbed = 0")
}

// sealSchema is the first schema whose secrets may be sealed.
const sealSchema = 18

// DropPlainCopies removes those of some copies of databases that hold secrets in plain, because
// their schema is older than seals, and that nobody has changed since before. It returns what
// it removed.
func DropPlainCopies(ctx context.Context, copies []string, before time.Time) (dropped []string, err error) {
	for _, file := range copies {
		info, failed := os.Lstat(file)
		if failed != nil || !info.Mode().IsRegular() || info.ModTime().After(before) {
			continue
		}
		schema, failed := SchemaOf(ctx, file)
		if failed != nil || schema == 0 || schema >= sealSchema {
			continue
		}
		if failed := ignoreMissing(os.Remove(file)); failed != nil {
			err = errors.Join(err, fmt.Errorf("cannot remove a copy of the database that holds secrets in plain: %w", failed))
			continue
		}
		dropped = append(dropped, file)
	}
	return dropped, err
}
