package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/build"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
	"berth/files/depot"
)

// runtimeWork is what a command of this group works with.
type runtimeWork struct {
	*caller
	db       *db.DB
	settings settings.Settings
	depot    depot.Depot
}

// onRuntimes is withDB for a command of this group. Its first argument, if it has one, is
// a language, and its second one a version.
func (c *caller) onRuntimes(
	cmd *cobra.Command, do func(ctx context.Context, w runtimeWork, language, version string) error,
) *cobra.Command {
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return depot.Languages(), cobra.ShellCompDirectiveNoFileComp
	}
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, args []string) error {
		var language, version string
		if len(args) > 0 {
			if language = args[0]; !slices.Contains(depot.Languages(), language) {
				return exit.Misused("unknown runtime %q%s", language, exit.DidYouMean(language, depot.Languages(), "%q"))
			}
		}
		if len(args) > 1 {
			m := versionWord.FindStringSubmatch(args[1])
			if m == nil {
				return exit.Misused("bad version %q: expected one such as 22, 3.12 or 22.11.0", args[1])
			}
			version = m[1]
		}
		return do(ctx, runtimeWork{c, d, s, depot.Of(s.DataDir)}, language, version)
	})
}

// versionWord matches a version as VERSION of discloud.config may be written.
var versionWord = regexp.MustCompile(`^v?(\d{1,9}(?:\.\d{1,9}){0,3})(?:\.[xX*])*$`)

// change lets do change the installed runtimes.
func (w runtimeWork) change(what string, do func(*depot.Change) error) (err error) {
	if err := mustBeRoot(what, ", whose files programs cannot change", "runtime ..."); err != nil {
		return err
	}
	change, err := w.depot.Change()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, change.Close()) }()
	return do(change)
}

func (w runtimeWork) client() *depot.Client {
	return depot.NewClient(w.settings.Publishers(), "berth/"+build.Version())
}

// runtimeInstall is "runtime install".
func runtimeInstall(c *caller) *cobra.Command {
	cmd := command.New("install LANGUAGE VERSION [--file ARCHIVE [--sums FILE] [--sha256 HEX]] [--data-dir DIR]",
		"install a runtime of its publisher beside the distribution's", 2, 2)
	file := command.Word(cmd, "file", "install the `ARCHIVE` (.tar.gz or .zip) of the publisher from this machine and download nothing")
	sums := command.Word(cmd, "sums", "with --file: `FILE` with the publisher's list of SHA-256 sums")
	sum := command.Word(cmd, "sha256", "with --file: SHA-256 of the archive in hexadecimal digits (`HEX`)")
	for _, flag := range []string{"file", "sums"} {
		_ = cmd.MarkFlagFilename(flag) // it is there
	}
	return c.onRuntimes(cmd, func(ctx context.Context, w runtimeWork, language, version string) error {
		if *file == "" && (*sums != "" || *sum != "") {
			return exit.Misused("--sums and --sha256 go with --file")
		}
		if *sums != "" && *sum != "" {
			return exit.Misused("--sums and --sha256 do not go together")
		}
		return w.change("install a runtime", func(change *depot.Change) error {
			if *file != "" {
				source, err := fileSource(language, version, *file, *sums, *sum)
				if err != nil {
					return err
				}
				return w.install(ctx, change, source)
			}
			_, err := w.installNewest(ctx, change, language, version, "")
			return err
		})
	})
}

// fileSource is an archive on this machine, with the sum that it must have.
func fileSource(language, version, file, sums, sum string) (depot.Source, error) {
	switch {
	case sum != "":
		want, ok := depot.Digest(sum)
		if !ok {
			return depot.Source{}, exit.Misused("bad value %q for --sha256: expected 64 hexadecimal digits", sum)
		}
		sum = want
	case sums != "":
		list, err := os.ReadFile(sums)
		if err == nil {
			sum, err = depot.Sum(list, filepath.Base(file))
		}
		if err != nil {
			return depot.Source{}, fmt.Errorf("cannot install %s %s: %w", language, version, err)
		}
	}
	return depot.File(language, version, file, sum), nil
}

