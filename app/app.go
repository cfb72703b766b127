package app

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ID names an application: time-based digits for a bot, the subdomain for a
// site. It is safe as a file name and as a cgroup name (see ValidID).
type ID string

// All is the word that stands for every application of an account in a path.
// It is never the ID of one.
const All ID = "all"

// Hostname is what the program of an application takes for its host's name: the id,
// behind a letter where C libraries would take it for an address.
func (id ID) Hostname() string {
	if id[0] > '9' {
		return string(id)
	}
	const longest = 63 // a label in the DNS (RFC 1035)
	name := "app-" + string(id)
	return strings.TrimRight(name[:min(len(name), longest)], "-")
}

// ValidID reports whether s can name an application: 2 to 63 characters of
// a-z, 0-9 and '-', not starting or ending with '-', and not the word "all".
// Anything else never reaches a file name, a cgroup or a query.
func ValidID(s string) bool {
	if len(s) < 2 || len(s) > 63 || ID(s) == All || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// MB counts memory in units of 2^20 bytes.
type MB int64

// Bytes returns the number of bytes.
func (m MB) Bytes() int64 { return int64(m) << 20 }

// String returns the number alone; texts for people add the unit.
func (m MB) String() string { return strconv.FormatInt(int64(m), 10) }

// amountForm is what ParseMB takes: a number, and the letter of a unit behind it.
var amountForm = regexp.MustCompile(`^(?i)([0-9]{1,15})(\.[0-9]{1,6})?(?: ?([MGT])(?:i?B)?)?$`)

// ParseMB reads an amount as people write it: "512" and "512MB" are the same, "1.5GB"
// is 1536. Units are powers of 1024, in capitals or not; a part of a MB is dropped. A
// fraction needs a unit.
func ParseMB(text string) (MB, bool) {
	found := amountForm.FindStringSubmatch(text)
	if found == nil || found[2] != "" && found[3] == "" {
		return 0, false
	}
	whole, err := strconv.ParseInt(found[1], 10, 64)
	fraction, bad := strconv.ParseFloat("0"+found[2], 64)
	unit := map[string]int64{"": 1, "M": 1, "G": 1 << 10, "T": 1 << 20}[strings.ToUpper(found[3])]
	if err != nil || bad != nil || whole > (1<<42)/unit { // the bytes must fit an int64
		return 0, false
	}
	return MB(whole*unit + int64(fraction*float64(unit))), true
}

// Type is a bot or a site; the numbers cross the wire.
type Type int

// The two types of application.
const (
	Bot  Type = 0
	Site Type = 1
)

// String returns the word of the config file.
func (t Type) String() string {
	if t == Site {
		return "site"
	}
	return "bot"
}

// Wanted is what the owner asked for; boot makes the world match it.
type Wanted string

// What an owner can want.
const (
	WantOnline  Wanted = "online"
	WantStopped Wanted = "stopped"
)

// State is where an application stands now.
//
//	          upload / commit
//	(none) ------------------> stopped <---------------------------+
//	                             |  ^                              |
//	                       start |  | stop done                    |
//	                             v  |                              |
//	   build failed ---- preparing/starting --ok delay--> online --stop--> stopping
//	                             ^                          |
//	                             |  retry timer             | exit
//	                             +------- waiting <---------+--> stopped
//
// Preparing is a deployment, an application's first or a commit; what ran
// before goes on running meanwhile, so Running in the snapshot is a fact of its
// own.
type State string

// The states.
const (
	Stopped   State = "stopped"
	Preparing State = "preparing"
	Starting  State = "starting"
	Online    State = "online"
	Stopping  State = "stopping"
	Waiting   State = "waiting"
)

// App is what is remembered of one application.
type App struct {
	ID          ID
	Account     AccountID
	Name        string
	AvatarURL   string
	Type        Type
	RAM         MB
	UID         int // owns the program and its files; never shared, not reused at once
	Port        int // handed to the program as PORT; unique on the host
	Wanted      Wanted
	CreatedAt   time.Time
	Code        Code
	AutoRestart bool
	Apts        []string  // system packages that it asks for; never changed in place
	LastRun     int       // the number of the last run; each run has a cgroup of its own
	StartedAt   time.Time // of the last run; zero when it never ran
	LastExit    *Exit     // nil when it never ended, or a person started it since
}

// Charged is the RAM that counts in the account and on the host.
func (a App) Charged() MB { return a.Code.Charge(a.RAM) }

// Code is what a deployment decides about an application.
type Code struct {
	Main    string // path of the main file in the tree
	Lang    string // "javascript", "python", ...
	Version string // the VERSION text of the config, "latest" by default
	Start   string // shell command that replaces the language's own start
	Build   string // shell command run once before the start
	Health  string // of a site: a path that answers when it is well, "" for a port that opens, HealthOff
	// MemorySignal is the signal of MemorySignals that the program gets when its RAM is
	// nearly full, so that it can drop its caches; "" for none.
	MemorySignal string
	Stdin        bool // the program reads lines from its standard input, which is empty otherwise

	// Packages stands for everything the installed packages came from; "" when
	// there are none, or when the files do not show what they came from.
	Packages string
}

// MemorySignals are those that a program may ask for. It gets one only while it handles
// it: of what it does not handle, the first two would end it.
var MemorySignals = []string{"SIGUSR1", "SIGUSR2", "SIGURG", "SIGWINCH"}

// MaxInput is the most bytes of a line for a program's input: with its end, as many as a pipe takes at
// once or not at all (pipe(7), PIPE_BUF).
const MaxInput = 4095

// HealthOff is the Health of code of which no two runs may go on at once.
const HealthOff = "off"

// StaticLang is the Lang of a site of files, which has no program.
const StaticLang = "static"

// Static reports whether the code is files alone: nothing runs, and berth
// answers with them itself.
func (c Code) Static() bool { return c.Lang == StaticLang && c.Start == "" }

// Charge is what counts of an application's RAM: nothing of a site of files, of which nothing
// runs. Its RAM is what a console command of it may use.
func (c Code) Charge(ram MB) MB {
	if c.Static() {
		return 0
	}
	return ram
}

// Exit is how one run ended.
type Exit struct {
	Run       int
	At        time.Time
	Ran       time.Duration
	Code      int   // the exit status, or 128+n for signal n; 137 when OOM; UnknownCode
	Signal    int   // 0 when the program exited by itself
	OOM       bool  // killed because it needed more than its own limit
	HostOOM   bool  // killed because the host had no memory left, not for its own limit
	Disrupted bool  // it is not the program's: its machine stopped, or the cluster took the program away
	PeakBytes int64 // the highest memory use of the group, 0 when the kernel does not report it
	LimitMB   MB    // the limit it had when it ended
	Asked     bool  // berth ended it because somebody asked
	HeapFull  Heap  // whose heap was full when the runtime of the program ended it for that
	HeapMB    MB    // how much that heap had, 0 when it is not known
}

// Ending says how a run ended, as the end of a sentence about the application.
func (e Exit) Ending() Text {
	switch {
	case e.OOM && e.LimitMB > 0:
		return Textf("was killed for needing more than %d MB of RAM", e.LimitMB)
	case e.OOM:
		return Textf("was killed for needing more than its RAM")
	case e.HostOOM && !e.Asked:
		return Textf("was killed because the host ran short of memory, not for its own %d MB; start it again, and ask the owner of this host if it happens again", e.LimitMB)
	case e.Asked:
		return Textf("was stopped")
	case e.Disrupted:
		return Textf("ended with its machine")
	case e.HeapFull != NoHeap && e.HeapMB > 0:
		return Textf("ended because its %s heap was full, %d of %d MB", e.HeapFull, e.HeapMB, e.LimitMB)
	case e.HeapFull != NoHeap:
		return Textf("ended because its %s heap was full; it had %d MB of RAM", e.HeapFull, e.LimitMB)
	case e.Code == 0:
		return Textf("ended by itself with code 0")
	case e.Signal > 0:
		return Textf("crashed with code %d (signal %d)", e.Code, e.Signal)
	default:
		return Textf("crashed with code %d", e.Code)
	}
}

// Heap is the memory that a runtime keeps for what a program makes. It is stored.
type Heap int

// The heaps that can be full before the RAM is.
const (
	NoHeap Heap = iota
	JavaScriptHeap
	PHPHeap
	JavaHeap
)

// String is the name for people and for the wire, "" for NoHeap.
func (h Heap) String() string {
	switch h {
	case JavaScriptHeap:
		return "JavaScript"
	case PHPHeap:
		return "PHP"
	case JavaHeap:
		return "Java"
	case NoHeap:
	}
	return ""
}

// UnknownCode is the Code of a program that ended while nobody looked.
const UnknownCode = -1

// Snapshot is one application at one moment.
type Snapshot struct {
	App
	State     State
	Running   bool           // a process of it exists that its users can reach
	Attempt   int            // automatic restarts in a row, 0 when healthy
	RetryAt   time.Time      // of the next automatic restart, zero unless Waiting
	Starts    []time.Time    // by berth alone, those in the day before the last one; see StartsByItself
	Deploying bool           // one of its deployments is under way
	Suspended bool           // its account is: nothing starts
	Position  int            // of its build in the queue: 1 is next, 0 when none waits
	Reach     netip.AddrPort // of a site: where its program takes requests; the zero value while it opens no port
	// Elsewhere is the port that the program listens on where that is not the one it was
	// given; 0 else. There its visitors are brought by Instance.Dial of the host.
	Elsewhere int
	Silent    bool // a site whose program has opened no port for long
	Unwell    bool // a site whose program does not answer its HEALTH path
	Why       Text // the one or the other is, and what to do; zero else
	Stale     Text // why nobody knows whether it still runs, so that this is as it was last; zero while that is known
}

// Reachable is whether visitors reach a site.
type Reachable string

// What a site can be.
const (
	SiteReached  Reachable = "yes"
	SiteStarting Reachable = "starting" // its program has opened no port yet
	SiteSilent   Reachable = "no"       // nor for long
	SiteUnwell   Reachable = "unwell"   // its program takes connections, and does not answer its HEALTH path
	SiteOffline  Reachable = "offline"  // it does not run
)

// Reachable is whether visitors reach the application; "" for a bot.
func (s Snapshot) Reachable() Reachable {
	switch {
	case s.Type != Site:
		return ""
	case !s.Running:
		return SiteOffline
	case s.Unwell:
		return SiteUnwell
	case s.Code.Static() || s.Reach.IsValid():
		return SiteReached
	case s.Silent:
		return SiteSilent
	}
	return SiteStarting
}

// StartsByItself is how often berth has started the application in the 24 hours before now,
// without being asked.
func (s Snapshot) StartsByItself(now time.Time) (n int) {
	for _, at := range s.Starts {
		if now.Sub(at) < 24*time.Hour {
			n++
		}
	}
	return n
}

// SiteAddress is where visitors find a site.
type SiteAddress struct {
	URLs []string // the one below the host's own domain first; none when there is no way
	Why  Text     // there is none, and what to do; zero else
}

// RAMKilled reports whether the last run ended for its RAM.
func (s Snapshot) RAMKilled() bool { return s.LastExit != nil && s.LastExit.OOM }

// ExitCode returns the last exit code, 0 when there is none.
func (s Snapshot) ExitCode() int {
	if s.LastExit == nil {
		return 0
	}
	return s.LastExit.Code
}

// Usage is what a running program uses now, over every process of its group.
type Usage struct {
	MemoryBytes int64   // current less inactive file cache
	LimitBytes  int64   // the limit in force
	CPUPercent  float64 // of one core; 100 is one core busy
	NetIn       int64   // bytes received since the start, 0 where the kernel cannot count them
	NetOut      int64   // likewise sent
}

// SitePort is where programs of this API's sites listen, beside the port that they are
// given.
const SitePort = 8080

// Listening is where a site's program takes connections. Ports are numbers as the program
// knows them.
type Listening struct {
	At      netip.AddrPort // where its visitors are brought; the zero value for nowhere
	Port    int            // the same for the program, 0 for nowhere
	Own     bool           // it is the one that the program was given
	Guarded bool           // nobody else reaches the program there
	Open    []int          // its other ports that are open to all addresses, in order
	Private []int          // those that are not, in order
}

// Elsewhere reports whether visitors are brought to a port only because the program has
// no other that could be meant for them.
func (l Listening) Elsewhere() bool { return l.At.IsValid() && !l.Own && l.Port != SitePort }

// Status is the answer to "how is it now".
type Status struct {
	Snapshot
	Usage     Usage
	DiskBytes int64 // of its tree; at most a minute old
}

// Terminal is the tail of an application's output.
type Terminal struct {
	Small string // about 1,800 characters
	Big   string // up to 64 KB
}

// Deployed is the result of an upload or a commit. Logs holds the end of the
// build's output and, when the program has ended already, its last lines.
type Deployed struct {
	Snapshot
	Notices []string // what berth did otherwise than asked, a sentence each; Logs begins with them
	Logs    string
	Hint    Text // what its owner may not know, one sentence; zero for nothing
}

// Backup names a generated ZIP file of one application.
type Backup struct {
	App     ID
	File    string // name in the backup directory, unguessable
	Expires time.Time
	Bytes   int64 // of the file; 0 when it was not asked for
}

// BackupRoom is what the account of an application leaves to another backup of it.
type BackupRoom struct {
	Keep  int   // backups of the application that are kept, the new one included; 0 for as many as the host keeps
	Bytes int64 // that the new one may take, 0 for any number
}

// Entry is one name in a directory of an application's files.
type Entry struct {
	Name  string // as the program wrote it: any bytes but "/" and NUL
	Kind  EntryKind
	Bytes int64     // of a file
	At    time.Time // of its last change
}

// EntryKind is what an Entry names.
type EntryKind string

// The kinds of entries. Links are shown and never followed.
const (
	EntryFile  EntryKind = "file"
	EntryDir   EntryKind = "dir"
	EntryLink  EntryKind = "link"
	EntryOther EntryKind = "other" // a pipe, a socket, a device, or another user's
)

// Icon is the icon of an application.
type Icon struct {
	Sum     string // of PNG, in hexadecimal digits
	Brought bool   // it came with the code; otherwise somebody uploaded it
	PNG     []byte
}

// Over says what a file that is written may replace: OverNothing, OverAny, or what OverText returns.
type Over string

// Nothing may have the name, or any file.
const (
	OverNothing Over = ""
	OverAny     Over = "*"
)

// OverText is a file that holds just that.
func OverText(data []byte) Over {
	sum := sha256.Sum256(data)
	return Over(hex.EncodeToString(sum[:]))
}

// Unzipped is what came of the files of a ZIP in a directory.
type Unzipped struct {
	Files int // that were written
	// Taken is how many files have the names of the ZIP's already, where nothing was written for that reason, and
	// Names the first of them, below the directory.
	Taken int
	Names []string
}

// Profile is what a profile update sets; nil leaves a field as it is.
type Profile struct {
	Name      *string
	AvatarURL *string
}

// Bounds of a profile, which every edge holds to.
const (
	MaxName      = 30  // characters
	MaxAvatarURL = 512 // bytes
)

// ValidName reports whether s can be the name of an application: 1 to MaxName
// characters, no control characters, and none that turns the text behind it around.
func ValidName(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= MaxName && !strings.ContainsFunc(s, unicode.IsControl) && !reorders(s)
}

// ValidAvatar reports whether s can be the address of an avatar: http or https, at
// most MaxAvatarURL bytes, or empty. It has no user and no password: every visitor would read them.
func ValidAvatar(s string) bool {
	if s == "" {
		return true
	}
	if len(s) > MaxAvatarURL || strings.ContainsFunc(s, unicode.IsSpace) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

// Space is what an application takes of a disk.
type Space struct {
	Bytes   int64 // of blocks, not of contents
	Entries int64 // files, directories, links: each takes an inode
	// Deep: directories are nested deeper than anybody follows them, and
	// what is in the deepest is in neither of the others.
	Deep bool
}

// Plus returns the space of both together.
func (s Space) Plus(t Space) Space {
	return Space{Bytes: s.Bytes + t.Bytes, Entries: s.Entries + t.Entries, Deep: s.Deep || t.Deep}
}
