package mover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"berth/app"
	"berth/db"
	"berth/files"
	"berth/files/archive"
)

// busyTries is how often an application is copied in a row of which a commit is under way.
const busyTries = 3

// Sender is the old host of a move. Its fields are set before Move.
type Sender struct {
	DB       *db.DB
	Store    *files.Store
	DataDir  string
	Host     string // the name of this host
	To       string // the new one, as the hold names it
	Version  string
	Settings string   // the settings file, and that beside it which berth writes
	Managed  string   // themselves; both may be missing
	Keys     []string // of the secrets, the one that seals first
	// Partial moves also when the files of an application cannot be read.
	Partial bool
	// Fingerprint returns what changes when a tree does, and whether that is sure to. With
	// nil every application is copied again while nothing runs.
	Fingerprint func(ctx context.Context, id app.ID, uid int) (sum string, settled bool, err error)
	// Agree is asked before anything is copied; an error ends the move.
	Agree func(p Plan) error
	// Hold stores a hold here, and returns once nothing runs.
	Hold func(ctx context.Context, h app.Hold) error
	// Tell is told what happens.
	Tell func(format string, args ...any)
	// Now is the clock.
	Now func() time.Time

	peer   *peer
	copied map[app.ID]state
}

// state is what an application was when its files were copied.
type state struct {
	sum    string // "" when a change would not be sure to be seen
	deploy int
	uid    int
}

// Plan is what a move is about to do.
type Plan struct {
	There There
	Apps  []Weight
	Again bool // the programs are held already: the move is finished
}

// Weight is an application with the bytes of its files.
type Weight struct {
	App   app.App
	Bytes int64
}

// Bytes are those of all applications.
func (p Plan) Bytes() (sum int64) {
	for _, w := range p.Apps {
		sum += w.Bytes
	}
	return sum
}

// Report is what came of a move.
type Report struct {
	Apps    int
	Missing []app.ID      // of which the files could not be read
	Copied  int           // applications that were copied while nothing ran
	Offline time.Duration // from the hold here to the start there
	Already bool          // it was done before
}

// HeldError is the error of a move after its programs have been held here.
type HeldError struct{ Err error }

// Error implements error.
func (e *HeldError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *HeldError) Unwrap() error { return e.Err }

// Refusal is the error of a host that cannot take the programs, or of an answer that says no.
type Refusal struct{ Why string }

// Error implements error.
func (r *Refusal) Error() string { return r.Why }

// Lost reports whether an error is that of a connection that has ended.
func Lost(err error) bool {
	var l lost
	return errors.As(err, &l)
}

// Move moves everything to the host at the other end of conn. Until it holds the programs here
// an error has changed nothing; afterwards it is a HeldError, and another Move finishes. It blocks
// until everything is there, or ctx ends; whoever ends ctx closes conn.
func (s *Sender) Move(ctx context.Context, conn io.ReadWriter) (Report, error) {
	s.peer, s.copied = newPeer(conn), map[app.ID]state{}
	hold, held, err := s.DB.Holds.HoldOf(ctx)
	if err != nil {
		return Report{}, err
	}
	if held && (hold.Why != app.HoldMoved || hold.Peer != s.To) {
		return Report{}, &Refusal{hold.Text().String()}
	}
	if !held {
		hold = app.Hold{Why: app.HoldMoved, Peer: s.To, At: s.Now().Truncate(time.Millisecond)}
	}
	report, err := s.move(ctx, hold, held)
	if err == nil {
		return report, nil
	}
	if _, held, failed := s.DB.Holds.HoldOf(context.WithoutCancel(ctx)); held || failed != nil {
		return report, &HeldError{err}
	}
	return report, err
}

func (s *Sender) move(ctx context.Context, hold app.Hold, held bool) (Report, error) {
	name := Name(s.Host, hold.At)
	there, err := s.hello(name)
	if err != nil {
		return Report{}, err
	}
	apps, err := s.DB.Apps.Apps(ctx)
	if err != nil {
		return Report{}, err
	}
	report := Report{Apps: len(apps)}
	if there.Stage == StageNone {
		if err := s.first(ctx, there, name, apps, held, &report); err != nil {
			return report, err
		}
	}
	began := s.Now()
	if err := s.Hold(ctx, hold); err != nil { // also when it was stored before: something may still run
		return report, err
	}
	if there.Stage == StageNone {
		if err := s.second(ctx, &report); err != nil {
			return report, err
		}
	}
	if there.Stage == StageNone || there.Stage == StageReady {
		s.Tell("everything is there: berth begins anew on it")
		if _, _, err := s.peer.ask(request{Do: doInstall, Move: name, Keys: s.Keys}, nil); err != nil {
			return report, err
		}
	}
	if _, _, err := s.peer.ask(request{Do: doResume, Move: name}, nil); err != nil {
		return report, err
	}
	report.Offline, report.Already = s.Now().Sub(began), there.Stage == StageRuns
	return report, nil
}

// hello asks the new host what is there, and refuses one that cannot take the programs.
func (s *Sender) hello(name string) (There, error) {
	a, _, err := s.peer.ask(request{Do: doHello, Protocol: Protocol, Move: name, From: s.Host}, nil)
	if err != nil {
		return There{}, err
	}
	if a.There == nil {
		return There{}, lost{errors.New("it does not answer as berth does")}
	}
	there := *a.There
	switch {
	case there.Problem != "":
		return there, &Refusal{there.Problem}
	case there.Schema < db.Schema():
		return there, &Refusal{fmt.Sprintf("berth %s on %s is older than the %s here: upgrade it first", there.Version, there.Host, s.Version)}
	}
	return there, nil
}

