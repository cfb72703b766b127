package app

import "time"

// EventKind is what an Event is about. Kinds are bits, so that a set of them
// is one number.
type EventKind uint16

// The kinds of events. Only those who watch get lines and metrics, which
// are not kept for those who come later.
const (
	StateEvent   EventKind = 1 << iota // what is shown of an application has changed
	ExitEvent                          // its program has ended
	DeployEvent                        // a deployment has come a step further
	RemovedEvent                       // it is no more
	MetricEvent                        // what it uses now
	LogEvent                           // what it, or its build, has printed
	GapEvent                           // what follows is not all: Missed were left out
	ResetEvent                         // what happened before is not known: read everything anew
	EndEvent                           // that was all of the lines that were asked for
	MemoryEvent                        // its program has nearly all of its RAM in use
)

// Kept reports whether somebody who comes later still gets events of kind k.
func (k EventKind) Kept() bool {
	return (StateEvent | ExitEvent | DeployEvent | RemovedEvent | MemoryEvent).Has(k)
}

// Has reports whether all kinds of other are in the set k.
func (k EventKind) Has(other EventKind) bool { return k&other == other }

// Event is one thing that happened to an application. Of the pointers the one
// of its kind is set. It is never changed in place.
type Event struct {
	// ID grows from event to event, also over restarts of the daemon unless the
	// clock is set back. 0 for those that are not kept.
	ID    int64
	At    time.Time
	Kind  EventKind
	App   ID        // "" for GapEvent and ResetEvent
	Owner AccountID // of the application then

	State  *StateChange
	Exit   *Exit
	Deploy *DeployStep
	Usage  *Usage
	Lines  *Lines
	Memory *MemoryWarning
	Missed int // of GapEvent
}

// StateChange is what is shown of an application from now on.
type StateChange struct {
	State   State
	Running bool
	Name    string
	RAM     MB
	Attempt int       // automatic restarts in a row
	RetryAt time.Time // of the next one, zero unless State is Waiting
	Reach   Reachable
}

// DeployPhase is how far a deployment has come, for those who watch.
type DeployPhase string

// The phases of a deployment. The last two end it.
const (
	DeployBegun     DeployPhase = "started"
	DeployChecked   DeployPhase = "checked"
	DeployQueued    DeployPhase = "queued"
	DeployBuilding  DeployPhase = "building"
	DeployLaunching DeployPhase = "launching"
	DeployDone      DeployPhase = "done"
	DeployFailed    DeployPhase = "failed"
)

// DeployStep is one step of a deployment.
type DeployStep struct {
	Kind     DeployKind
	Phase    DeployPhase
	Position int    // in the queue, 1 being next, while DeployQueued
	Why      string // of DeployFailed, or what DeployQueued waits for beside its turn; for the user
}

// Lines are whole lines of output, each with its stamp.
type Lines struct {
	Build bool // of the build, not of the program
	Text  string
	// Pos is behind these lines, for LineStart; "" where nobody reads exactly.
	Pos string
}

// LineStart says where the lines of a log begin. If it says nothing, they are those that
// are printed from now on.
type LineStart struct {
	Pos  string    // behind what had this as its Lines.Pos: nothing is lost, nothing comes twice
	Time time.Time // with the first line that was printed then or later
	Last int       // with so many lines from before
	All  bool      // with all that are kept
	Once bool      // they end where the log ends now
	Mark bool      // the first event says where that is, though there may be no lines
}

// Watch is what somebody wants to follow.
type Watch struct {
	Account AccountID
	App     ID        // All for every application that the account may see
	Kinds   EventKind // GapEvent and ResetEvent come anyway
	// Last is the ID of the last event that was sent before, 0 for a first request:
	// what came since is sent first, or ResetEvent.
	Last int64
	// Exact asks for lines that say where they are, of which none is left out: from From on.
	Exact bool
	From  LineStart
	Logs  LogChoice // whose lines are meant
	// Tail is, unless Exact, how many bytes of the output from before the lines begin with, whole
	// lines of them, 0 for none. So nothing is missed between reading the output
	// and the stream.
	Tail int
	// Figures chooses whose MetricEvent are meant, of those that App names; nil for all. Others are
	// not measured for it.
	Figures func(ID) bool
}

// LogChoice is which logs of an application are meant.
type LogChoice int

// The logs of an application.
const (
	BothLogs LogChoice = iota
	RunLog             // of the program
	BuildLog
)

// HistoryEvent is one line of what happened to an application, as it is remembered.
type HistoryEvent struct {
	Number int64 // counts from 1 for each application, never used again
	At     time.Time
	Kind   HistoryEventKind
	Exit   *Exit          // of HistoryExit
	Deploy DeployKind     // of HistoryDeploy and HistoryFailure
	By     AccountID      // who sent it, of these two
	Memory *MemoryWarning // of HistoryMemory
	Text   string         // in words for the user, may be empty
}

// Notice is the kind of notice that an owner may want of p, "" for none.
func (p HistoryEvent) Notice() NoticeKind {
	switch p.Kind {
	case HistoryExit:
		switch e := p.Exit; {
		case e.Asked:
			return ""
		case e.OOM, e.HostOOM, e.HeapFull != NoHeap:
			return NoticeOutOfMemory
		}
		return NoticeCrashed
	case HistoryDeploy:
		return NoticeDeployed
	case HistoryFailure:
		return NoticeDeployFailed
	case HistoryRefusal:
		return NoticeStartFailed
	case HistoryMemory:
		return NoticeMemoryHigh
	case HistorySpent:
		return NoticeStartsSpent
	case HistorySilent:
		return NoticeNotListening
	case HistoryUnwell:
		return NoticeNotAnswering
	case HistoryDisk:
		return NoticeDisk
	}
	return ""
}

// HistoryEventKind is the kind of a HistoryEvent; it is stored and crosses the wire.
type HistoryEventKind string

// The kinds of happenings.
const (
	HistoryExit    HistoryEventKind = "exit"          // its program has ended
	HistoryDeploy  HistoryEventKind = "deploy"        // new code is in place
	HistoryFailure HistoryEventKind = "deploy_failed" // the code from before is
	HistoryRefusal HistoryEventKind = "start_failed"  // it could not be started
	HistoryMemory  HistoryEventKind = "memory_high"   // its program had nearly all of its RAM in use
	HistorySpent   HistoryEventKind = "starts_spent"  // berth has started it as often as it does in a day
	HistorySilent  HistoryEventKind = "not_listening" // a site's program had opened no port for long
	HistoryUnwell  HistoryEventKind = "not_answering" // a site's program did not answer its HEALTH path
	HistoryDisk    HistoryEventKind = "disk_full"     // it was stopped for its disk space
)

// MemoryWarning says that a program needs nearly all of its RAM: at the whole of it the
// kernel kills the program.
type MemoryWarning struct {
	Run        int
	At         time.Time
	Level      int   // percent of the RAM that was reached: 80, 90 or 95
	HeldBytes  int64 // that the kernel cannot take back: caches of files are not in it
	LimitBytes int64
	FullIn     time.Duration // until all is needed, if it grows on as it did; 0 where it did not grow steadily
	// Squeezed is how often the program was at its limit since its start, and the kernel took
	// caches back for it; 0 with control groups of version 1.
	Squeezed int64
	Signal   string // that the program asks for and that is due now; "" for none
	Sent     bool   // it got that; else it does not handle it
}
