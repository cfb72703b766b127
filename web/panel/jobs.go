package panel

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"berth/app"
)

const (
	jobTime     = time.Hour // how long one is told of after its end
	accountJobs = 8         // of one account under way: each can hold a connection, and room on the disk
	keptJobs    = 16        // of one account that have ended
	allJobs     = 512
)

// jobKind is what a job does with a ZIP.
type jobKind string

const (
	jobUpload  jobKind = "upload"
	jobCommit  jobKind = "commit"
	jobRestore jobKind = "restore"
)

// jobState is where a job stands.
type jobState int

// The states, in their order. Queued is left out when nothing waits.
const (
	jobSending jobState = iota
	jobChecking
	jobQueued
	jobBuilding
	jobStarting
	jobDone
	jobFailed
)

// job is a deployment that somebody's browser began. It goes on without it.
type job struct {
	id      string // unguessable, and shown to its account alone
	account app.AccountID
	kind    jobKind
	now     func() time.Time

	mu    sync.Mutex
	state jobState
	at    jobFacts
}

// jobFacts is what is known of a job at one moment.
type jobFacts struct {
	Began, Ended time.Time
	App          app.ID // "" while it is not known
	Name         string
	Sent, Size   int64 // bytes of the body; Size is 0 when nobody has said
	Position     int   // in the queue of builds
	Reached      jobState
	Logs         string
	Err          error
	Snapshot     app.Snapshot // of what came of it
}

// look returns where the job stands.
func (j *job) look() (jobState, jobFacts) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state, j.at
}

// came counts bytes of the body.
func (j *job) came(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at.Sent += int64(n)
}

// to moves the job on.
func (j *job) to(s jobState) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state = s
}

// tell takes the progress of the deployment.
func (j *job) tell(p app.Progress) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at.App, j.at.Position = p.App, p.Position
	switch p.Phase {
	case app.Checked:
	case app.Queued:
		j.state = jobQueued
	case app.Building:
		j.state = jobBuilding
	case app.Launching:
		j.state = jobStarting
	}
}

// end says what came of it.
func (j *job) end(d app.Deployed, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at.Reached, j.at.Ended, j.at.Err = j.state, j.now(), err
	if err != nil {
		j.state, j.at.Logs = jobFailed, logsOf(err)
		return
	}
	j.state, j.at.Logs, j.at.Snapshot = jobDone, d.Logs, d.Snapshot
	j.at.App, j.at.Name = d.ID, d.Name
}

// jobs are those of all accounts, in memory: the next start of the daemon knows
// none of them. It is bounded, and safe for concurrent use.
type jobs struct {
	now func() time.Time

	mu  sync.Mutex
	all map[string]*job
}

func newJobs(now func() time.Time) *jobs { return &jobs{now: now, all: map[string]*job{}} }

// begin makes a job for an account, whose browser sends size bytes. It fails with
// app.Limited when the account has many, and with app.Unavailable when all have.
func (js *jobs) begin(account app.AccountID, kind jobKind, of app.Snapshot, size int64) (*job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.forget()
	mine := js.of(account)
	under := 0
	var ended []*job
	for _, j := range mine {
		if _, at := j.look(); at.Ended.IsZero() {
			under++
		} else {
			ended = append(ended, j)
		}
	}
	if under >= accountJobs {
		return nil, app.Errorf(app.Limited, "your account has %d uploads under way, as many as one account gets; wait until one has ended", under)
	}
	for _, j := range ended[min(len(ended), keptJobs-1):] {
		delete(js.all, j.id)
	}
	if len(js.all) >= allJobs {
		return nil, app.Errorf(app.Unavailable, "many uploads are under way on this host; try again in a few minutes")
	}
	j := &job{id: rand.Text(), account: account, kind: kind, now: js.now}
	j.at = jobFacts{Began: js.now(), App: of.ID, Name: of.Name, Size: max(size, 0)}
	js.all[j.id] = j
	return j, nil
}

// forget drops those that ended long ago. The caller holds mu.
func (js *jobs) forget() {
	for id, j := range js.all {
		if _, at := j.look(); !at.Ended.IsZero() && js.now().Sub(at.Ended) > jobTime {
			delete(js.all, id)
		}
	}
}

// of returns those of an account, the newest first. The caller holds mu.
func (js *jobs) of(account app.AccountID) []*job {
	var mine []*job
	for _, j := range js.all {
		if j.account == account {
			mine = append(mine, j)
		}
	}
	slices.SortFunc(mine, func(a, b *job) int { return b.at.Began.Compare(a.at.Began) }) // which never changes
	return mine
}

// list returns those of an account, the newest first.
func (js *jobs) list(account app.AccountID) []*job {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.forget()
	return js.of(account)
}

// find returns a job of an account, or app.NotFound.
func (js *jobs) find(account app.AccountID, id string) (*job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.forget()
	if j := js.all[id]; j != nil && j.account == account {
		return j, nil
	}
	return nil, app.Errorf(app.NotFound, "this upload is not known any more: it is told of for an hour, and until berth is started anew")
}
