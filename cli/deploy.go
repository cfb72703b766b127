package cli

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
	"berth/files/bundle"
)

// deployment is one call of "berth deploy".
type deployment struct {
	*caller
	way    *way
	show   *progress
	app    *client.App // whose code is replaced; nil for a new application
	before int         // number of its newest deploy before this one
	events int64       // number of its newest event before

	another, exact, detach, withEnv, asJSON bool
}

// deploy is "berth deploy [DIR|ZIP]".
func (c *caller) deploy() *cobra.Command {
	cmd := command.New("deploy [DIR|ZIP] [--app APP | --new] [--exact] [--with-env] [--detach] [--json]",
		"deploy a directory or a ZIP: a new application, or new code for one; follow the build, and say whether it came online", 0, 1)
	cmd.ValidArgsFunction = nil // files
	name := command.Word(cmd, "app", "`APP` whose code is replaced, by id or name; by default that of the directory")
	another := command.Toggle(cmd, "new", "make a new application, also if you have one of that name")
	exact := command.Toggle(cmd, "exact", "remove what an earlier deploy brought and this one has not")
	withEnv := command.Toggle(cmd, "with-env", "send .env and its like too, into the application's files")
	detach := command.Toggle(cmd, "detach", "do not wait for the build: the deploy goes on")
	asJSON := jsonFlag[deployLine](cmd)
	wayFlags(c, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return interruptible(cmd.Context(), func(ctx context.Context) error {
			if *another && *name != "" {
				return exit.Misused("--new and --app exclude each other")
			}
			d := &deployment{caller: c, another: *another, exact: *exact, detach: *detach, withEnv: *withEnv, asJSON: *asJSON}
			return d.run(ctx, cmd, cmp.Or(strings.Join(args, ""), "."), *name)
		})
	}
	return cmd
}

// deployLine is one line that deploy prints with --json.
type deployLine struct {
	Event    string `json:"event"`              // packed, sent, queued, building, log, launching, notice, done, failed or detached
	ID       string `json:"id,omitempty"`       // of the application, once it is known
	Bytes    int64  `json:"bytes,omitempty"`    // of the ZIP, of packed and sent
	Position int    `json:"position,omitempty"` // in the queue of builds, of queued; 1 is next
	Text     string `json:"text,omitempty"`     // of log: lines of the build; of notice, done and failed: the server's sentence
	Online   *bool  `json:"online,omitempty"`   // of done: whether the program runs
}

func (d *deployment) run(ctx context.Context, cmd *cobra.Command, what, name string) (err error) {
	info, err := os.Stat(what)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.NewProblem(exit.NotFound, fmt.Errorf("cannot deploy %s: there is no such file or directory", screen.Word(what)), "")
	case err != nil:
		return fmt.Errorf("cannot deploy: %w", err)
	}
	d.show = newProgress(d.caller, d.asJSON)
	defer d.show.end()
	var sent *zipFile
	var config app.Config
	if info.IsDir() {
		sent, config, err = d.pack(ctx, what)
	} else {
		sent, config, err = openZIP("deploy", what)
	}
	if err != nil {
		return err
	}
	defer sent.close()
	if err := d.choose(ctx, cmd, sent, config, name); err != nil {
		return err
	}
	defer d.way.Close()
	done, err := d.way.Deploy(ctx, client.Upload{
		Name: sent.name, Size: sent.size, Open: sent.open, App: d.app, Exact: d.exact,
		Sent: func(n int64) { d.show.sent(n, sent.size) },
		Each: d.each,
	})
	if err == nil && sent.dir != "" {
		d.remember(sent.dir, done.ID)
	}
	return d.conclude(ctx, done, err)
}

// errDetached ends the work of who does not want to wait.
var errDetached = errors.New("the deploy goes on")

// each shows how the deploy goes.
func (d *deployment) each(p client.Progress) error {
	d.show.step(p)
	if d.detach && p.Phase != "" && p.Phase != "checked" {
		return errDetached
	}
	return nil
}

