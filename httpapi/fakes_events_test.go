package httpapi

import (
	"context"
	"time"

	"berth/app"
)

func (w *world) Last() int64 { return 41 }

func (w *world) Watch(_ context.Context, x app.Watch) (app.Stream, error) {
	if x.App != app.All {
		if _, err := w.App(x.Account, x.App); err != nil {
			return nil, err
		}
	}
	if err := w.call("Watch"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = x
	return &worldStream{w, x.App}, nil
}

// worldStream tells what a test sends to the feed.
type worldStream struct {
	w  *world
	id app.ID
}

func (s *worldStream) Next(ctx context.Context) ([]app.Event, error) {
	select {
	case events, open := <-s.w.feed:
		if !open {
			return nil, app.Errorf(app.Unavailable, "The server is shutting down.")
		}
		return events, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *worldStream) Check(context.Context) error { return s.w.call("Check") }

func (s *worldStream) Close() { _ = s.w.call("Close") }

// feeding makes the streams of a world tell these events and end.
func feeding(events ...app.Event) func(*world) {
	return func(w *world) {
		w.feed = make(chan []app.Event, 1)
		w.feed <- events
		close(w.feed)
	}
}

func (w *world) metrics(id app.ID, now, from, to time.Time, step time.Duration) ([]app.Point, error) {
	if !now.Equal(testNow) {
		w.tb.Errorf("metrics of %v", now)
	}
	if err := w.call("Metrics", id, from.Unix(), to.Unix(), int(step.Seconds())); err != nil {
		return nil, err
	}
	at := testNow.Truncate(10 * time.Minute)
	return []app.Point{
		{At: at.Add(-10 * time.Minute), Step: 10 * time.Minute, Ran: 10 * time.Minute, Memory: 1e6 + 0.5, MemoryMax: 2e6, Limit: 1 << 20, CPU: 1.256, CPUMax: 99.999, NetIn: 5, NetOut: 7, Disk: 4096, Answers: app.Answers{Classes: [5]uint64{0, 90, 0, 10}, Took: [12]uint64{90, 0, 10}}},
		{At: at, Step: 10 * time.Minute, MemoryMax: 1 << 20, Marks: app.Marks{Starts: 1, Exits: 2, OOMs: 3, Deploys: 4}},
	}, nil
}

func (w *world) rightSize(_ context.Context, a app.Snapshot) (app.RightSize, error) {
	if err := w.call("RightSize", a.ID); err != nil {
		return app.RightSize{}, err
	}
	return app.RightSize{
		Verdict: app.SizeMore, RAM: 64, Fit: 96, Days: 12, Peak: 64 << 20, Kills: 3, KillDays: 7,
		Why: app.Textf("It ran out of its RAM %d times in %d days and needed more than %d MB: give it %d MB.", 3, 7, 64, 96),
	}, nil
}

func (w *world) ramPlan(context.Context) (app.RAMPlan, error) {
	return app.RAMPlan{
		Host: 1024, Reserve: 256, Overcommit: 1.5, Capacity: 1152, Promised: 2048, Given: 512, Apps: 3, Running: 448, Used: 100 << 20, Days: 30,
		Worst:  app.RAMMoment{At: testNow, Used: 200 << 20, Had: 448, Apps: 2},
		Offers: []app.RAMOffer{{Overcommit: 1.5, Capacity: 1152, More: 640, Worst: 68, Verdict: app.RAMFits}},
		Why:    app.Textf("At the worst moment, programs used %d %% of their RAM: host.overcommit %s fits.", 45, "1.5"),
	}, w.call("RAMPlan")
}

func (w *world) EventLog(_ context.Context, owner app.AccountID, id app.ID) ([]app.HistoryEvent, error) {
	if err := w.change(w.call("EventLog", id), owner, id); err != nil {
		return nil, err
	}
	return []app.HistoryEvent{
		{Number: 10, At: testNow, Kind: app.HistoryMemory, Text: "RAM 90 % full", Memory: &testWarning},
		{Number: 9, At: testNow, Kind: app.HistoryRefusal, Text: "the host has no memory left"},
		{Number: 8, At: testNow, Kind: app.HistoryExit, Text: "killed", Exit: &testExit},
		{Number: 7, At: testNow, Kind: app.HistoryFailure, Deploy: app.DeployCommit, By: 8, Text: "cannot prepare the application"},
		{Number: 6, At: testNow, Kind: app.HistoryDeploy, Deploy: app.DeployUpload, By: 7},
	}, nil
}

var testExit = app.Exit{Run: 3, At: testNow, Ran: 90 * time.Second, Code: 137, Signal: 9, OOM: true, PeakBytes: 64 << 20, LimitMB: 64}
