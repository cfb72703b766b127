package host

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// What the world has on disk: Staging, Trees, Disk and Logs. A file's name is
// the config it holds, "MAIN=a,BUILD=b"; "bad" is no ZIP, and "jar" the main file itself.

func (w *world) Spool(_ context.Context, r io.Reader, _ int64) (string, error) {
	b, err := io.ReadAll(r)
	return string(b), err
}

func (w *world) DropSpool(string) error { return w.failing("DropSpool") }

func (w *world) Unpack(_ context.Context, file string, over *app.Code, judge func(app.Config) error) (app.Unpacked, error) {
	if file == "bad" {
		return app.Unpacked{}, app.Errorf(app.Unusable, "not a ZIP")
	}
	if over != nil && over.Main == "" {
		w.t.Error("a commit does not say what it is laid over")
	}
	cfg := parse(file)
	if err := judge(cfg); err != nil {
		return app.Unpacked{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.staged++
	stage := app.Stage(fmt.Sprintf("stage-%d", w.staged))
	w.stages[stage] = cfg
	return app.Unpacked{Stage: stage, Config: cfg, Found: len(cfg.Keys) > 0, Bytes: int64(len(file)), Variables: w.zipped, Left: w.left, Single: file == "jar"}, nil
}

func (w *world) UnpackAs(ctx context.Context, _, config string, judge func(app.Config) error) (app.Unpacked, error) {
	return w.Unpack(ctx, strings.ReplaceAll(strings.TrimSpace(config), "\n", ","), nil, judge)
}

// Look takes fields for what the config says; a file's name is what it holds.
func (w *world) Look(file string, fields app.ConfigField, judge func(*app.Draft, app.Config, app.Files) error) (app.Draft, error) {
	if file == "bad" {
		return app.Draft{}, app.Errorf(app.Unusable, "not a ZIP")
	}
	cfg := parse(file)
	d := app.Draft{Found: len(cfg.Keys) > 0, Fields: fields}
	for _, key := range app.ConfigFields {
		if fields[key] != "" {
			d.Text += key + "=" + fields[key] + "\n"
		}
	}
	if fields != nil {
		cfg = parse(strings.ReplaceAll(strings.TrimSpace(d.Text), "\n", ","))
	}
	err := judge(&d, cfg, onlyFile("a.js"))
	return d, err
}

// onlyFile is a tree of one empty file.
type onlyFile string

func (f onlyFile) Exists(name string) bool          { return name == string(f) }
func (f onlyFile) Brought(name string) bool         { return name == string(f) }
func (onlyFile) Read(string, int64) ([]byte, error) { return nil, nil }

func parse(file string) app.Config {
	var cfg app.Config
	for field := range strings.SplitSeq(file, ",") {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			continue
		}
		cfg.Keys = append(cfg.Keys, key)
		switch key {
		case "MAIN":
			cfg.Main = value
		case "BUILD":
			cfg.Build = value
		case "AUTORESTART":
			cfg.AutoRestart = value == "true"
		case "RAM":
			fmt.Sscan(value, &cfg.RAM)
		case "ID":
			cfg.ID = value
		case "TYPE":
			cfg.Type = app.Site
		case "VERSION":
			cfg.Version = value
		case "HEALTH":
			cfg.Health = value
		case "MEMORY_SIGNAL":
			cfg.MemorySignal = value
		case "STDIN":
			cfg.Stdin = value == "true"
		case "APT":
			cfg.APT = strings.Fields(value)
		}
	}
	return cfg
}

func (w *world) Files(app.Stage, app.ID) app.Files { return nil }

func (w *world) Discard(stage app.Stage) error {
	time.Sleep(w.discards)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stages, stage)
	return nil
}

// Trees and Disk.

func (w *world) Over(_ context.Context, stage app.Stage, _ app.ID, before string, exact bool) (app.Files, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over[stage] = over{before, exact}
	return nil, nil //nolint:nilnil // no plan of a test looks at files
}

// over is what a commit was laid over.
type over struct {
	before string
	exact  bool
}

func (w *world) Relist(_ context.Context, _ app.ID, brought string) (string, error) {
	return brought + " built", w.failing("Relist")
}

func (w *world) Publish(_ context.Context, stage app.Stage, id app.ID, _ int) (string, error) {
	if err := w.failing("Publish"); err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trees[id] = w.stages[stage].Main
	delete(w.stages, stage)
	return "list of " + string(stage), nil
}

func (w *world) Renew(_ context.Context, id app.ID, _ int, may bool) (gone bool, err error) {
	if err := w.failing("Renew"); err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	holds, there := w.trees[id]
	if !there && may {
		w.trees[id] = ""
	}
	return holds == "", nil
}

func (w *world) Prepare(context.Context, app.Stage, app.ID, int) error { return w.failing("Prepare") }

