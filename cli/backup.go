package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
	"berth/files/bundle"
)

// backupGroup is "berth app backup": of one application, where "berth backup" is of the host.
func (c *caller) backupGroup() *cobra.Command {
	return command.Group("backup", "make, list, download and restore backups of an application",
		c.backupMake(), c.backupList(), c.backupGet(), c.backupRestore())
}

// backupMake is "berth app backup make APP [FILE]".
func (c *caller) backupMake() *cobra.Command {
	cmd := command.New("make APP [FILE] [--env] [--force]",
		"make a backup on the server, and download it into FILE if one is given, - for the standard output", 1, 2)
	withEnv := command.Toggle(cmd, "env", "with the environment variables, unencrypted")
	force := command.Toggle(cmd, "force", "replace a file that is there")
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, rest []string) error {
		if len(rest) > 0 {
			if err := c.mayWrite(rest[0], *force); err != nil {
				return err
			}
		}
		made, message, err := w.MakeBackup(ctx, a, *withEnv)
		if err != nil {
			return err
		}
		c.Tell("%s", message)
		if len(rest) > 0 {
			return c.download(ctx, w, made, rest[0], *force)
		}
		return nil
	})
}

// backupList is "berth app backup ls APP".
func (c *caller) backupList() *cobra.Command {
	cmd := command.New("ls APP [--json]", "list the backups of an application that are on the server", 1, 1)
	cmd.Aliases = []string{"list"}
	asJSON := jsonFlag[[]client.Backup](cmd)
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		all, err := w.Backups(ctx, a)
		if err != nil {
			return err
		}
		return c.Print(*asJSON, all, func(out io.Writer) {
			fmt.Fprintln(out, "NUMBER\tSIZE\tEXPIRES")
			for i, b := range all {
				fmt.Fprintf(out, "%d\t%s\t%s\n", i+1, bundle.SizeText(b.Bytes), command.When(b.Expires))
			}
		})
	})
}

// backupGet is "berth app backup get APP [FILE]".
func (c *caller) backupGet() *cobra.Command {
	cmd := command.New("get APP [FILE] [--number N] [--force]",
		"download the newest backup, or another one, into FILE, - for the standard output", 1, 2)
	number := command.Word(cmd, "number", "`N` of a backup in berth app backup ls; 1 is the newest")
	force := command.Toggle(cmd, "force", "replace a file that is there")
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, rest []string) error {
		path := a.ID + "-" + time.Now().Format("20060102-150405") + ".zip"
		if len(rest) > 0 {
			path = rest[0]
		} else if !app.ValidID(a.ID) { // the server has chosen it
			return exit.Misused("name a FILE")
		}
		if err := c.mayWrite(path, *force); err != nil {
			return err
		}
		b, err := w.backup(ctx, a, cmp.Or(*number, "1"))
		if err != nil {
			return err
		}
		return c.download(ctx, w, b, path, *force)
	})
}

// backup returns a backup by its number in the list.
func (w *way) backup(ctx context.Context, a client.App, number string) (client.Backup, error) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return client.Backup{}, exit.Misused("bad number of a backup %q", number)
	}
	all, err := w.Backups(ctx, a)
	if err != nil {
		return client.Backup{}, err
	}
	if n > len(all) {
		return client.Backup{}, exit.NewProblem(exit.NotFound, fmt.Errorf("%s has no backup %d: there are %d on the server", screen.Word(a.ID), n, len(all)),
			"Hint: berth app backup make "+screen.Word(a.ID)+" makes one.")
	}
	return all[n-1], nil
}

// mayWrite refuses to replace a file unless force is true, and to print a ZIP.
func (c *caller) mayWrite(path string, force bool) error {
	if path == "-" && screen.Width(c.Stdout) > 0 {
		return exit.NewProblem(exit.Usage, errors.New("cannot write a ZIP to a terminal"), "Hint: name a FILE, or send the standard output elsewhere.")
	}
	if _, err := os.Lstat(path); err == nil && path != "-" && !force {
		return exit.NewProblem(exit.Usage, fmt.Errorf("cannot write %s: it is there already", screen.Word(path)), "Hint: --force replaces it.")
	}
	return nil
}

// download puts a backup into a file, which is there whole or not at all.
func (c *caller) download(ctx context.Context, w *way, b client.Backup, path string, force bool) error {
	if path == "-" {
		_, err := w.Download(ctx, b, c.Stdout)
		return err
	}
	var n int64
	err := writeWhole(path, 0o600, force, func(to io.Writer) (err error) {
		n, err = w.Download(ctx, b, to)
		return err
	})
	if failed, is := errors.AsType[*fs.PathError](err); is || errors.Is(err, fs.ErrExist) {
		if is {
			err = failed.Err
		}
		return fmt.Errorf("cannot write %s: %w", screen.Word(path), err)
	}
	if err == nil {
		c.Tell("%s in %s", bundle.SizeText(n), screen.Word(path))
	}
	return err
}

// backupRestore is "berth app backup restore APP [FILE]".
func (c *caller) backupRestore() *cobra.Command {
	cmd := command.New("restore APP [FILE | --number N] [--env] [--yes] [--json]",
		"replace all files of an application by those of a backup: a ZIP here, or one that is on the server", 1, 2)
	number := command.Word(cmd, "number", "`N` of a backup in berth app backup ls; 1 is the newest")
	withEnv := command.Toggle(cmd, "env", "replace the environment variables too, by those of the backup")
	yes := command.Toggle(cmd, "yes", "do not ask for the application's name")
	asJSON := jsonFlag[deployLine](cmd)
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, rest []string) error {
		if (len(rest) == 0) == (*number == "") {
			return exit.Misused("name either a FILE or a --number")
		}
		d := &deployment{caller: c, way: w, app: &a, asJSON: *asJSON}
		up := client.Upload{App: &a, Restore: true, Env: *withEnv, Each: d.each}
		if len(rest) > 0 {
			z, _, err := openZIP("restore", rest[0])
			if err != nil {
				return err
			}
			up.Name, up.Size, up.Open = z.name, z.size, z.open
			up.Sent = func(n int64) { d.show.sent(n, z.size) }
		} else {
			b, err := w.backup(ctx, a, *number)
			if err != nil {
				return err
			}
			up.Backup = &b
		}
		if !*yes {
			err := c.confirm(a, "restore", fmt.Sprintf("This replaces all files of %s (%s), also those that its program made.", screen.Word(a.Name), screen.Word(a.ID)))
			if err != nil {
				return err
			}
		}
		if err := d.newest(ctx); err != nil {
			return err
		}
		d.show = newProgress(c, *asJSON)
		defer d.show.end()
		done, err := w.Deploy(ctx, up)
		return d.conclude(ctx, done, err)
	})
}
