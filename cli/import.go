package cli

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/importer"
	"berth/cli/screen"
	"berth/files/bundle"
)

// importGroup is "berth import".
func (c *caller) importGroup() *cobra.Command {
	return command.Group("import", "take over programs that something else runs: a plan first, and with --apply the applications",
		c.importPM2(), c.importSystemd(), c.importBackups())
}

// importing is the kind of an import: it returns what it finds by its arguments.
type importing func(ctx context.Context, args []string) ([]found, error)

// found is a program that may be imported, and the machine as its description may read it.
type found struct {
	importer.Candidate
	machine
}

// imports is a command that imports.
func (c *caller) imports(cmd *cobra.Command, find importing) *cobra.Command {
	o := importOptions{}
	cmd.ValidArgsFunction = nil // files
	command.AddToggle(cmd.Flags(), &o.apply, "apply", "upload the applications of the plan, with their variables; without it nothing is changed")
	command.AddToggle(cmd.Flags(), &o.starts, "start", "with --apply: start them too; one whose old program still runs is refused")
	only := command.Word(cmd, "only", "`NAME,...` of the programs to take, as the plan names them")
	asJSON := jsonFlag[[]importView](cmd)
	cmd.Use += " [--only NAME,...] [--apply [--start]] [--json]"
	wayFlags(c, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return interruptible(cmd.Context(), func(ctx context.Context) error {
			if o.starts && !o.apply {
				return exit.Misused("--start goes with --apply")
			}
			if o.asJSON = *asJSON; *only != "" {
				o.only = strings.Split(*only, ",")
			}
			all, err := find(ctx, args)
			if err != nil {
				return err
			}
			p := &importPlan{caller: c, importOptions: o}
			return p.run(ctx, cmd, all)
		})
	}
	return cmd
}

// importPM2 is "berth import pm2 [DUMP]".
func (c *caller) importPM2() *cobra.Command {
	cmd := command.New("pm2 [DUMP] [--user NAME]", "plan the import of the programs in PM2's dump, which \"pm2 save\" writes", 0, 1)
	name := command.Word(cmd, "user", "`NAME` of the user whose PM2 it is; by default yours")
	return c.imports(cmd, func(_ context.Context, args []string) ([]found, error) {
		file, err := c.dumpOf(*name)
		if len(args) > 0 {
			file, err = args[0], nil
			if *name != "" {
				return nil, exit.Misused("DUMP and --user exclude each other")
			}
		}
		if err != nil {
			return nil, err
		}
		text, info, err := readRegular(file, importer.MaxDump)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, exit.NewProblem(exit.NotFound, fmt.Errorf("cannot read %s: there is no such file", screen.Word(file)),
				"Hint: pm2 save writes it, as the user whose PM2 it is; --user NAME reads that of another user.")
		case err != nil:
			return nil, fmt.Errorf("cannot read %s: %w", screen.Word(file), reason(err))
		}
		if err := belongs(*name, info); err != nil {
			return nil, exit.NewProblem(exit.Permission, fmt.Errorf("cannot use %s: %w", screen.Word(file), err), "")
		}
		m := newMachine(info)
		list, err := importer.PM2(text, m)
		if err != nil {
			return nil, exit.NewProblem(exit.Usage, fmt.Errorf("cannot read %s: %s", screen.Word(file), screen.Escape(err.Error(), false)), "Hint: pm2 save writes the dump anew.")
		}
		return on(m, list...), nil
	})
}

