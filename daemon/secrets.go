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

// sealSecrets makes d seal its secrets, and removes plain secrets from the file of d. It makes the
// first key. If the key that seals is gone, it makes another one, and the old secrets stay sealed until
// the owner of the host puts the old key back. If a key file cannot be read, it makes no key, and d
// refuses new secrets. It logs what keeps it from sealing, such as a full disk, and the next start tries again.
func sealSecrets(ctx context.Context, d *db.DB, ring *keyring.Ring, log *slog.Logger) error {
	is, err := d.Seals(ctx)
	if err != nil {
		return err
	}
	if _, known, unread := ring.Key(is.Key); !known && unread == nil {
		if _, err := d.Reseal(ctx, false, func() (string, error) { return newKey(ring, is.Key) }); err != nil {
			log.Error("cannot seal the secrets", "error", err)
		} else if is, err = d.Seals(ctx); err != nil {
			return err
		} else if is.Key != "" {
			log.Info("the secrets are sealed", "key", is.Key, "file", ring.File())
		}
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

// newKey returns the id of the key that seals from now on: the first of the ring, or else one that
// it makes. If it can make none, a database that never sealed (seals is "") stores secrets in plain.
func newKey(ring *keyring.Ring, seals string) (string, error) {
	all, err := ring.Keys()
	switch {
	case err != nil:
		return "", err
	case len(all) > 0:
		return all[0].ID(), nil
	}
	made, err := ring.Make()
	switch {
	case err == nil:
		return made.ID(), nil
	case seals != "":
		return "", err
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
	all, unread := ring.Keys()
	switch {
	case unread != nil:
		return unread.Error() + "; new secrets are refused", "move that file away, put the key back (berth key add), and start berth again", nil
	case len(lost) > 0:
		return "the key that sealed " + SecretsText(lost) + " is not there", "put it back (berth key add), set the variables anew, or give the secrets up (berth key rotate --forget)", nil
	case is.Key != "" && !slices.ContainsFunc(all, func(k db.Key) bool { return k.ID() == is.Key }):
		return "the key that seals the secrets is not there, and no other can be stored; new secrets are refused", "put it back (berth key add), and start berth again", nil
	case is.Key == "":
		return "secrets are stored in plain: no file for their key can be made", "run berth install as root, or name a file with key_file, and start berth again", nil
	case !is.Scrubbed:
		return "the database may still hold secrets in pages that it does not use", "start berth again when its disk has room for a second copy of the database", nil
	}
	return "", "", nil
}

// SecretsText names secrets, as far as people know them: the variables of each application, and how many berth has.
func SecretsText(lost []db.Secret) string {
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
			return nil, "", exit.NewProblem(exit.Failure, fmt.Errorf("cannot rotate the key: the key that sealed %s is not there", SecretsText(gone)),
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
		lost = SecretsText(gone)
	}
	done, err := d.Scrub(ctx)
	if err == nil && !done {
		err = errors.New("the secrets are sealed with the new key, but the file of the database is busy: what it held before goes at the next start of berth")
	}
	dropPlainCopies(ctx, dir, 0, slog.New(slog.DiscardHandler))
	return old, lost, errors.Join(err, d.Alone(ctx, func() error { return ring.Keep(made.ID()) }))
}
