package mover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/db"
	"berth/files"
	"berth/files/archive"
)

// The parts of the archive of rest, beside the database. They are the names of a backup's.
const (
	settingsPart = "berth.toml"
	managedPart  = "berth.d/managed.toml"
)

// Receiver is the new host of a move. Its fields are set before Serve.
type Receiver struct {
	DataDir string
	Host    string // the name of this host
	Version string
	Arch    string
	// Open opens the database of the data directory. The caller closes it.
	Open func(ctx context.Context) (*db.DB, error)
	// AddKey adds a key to those of this host, as the berth key add command does.
	AddKey func(ctx context.Context, d *db.DB, text string) error
	// Serves fails, with a sentence, unless a daemon serves the data directory.
	Serves func(ctx context.Context) error
	// Restart lets that daemon begin anew, and returns once it serves with what Settle has put
	// into place.
	Restart func(ctx context.Context) error
	// HoldChanged lets that daemon read the hold anew.
	HoldChanged func(ctx context.Context) error

	move string // of begin
	from string
	to   *files.Importer
}

// Serve answers the requests of an old host until its connection ends, which is no error. It
// is for one goroutine. What it leaves unfinished counts for nothing.
func (r *Receiver) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	defer r.close()
	for {
		kind, payload, err := readFrame(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read what the old host sends: %w", err)
		}
		var q request
		if kind != frameRequest || json.Unmarshal(payload, &q) != nil {
			return errors.New("what comes in is not of berth move")
		}
		a, err := r.handle(ctx, q, in)
		var cut gone
		if errors.As(err, &cut) {
			return err
		}
		if err != nil {
			a = answer{Error: err.Error()}
		}
		line, err := json.Marshal(a)
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		if err != nil {
			return fmt.Errorf("cannot answer the old host: %w", err)
		}
	}
}

// gone is the error of a connection that ended within a stream.
type gone struct{ error }

func (r *Receiver) close() {
	if r.to != nil {
		r.to.Close()
		r.to = nil
	}
}

// handle does what a request asks for. A stream that follows it is read to its end.
func (r *Receiver) handle(ctx context.Context, q request, in io.Reader) (a answer, err error) {
	switch q.Do {
	case doHello:
		there, err := r.hello(ctx, q)
		return answer{There: &there}, err
	case doBegin:
		return a, r.begin(ctx, q)
	case doApp, doRest:
		s := &stream{from: in}
		if q.Do == doApp {
			err = r.app(q.App, s)
		} else {
			err = r.rest(ctx, s)
		}
		if failed := s.drain(); failed != nil {
			return a, gone{fmt.Errorf("the old host is gone: %w", failed)}
		}
		if errors.Is(s.err, errVoid) && q.Do == doApp { // it is gone again, and the old host knows
			return a, r.drop(q.App)
		}
		return a, err
	case doInstall:
		return a, r.install(ctx, q)
	case doResume:
		return a, r.resume(ctx, q)
	}
	return a, fmt.Errorf("this berth does not know %q: install the version that the old host has, or a newer one", q.Do)
}