func (w *world) Apply(_ context.Context, stage app.Stage, id app.ID, _ int) (app.Applied, error) {
	w.mu.Lock()
	for _, r := range w.runs {
		if r.p.App == id && !r.p.Build && !r.ended() && !w.visited {
			w.t.Errorf("the tree of %s was changed under a running program", id)
		}
	}
	w.checkNoConsole(id)
	if w.applied[id] != "" {
		w.t.Errorf("a journal of %s is pending", id)
	}
	if _, there := w.trees[id]; !there {
		w.mu.Unlock()
		return app.Applied{}, noApp(id)
	}
	w.journals++
	name := fmt.Sprintf("journal-%d", w.journals)
	w.applied[id], w.undo[name] = name, w.trees[id]
	w.trees[id] = w.stages[stage].Main
	done := app.Applied{Journal: name, Bytes: w.weighs}
	if o, said := w.over[stage]; said {
		done.Brought = "list of " + string(stage)
		if o.exact {
			done.Removed, done.Stays, done.Unknown = 2, []string{"edited.js"}, o.before == ""
		}
	}
	w.mu.Unlock()
	return done, w.failing("Apply")
}

func (w *world) Settle(_ context.Context, id app.ID, _ int, good []string) error {
	if err := w.failing("Settle"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.undoFails {
		return errTest
	}
	if w.undoFrom > 0 {
		if w.undoFrom--; w.undoFrom == 0 {
			return errTest
		}
	}
	if name := w.applied[id]; name != "" && !slices.Contains(good, name) {
		w.trees[id] = w.undo[name]
		delete(w.undo, name)
	}
	delete(w.applied, id)
	return nil
}

// Staging of states from before.

func (w *world) PrepareRestore(context.Context, app.Stage, app.ID, int) error {
	return w.failing("PrepareRestore")
}

func (w *world) Remains(app.Stage, app.ID) app.Files { return nil }

func (w *world) Rollback(_ context.Context, id app.ID, _ int, journals []string) (app.Stage, []string, error) {
	if err := w.failing("Rollback"); err != nil {
		return "", nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.p.App == id && !r.ended() {
			w.t.Errorf("a rollback was prepared beside a running program")
		}
	}
	w.staged++
	stage := app.Stage(fmt.Sprintf("stage-%d", w.staged))
	last, ok := w.undo[journals[len(journals)-1]]
	if !ok {
		w.t.Errorf("no journal %s", journals[len(journals)-1])
	}
	w.stages[stage] = app.Config{Main: last}
	return stage, w.stays, nil
}

func (w *world) Used(_ context.Context, id app.ID) (app.Space, error) {
	err := w.failing("Size")
	w.mu.Lock()
	defer w.mu.Unlock()
	return app.Space{Bytes: max(w.sizes[id], w.sizes[""], 4096), Entries: w.files[id], Deep: w.deep[id]}, err
}

func (w *world) Backup(_ context.Context, id app.ID, variables []app.Variable, room app.BackupRoom) (string, error) {
	if err := w.failing("Backup"); err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backups++
	w.packed, w.backup = variables, room
	w.kept = append(w.kept, app.Backup{App: id, File: fmt.Sprintf("backup-%d.zip", w.backups), Bytes: 10 << 20})
	return fmt.Sprintf("backup-%d.zip", w.backups), nil
}

func (w *world) Backups(id app.ID, _ time.Duration) (own []app.Backup, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.kept {
		if b.App == id {
			own = append(own, b)
		}
	}
	return own, w.fail["Backups"]
}

func (w *world) DropBackups(time.Time) (int, error) { return 0, w.failing("DropBackups") }

func (w *world) Remove(_ context.Context, id app.ID) error {
	if err := w.failing("Remove"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.trees, id)
	return nil
}

func (w *world) recover(_ context.Context, known []app.App) ([]app.ID, error) {
	if err := w.failing("Recover"); err != nil {
		return w.broken, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.trees, func(id app.ID, _ string) bool {
		return !slices.ContainsFunc(known, func(a app.App) bool { return a.ID == id })
	})
	return w.broken, nil
}

func (w *world) forget(id app.ID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.notes, id)
	return nil
}

func (w *world) Open(id app.ID, build bool) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(w.Tail(id, build, 0))), nil
}

func (w *world) Note(id app.ID, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[id] = append(w.notes[id], text)
}

func (w *world) Tail(id app.ID, build bool, _ int) string {
	if build {
		return "build output\n"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return "last words\n" + strings.Join(w.notes[id], "\n") + "\n"
}

func (w *world) Mark(id app.ID) func(int) string {
	_ = w.failing("Mark")
	w.mu.Lock()
	defer w.mu.Unlock()
	from := len(w.notes[id])
	return func(int) string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return "last words\n" + strings.Join(w.notes[id][min(from, len(w.notes[id])):], "\n") + "\n"
	}
}

func (w *world) BeginBuild(app.ID) error { return nil }
