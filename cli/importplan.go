package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/importer"
	"berth/cli/screen"
	"berth/client"
	"berth/files/bundle"
	"berth/host/runtimes"
)

// importOptions are what the caller chose.
type importOptions struct {
	apply, starts, asJSON bool
	only                  []string
}

// importView is a program of the plan, as it is printed.
type importView struct {
	Name      string   `json:"name"`             // of the application
	From      string   `json:"from"`             // what the source calls it
	State     string   `json:"state"`            // new, there, refused, imported or failed
	Reason    string   `json:"reason,omitempty"` // why it is refused, or failed
	ID        string   `json:"id,omitempty"`     // of the application, once there is one
	Dir       string   `json:"dir,omitempty"`    // that is sent
	ZIP       string   `json:"zip,omitempty"`    // that is sent as it is
	Lang      string   `json:"lang,omitempty"`
	Main      string   `json:"main,omitempty"`
	Start     string   `json:"start,omitempty"`     // without what looks like a secret
	RAM       int64    `json:"ramMb"`               // that is asked for
	RAMFrom   string   `json:"ramFrom"`             // what says so; "default" if nothing does
	Running   *bool    `json:"running,omitempty"`   // whether the old program runs now, as far as that is known
	Memory    int64    `json:"memory,omitempty"`    // bytes that it uses now
	Variables []string `json:"variables,omitempty"` // names, never values
	Notes     []string `json:"notes,omitempty"`     // what is not taken over, and what to look at
	Next      []string `json:"next,omitempty"`      // what you do then, by hand
}

// The states of an importView.
const (
	importNew      = "new"
	importThere    = "there"
	importRefused  = "refused"
	importImported = "imported"
	importFailed   = "failed"
)

// importItem is a program of the plan while it is made and carried out.
type importItem struct {
	found
	view   importView
	now    running
	config []byte // text of the discloud.config that is made for it; nil where it has one
	named  []byte // text of the one that it has, with a name; nil where it has a name
}

// importPlan makes a plan and carries it out.
type importPlan struct {
	*caller
	importOptions
	items []*importItem
	way   *way
	apps  []client.App // that are there already
	blind error        // why they are not known
}

func (p *importPlan) run(ctx context.Context, cmd *cobra.Command, all []found) error {
	for _, f := range all {
		if p.chosen(f) {
			p.items = append(p.items, &importItem{found: f})
		}
	}
	if err := p.checkOnly(all); err != nil {
		return err
	}
	if err := p.look(ctx, cmd); err != nil {
		return err
	}
	if p.way != nil {
		defer p.way.Close()
	}
	names := map[string]string{}
	for _, it := range p.items {
		it.complete(ctx)
		p.judge(it, names)
	}
	var failed error
	if p.apply {
		failed = p.carryOut(ctx)
	}
	return errors.Join(p.print(), failed)
}

// chosen reports whether a program is one of --only.
func (p *importPlan) chosen(f found) bool {
	return p.only == nil || slices.ContainsFunc(p.only, f.isCalled)
}

// isCalled reports whether a program has a name.
func (f found) isCalled(name string) bool {
	return slices.Contains([]string{f.From, filepath.Base(f.From), f.Config.Name}, name)
}

// checkOnly refuses a name of --only that nothing has.
func (p *importPlan) checkOnly(all []found) error {
	for _, name := range p.only {
		var names []string
		for _, f := range all {
			names = append(names, filepath.Base(f.From), f.Config.Name)
		}
		if !slices.ContainsFunc(p.items, func(it *importItem) bool {
			return (&importPlan{importOptions: importOptions{only: []string{name}}}).chosen(it.found)
		}) {
			return exit.NewProblem(exit.NotFound, fmt.Errorf("there is no program %q to import%s", name, exit.DidYouMean(name, names, "%q")), "Hint: the plan without --only names all of them.")
		}
	}
	return nil
}

// look finds out which applications there are. A plan needs no berth.
func (p *importPlan) look(ctx context.Context, cmd *cobra.Command) error {
	var err error
	if p.way, err = p.caller.way(ctx, cmd, ""); err == nil {
		p.apps, err = p.way.Apps(ctx)
	}
	if p.apply || ctx.Err() != nil {
		return err
	}
	p.blind = err
	return nil
}

