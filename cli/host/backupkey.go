package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"
	"unicode/utf8"

	"berth/app/exit"
	"berth/daemon"
	"berth/daemon/backup"
	"berth/daemon/keyring"
	"berth/daemon/settings"
	"berth/db"
	"berth/files/archive"
)

// minPassphrase is how many characters a passphrase has at least: who has the archive can try
// as many as they like.
const minPassphrase = 12

// secretsIn says which secrets an archive holds, in what form, and which a restore on another host lacks.
func secretsIn(is db.Seals, sealed []db.Secret, with bool) string {
	const keep = " Keep it where only you can read it."
	switch {
	case is.Key == "":
		return "It holds secrets in plain: environment variables, the keys of certificates, the key of the links; and the hashes of tokens." + keep
	case with:
		return "It holds secrets, and under your passphrase the key that opens them; and the hashes of tokens." + keep
	}
	return "It holds the hashes of tokens." + keep + "\nwarning: it does not hold the key " + is.Key +
		", so a restore on another host lacks " + daemon.SecretsText(sealed) +
		". Keep a copy of that key elsewhere (berth key show), or back up with --with-secrets."
}

// askWrapped asks for a passphrase and returns the keys of a ring under it.
func askWrapped(c *caller, ring *keyring.Ring) ([]byte, error) {
	keys, err := ring.Keys()
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, exit.NewProblem(exit.NotFound, errors.New("cannot add the key of the secrets: no key is there yet"), "Hint: berth makes a key when it starts.")
	}
	passphrase, err := readHidden(c.Stdin, c.Stderr, "passphrase", "Passphrase for the key in the archive: ", "\nAgain: ")
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(passphrase) < minPassphrase {
		return nil, exit.NewProblem(exit.Usage, fmt.Errorf("the passphrase is too short: it needs %d characters", minPassphrase), "Hint: nothing was written.")
	}
	return backup.WrapKeys(keys, passphrase, false)
}

// unwrapKeys returns the keys in an archive, for whose passphrase it asks; nil when it has none.
func unwrapKeys(ctx context.Context, c *caller, file string, m archive.Manifest) (keys []db.Key, err error) {
	var wrapped []byte
	_, err = readArchive(ctx, file, func(n int, part string, _ archive.Entry, content io.Reader) (err error) {
		if part == backup.KeysPart && n < len(m.Parts) && !m.Parts[n].Void {
			wrapped, err = io.ReadAll(io.LimitReader(content, 1<<20))
		}
		return err
	})
	if err != nil || wrapped == nil {
		return nil, err
	}
	passphrase, err := readHidden(c.Stdin, c.Stderr, "passphrase", "Passphrase of the key in the archive: ")
	if err != nil {
		return nil, err
	}
	keys, err = backup.UnwrapKeys(wrapped, passphrase)
	if err != nil {
		return nil, exit.NewProblem(exit.Usage, fmt.Errorf("cannot open the key in the archive: %w", err), "Hint: nothing was restored.")
	}
	return keys, nil
}

// putBack adds keys to those of the host, and says which secrets of the database that was
// restored cannot be read.
func putBack(ctx context.Context, c *caller, s settings.Settings, keys []db.Key) (err error) {
	d, err := db.Open(ctx, filepath.Join(s.DataDir, daemon.DatabaseName), time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	ring := daemon.Keys(s.DataDir, s.KeyFiles()...)
	d.UseKeys(ring)
	for _, key := range keys {
		if err := d.Alone(ctx, func() error { return ring.Add(key) }); err != nil {
			return err
		}
		c.Tell("the key %s is in %s", key.ID(), ring.File())
	}
	problem, hint, err := daemon.SecretsProblem(ctx, d, ring)
	if problem != "" && len(keys) == 0 {
		c.Tell("warning: %s: %s", problem, hint)
	}
	return err
}
