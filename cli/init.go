package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/files/bundle"
	"berth/host/runtimes"
)

// suggestedRAM is what other hosts of this API give at least, too.
const suggestedRAM app.MB = 100

// initialize is "berth init [DIR]".
func (c *caller) initialize() *cobra.Command {
	cmd := command.New("init [DIR] [--name NAME] [--main FILE] [--site SUBDOMAIN] [--ram MB] [--force]",
		"write a discloud.config for a directory, from what is in it", 0, 1)
	cmd.ValidArgsFunction = nil // directories
	name := command.Word(cmd, "name", "`NAME` of the application; by default that of the directory")
	main := command.Word(cmd, "main", "`FILE` to start; by default what the directory shows")
	site := command.Word(cmd, "site", "a site, with this `SUBDOMAIN`; by default it is a bot")
	ram := command.Word(cmd, "ram", "RAM in `MB`")
	force := command.Toggle(cmd, "force", "replace a discloud.config that is there")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		dir := cmp.Or(strings.Join(args, ""), ".")
		cfg := app.Config{Name: *name, Main: *main, RAM: suggestedRAM, Version: "latest", Type: app.Bot}
		if *ram != "" {
			mb, ok := app.ParseMB(*ram)
			if !ok {
				return exit.Misused("bad amount of RAM %q", *ram)
			}
			cfg.RAM = mb
		}
		if *site != "" {
			if !app.ValidID(*site) {
				return exit.Misused("bad subdomain %q: it has 2 to 63 of a-z, 0-9 and -", *site)
			}
			cfg.Type, cfg.ID = app.Site, *site
		}
		if cfg.Name == "" {
			cfg.Name = nameOf(filepath.Base(absolute(dir)))
		}
		return c.writeConfig(dir, cfg, *force)
	}
	return cmd
}

// writeConfig completes a config by what is in a directory, and writes it there.
func (c *caller) writeConfig(dir string, cfg app.Config, force bool) error {
	path := filepath.Join(dir, bundle.ConfigName)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", screen.Word(dir), reason(err))
	}
	defer func() { _ = root.Close() }()
	files, err := bundle.Scan(root, bundle.Choice{Env: bundle.EnvSent})
	if err != nil {
		return exit.NewProblem(exit.Usage, fmt.Errorf("cannot write %s: %s", screen.Word(path), screen.Escape(err.Error(), false)), "")
	}
	if files.Found && !force {
		return exit.NewProblem(exit.Usage, fmt.Errorf("cannot write %s: it is there already", screen.Word(path)), "Hint: --force replaces it.")
	}
	cfg, plan, err := runtimes.Suggest(cfg, files)
	if err != nil {
		hint := ""
		if strings.Contains(err.Error(), "only a site can show") {
			hint = "Hint: --site SUBDOMAIN makes it a site."
		}
		return exit.NewProblem(exit.Usage, fmt.Errorf("cannot write %s: %s", screen.Word(path), screen.Escape(err.Error(), false)), hint)
	}
	cfg.AutoRestart = true // an upload without the key stays off after a crash, as on the hosted service
	text, err := bundle.FormatConfig(cfg)
	if err != nil {
		return exit.NewProblem(exit.Usage, fmt.Errorf("cannot write %s: %s", screen.Word(path), screen.Escape(err.Error(), false)), "")
	}
	err = writeWhole(path, 0o644, force, func(to io.Writer) error { _, err := io.WriteString(to, text); return err })
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", screen.Word(path), reason(err))
	}
	for _, note := range plan.Notes {
		c.Tell("%s", note)
	}
	c.Tell("%s is written; berth deploy sends the directory.", screen.Word(path))
	_, err = io.WriteString(c.Stdout, screen.Escape(text, false))
	return err
}

// nameOf is the name of a directory as one of an application.
func nameOf(dir string) string {
	name := []rune(strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune(`#=/\`, r) {
			return ' '
		}
		return r
	}, dir)))
	return strings.TrimSpace(string(name[:min(len(name), app.MaxName)]))
}

// reason is what an error of a file says behind its path.
func reason(err error) error {
	if failed, is := errors.AsType[*fs.PathError](err); is {
		return failed.Err
	}
	return err
}
