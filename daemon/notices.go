package daemon

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/app/build"
	"berth/db"
	"berth/host/notify"
	"berth/web/channel"
	"berth/web/egress"
)

// diskEvery is how often the daemon looks whether it must tell the host's owners of the disk.
const diskEvery = time.Minute

// notices tells owners what happens.
type notices struct {
	*notify.Notifier
	d       *daemon
	happens chan app.Notice // about the host, to be stored
}

// openNotices makes what tells owners. The host must be open.
func (d *daemon) openNotices() error {
	s := d.settings
	mail, err := s.MailServer()
	if err != nil {
		return err
	}
	sender := channel.New(channel.Options{
		Client: egress.New(egress.Options{Version: build.Version(), Allow: s.NotifyAllowed(), Own: s.OwnAddresses()}),
		Mail:   mail,
	})
	d.notices.Notifier = notify.New(notify.Config{
		Store: d.data.db.Notices, Sender: sender,
		App: d.host.App, Tail: d.data.logs.Tail, Variables: d.data.db.Apps.Variables, RightSize: d.rightSize,
		BaseURL: s.BaseURL, Log: d.log,
	})
	d.data.db.Notices.Noticed(d.notices.Wake)
	return nil
}

// short is host.Config.Short.
func (n *notices) short(s app.Shortage) {
	args := []string{strconv.Itoa(int(s.Available)), strconv.Itoa(int(s.Total))}
	for _, g := range s.Order[:min(len(s.Order), 3)] {
		args = append(args, g.Name, strconv.FormatInt(g.Used>>20, 10), strconv.FormatInt(g.Usual>>20, 10))
	}
	select {
	case n.happens <- app.Notice{At: time.Now(), Kind: app.NoticeHostMemory, Args: args}:
	default: // the last one is not stored yet
	}
}

// watchHost stores what happens to the host until ctx ends: how the daemon before it ended, what
// short gets, and a disk that is nearly full.
func (n *notices) watchHost(ctx context.Context) {
	store := func(one app.Notice) {
		if err := n.d.data.db.Notices.AddNotice(ctx, one); err != nil && ctx.Err() == nil {
			n.d.log.Error("cannot store what happened to the host", "error", err)
		}
	}
	for _, one := range n.began(ctx) {
		store(one)
	}
	ticker := time.NewTicker(diskEvery)
	defer ticker.Stop()
	full := false
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-n.happens:
			store(one)
		case <-ticker.C:
			was := full
			if full = app.KindOf(n.d.data.trees.CheckFree("go on")) == app.NoSpace; full && !was {
				store(app.Notice{At: time.Now(), Kind: app.NoticeHostDisk, Args: []string{freeMB(n.d.settings.DataDir)}})
			}
		}
	}
}

// freeMB is how much of the disk of a directory is free.
func freeMB(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return "?"
	}
	return strconv.FormatUint(st.Bavail*uint64(st.Bsize)>>20, 10)
}

// began stores that this daemon runs, and says what that tells of the one before.
func (n *notices) began(ctx context.Context) (all []app.Notice) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	now := db.Life{Boot: strings.TrimSpace(string(boot)), Version: build.Version()}
	before, err2 := n.d.data.db.Began(ctx, now)
	if err := errors.Join(err, err2); err != nil {
		n.d.log.Error("cannot tell how the daemon before this one ended", "error", err)
		return nil
	}
	add := func(kind app.NoticeKind, args ...string) {
		all = append(all, app.Notice{At: time.Now(), Kind: kind, Args: args})
	}
	switch {
	case before == db.Life{}:
		return nil
	case before.Boot != now.Boot:
		add(app.NoticeRebooted)
	case !before.Ended:
		add(app.NoticeRestarted)
	}
	if before.Version != now.Version {
		add(app.NoticeUpgraded, before.Version, now.Version)
	}
	return all
}

// ended stores that the daemon ends as it should.
func (n *notices) ended() {
	if err := n.d.data.db.Ended(context.Background()); err != nil {
		n.d.log.Error("cannot store that berth ends", "error", err)
	}
}
