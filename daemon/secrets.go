package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/app/exit"
	"berth/daemon/keyring"
	"berth/db"
)

// Keys returns the ring of the keys that seal the secrets of a data directory. files are
// those of settings.Settings; without any it is the file beside the directory.
func Keys(dir string, files ...string) *keyring.Ring {
	if len(files) == 0 {
		files = []string{dir + ".key"}
	}
	return keyring.Open(dir, files...)
}

// sealSecrets sees to it that d seals what is secret, and that its file holds nothing of what
// it stored in plain. It makes the first key, and another one when the key that sealed is
// gone: what that key sealed stays as it is until somebody puts the key back. That it cannot
// be done now, such as for a disk that is full, keeps berth from nothing else: it is logged, and
// the next start tries again.
func sealSecrets(ctx context.Context, d *db.DB, ring *keyring.Ring, log *slog.Logger) error {
	is, err := d.Seals(ctx)
	if err != nil {
		return err
	}
	if _, known, failed := ring.Key(is.Key); !known || failed != nil {
		if _, err := d.Reseal(ctx, false, func() (string, error) { return newKey(ring) }); err != nil {
			log.Error("cannot seal the secrets", "error", err)
			return ctx.Err()
		}
		if is, err = d.Seals(ctx); err != nil {
			return err
		}
		log.Info("the secrets are sealed", "key", is.Key, "file", ring.File())
	}
	if is.Key != "" && !is.Scrubbed {
		if _, err := d.Scrub(ctx); err != nil {
			log.Warn("cannot scrub the database yet", "error", err)
		}
	}
	problem, hint, err := SecretsProblem(ctx, d, ring)
	if problem != "" {
		log.Warn(problem, "hint", hint)
	}
	return err
}

// newKey returns the id of the key that is to seal: the first of the ring, or else one that is
// made; "" where none can be made, for then secrets are stored in plain.
func newKey(ring *keyring.Ring) (string, error) {
	all, err := ring.Keys()
	if err == nil && len(all) > 0 {
		return all[0].ID(), nil
	}
	if err == nil {
		var made db.Key
		if made, err = ring.Make(); err == nil {
			return made.ID(), nil
		}
	}
	return "", nil
}

// plainCopyTime is how long a copy from before a migration stays that holds secrets in plain: who
// goes back to the release before does so within a day.
const plainCopyTime = 24 * time.Hour

// dropPlainCopies removes the copies of the database in dir that hold secrets in plain and are
// older than that.
func dropPlainCopies(ctx context.Context, dir string, age time.Duration, log *slog.Logger) {
	var copies []string
	for _, word := range []string{".schema-", savedWord} {
		found, _ := filepath.Glob(filepath.Join(dir, DatabaseName+word+"*")) // a pattern without an error
		copies = append(copies, found...)
	}
	dropped, err := db.DropPlainCopies(ctx, copies, time.Now().Add(-age))
	if err != nil {
		log.Warn("a copy of the database holds secrets in plain", "error", err)
	}
	for _, file := range dropped {
		log.Info("removed a copy of the database that held secrets in plain", "file", file)
	}
}

// SecretsProblem says what is not as it should be with the secrets of a database and what helps,
// "" when all is well.
func SecretsProblem(ctx context.Context, d *db.DB, ring *keyring.Ring) (problem, hint string, err error) {
	is, err := d.Seals(ctx)
	if err != nil {
		return "", "", err
	}
	lost, err := d.Lost(ctx)
	if err != nil {
		return "", "", err
	}
	_, unread := ring.Keys()
	switch {
	case unread != nil:
		return unread.Error() + "; new secrets are stored in plain", "mend that file, or put a copy of it in its place, and start berth again", nil
	case len(lost) > 0:
		return "the key that sealed " + lostText(lost) + " is not there", "put it back (berth key add), set the variables anew, or give the secrets up (berth key rotate --forget)", nil
	case is.Key == "":
		return "secrets are stored in plain: no file for their key can be made", "run berth install as root, or name a file with key_file, and start berth again", nil
	case !is.Scrubbed:
		return "the database may still hold secrets in pages that it does not use", "start berth again when its disk has room for a second copy of the database", nil
	}
	return "", "", nil
}

// lostText names secrets that cannot be read.
func lostText(lost []db.Secret) string {
	variables, others := map[string]int{}, 0
	for _, s := range lost {
		if s.Column == "env.value" {
			variables[s.Row[0]]++
		} else {
			others++
		}
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(variables)) {
		parts = append(parts, fmt.Sprintf("%d variables of %s", variables[id], id))
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d secrets of berth", others))
	}
	return strings.Join(parts, ", ")
}

// RotateKey seals the secrets of a database with a new key, and forgets the others. It returns
// those, which open what was copied before. Secrets that cannot be read are an error, unless
// forget says to remove them: then lost names them. Copies in the data directory dir that hold
// secrets in plain go too.
func RotateKey(ctx context.Context, d *db.DB, dir string, ring *keyring.Ring, forget bool) (old []db.Key, lost string, err error) {
	if !forget {
		gone, err := d.Lost(ctx)
		if err != nil {
			return nil, "", err
		}
		if len(gone) > 0 {
			return nil, "", exit.NewProblem(exit.Failure, fmt.Errorf("cannot rotate the key: the key that sealed %s is not there", lostText(gone)),
				"Hint: put it back (berth key add), or give these secrets up with --forget.")
		}
	}
	if old, err = ring.Keys(); err != nil {
		return nil, "", err
	}
	var made db.Key
	gone, err := d.Reseal(ctx, forget, func() (id string, err error) {
		made, err = ring.Make()
		return made.ID(), err
	})
	if err != nil {
		return nil, "", err
	}
	if len(gone) > 0 {
		lost = lostText(gone)
	}
	done, err := d.Scrub(ctx)
	if err == nil && !done {
		err = errors.New("the secrets are sealed with the new key, but the file of the database is busy: what it held before goes at the next start of berth")
	}
	dropPlainCopies(ctx, dir, 0, slog.New(slog.DiscardHandler))
	return old, lost, errors.Join(err, d.Alone(ctx, func() error { return ring.Keep(made.ID()) }))
}
