package httpapi

import (
	"math"
	"testing"
	"time"

	"berth/app"
)

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		-1: "0B", 0: "0B", 1: "1B", 1023: "1023B", 1024: "1KB", 1536: "1.5KB", 1<<20 - 1: "1MB", 1<<20 - 60: "1023.9KB",
		1 << 20: "1MB", 12897485: "12.3MB", 1 << 30: "1GB", 5 << 40: "5120GB", 1075000: "1MB",
	} {
		if got := size(bytes); got != want {
			t.Errorf("size(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", -3: "0", 0.04: "0", 0.05: "0.1", 1.54: "1.5", 12: "12", 99.96: "100", 10: "10",
		math.Inf(1): "0", math.Inf(-1): "0",
	} {
		if got := number(f); got != want {
			t.Errorf("number(%v) = %q, want %q", f, got, want)
		}
	}
	if got := percent(math.NaN()); got != "0%" {
		t.Errorf("percent(NaN) = %q", got)
	}
}

func TestMemoryHasOneUnit(t *testing.T) {
	for _, tt := range []struct {
		used, limit int64
		want        string
	}{
		{41838182, 100 << 20, "39.9MB/100MB"},
		{0, 100 << 20, "0MB/100MB"},
		{3 << 30, 4 << 30, "3072MB/4096MB"},
		{1 << 19, 100<<20 + 1<<19, "0.5MB/100.5MB"},
	} {
		if got := memory(tt.used, tt.limit); got != tt.want {
			t.Errorf("memory(%d, %d) = %q, want %q", tt.used, tt.limit, got, tt.want)
		}
	}
}

func TestElapsed(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 999 * time.Millisecond: "0s", 5 * time.Second: "5s", time.Minute: "1m",
		3*time.Minute + 20*time.Second: "3m 20s", 2*time.Hour + 3*time.Minute + 9*time.Second: "2h 3m",
		2*time.Hour + 9*time.Second: "2h", 28 * time.Hour: "1d 4h", 400 * 24 * time.Hour: "400d",
	} {
		if got := elapsed(d); got != want {
			t.Errorf("elapsed(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	east := time.FixedZone("", 3600)
	if got := timestamp(testNow.In(east)); got != "2026-11-20T09:31:02.123Z" {
		t.Errorf("timestamp %q", got)
	}
	if got := timestamp(time.Time{}); got != "" {
		t.Errorf("timestamp of never %q", got)
	}
	if got := since(time.Time{}, testNow); got != "never started" {
		t.Errorf("since never %q", got)
	}
	if got := until(testNow.Add(3001*time.Millisecond), testNow); got != "4s" {
		t.Errorf("until %q, want it rounded up", got)
	}
}

func TestContainer(t *testing.T) {
	for state, want := range map[app.State]string{
		app.Stopped: "Offline", app.Preparing: "Preparing", app.Starting: "Starting", app.Online: "Offline",
		app.Stopping: "Stopping", app.Waiting: "Restarting in 4s",
	} {
		s := app.Snapshot{State: state, RetryAt: testNow.Add(4 * time.Second)}
		if got := container(s, testNow); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
		if s.Position = 3; state == app.Preparing {
			want = "Waiting to be built (number 3)"
		}
		if got := container(s, testNow); got != want {
			t.Errorf("%s and in the queue: %q, want %q", state, got, want)
		}
		s.Running = true
		if got := container(s, testNow); got != "Online" {
			t.Errorf("%s but running: %q", state, got)
		}
	}
}

func TestEnding(t *testing.T) {
	for want, e := range map[string]app.Exit{
		"was killed for needing more than 100 MB of RAM": {OOM: true, Code: 137, LimitMB: 100},
		"was killed for needing more than its RAM":       {OOM: true, Code: 137},
		"was killed because the host ran short of memory, not for its own 64 MB; start it again, and ask the owner of this host if it happens again": {HostOOM: true, Code: 137, Signal: 9, LimitMB: 64},
		"was stopped":                       {Asked: true, Code: 143, HostOOM: true},
		"ended by itself with code 0":       {},
		"crashed with code 139 (signal 11)": {Code: 139, Signal: 11},
		"crashed with code 1":               {Code: 1},
	} {
		if got := e.Ending().String(); got != want {
			t.Errorf("%+v.Ending() = %q, want %q", e, got, want)
		}
	}
}

func TestOutcomeAndStanding(t *testing.T) {
	const plainText = "The information of your application has been loaded."
	preparing := stopped("aa")
	preparing.State = app.Preparing
	queued := preparing
	queued.Position = 2
	committed := bot("aa")
	committed.Position = 1
	silent := bot("aa")
	silent.Silent, silent.Why = true, app.Textf("its program has opened no port: listen on process.env.PORT, or on 8080, at all addresses (0.0.0.0)")
	booted := bot("aa")
	booted.State, booted.Running = app.Starting, false
	put := stopped("aa")
	put.State, put.LastExit, put.RetryAt = app.Waiting, nil, testNow.Add(4*time.Second)
	for name, tt := range map[string]struct {
		s                 app.Snapshot
		outcome, standing string
	}{
		"online":    {bot("aa"), "Done.", plainText},
		"crashed":   {crashed("aa"), "Done, but it crashed with code 1. It restarts in 4s (attempt 2).", "Your application crashed with code 1. It restarts in 4s (attempt 2)."},
		"killed":    {killed("aa"), "Done, but it was killed for needing more than 100 MB of RAM.", "Your application was killed for needing more than 100 MB of RAM. Raise its RAM and start it again."},
		"stopped":   {stopped("aa"), "Done, but it was stopped.", plainText},
		"never ran": {site("aa"), "Done. It is not online.", plainText},
		"preparing": {preparing, "Done. It is not online yet.", plainText},
		"put off":   {put, "Done. It is not online yet.", "Your application could not be started yet, as its log explains. It is tried again in 4s (attempt 1)."},
		"silent":    {silent, "Done.", "Your site is online, but its program has opened no port: listen on process.env.PORT, or on 8080, at all addresses (0.0.0.0)."},
		"stale":     {stale("aa"), "Done.", "Your application was online when this host heard of it last: its machine does not answer."},
		"queued":    {queued, "Done. It is not online yet.", "Your application waits to be built: it is number 2 in the queue."},
		"booted":    {booted, "Done. It is not online yet.", "Your application waits for its turn to be started: the server was started a moment ago."},
		"committed": {committed, "Done.", "Your application is online. Its new code waits to be built: it is number 1 in the queue."},
	} {
		if got := outcome(app.Textf("Done"), tt.s, testNow).String(); got != tt.outcome {
			t.Errorf("%s: outcome %q, want %q", name, got, tt.outcome)
		}
		if got := standing(tt.s, testNow).String(); got != tt.standing {
			t.Errorf("%s: standing %q, want %q", name, got, tt.standing)
		}
	}
}