// pack makes the ZIP of a directory, in a temporary file.
func (d *deployment) pack(ctx context.Context, dir string) (*zipFile, app.Config, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, app.Config{}, fmt.Errorf("cannot deploy: %w", err)
	}
	defer func() { _ = root.Close() }()
	choice := bundle.Choice{}
	if d.withEnv {
		choice.Env = bundle.EnvSent
	}
	p, err := bundle.Scan(root, choice)
	if err != nil {
		hint := "Hint: a line in .discloudignore leaves a file out."
		if strings.Contains(err.Error(), "holds secrets") {
			hint = "Hint: berth env push APP FILE sets them as variables; a line in .discloudignore leaves the file out, --with-env sends it."
		}
		return nil, app.Config{}, exit.NewProblem(exit.Usage, fmt.Errorf("cannot deploy %s: %s", screen.Word(dir), screen.Escape(err.Error(), false)), hint)
	}
	for _, sentence := range p.Left {
		d.show.note(sentence)
	}
	z := &zipFile{name: filepath.Base(absolute(dir)) + ".zip", dir: absolute(dir)}
	if err := z.fill(ctx, p, dir); err != nil {
		return nil, app.Config{}, err
	}
	d.show.packed(len(p.Files), p.Ignored, z.size)
	return z, p.Config, nil
}

func absolute(dir string) string {
	full, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return full
}

// zipFile is the ZIP that is sent.
type zipFile struct {
	path, name string
	size       int64
	dir        string // that it was made of, in a temporary file; "" for a file of the person's
}

// fill writes a packing into a temporary file, whose name and size it keeps. Where it fails,
// nothing is left, and the error calls the directory as the person did.
func (z *zipFile) fill(ctx context.Context, files *bundle.Packing, called string) error {
	file, err := os.CreateTemp("", "berth-deploy-*.zip")
	if err != nil {
		return fmt.Errorf("cannot make a temporary file for the ZIP: %w", err)
	}
	z.path = file.Name()
	err = files.Write(ctx, file, nil)
	if info, failed := file.Stat(); err == nil && failed == nil {
		z.size = info.Size()
	} else {
		err = errors.Join(err, failed)
	}
	err = errors.Join(err, file.Close())
	switch {
	case err == nil:
		return nil
	case app.KindOf(err) == app.Unusable || ctx.Err() != nil:
		z.close()
		return err
	}
	z.close()
	return exit.NewProblem(exit.Failure, fmt.Errorf("cannot pack %s: %w", screen.Word(called), err), "Hint: TMPDIR names another directory for the ZIP.")
}

// openZIP takes a file that is a ZIP already, to deploy or restore, and reads the config in it.
func openZIP(verb, path string) (*zipFile, app.Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, app.Config{}, fmt.Errorf("cannot %s: %w", verb, err)
	}
	all, err := zip.OpenReader(path)
	if err != nil {
		return nil, app.Config{}, exit.NewProblem(exit.Usage, fmt.Errorf("cannot %s %s: it is no ZIP", verb, screen.Word(path)), "")
	}
	defer func() { _ = all.Close() }()
	z, config := &zipFile{path: path, name: filepath.Base(path), size: info.Size()}, app.Config{}
	if f, err := all.Open(bundle.ConfigName); err == nil {
		config, err = bundle.ParseConfig(f)
		_ = f.Close()
		if err != nil {
			return nil, config, exit.NewProblem(exit.Usage, fmt.Errorf("cannot %s %s: %s", verb, screen.Word(path), screen.Escape(err.Error(), false)), "")
		}
	}
	return z, config, nil
}

func (z *zipFile) open() (io.ReadCloser, error) {
	f, err := os.Open(z.path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the ZIP: %w", err)
	}
	return f, nil
}

func (z *zipFile) close() {
	if z.dir != "" {
		_ = os.Remove(z.path)
	}
}