// first copies everything for the first time. While nothing is held that is while programs run.
func (s *Sender) first(ctx context.Context, there There, name string, apps []app.App, held bool, report *Report) error {
	plan := Plan{There: there, Again: held}
	for _, a := range apps {
		space, err := s.Store.Used(ctx, a.ID)
		if err != nil && app.KindOf(err) != app.NotFound {
			return err
		}
		plan.Apps = append(plan.Apps, Weight{a, space.Bytes})
	}
	if need := plan.Bytes() + plan.Bytes()/10; need > there.Free {
		return &Refusal{fmt.Sprintf("%s has %d MB of disk free, and the applications need %d MB", there.Host, there.Free>>20, need>>20)}
	}
	if err := s.Agree(plan); err != nil {
		return err
	}
	if _, _, err := s.peer.ask(request{Do: doBegin, Move: name, From: s.Host}, nil); err != nil {
		return err
	}
	if held {
		return nil // second copies all of them, once
	}
	for _, a := range apps {
		void, err := s.copyApp(ctx, a, busyTries)
		if err != nil {
			return err
		}
		if void != nil {
			report.Missing = append(report.Missing, a.ID)
			s.Tell("the files of the application %s cannot be copied: %v", a.ID, void)
		}
	}
	if len(report.Missing) > 0 && !s.Partial {
		return &Refusal{fmt.Sprintf("the files of %d of the applications cannot be read", len(report.Missing))}
	}
	return nil
}

// second copies, while nothing runs, what is not there as it is, and the rest.
func (s *Sender) second(ctx context.Context, report *Report) error {
	apps, err := s.DB.Apps.Apps(ctx)
	if err != nil {
		return err
	}
	report.Apps, report.Missing = len(apps), nil
	for _, a := range apps {
		before, was := s.copied[a.ID]
		if now, err := s.state(ctx, a); err == nil && was && now.sum != "" && now == before {
			continue
		}
		report.Copied++
		void, err := s.copyApp(ctx, a, 1)
		if err != nil {
			return err
		}
		if void != nil {
			report.Missing = append(report.Missing, a.ID)
			s.Tell("the files of the application %s are not there: %v", a.ID, void)
		}
	}
	return s.sendRest(ctx)
}

// state is what an application is now.
func (s *Sender) state(ctx context.Context, a app.App) (state, error) {
	now := state{uid: a.UID}
	all, err := s.DB.History.Deploys(ctx, a.ID)
	if err != nil {
		return now, err
	}
	if len(all) > 0 {
		now.deploy = all[0].Number
	}
	if s.Fingerprint == nil {
		return now, nil
	}
	sum, settled, err := s.Fingerprint(ctx, a.ID, a.UID)
	if err == nil && settled {
		now.sum = sum
	}
	return now, err
}

// copyApp sends the files of an application. void is why they could not be read: then they are not there.
func (s *Sender) copyApp(ctx context.Context, a app.App, tries int) (void, err error) {
	delete(s.copied, a.ID)
	before, unknown := s.state(ctx, a) // before it is read: what changes meanwhile is copied again
	for range tries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_, void, err = s.peer.ask(request{Do: doApp, App: a.ID}, func(w io.Writer) error {
			out, err := archive.NewWriter(w, archive.Manifest{Berth: s.Version, Made: s.Now(), Host: s.Host})
			if err == nil {
				err = s.Store.Export(ctx, out, a.ID, a.UID)
			}
			if err == nil {
				_, err = out.Close(0)
			}
			return err
		})
		if !errors.Is(void, files.ErrBusy) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if errors.Is(void, files.ErrBusy) && tries > 1 {
		return nil, nil // it is copied again in any case
	}
	if void == nil && unknown == nil {
		s.copied[a.ID] = before
	}
	return void, nil
}

// sendRest sends the database and the settings.
func (s *Sender) sendRest(ctx context.Context) (err error) {
	staging := filepath.Join(s.DataDir, "staging")
	left, err := filepath.Glob(filepath.Join(staging, "move-*")) // by a move that was killed; a boot removes it too
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(staging, "move-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	copied := filepath.Join(temp, Database)
	if err := s.DB.Copy(ctx, copied); err != nil {
		return err
	}
	_, void, err := s.peer.ask(request{Do: doRest}, func(w io.Writer) error {
		m := archive.Manifest{Format: archive.Format, Berth: s.Version, Made: s.Now(), Host: s.Host}
		out, err := archive.NewWriter(w, m)
		if err != nil {
			return err
		}
		for _, part := range []struct{ name, file string }{{settingsPart, s.Settings}, {managedPart, s.Managed}, {Database, copied}} {
			if err := addFile(out, part.name, part.file); err != nil {
				return err
			}
		}
		_, err = out.Close(db.Schema())
		return err
	})
	return errors.Join(err, void)
}

// addFile adds a part of one file, if that is there.
func addFile(w *archive.Writer, part, path string) error {
	f, err := os.Open(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	w.Begin(part)
	return w.Add(archive.Plain(0o600, int64(len(content))), bytes.NewReader(content))
}

// ArchNote says what is to be known when the processors of two hosts differ, "" for nothing.
func (t There) ArchNote() string {
	if t.Arch == runtime.GOARCH || strings.TrimSpace(t.Arch) == "" {
		return ""
	}
	return fmt.Sprintf("%s has a processor of another kind (%s, here %s): programs that were compiled here do not start there, and packages with compiled parts have to be built again by a new deploy", t.Host, t.Arch, runtime.GOARCH)
}