// installNewest installs the newest version that begins with what the owner wrote, and
// returns it. It installs none that is older than has, which may be empty.
func (w runtimeWork) installNewest(ctx context.Context, change *depot.Change, language, version, has string) (string, error) {
	client := w.client()
	offers, err := client.Offers(ctx, language, version)
	if err != nil {
		return "", offline(err)
	}
	if len(offers) == 0 {
		return "", exit.NewProblem(exit.NotFound, fmt.Errorf("cannot install %s %s: its publisher offers none for this machine", language, version),
			"Hint: berth runtime list "+language+" --available shows what there is; an older archive can be installed with --file.")
	}
	if has != "" && depot.Compare(offers[0].Version, has) <= 0 {
		w.Tell("%s %s is the newest", language, has)
		return has, nil
	}
	if slices.Contains(w.depot.Versions(language), offers[0].Version) {
		w.Tell("%s %s is installed already", language, offers[0].Version)
		return offers[0].Version, nil
	}
	source, err := client.Source(ctx, offers[0])
	if err != nil {
		return "", offline(err)
	}
	w.Tell("getting %s", source.Name)
	return offers[0].Version, w.install(ctx, change, source)
}

// offline adds to the error of a download what a machine without a way out can do.
func offline(err error) error {
	return exit.NewProblem(exit.Failure, err,
		"Hint: without a way out, set runtimes.LANGUAGE to a mirror, or copy the archive to this machine and name it with --file.")
}

// install installs one archive and tells of it.
func (w runtimeWork) install(ctx context.Context, change *depot.Change, source depot.Source) error {
	r, err := change.Install(ctx, source, daemon.RuntimeVersion)
	if err != nil {
		return err
	}
	w.record(ctx, w.db, 0, "runtime.install", "", fmt.Sprintf("%s %s from %s sha256=%s", r.Language, r.Version, r.Source, r.SHA256))
	w.Tell("%s %s is installed: programs with VERSION=%s take it at their next start", r.Language, r.Version, depot.Line(r.Language, r.Version))
	if source.SHA256 == "" {
		w.Tell("warning: no list of sums was given; compare this with the publisher's: sha256 %s", r.SHA256)
	}
	return nil
}

// runtimeUpgrade is "runtime upgrade".
func runtimeUpgrade(c *caller) *cobra.Command {
	cmd := command.New("upgrade [LANGUAGE [VERSION]] [--data-dir DIR]", "install the newest version of each line of releases that is installed", 0, 2)
	return c.onRuntimes(cmd, func(ctx context.Context, w runtimeWork, language, version string) error {
		return w.change("upgrade a runtime", func(change *depot.Change) error {
			newest := w.newest(language, version)
			if len(newest) == 0 {
				return exit.NewProblem(exit.NotFound, errors.New("cannot upgrade: no such runtime is installed"), "Hint: berth runtime list shows those that are.")
			}
			var failed error
			for _, r := range newest {
				now, err := w.installNewest(ctx, change, r.Language, depot.Line(r.Language, r.Version), r.Version)
				if err == nil && now != r.Version {
					w.Tell("%s %s stays for what uses it; berth runtime remove %s %s removes it afterwards", r.Language, r.Version, r.Language, r.Version)
				}
				failed = errors.Join(failed, err)
			}
			return failed
		})
	})
}

// newest returns the newest installed version of each line; language and version may
// choose some.
func (w runtimeWork) newest(language, version string) (list []depot.Runtime) {
	seen := map[string]bool{}
	for _, l := range depot.Languages() {
		for _, v := range w.depot.Versions(l) { // the newest first
			line := l + " " + depot.Line(l, v)
			if seen[line] || language != "" && l != language || version != "" && !depot.Begins(v, version) {
				continue
			}
			seen[line] = true
			list = append(list, depot.Runtime{Language: l, Version: v})
		}
	}
	return list
}

