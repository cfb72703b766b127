package httpapi

import (
	"strings"
	"time"

	"berth/app"
)

// progress takes what a deployment tells. It never waits for the client.
func (v *conversation) progress(p app.Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.build != nil {
		v.said.WriteString(v.build.Take()) // belongs before what follows
	}
	v.waits = ""
	switch p.Phase {
	case app.Checked:
		v.said.WriteString(v.c.say("The upload is checked.") + "\n")
	case app.Queued:
		v.waits = p.App
		v.queued(p.Position)
	case app.Building:
		v.said.WriteString(v.c.say("Building.") + "\n")
		v.follow(p.App)
	case app.Launching:
		v.said.WriteString(v.c.say("Starting.") + "\n")
	}
	v.nudge()
}

// follow begins to show the output of a build. The caller holds mu.
func (v *conversation) follow(id app.ID) {
	if v.build != nil {
		return
	}
	f, err := v.s.Logs.FollowBuild(id)
	if err != nil { // then the output comes at the end alone
		v.s.Log.Warn("cannot follow a build", "app", id, "request", v.c.RequestID, "cause", err)
		return
	}
	v.build = f
}

// queued tells a place in the queue. The caller holds mu.
func (v *conversation) queued(place int) {
	v.place = place
	v.said.WriteString(v.c.say("Waiting to be built: number %d in the queue.", place) + "\n")
}

// nudge wakes tell. It never blocks.
func (v *conversation) nudge() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// tell sends what there is to tell until done, at the pace of the client, and a
// few times a second at most.
func (v *conversation) tell(done <-chan struct{}) {
	places := time.NewTicker(placePace)
	defer places.Stop()
	for {
		select {
		case <-done:
			return
		case <-places.C:
			v.look()
			continue
		case <-v.wake:
		case <-v.printed():
		}
		v.flush()
		select {
		case <-done:
			return
		case <-time.After(tellPace):
		}
	}
}

// printed receives when the build may have printed, never without a build.
func (v *conversation) printed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.build == nil {
		return nil
	}
	return v.build.Ready()
}

// look tells a build that waits that it has moved up.
func (v *conversation) look() {
	v.mu.Lock()
	id := v.waits
	v.mu.Unlock()
	if id == "" {
		return
	}
	snapshot, err := v.s.Applications.App(v.x.owner, id)
	if err != nil {
		return // gone; the deployment will tell
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.waits == id && snapshot.Position > 0 && snapshot.Position != v.place {
		v.queued(snapshot.Position)
		v.nudge()
	}
}

// flush sends what there is to tell now, in frames of a bounded size.
func (v *conversation) flush() {
	v.sending.Lock()
	defer v.sending.Unlock()
	v.mu.Lock()
	if v.build != nil {
		v.said.WriteString(v.build.Take())
	}
	log, bar := v.said.String(), v.bar
	v.said.Reset()
	v.mu.Unlock()
	for !v.over && (log != "" || bar != v.told) {
		n := len(log)
		if n > maxLog {
			n = max(strings.LastIndexByte(log[:maxLog], '\n')+1, strings.IndexByte(log, '\n')+1)
		}
		v.write(socketAnswer{Status: statusOK, StatusCode: statusUnderWay, Progress: socketProgress{Bar: bar, Log: log[:n]}})
		log = log[n:]
	}
}