// choose finds out whose code is replaced: that of --app, of the config's ID where there is
// such an application, or of what the directory was deployed to. Else it is a new one, for
// which a name that is there already is a mistake more often than not.
func (d *deployment) choose(ctx context.Context, cmd *cobra.Command, from *zipFile, config app.Config, name string) (err error) {
	if name != "" {
		var a client.App
		if d.way, a, err = d.find(ctx, cmd, name); err != nil {
			return err
		}
		d.app = &a
		return d.newest(ctx)
	}
	known := savedApp{}
	if all, err := loadContexts(); from.dir != "" && err == nil && d.Getenv("BERTH_URL") == "" {
		known = all.Applications[from.dir]
	}
	word := cmp.Or(config.ID, known.ID)
	err = exit.NewProblem(exit.NotFound, errors.New("a new application"), "")
	if word != "" {
		d.way, err = d.wayTo(ctx, cmd, known.Context, word)
	}
	if p, is := errors.AsType[*exit.Problem](err); is && p.Code == exit.NotFound { // on this host
		d.way, err = d.caller.way(ctx, cmd, "")
	}
	if err != nil {
		return err
	}
	all, err := d.way.Apps(ctx)
	if err != nil {
		d.way.Close()
		return err
	}
	if d.another {
		return nil
	}
	for _, id := range []string{config.ID, known.ID} {
		if a, err := client.Choose(all, id); id != "" && err == nil && a.ID == id {
			d.app = &a
			return d.newest(ctx)
		}
	}
	if name = cmp.Or(config.Name, strings.TrimSuffix(from.name, ".zip")); config.ID == "" {
		if i := slices.IndexFunc(all, func(a client.App) bool { return a.Owner == "" && a.Name == name }); i >= 0 {
			d.way.Close()
			return exit.NewProblem(exit.Usage, fmt.Errorf("there is an application %q already, with the id %s: which one is meant?", name, screen.Word(all[i].ID)),
				fmt.Sprintf("Hint: --app %s replaces its code, as ID=%s in discloud.config does; --new makes another.", all[i].ID, all[i].ID))
		}
	}
	if known.ID != "" && config.ID == "" {
		d.show.note(fmt.Sprintf("%s, to which this directory was deployed, is no more: this makes a new application.", screen.Word(known.ID)))
	}
	return nil
}

// newest remembers which deploy is the last one before this.
func (d *deployment) newest(ctx context.Context) error {
	var err error
	d.before, _, err = d.way.Deploying(ctx, *d.app)
	var events []client.Happening
	if err == nil {
		events, err = d.way.History(ctx, *d.app)
	}
	if len(events) > 0 {
		d.events = events[0].Number
	}
	if client.StatusOf(err) == http.StatusForbidden || client.StatusOf(err) == http.StatusNotFound || errors.Is(err, client.ErrOwnersOnly) {
		return nil // another server of this API, or a member: then nobody can ask later
	}
	return err
}

// remember keeps to which application a directory was deployed. Not to be able to is no
// failure of the deploy.
func (d *deployment) remember(dir, id string) {
	if id == "" || d.way.kind == "environment" { // of CI, whose next directory is another
		return
	}
	at := savedApp{Context: d.way.context, ID: id}
	if all, err := loadContexts(); err == nil && all.Applications[dir] == at {
		return
	}
	if err := changeContexts(func(all *contexts) error { all.Applications[dir] = at; return nil }); err != nil {
		d.Tell("berth: the next deploy of this directory needs --app %s: %v", id, err)
	}
}

// conclude says what came of the deploy.
func (d *deployment) conclude(ctx context.Context, done client.Deployed, err error) error {
	d.show.end()
	id := done.ID
	if id == "" && d.app != nil {
		id = d.app.ID
	}
	switch refused, is := errors.AsType[*client.Error](err); {
	case errors.Is(err, errDetached):
		d.show.line(deployLine{Event: "detached", ID: id}, fmt.Sprintf("The deploy of %s goes on: berth logs %s --build follows it, berth status %s tells how it is.", screen.Word(id), id, id))
		return nil
	case errors.Is(err, context.Canceled) && !errors.Is(err, client.ErrUnknown) && !d.show.whole:
		return exit.NewProblem(exit.Interrupted, errors.New("interrupted during the upload: nothing was deployed"), "")
	case errors.Is(err, context.Canceled):
		word := cmp.Or(id, "APP")
		return exit.NewProblem(exit.Interrupted, errors.New("interrupted, but the deploy goes on"),
			fmt.Sprintf("Hint: berth stop %s calls it off until the new code is in place; berth events %s says what came of it.", word, word))
	case errors.Is(err, client.ErrUnknown):
		return d.askLater(ctx, err)
	case is:
		d.show.line(deployLine{Event: "failed", ID: id, Text: refused.Message}, "")
		message, last, _ := strings.Cut(refused.Message, "\n")
		if more := cmp.Or(refused.Logs, last); more != "" && !d.show.built && !d.asJSON {
			d.show.log(more)
		}
		refused.Message = message // whose other lines are those of the build, or of the program
		return err
	case err != nil:
		return err
	}
	return d.verdict(ctx, done)
}

