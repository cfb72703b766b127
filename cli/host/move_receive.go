package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"berth/app/build"
	"berth/cli/command"
	"berth/daemon"
	"berth/daemon/keyring"
	"berth/daemon/mover"
	"berth/daemon/settings"
	"berth/db"
	"berth/web/local"
)

const (
	// restartTime bounds how long a daemon may take to begin anew on what was moved.
	restartTime = 2 * time.Minute
	lockTime    = 15 * time.Second // for the one of a connection that was lost
	restartLook = 50 * time.Millisecond
)

// moveReceive is "move-receive", which berth move calls on the new host.
func moveReceive(c *caller) *cobra.Command {
	cmd := command.New("move-receive", "take what berth move on another host sends", 0, 0)
	cmd.Hidden = true
	return c.withSettings(cmd, func(ctx context.Context, s settings.Settings, _ []string) error {
		if err := mustBeRoot("take what another host sends", ", for it makes the files of every application", "move from there as root@..."); err != nil {
			return err
		}
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		end, err := mover.Lock(s.DataDir, lockTime)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // else there is no data directory, as hello says
			return fmt.Errorf("cannot take what another host sends: %w", err)
		}
		if err == nil {
			defer end()
		}
		r := &mover.Receiver{
			DataDir: s.DataDir, Host: host, Version: build.Version(), Arch: runtime.GOARCH,
			Open: func(ctx context.Context) (*db.DB, error) { return daemon.OpenDatabase(ctx, s.DataDir, s.KeyFiles()...) },
			AddKey: func(ctx context.Context, d *db.DB, text string) error {
				key, err := keyring.Parse(text)
				if err != nil {
					return err
				}
				return d.Alone(ctx, func() error { return daemon.Keys(s.DataDir, s.KeyFiles()...).Add(key) })
			},
			Serves: func(ctx context.Context) error {
				_, err := serving(ctx, s, host)
				return err
			},
			Restart:     func(ctx context.Context) error { return beginAnew(ctx, s, host) },
			HoldChanged: func(ctx context.Context) error { return local.HoldChanged(ctx, s.RuntimeDir) },
		}
		return r.Serve(ctx, c.Stdin, c.Stdout)
	})
}

// serving returns the daemon that serves the data directory.
func serving(ctx context.Context, s settings.Settings, host string) (local.Daemon, error) {
	d, err := local.Ask(ctx, s.RuntimeDir)
	if err == nil && !sameDir(d.DataDir, s.DataDir) {
		err = fmt.Errorf("it serves %s", d.DataDir)
	}
	if err != nil {
		return d, fmt.Errorf("no berth serves %s on %s: start it first, systemctl start berth (%w)", s.DataDir, host, err)
	}
	return d, nil
}

// beginAnew lets the daemon begin anew, as for an upgrade in place, and waits until it serves
// with what was moved.
func beginAnew(ctx context.Context, s settings.Settings, host string) error {
	d, err := serving(ctx, s, host)
	if err == nil {
		err = syscall.Kill(d.PID, syscall.SIGHUP)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	ready := filepath.Join(s.DataDir, mover.Ready)
	for {
		if _, err = os.Lstat(ready); errors.Is(err, fs.ErrNotExist) {
			if _, err = serving(ctx, s, host); err == nil {
				return nil
			}
		}
		select {
		case <-time.After(restartLook):
		case <-ctx.Done():
			return fmt.Errorf("berth on %s does not begin anew on what was moved; its log says why (journalctl -u berth -n 30)", host)
		}
	}
}
