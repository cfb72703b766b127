package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"berth/app/exit"
	"berth/daemon/settings"
	"berth/web/local"
)

// trial sets settings that may have to be taken back. It remembers those of before in a file
// beside the managed one until it ends, so that the next setup can go back after a kill.
type trial struct {
	path string // the settings file
	load func() (settings.Settings, error)
}

// before are settings by their keys; nil for one that was not set.
type before map[string]*string

// journal is the file that remembers.
func (t *trial) journal() string {
	return filepath.Join(filepath.Dir(settings.ManagedFile(t.path)), "setup.json")
}

// read returns the settings of before, if a trial is under way or was cut short.
func (t *trial) read() (b before, open bool, err error) {
	text, err := os.ReadFile(t.journal())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return nil, false, exit.NewProblem(exit.Failure, fmt.Errorf("cannot read what an earlier setup has left: %w", err),
			"Hint: remove "+t.journal()+"; berth check lists the settings as they are.")
	}
	return b, true, nil
}

// begin sets settings. Those of a trial that was cut short stay the ones to go back to.
func (t *trial) begin(ctx context.Context, set map[string]string) error {
	b, open, err := t.read()
	if err != nil {
		return err
	}
	managed, err := settings.Managed(t.path)
	if err != nil {
		return err
	}
	if b == nil {
		b = before{}
	}
	for key := range set {
		if _, known := b[key]; known {
			continue
		}
		b[key] = nil
		if value, there := managed[key]; there {
			b[key] = &value
		}
	}
	if err := t.write(b); err != nil {
		return fmt.Errorf("cannot remember the settings of before: %w", err)
	}
	if _, err = settings.Manage(t.path, set); err == nil {
		return nil
	}
	if !open {
		return errors.Join(err, t.keep()) // nothing was set
	}
	_, failed := t.goBack(ctx)
	return errors.Join(err, failed)
}

// write stores the settings of before, all or nothing.
func (t *trial) write(b before) error {
	path := t.journal()
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// keep ends the trial: the settings stay.
func (t *trial) keep() error {
	if err := os.Remove(t.journal()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot end the setup: %w", err)
	}
	return nil
}

// goBack sets what was set before, lets the daemon take that, and ends the trial.
func (t *trial) goBack(ctx context.Context) (s settings.Settings, err error) {
	b, _, err := t.read()
	if err != nil {
		return s, err
	}
	set, unset := map[string]string{}, []string{}
	for key, value := range b {
		if value == nil {
			unset = append(unset, key)
		} else {
			set[key] = *value
		}
	}
	if _, err := settings.Manage(t.path, set, unset...); err != nil {
		return s, err
	}
	if s, err = t.load(); err != nil {
		return s, err
	}
	if _, err := reloadDaemon(ctx, s); err != nil {
		return s, err
	}
	return s, t.keep()
}

const (
	// reloadTime is how long a reload takes beside upgrade.patience.
	reloadTime = time.Minute
	// reloadAgain is when the daemon is asked again: an image that hands over hears no signal.
	reloadAgain = 10 * time.Second
)

// reloadDaemon lets the daemon take the settings s, as it does at an upgrade, and returns what
// it says of itself then.
func reloadDaemon(ctx context.Context, s settings.Settings) (d local.Daemon, err error) {
	begun := time.Now()
	heard, next := begun, time.Time{}
	for {
		d, err = local.Ask(ctx, s.RuntimeDir)
		now := time.Now()
		if err == nil {
			heard = now
		}
		switch {
		case err != nil && now.Sub(heard) < reloadAgain, // between two images
			errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && now.Sub(begun) < s.Upgrade.Patience+reloadTime: // it is slow to begin
		case err != nil:
			return d, err
		case !next.IsZero() && d.BaseURL == s.BaseURL && d.Engine == s.Engine && len(d.Sites) == len(s.Listens())-1:
			return d, nil
		case now.Sub(begun) > s.Upgrade.Patience+reloadTime:
			return d, errors.New("the daemon does not take the settings")
		case !now.Before(next):
			if err := syscall.Kill(d.PID, syscall.SIGHUP); err != nil {
				return d, fmt.Errorf("cannot reload the daemon: %w", err)
			}
			next = now.Add(reloadAgain)
		}
		if err := pause(ctx); err != nil {
			return d, err
		}
	}
}