// runtimeRemove is "runtime remove".
func runtimeRemove(c *caller) *cobra.Command {
	cmd := command.New("remove LANGUAGE VERSION [--data-dir DIR]", "remove an installed runtime that no application uses", 2, 2)
	return c.onRuntimes(cmd, func(ctx context.Context, w runtimeWork, language, version string) error {
		return w.change("remove a runtime", func(change *depot.Change) error {
			meant := slices.DeleteFunc(w.depot.Versions(language), func(v string) bool { return !depot.Begins(v, version) })
			switch len(meant) {
			case 0:
				return exit.NewProblem(exit.NotFound, fmt.Errorf("cannot remove %s %s: it is not installed", language, version), "Hint: berth runtime list shows what is.")
			case 1:
			default:
				return exit.Misused("%s %s are several: %s", language, version, strings.Join(meant, ", "))
			}
			users, err := w.users(ctx)
			if err != nil {
				return err
			}
			if ids := users[language+" "+meant[0]]; len(ids) > 0 {
				return exit.NewProblem(exit.Failure, fmt.Errorf("cannot remove %s %s: it is used by %s", language, meant[0], listed(ids)),
					"Hint: install another version first and restart them (packages of Python need a new upload), or let their owners set another VERSION.")
			}
			if err := change.Remove(language, meant[0]); err != nil {
				return err
			}
			w.record(ctx, w.db, 0, "runtime.remove", "", language+" "+meant[0])
			w.Tell("%s %s is removed", language, meant[0])
			return nil
		})
	})
}

// users returns the applications that use each runtime.
func (w runtimeWork) users(ctx context.Context) (map[string][]app.ID, error) {
	return daemon.RuntimeUsers(ctx, w.db, w.settings.DataDir, daemon.HostTools(w.settings.DataDir, w.settings.ShownPaths()))
}

// listed names some applications, and how many more there are.
func listed(ids []app.ID) string {
	const most = 10
	words := make([]string, 0, most)
	for _, id := range ids[:min(len(ids), most)] {
		words = append(words, string(id))
	}
	text := strings.Join(words, ", ")
	if len(ids) > most {
		text += fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return text
}

// runtimeView is a runtime as it is printed.
type runtimeView struct {
	Language string     `json:"language"`
	Version  string     `json:"version"`
	Source   string     `json:"source,omitempty"`
	SHA256   string     `json:"sha256,omitempty"`
	At       *time.Time `json:"installedAt,omitempty"`
	UsedBy   []app.ID   `json:"usedBy,omitempty"`
}

// runtimeList is "runtime list".
func runtimeList(c *caller) *cobra.Command {
	cmd := command.New("list [LANGUAGE] [--available] [--json] [--data-dir DIR]", "list the installed runtimes and who uses them", 0, 1)
	asJSON := command.JSON(cmd)
	available := command.Toggle(cmd, "available", "list the newest version of each line of releases that the publishers offer for this machine")
	return c.onRuntimes(cmd, func(ctx context.Context, w runtimeWork, language, _ string) error {
		if *available {
			return w.printAvailable(ctx, language, *asJSON)
		}
		users, err := w.users(ctx)
		if err != nil {
			return err
		}
		views := []runtimeView{}
		for _, r := range w.depot.Runtimes() {
			if language == "" || r.Language == language {
				views = append(views, runtimeView{r.Language, r.Version, r.Source, r.SHA256, &r.At, users[r.Language+" "+r.Version]})
			}
		}
		return w.Print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "LANGUAGE\tVERSION\tINSTALLED\tUSED BY\tFROM")
			for _, v := range views {
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", v.Language, v.Version, command.When(*v.At), cmp.Or(listed(v.UsedBy), "-"), cmp.Or(screen.Word(v.Source), "-"))
			}
		})
	})
}

// printAvailable lists the newest version of each line.
func (w runtimeWork) printAvailable(ctx context.Context, language string, asJSON bool) error {
	languages := depot.Languages()
	if language != "" {
		languages = []string{language}
	}
	views := []runtimeView{}
	var failed error
	for _, l := range languages {
		offers, err := w.client().Offers(ctx, l, "")
		failed = errors.Join(failed, err)
		line := ""
		for _, o := range offers { // the newest first
			if next := depot.Line(l, o.Version); next != line {
				line = next
				views = append(views, runtimeView{Language: l, Version: o.Version})
			}
		}
	}
	if err := w.Print(asJSON, views, func(out io.Writer) {
		fmt.Fprintln(out, "LANGUAGE\tVERSION")
		for _, v := range views {
			fmt.Fprintf(out, "%s\t%s\n", v.Language, v.Version)
		}
	}); err != nil || failed == nil {
		return err
	}
	return offline(failed)
}
