package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// maxEnvFile bounds a file of environment variables, in bytes: an application may have 64 KB
// of them.
const maxEnvFile = 256 << 10

// nameOfVariable has the characters that the names of variables are of.
const nameOfVariable = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

// envPush is "berth env push APP [FILE]".
func (c *caller) envPush() *cobra.Command {
	cmd := command.New("push APP [FILE] [--exact]",
		"set the environment variables of a file, .env by default, - for the standard input", 1, 2)
	exact := command.Toggle(cmd, "exact", "remove the variables that the file does not have")
	cmd.ValidArgsFunction = nil
	wayFlags(c, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		change, err := c.readEnv(append(args, ".env")[1])
		if err != nil {
			return err
		}
		return c.withApp(cmd, args[0], func(ctx context.Context, w *way, a client.App) error {
			set, removed := slices.Sorted(maps.Keys(change)), []string(nil)
			if *exact {
				old, err := w.Variables(ctx, a)
				if err != nil {
					return err
				}
				for _, v := range old {
					if _, stays := change[v.Name]; !stays {
						change[v.Name], removed = nil, append(removed, v.Name)
					}
				}
			}
			o, err := w.ChangeVariables(ctx, a, change)
			if err != nil {
				return err
			}
			c.Tell("set: %s", screen.Word(strings.Join(set, ", ")))
			if removed != nil {
				c.Tell("removed: %s", screen.Word(strings.Join(removed, ", ")))
			}
			return c.said(o, nil)
		})
	}
	return cmd
}

// readEnv reads a file of variables. No error repeats a value.
func (c *caller) readEnv(path string) (map[string]*string, error) {
	from := c.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, exit.NewProblem(exit.NotFound, fmt.Errorf("cannot read %s: there is no such file", screen.Word(path)), "")
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the variables: %w", err)
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxEnvFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the variables: %w", err)
	case len(text) > maxEnvFile:
		return nil, exit.NewProblem(exit.Usage, fmt.Errorf("cannot read %s: it is larger than %d KB", screen.Word(path), maxEnvFile>>10), "")
	}
	change, err := app.ParseEnv(string(text))
	if err != nil {
		return nil, exit.NewProblem(exit.Usage, fmt.Errorf("cannot read %s: %w", screen.Word(path), err), "Hint: a line is NAME=VALUE, NAME='VALUE' or NAME=\"VALUE\".")
	}
	return change, nil
}

// envPull is "berth env pull APP [FILE]".
func (c *caller) envPull() *cobra.Command {
	cmd := command.New("pull APP [FILE] [--force]",
		"write the environment variables, with their values, into a file, .env by default, - for the standard output", 1, 2)
	force := command.Toggle(cmd, "force", "replace a file that is there")
	cmd.ValidArgsFunction = nil
	wayFlags(c, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := append(args, ".env")[1]
		if _, err := os.Lstat(path); err == nil && path != "-" && !*force {
			return exit.NewProblem(exit.Usage, fmt.Errorf("cannot write %s: it is there already", screen.Word(path)), "Hint: --force replaces it.")
		}
		return c.withApp(cmd, args[0], func(ctx context.Context, w *way, a client.App) error {
			all, err := w.Values(ctx, a)
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(all, func(v app.Variable) bool { return strings.Trim(v.Name, nameOfVariable) != "" }); i >= 0 {
				return fmt.Errorf("cannot write %s: the server names a variable %q", screen.Word(path), all[i].Name) // a line of its own, perhaps
			}
			if path == "-" {
				text := app.FormatEnv(all)
				if screen.Width(c.Stdout) > 0 { // a person reads it, no program
					text = screen.Escape(text, false)
				}
				_, err := io.WriteString(c.Stdout, text)
				return err
			}
			err = writeWhole(path, 0o600, *force, func(to io.Writer) error {
				_, err := io.WriteString(to, app.FormatEnv(all))
				return err
			})
			if err != nil {
				return fmt.Errorf("cannot write %s: %w", screen.Word(path), err)
			}
			c.Tell("%d variables of %s are in %s", len(all), a.ID, screen.Word(path))
			return nil
		})
	}
	return cmd
}