// hello says what there is.
func (r *Receiver) hello(ctx context.Context, q request) (There, error) {
	t := There{Host: r.Host, Version: r.Version, Schema: db.Schema(), Arch: r.Arch, DataDir: r.DataDir}
	if q.Protocol != Protocol {
		t.Problem = fmt.Sprintf("berth %s on %s cannot talk to the berth here: install the same version on both hosts", r.Version, r.Host)
		return t, nil
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(r.DataDir, &disk); err != nil {
		t.Problem = fmt.Sprintf("berth is not installed on %s: there is no data directory %s", r.Host, r.DataDir)
		return t, nil
	}
	t.Free = int64(disk.Bavail) * disk.Bsize //nolint:gosec // no disk is larger
	if err := r.Serves(ctx); err != nil {
		t.Problem = err.Error()
		return t, nil
	}
	var err error
	if t.Stage, err = r.stage(ctx, q.Move); err != nil || t.Stage != StageNone {
		return t, err
	}
	t.Accounts, t.Problem, err = r.empty(ctx)
	return t, err
}

// stage is how far a move has come here.
func (r *Receiver) stage(ctx context.Context, move string) (Stage, error) {
	if move == "" {
		return StageNone, nil
	}
	ready, err := readMark(filepath.Join(r.DataDir, Ready))
	if err != nil {
		return StageNone, err
	}
	if ready.Move == move {
		return StageReady, nil
	}
	settled, err := readMark(r.DataDir)
	if err != nil || settled.Move != move {
		return StageNone, err
	}
	d, err := r.Open(ctx)
	if err != nil {
		return StageNone, err
	}
	hold, _, err := d.Holds.HoldOf(ctx)
	if err = errors.Join(err, d.Close()); err != nil {
		return StageNone, err
	}
	if hold.Why == app.HoldRestored { // else they ran here, and moved on perhaps
		return StageHeld, nil
	}
	return StageRuns, nil
}

// empty says why this host cannot be overwritten, and which accounts it has.
func (r *Receiver) empty(ctx context.Context) (accounts []string, problem string, err error) {
	if _, err := os.Lstat(filepath.Join(r.DataDir, Ready)); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Sprintf("another move to %s was not finished: restart berth there", r.Host), nil
	}
	d, err := r.Open(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	accounts, what, err := InUse(ctx, d)
	if what != "" {
		problem = fmt.Sprintf("%s is not empty: it has %s, and berth move replaces everything there", r.Host, what)
	}
	return accounts, problem, err
}

// InUse returns the names of the accounts that a database has, and in words why it is somebody's: it has an
// application, or more accounts than the one that berth setup makes. The words are "" when it is nobody's.
func InUse(ctx context.Context, d *db.DB) (accounts []string, what string, err error) {
	apps, err := d.Apps.Apps(ctx)
	if err != nil {
		return nil, "", err
	}
	all, err := d.Accounts.Accounts(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, a := range all {
		accounts = append(accounts, a.Name)
	}
	if len(apps) > 0 || len(all) > 1 {
		what = fmt.Sprintf("%d applications and %d accounts", len(apps), len(all))
	}
	return accounts, what, nil
}

// begin makes an empty place.
func (r *Receiver) begin(ctx context.Context, q request) error {
	r.close()
	if q.Move == "" {
		return errors.New("the move has no name")
	}
	if _, problem, err := r.empty(ctx); err != nil || problem != "" {
		return errors.Join(err, problemError(problem))
	}
	place := filepath.Join(r.DataDir, Unfinished)
	if err := os.RemoveAll(place); err != nil {
		return fmt.Errorf("cannot remove what an earlier move left: %w", err)
	}
	if err := os.Mkdir(place, 0o700); err != nil {
		return fmt.Errorf("cannot begin: %w", err)
	}
	to, err := files.NewImporter(place)
	r.to, r.move, r.from = to, q.Move, q.From
	return err
}

func problemError(problem string) error {
	if problem == "" {
		return nil
	}
	return errors.New(problem)
}

// app takes the files of one application, in place of what came of it before.
func (r *Receiver) app(id app.ID, s io.Reader) error {
	if r.to == nil || !app.ValidID(string(id)) {
		return errors.New("the files of an application came out of turn")
	}
	if err := r.drop(id); err != nil {
		return err
	}
	_, err := archive.Read(s, func(_ int, part string, e archive.Entry, content io.Reader) error {
		if area, of, ok := strings.Cut(part, "/"); !ok || of != string(id) || area != "apps" && area != "rollback" {
			return fmt.Errorf("%w: %q is not of the application %s", archive.ErrDamaged, part, id)
		}
		return r.to.Put(part, e, content)
	})
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("cannot store the files of the application %s: %w", id, err), r.drop(id))
}

// drop removes what came of an application.
func (r *Receiver) drop(id app.ID) error {
	place := filepath.Join(r.DataDir, Unfinished)
	return errors.Join(os.RemoveAll(filepath.Join(place, "apps", string(id))), os.RemoveAll(filepath.Join(place, "rollback", string(id))))
}

// rest takes the database and the settings. From here on the place is whole.
func (r *Receiver) rest(ctx context.Context, s io.Reader) error {
	if r.to == nil {
		return errors.New("the database came out of turn")
	}
	place := filepath.Join(r.DataDir, Unfinished)
	_, err := archive.Read(s, func(_ int, part string, _ archive.Entry, content io.Reader) error {
		switch part {
		case managedPart:
			if err := os.MkdirAll(filepath.Join(place, filepath.Dir(part)), 0o755); err != nil {
				return err
			}
		case Database, settingsPart:
		default:
			return fmt.Errorf("%w: nobody knows what %q is", archive.ErrDamaged, part)
		}
		return writeFile(filepath.Join(place, part), content)
	})
	if err == nil {
		err = r.holdPrograms(ctx, place)
	}
	if err == nil {
		err = r.leaveMark(place)
	}
	if err == nil {
		err = r.to.Sync()
	}
	if err != nil {
		return fmt.Errorf("cannot store the database: %w", err)
	}
	return nil
}

// holdPrograms holds the programs of the database that has come, and removes what came of
// applications that it does not know: they were deleted meanwhile.
func (r *Receiver) holdPrograms(ctx context.Context, place string) error {
	at := filepath.Join(place, Database)
	if _, err := db.Check(ctx, at); err != nil {
		return err
	}
	d, err := db.Open(ctx, at, time.Now)
	if err != nil {
		return err
	}
	err = d.Holds.SetHold(ctx, app.Hold{Why: app.HoldRestored, Peer: r.from, At: time.Now()})
	apps, failed := d.Apps.Apps(ctx)
	if err = errors.Join(err, failed, d.Close()); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, a := range apps {
		known[string(a.ID)] = true
	}
	came, err := os.ReadDir(filepath.Join(place, "apps"))
	if err != nil {
		return err
	}
	for _, e := range came {
		if !known[e.Name()] {
			err = errors.Join(err, r.drop(app.ID(e.Name())))
		}
	}
	return err
}

func (r *Receiver) leaveMark(place string) error {
	text, err := json.Marshal(mark{r.move, r.from})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(place, markName), strings.NewReader(string(text)))
}