// complete finds out what the directory, or the ZIP, says of the program.
func (it *importItem) complete(ctx context.Context) {
	it.view = importView{From: it.From, Dir: it.Dir, ZIP: it.ZIP, State: importNew, RAMFrom: "default"}
	if it.Refusal == "" {
		if err := it.examine(); err != nil {
			it.Refusal = err.Error()
		}
	}
	it.now = it.running(ctx, it.Candidate)
	if it.now.known {
		it.view.Running, it.view.Memory = &it.now.yes, it.now.memory
	}
	if it.Config.RAM == 0 && it.now.memory > 0 && it.config != nil {
		it.Config.RAM, it.RAMFrom = roomy(it.now.memory), "what it uses now"
	}
	if it.config != nil {
		text, err := bundle.FormatConfig(it.Config)
		if err != nil && it.Refusal == "" {
			it.Refusal = err.Error()
		}
		it.config = []byte(text)
	}
	v := &it.view
	v.Name, v.Main, v.Start = cmp.Or(it.Config.Name, it.Config.ID, it.From), it.Config.Main, importer.Hide(it.Config.Start)
	v.RAM, v.Notes = int64(it.Config.RAM), it.Notes
	if v.RAM > 0 {
		v.RAMFrom = it.RAMFrom
	}
	for _, variable := range it.Variables {
		v.Variables = append(v.Variables, variable.Name)
	}
}

// roomy is the RAM for a program that uses so much now: a quarter more, and no less than what
// other applications have by default.
func roomy(memory int64) app.MB {
	mb := app.MB((memory + memory/4 + 1<<20 - 1) >> 20)
	return max((mb+15)/16*16, suggestedRAM)
}

// examine reads what is sent, and completes the config by it.
func (it *importItem) examine() error {
	if it.ZIP != "" {
		a, err := bundle.Open(it.ZIP, bundle.Limits{}, nil)
		if err != nil {
			return reason(err)
		}
		defer func() { _ = a.Close() }()
		return it.suggest(a)
	}
	root, err := it.openRoot(it.Dir)
	if err != nil {
		return fmt.Errorf("its directory %s cannot be read: %w", it.Dir, err)
	}
	defer func() { _ = root.Close() }()
	files, err := bundle.Scan(root, bundle.Choice{Env: bundle.EnvLeft})
	if err != nil {
		return fmt.Errorf("its directory %s cannot be sent: %w", it.Dir, err)
	}
	it.env(root, files.EnvFiles)
	if !files.Found {
		it.config = []byte{}
		return it.suggest(files)
	}
	name := it.Config.Name
	it.Config, it.RAMFrom = files.Config, "RAM="
	it.Notes = append(it.Notes, "The discloud.config in its directory is used as it is.")
	if it.Config.Name == "" && it.Config.Type != app.Site { // by which the next import finds it
		it.Config.Name = name
		if it.named, err = named(files, name); err != nil {
			return err
		}
	}
	return it.suggest(files)
}

// named is the discloud.config of a directory, with a name.
func named(files *bundle.Packing, name string) ([]byte, error) {
	text, err := files.Read(bundle.ConfigName, maxEnvFile)
	if err != nil {
		return nil, err
	}
	text = append(text, "\nNAME="+name+"\n"...)
	if c, err := bundle.ParseConfig(bytes.NewReader(text)); err != nil || c.Name != name {
		return nil, errors.New("its discloud.config has no NAME=, by which berth finds it again: add one")
	}
	return text, nil
}

// suggest completes the config by what an upload would make of it.
func (it *importItem) suggest(files app.Files) error {
	config, plan, err := runtimes.Suggest(it.Config, files)
	if err != nil {
		return err
	}
	it.view.Lang = plan.Code.Lang
	if it.config != nil {
		it.Config = config
	} else {
		it.Config.Main, it.Config.Start = cmp.Or(it.Config.Main, plan.Code.Main), cmp.Or(it.Config.Start, plan.Code.Start)
	}
	for _, note := range plan.Notes {
		if !strings.Contains(note, "is assumed") {
			it.Notes = append(it.Notes, note)
		}
	}
	return nil
}

// env takes over the variables of .env. What other such files are for, nobody knows.
func (it *importItem) env(root *os.Root, names []string) {
	for _, name := range names {
		text, err := readBelow(root, name)
		if name != ".env" || err != nil {
			it.Notes = append(it.Notes, name+" holds secrets and is not sent: set its variables with berth env push, if the program needs them.")
			continue
		}
		all, err := app.ParseEnv(text)
		if err != nil {
			it.Notes = append(it.Notes, fmt.Sprintf("%s is not sent, and its variables are not taken over: %v.", name, err))
			continue
		}
		it.AddEnv(name, all)
	}
}