// verdict says whether the program came online.
func (d *deployment) verdict(ctx context.Context, done client.Deployed) error {
	all, err := d.way.Apps(ctx)
	if err != nil {
		return err
	}
	now, err := client.Choose(all, done.ID)
	if err != nil {
		return err
	}
	for _, notice := range done.Notices {
		d.show.line(deployLine{Event: "notice", ID: done.ID, Text: notice}, "notice: "+notice)
		done.Logs = strings.TrimPrefix(strings.TrimPrefix(done.Logs, notice), "\n")
	}
	d.show.line(deployLine{Event: "done", ID: done.ID, Text: done.Message, Online: &now.Online}, done.Message)
	if now.Online {
		d.show.note(fmt.Sprintf("%s (%s) is online.", screen.Word(now.Name), screen.Word(now.ID)))
		if site, err := d.way.Site(ctx, now); err == nil && len(site.Addresses) > 0 && !d.asJSON {
			fmt.Fprintln(d.Stdout, screen.Escape(site.Addresses[0], false))
		}
		return nil
	}
	if done.Logs != "" && !strings.Contains(done.Message, done.Logs) {
		d.show.log(done.Logs)
		return exit.NewProblem(exit.Offline, fmt.Errorf("%s did not come online", now.ID), "")
	}
	return d.offline(ctx, d.way, now)
}

// idleLooks is how often nothing is under way, and nothing has come of it, before an upload
// is known not to have arrived: what leaves here can be lost in buffers on its way.
const idleLooks = 3

// askLater finds out what became of a deploy whose answer was lost. It sends nothing again.
func (d *deployment) askLater(ctx context.Context, lost error) error {
	if d.app == nil {
		return exit.NewProblem(exit.Unreachable, lost, "Hint: the application may be there all the same: look with berth ls before you deploy again.")
	}
	d.show.note("The connection was lost after the upload. Asking what became of the deploy.")
	begun, idle := time.Now(), 0
	for pause := time.Second; ; pause = min(2*pause, 15*time.Second) {
		if err := d.way.Wait(ctx, pause); err != nil {
			return exit.NewProblem(exit.Interrupted, errors.New("interrupted: what became of the deploy is not known"), "Hint: berth events "+d.app.ID+" says what came of it.")
		}
		newest, underway, err := d.way.Deploying(ctx, *d.app)
		if errors.Is(err, client.ErrOwnersOnly) {
			return exit.NewProblem(exit.Unreachable, lost, "Hint: berth logs "+d.app.ID+" shows which code runs; the owner of the application sees its deploys.")
		}
		if err == nil && newest > d.before {
			return d.verdict(ctx, client.Deployed{ID: d.app.ID, Message: fmt.Sprintf("The deploy is number %d, and its code is in place.", newest)})
		}
		events, failed := d.way.History(ctx, *d.app)
		blind := client.StatusOf(failed) == http.StatusForbidden // a token that may only deploy: what failed leaves no deploy
		if blind {
			failed = nil
		}
		for _, e := range events {
			if e.Kind == string(app.HistoryFailure) && e.Number > d.events {
				d.show.line(deployLine{Event: "failed", ID: d.app.ID, Text: e.Text}, "")
				return exit.NewProblem(exit.Failure, fmt.Errorf("the deploy failed: %s", screen.Escape(e.Text, false)), "")
			}
		}
		if idle++; err != nil || failed != nil || underway {
			idle = 0
		}
		if idle == idleLooks {
			d.show.line(deployLine{Event: "failed", ID: d.app.ID}, "")
			if blind {
				return exit.NewProblem(exit.Unreachable, errors.New("the connection was lost, and no deploy came of it: the upload did not arrive, or it failed"),
					"Hint: deploy again.")
			}
			return exit.NewProblem(exit.Unreachable, errors.New("the connection was lost before all of the upload had arrived: nothing was deployed"), "Hint: deploy again.")
		}
		if err := errors.Join(err, failed); client.StatusOf(err) > 0 && client.StatusOf(err) < 500 || time.Since(begun) > 15*time.Minute {
			return exit.NewProblem(exit.Unreachable, lost, "Hint: berth events "+d.app.ID+" says what came of the deploy.")
		}
	}
}