// install makes the place that of the daemon, which begins anew on it.
func (r *Receiver) install(ctx context.Context, q request) error {
	stage, err := r.stage(ctx, q.Move)
	if err != nil {
		return err
	}
	if stage == StageNone {
		if err := r.makeReady(ctx, q); err != nil {
			return err
		}
	}
	if stage == StageHeld || stage == StageRuns {
		return nil
	}
	return r.Restart(ctx)
}

// makeReady adds the keys of the secrets, and then renames the place.
func (r *Receiver) makeReady(ctx context.Context, q request) (err error) {
	place := filepath.Join(r.DataDir, Unfinished)
	m, err := readMark(place)
	if err != nil {
		return err
	}
	if q.Move == "" || m.Move != q.Move {
		return errors.New("not everything has come yet")
	}
	if _, problem, err := r.empty(ctx); err != nil || problem != "" {
		return errors.Join(err, problemError(problem))
	}
	d, err := r.Open(ctx)
	if err != nil {
		return err
	}
	for _, key := range q.Keys {
		err = errors.Join(err, r.AddKey(ctx, d, key))
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("cannot store the keys of the secrets: %w", err)
	}
	r.close()
	return MakeReady(r.DataDir)
}

// MakeReady lets the next Settle put what is in the Unfinished place of a data directory into place.
// Everything in it MUST be on the disk.
func MakeReady(dir string) error {
	if err := os.Rename(filepath.Join(dir, Unfinished), filepath.Join(dir, Ready)); err != nil {
		return fmt.Errorf("cannot put everything into place: %w", err)
	}
	return syncDir(dir)
}

// resume lets the programs start.
func (r *Receiver) resume(ctx context.Context, q request) error {
	stage, err := r.stage(ctx, q.Move)
	if err != nil {
		return err
	}
	switch stage {
	case StageNone, StageReady:
		return errors.New("what was moved is not in its place yet")
	case StageRuns:
		return r.HoldChanged(ctx) // of which the one before may not have heard
	case StageHeld:
	}
	d, err := r.Open(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Holds.DropHold(ctx), d.Close()); err != nil {
		return err
	}
	return r.HoldChanged(ctx)
}

// writeFile makes a private file and makes it durable.
func writeFile(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Name is the name of the move that holds the programs since a moment.
func Name(from string, at time.Time) string {
	return from + " " + strconv.FormatInt(at.UnixMilli(), 10)
}
