package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/daemon"
	"berth/daemon/keyring"
	"berth/daemon/settings"
	"berth/db"
)

// withKeys is withDB for a command that works on the keys of the secrets.
func (c *caller) withKeys(
	cmd *cobra.Command, do func(ctx context.Context, d *db.DB, dir string, ring *keyring.Ring) error,
) *cobra.Command {
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, _ []string) error {
		return do(ctx, d, s.DataDir, daemon.Keys(s.DataDir, s.KeyFiles()...))
	}, "key_file")
}

// keyShow is "key show": the key, once, for a safe place.
func keyShow(c *caller) *cobra.Command {
	cmd := command.New("show [--again] [--data-dir DIR] [--key-file PATH]", "print the key that seals the secrets in the database, once, for a safe place", 0, 0)
	again := command.Toggle(cmd, "again", "print it although somebody has seen it before")
	return c.withKeys(cmd, func(ctx context.Context, d *db.DB, _ string, ring *keyring.Ring) error {
		is, err := d.Seals(ctx)
		if err != nil {
			return err
		}
		if is.Key == "" {
			return exit.NewProblem(exit.NotFound, errors.New("cannot show the key: there is no key yet, and secrets are stored in plain"),
				"Hint: berth makes a key when it starts.")
		}
		if !is.Shown.IsZero() && !*again {
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot show the key: it was shown at %s", is.Shown.Format(time.RFC3339)),
				"Hint: --again shows it again. If that was not you, berth key rotate makes another one.")
		}
		key, ok, err := ring.Key(is.Key)
		if err == nil && !ok {
			err = exit.NewProblem(exit.NotFound, fmt.Errorf("cannot show the key: the key %s is not there", is.Key), "Hint: berth key add puts it back.")
		}
		if err == nil {
			err = d.ShownKey(ctx)
		}
		if err != nil {
			return err
		}
		c.record(ctx, d, 0, "key.show", "", "key="+is.Key)
		c.Tell("this key is in %s; who has it and a copy of the database can read every secret in it. Keep it in a safe place, away from the backups", ring.File())
		_, err = fmt.Fprintln(c.Stdout, keyring.Text(key))
		return err
	})
}

// keyRotate is "key rotate": every secret is sealed with a new key.
func keyRotate(c *caller) *cobra.Command {
	cmd := command.New("rotate [--forget] [--data-dir DIR] [--key-file PATH]", "seal the secrets in the database with a new key, and print the old one; programs keep running", 0, 0)
	forget := command.Toggle(cmd, "forget", "remove the secrets whose key is not there")
	return c.withKeys(cmd, func(ctx context.Context, d *db.DB, dir string, ring *keyring.Ring) error {
		old, lost, err := daemon.RotateKey(ctx, d, dir, ring, *forget)
		if err != nil {
			return err
		}
		is, err := d.Seals(ctx)
		if err != nil {
			return err
		}
		c.record(ctx, d, 0, "key.rotate", "", "key="+is.Key)
		c.Tell("the secrets are sealed with the new key %s, in %s; berth key show prints it for a safe place", is.Key, ring.File())
		if lost != "" {
			c.Tell("removed, because their key is not there: %s", lost)
		}
		if len(old) > 0 {
			c.Tell("archives that were made until now need the old key; berth has forgotten it:")
		}
		for _, key := range old {
			fmt.Fprintln(c.Stdout, keyring.Text(key))
		}
		return nil
	})
}

// keyAdd is "key add": a key from a safe place comes back.
func keyAdd(c *caller) *cobra.Command {
	cmd := command.New("add [--data-dir DIR] [--key-file PATH]", "read a key of secrets from the standard input, and put it back", 0, 0)
	return c.withKeys(cmd, func(ctx context.Context, d *db.DB, _ string, ring *keyring.Ring) error {
		text, err := io.ReadAll(io.LimitReader(c.Stdin, 4096))
		if err != nil {
			return fmt.Errorf("cannot read the key: %w", err)
		}
		key, err := keyring.Parse(strings.TrimSpace(string(text)))
		if err != nil {
			return exit.NewProblem(exit.Usage, fmt.Errorf("cannot add the key: %w", err), "Hint: nothing was changed; berth key add reads the key from its standard input.")
		}
		before, err := d.Lost(ctx)
		if err != nil {
			return err
		}
		if err := d.Alone(ctx, func() error { return ring.Add(key) }); err != nil {
			return err
		}
		after, err := d.Lost(ctx)
		if err != nil {
			return err
		}
		c.record(ctx, d, 0, "key.add", "", "key="+key.ID())
		c.Tell("the key %s is in %s; %d secrets can be read again, and %d cannot", key.ID(), ring.File(), len(before)-len(after), len(after))
		return nil
	})
}