// readBelow reads a file of variables in a directory.
func readBelow(root *os.Root, name string) (string, error) {
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxEnvFile {
		return "", errors.Join(err, fs.ErrInvalid)
	}
	text, err := root.ReadFile(name)
	return string(text), err
}

// judge says what becomes of a program.
func (p *importPlan) judge(it *importItem, names map[string]string) {
	v := &it.view
	there := slices.IndexFunc(p.apps, func(a client.App) bool {
		if it.Config.Type == app.Site {
			return a.Owner == "" && strings.EqualFold(a.ID, it.Config.ID)
		}
		return a.Owner == "" && strings.EqualFold(a.Name, v.Name)
	})
	key := strings.ToLower(v.Name)
	switch {
	case it.Refusal != "":
		v.State, v.Reason = importRefused, it.Refusal
		return
	case there >= 0:
		v.State, v.ID = importThere, p.apps[there].ID
	case names[key] != "":
		v.State, v.Reason = importRefused, fmt.Sprintf("%s has the same name: import one, and give the other another NAME= in discloud.config", names[key])
		return
	case p.starts && it.now.yes:
		v.State, v.Reason = importRefused, "its old program still runs, and two of them must not: stop it first, or import without --start"
		v.Next = []string{it.Stop}
		return
	}
	names[key] = it.From
	v.Next = []string{it.Stop}
	if word := cmp.Or(v.ID, v.Name); !p.starts || v.State == importThere {
		v.Next = append(v.Next, "berth start "+shellWord(word))
	}
}

// shellWord is a name as a person types it.
func shellWord(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", r)
	}) {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// print prints the plan, or what came of it.
func (p *importPlan) print() error {
	views := []importView{}
	counts := map[string]int{}
	for _, it := range p.items {
		views = append(views, it.view)
		counts[it.view.State]++
	}
	if p.asJSON {
		return p.Print(true, views, nil)
	}
	width := screen.Width(p.Stdout)
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(p.Stdout)
		}
		fmt.Fprint(p.Stdout, v.text(width))
	}
	if p.apply {
		p.Tell("%d imported, %d there already, %d refused, %d failed.", counts[importImported], counts[importThere], counts[importRefused], counts[importFailed])
		return nil
	}
	if p.blind != nil {
		p.Tell("Which of them are there already is not known: %v.", p.blind)
	}
	p.Tell("%d to import, %d there already, %d refused. Nothing was changed: --apply imports, and starts nothing without --start.",
		counts[importNew], counts[importThere], counts[importRefused])
	return nil
}

// importIndent is how wide the words before the lines of a plan are.
const importIndent = 11

// text is the plan of one program, for a terminal of so many columns, 0 for none.
func (v importView) text(width int) string {
	var b strings.Builder
	line := func(word, text string) {
		text = screen.Escape(strings.ReplaceAll(text, "\n", " "), false)
		if width > 0 {
			text = screen.Wrap(text, max(width-importIndent, 1), importIndent)
		}
		fmt.Fprintf(&b, "%-*s%s\n", importIndent, word, text)
	}
	state := map[string]string{
		importNew: "to import", importThere: "there already, skipped", importRefused: "refused", importImported: "imported", importFailed: "failed",
	}[v.State]
	line("program", v.Name)
	if v.From != v.Name {
		line("from", v.From)
	}
	if v.Reason != "" {
		state += ": " + v.Reason
	}
	line("state", state)
	if v.ID != "" {
		line("id", v.ID)
	}
	if v.Running != nil {
		now := map[bool]string{true: "runs", false: "does not run"}[*v.Running]
		if v.Memory > 0 {
			now += ", and uses " + bundle.SizeText(v.Memory)
		}
		line("now", now)
	}
	if v.State == importRefused && v.Lang == "" {
		return b.String()
	}
	for _, l := range [][2]string{{"directory", v.Dir}, {"backup", v.ZIP}, {"language", v.Lang}, {"MAIN", v.Main}, {"START", v.Start}} {
		if l[1] != "" {
			line(l[0], l[1])
		}
	}
	ram := "what the server gives by default"
	if v.RAM > 0 {
		ram = fmt.Sprintf("%d MB (%s)", v.RAM, v.RAMFrom)
	}
	line("RAM", ram)
	line("variables", cmp.Or(strings.Join(v.Variables, ", "), "none"))
	for _, note := range v.Notes {
		line("note", note)
	}
	for _, next := range v.Next {
		line("then", next)
	}
	return b.String()
}
