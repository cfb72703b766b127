package httpapi

import (
	"net/netip"
	"time"

	"berth/app"
)

// bot is an application that is online and healthy.
func bot(id app.ID) app.Snapshot {
	return app.Snapshot{
		App: app.App{
			ID: id, Account: 7, Name: "Bot " + string(id), AvatarURL: "https://example.org/a.png", Type: app.Bot,
			RAM: 100, UID: 20001, CreatedAt: testNow.Add(-24 * time.Hour),
			Code:        app.Code{Main: "src/index.js", Lang: "javascript", Version: "latest"},
			AutoRestart: true, LastRun: 3, StartedAt: testNow.Add(-2*time.Hour - 3*time.Minute),
		},
		State: app.Online, Running: true,
	}
}

// stopped is an application that its owner stopped.
func stopped(id app.ID) app.Snapshot {
	s := bot(id)
	s.State, s.Running, s.AvatarURL = app.Stopped, false, ""
	s.LastExit = &app.Exit{Run: 3, At: testNow.Add(-time.Minute), Code: 143, Signal: 15, Asked: true, LimitMB: 100}
	return s
}

// crashed is an application that waits for its automatic restart.
func crashed(id app.ID) app.Snapshot {
	s := bot(id)
	s.State, s.Running, s.Attempt, s.RetryAt = app.Waiting, false, 2, testNow.Add(3500*time.Millisecond)
	s.LastExit = &app.Exit{Run: 3, At: testNow, Code: 1, LimitMB: 100}
	return s
}

// queued is an application that waits for its first build.
func queued(id app.ID) app.Snapshot {
	s := bot(id)
	s.State, s.Running, s.StartedAt, s.LastRun, s.Position = app.Preparing, false, time.Time{}, 0, 2
	return s
}

// killed is an application that needed more than its RAM and was not restarted.
func killed(id app.ID) app.Snapshot {
	s := stopped(id)
	s.LastExit = &app.Exit{Run: 3, At: testNow, Code: 137, Signal: 9, OOM: true, LimitMB: 100}
	return s
}

// visited is a site that visitors reach.
func visited(id app.ID) app.Snapshot {
	s := bot(id)
	s.Type, s.RAM, s.Reach = app.Site, 512, netip.MustParseAddrPort("127.0.0.1:20001")
	return s
}

// elsewhere is one whose program listens on a port of its own choice.
func elsewhere(id app.ID) app.Snapshot {
	s := visited(id)
	s.Elsewhere = 3000
	return s
}

// unheard is one whose program has opened no port for long.
func unheard(id app.ID) app.Snapshot {
	s := visited(id)
	s.Reach, s.Silent = netip.AddrPort{}, true
	s.Why = app.Textf("its program has opened no port: listen on process.env.PORT, or on 8080, at all addresses (0.0.0.0)")
	return s
}

// stale is an application whose machine does not answer.
func stale(id app.ID) app.Snapshot {
	s := bot(id)
	s.Stale = app.Textf("its machine does not answer")
	return s
}

// site is an application with a subdomain that never ran.
func site(id app.ID) app.Snapshot {
	s := bot(id)
	s.Type, s.RAM, s.State, s.Running, s.StartedAt, s.LastRun = app.Site, 512, app.Stopped, false, time.Time{}, 0
	return s
}
