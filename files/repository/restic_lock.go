package repository

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// lock is who works in a repository, as restic writes it down.
type lock struct {
	Time time.Time `json:"time"`
	Host string    `json:"hostname"`
	PID  int       `json:"pid"`
}

// lockDies is after how long nobody has a lock any more: who has one renews it every five minutes.
const lockDies = 30 * time.Minute

// unlock removes the locks when everybody who has one is gone, and reports whether none is left. locks
// are their names, nil when they are not known.
//
// It does not let restic find that out: restic unlock sends SIGHUP to whatever process has the number
// now that is in the lock, and this host has programs that end by that.
func (r *restic) unlock(ctx context.Context, locks []string) (bool, error) {
	text := func(args ...string) (text []byte, err error) {
		err = r.run(ctx, call{args: args, take: func(out io.Reader) error {
			text, err = io.ReadAll(out)
			return err
		}})
		return text, err
	}
	if locks == nil {
		all, err := text("list", "locks", "--no-lock")
		if err != nil {
			return false, err
		}
		locks = strings.Fields(string(all))
	}
	for _, id := range locks {
		is, err := text("cat", "lock", id, "--no-lock")
		if errors.Is(err, ErrDamaged) || err != nil && strings.Contains(err.Error(), "no matching ID found") {
			continue // restic passes over what it cannot read too; or it was removed meanwhile
		}
		if err != nil {
			return false, err
		}
		var l lock
		if err := json.Unmarshal(is, &l); err != nil || !r.stale(l) {
			return false, err
		}
	}
	if len(locks) == 0 {
		return true, nil
	}
	_, err := text("unlock", "--remove-all")
	return err == nil, err
}

// stale reports whether who had the lock is gone.
func (r *restic) stale(l lock) bool {
	if time.Since(l.Time) > lockDies {
		return true
	}
	if host, err := os.Hostname(); err != nil || host != l.Host {
		return false
	}
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(l.PID), "comm"))
	if err != nil {
		return os.IsNotExist(err)
	}
	ours := filepath.Base(r.Restic)
	is := strings.TrimSpace(string(name))
	return !strings.HasPrefix(is, "restic") && is != ours[:min(len(ours), 15)] // as much of it as the kernel keeps
}