// dumpOf is where PM2 keeps the dump of a user, the caller for "".
func (c *caller) dumpOf(name string) (string, error) {
	if name != "" {
		u, err := user.Lookup(name)
		if err != nil {
			return "", exit.NewProblem(exit.NotFound, fmt.Errorf("there is no user %q", name), "")
		}
		return filepath.Join(u.HomeDir, ".pm2", "dump.pm2"), nil
	}
	if dir := c.Getenv("PM2_HOME"); dir != "" {
		return filepath.Join(dir, "dump.pm2"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", exit.NewProblem(exit.Usage, errors.New("which dump? You have no home directory"), "Hint: berth import pm2 FILE")
	}
	return filepath.Join(home, ".pm2", "dump.pm2"), nil
}

// belongs refuses a file that is not of a user who was named.
func belongs(name string, info fs.FileInfo) error {
	if name == "" {
		return nil
	}
	u, err := user.Lookup(name)
	uid, known := ownerOf(info)
	if err == nil && known && strconv.Itoa(uid) != u.Uid {
		return fmt.Errorf("it does not belong to %s", name)
	}
	return err
}

func on(m machine, list ...importer.Candidate) []found {
	all := make([]found, len(list))
	for i, c := range list {
		all[i] = found{c, m}
	}
	return all
}

// importSystemd is "berth import systemd DIR|UNIT...".
func (c *caller) importSystemd() *cobra.Command {
	cmd := command.New("systemd DIR|UNIT...", "plan the import of services of systemd: those of a directory, or units by their file or name", 1, math.MaxInt)
	return c.imports(cmd, func(_ context.Context, args []string) ([]found, error) {
		var all []found
		for _, arg := range args {
			some, err := units(arg)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	})
}

// unitDirs are where units of the host are, those that win first.
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// maxUnits bounds how many files of a directory are looked at.
const maxUnits = 5000

// units are those that an argument names.
func units(arg string) ([]found, error) {
	info, err := os.Stat(arg)
	if err == nil && info.IsDir() {
		return unitsOf(absolute(arg))
	}
	dir, name := filepath.Split(absolute(arg))
	if !strings.ContainsRune(arg, filepath.Separator) && err != nil { // by its name alone
		if filepath.Ext(name) == "" {
			name += ".service"
		}
		if i := slices.IndexFunc(unitDirs, func(dir string) bool { return templateOf(dir, name) != "" }); i >= 0 {
			dir = unitDirs[i]
		}
	}
	if other, is := importer.OtherUnit(name); is {
		return on(machine{owner: -1}, other), nil
	}
	if filepath.Ext(name) != ".service" || templateOf(dir, name) == "" {
		return nil, exit.NewProblem(exit.NotFound, fmt.Errorf("there is no unit %s", screen.Word(arg)), "Hint: name a file such as bot.service, a unit of this host, or a directory of units.")
	}
	one, err := unit(dir, name)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", screen.Word(arg), reason(err))
	}
	return []found{one}, nil
}

// templateOf is the file of a unit in a directory: its own, or that of its template; "" for
// none.
func templateOf(dir, name string) string {
	names := []string{name}
	if prefix, _, is := strings.Cut(name, "@"); is {
		names = append(names, prefix+"@.service")
	}
	for _, name := range names {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

// unitsOf are those of a directory. A link is not followed: it names a unit of elsewhere.
func unitsOf(dir string) ([]found, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", screen.Word(dir), reason(err))
	}
	var all []found
	for _, e := range list[:min(len(list), maxUnits)] {
		name := e.Name()
		if other, is := importer.OtherUnit(name); is && e.Type().IsRegular() {
			all = append(all, on(machine{owner: -1}, other)...)
		}
		if filepath.Ext(name) != ".service" {
			continue
		}
		switch {
		case e.Type().IsRegular():
			one, err := unit(dir, name)
			if err != nil {
				one = found{importer.Candidate{From: name, Refusal: "it cannot be read: " + reason(err).Error()}, machine{owner: -1}}
			}
			all = append(all, one)
		case e.Type()&fs.ModeSymlink != 0:
			if to, err := os.Readlink(filepath.Join(dir, name)); err == nil && to != os.DevNull {
				all = append(all, found{importer.Candidate{From: name, Refusal: "it is a link: name the file that it leads to, " + to}, machine{owner: -1}})
			}
		}
	}
	if len(all) == 0 {
		return nil, exit.NewProblem(exit.NotFound, fmt.Errorf("there is no unit of type service in %s", screen.Word(dir)), "")
	}
	return all, nil
}

// unit reads one with its drop-ins.
func unit(dir, name string) (found, error) {
	text, info, err := readRegular(templateOf(dir, name), importer.MaxUnit)
	if err != nil {
		return found{}, err
	}
	m := newMachine(info)
	u := importer.Unit{Name: name, Text: text, User: strings.Contains(filepath.ToSlash(dir)+"/", "/systemd/user/")}
	dirs := []string{dir}
	if slices.Contains(unitDirs, filepath.Clean(dir)) {
		dirs = unitDirs
	}
	names := []string{name + ".d"}
	if prefix, _, is := strings.Cut(name, "@"); is {
		names = append(names, prefix+"@.service.d")
	}
	dropIns := map[string]string{} // by their names, of which the first wins
	for _, dir := range dirs {
		for _, name := range names {
			list, _ := filepath.Glob(filepath.Join(escapeGlob(filepath.Join(dir, name)), "*.conf")) // the pattern is good
			for _, file := range list {
				if _, known := dropIns[filepath.Base(file)]; !known {
					dropIns[filepath.Base(file)] = file
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(dropIns)) {
		text, err := m.ReadFile(dropIns[key], importer.MaxUnit)
		if err != nil {
			return found{}, fmt.Errorf("cannot read the drop-in %s: %w", screen.Word(key), reason(err))
		}
		u.DropIns = append(u.DropIns, text)
	}
	for _, kind := range []string{".timer", ".socket", ".path"} {
		if beside := strings.TrimSuffix(name, ".service") + kind; m.IsFile(filepath.Join(dir, beside)) {
			u.Timers = append(u.Timers, beside)
		}
	}
	return found{importer.Service(u, m), m}, nil
}

// escapeGlob is a path as a pattern that matches it alone.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// importBackups is "berth import backups ZIP|DIR...".
func (c *caller) importBackups() *cobra.Command {
	cmd := command.New("backups ZIP|DIR...", "plan the import of backups of the hosted service: ZIPs, or directories of such", 1, math.MaxInt)
	return c.imports(cmd, func(_ context.Context, args []string) ([]found, error) {
		var all []found
		for _, arg := range args {
			info, err := os.Stat(arg)
			if err != nil {
				return nil, exit.NewProblem(exit.NotFound, fmt.Errorf("cannot read %s: %w", screen.Word(arg), reason(err)), "")
			}
			list := []string{arg}
			if info.IsDir() {
				if list, err = filepath.Glob(filepath.Join(escapeGlob(arg), "*.zip")); err != nil || len(list) == 0 {
					return nil, exit.NewProblem(exit.NotFound, fmt.Errorf("there is no ZIP in %s", screen.Word(arg)), "Hint: berth deploy sends a directory with an application's files.")
				}
			}
			for _, file := range list[:min(len(list), maxUnits)] {
				all = append(all, found{backupIn(file), machine{owner: -1}})
			}
		}
		return all, nil
	})
}

// backupIn is the backup in a file.
func backupIn(file string) importer.Candidate {
	refused := func(err error) importer.Candidate {
		return importer.Candidate{From: file, Refusal: "it cannot be read: " + err.Error()}
	}
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return refused(errors.New("it is no file"))
	}
	if z, err := zip.OpenReader(file); err != nil { // bundle takes a program alone too
		return refused(errors.New("it is no ZIP"))
	} else if err := z.Close(); err != nil {
		return refused(reason(err))
	}
	a, err := bundle.Open(file, bundle.Limits{}, nil)
	if err != nil {
		return refused(reason(err))
	}
	defer func() { _ = a.Close() }()
	return importer.Backup(file, a.Unpacked)
}
