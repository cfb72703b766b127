package app

import (
	"slices"
	"time"
)

// NoticeKind is what a Notice is about. It is stored and crosses the wire.
type NoticeKind string

// The kinds of notices. package notify has the table of what each is, and a page of the
// documentation is generated from that.
const (
	NoticeCrashed      NoticeKind = "crashed"       // a program ended by itself, with a code or a signal
	NoticeOutOfMemory  NoticeKind = "out_of_memory" // the kernel killed it for its RAM, or its heap was full
	NoticeMemoryHigh   NoticeKind = "memory_high"   // it has nearly all of its RAM in use
	NoticeStartFailed  NoticeKind = "start_failed"  // it could not be started
	NoticeStartsSpent  NoticeKind = "starts_spent"  // berth starts it no more by itself for now
	NoticeBackOnline   NoticeKind = "back_online"   // it runs again after one of the above
	NoticeDeployed     NoticeKind = "deployed"      // new code is in place
	NoticeDeployFailed NoticeKind = "deploy_failed" // the code from before is
	NoticeNotListening NoticeKind = "not_listening" // a site's program takes no connections
	NoticeNotAnswering NoticeKind = "not_answering" // it does not answer its HEALTH path
	NoticeDisk         NoticeKind = "disk"          // an application has used up its disk space
	NoticeHostDisk     NoticeKind = "host_disk"     // the host's disk is nearly full
	NoticeHostMemory   NoticeKind = "host_memory"   // the host ran short of memory
	NoticeCertificate  NoticeKind = "certificate"   // one was not renewed
	// Backups of the host: one failed, lacks applications, none was made for long, or none rehearsed.
	NoticeBackupFailed      NoticeKind = "backup_failed"
	NoticeBackupIncomplete  NoticeKind = "backup_incomplete"
	NoticeBackupMissing     NoticeKind = "backup_missing"
	NoticeBackupUnrehearsed NoticeKind = "backup_unrehearsed"
	NoticeBackupKey         NoticeKind = "backup_key"

	NoticeSignIn    NoticeKind = "new_sign_in"    // somebody signed in with a browser that was not known
	NoticeToken     NoticeKind = "token_made"     // there is a new token
	NoticeUpgraded  NoticeKind = "berth_upgraded" // this host runs another version of berth
	NoticeRestarted NoticeKind = "berth_crashed"  // berth did not end as it should, and runs again
	NoticeRebooted  NoticeKind = "host_rebooted"
	NoticeTest      NoticeKind = "test" // somebody pressed the button
)

// NoticeKinds are those that a channel can choose, in the order in which they are offered.
var NoticeKinds = []NoticeKind{
	NoticeCrashed, NoticeOutOfMemory, NoticeMemoryHigh, NoticeStartFailed, NoticeStartsSpent, NoticeBackOnline,
	NoticeDeployed, NoticeDeployFailed, NoticeNotListening, NoticeNotAnswering, NoticeDisk, NoticeHostDisk, NoticeHostMemory,
	NoticeCertificate, NoticeBackupFailed, NoticeBackupIncomplete, NoticeBackupMissing, NoticeBackupUnrehearsed, NoticeBackupKey,
	NoticeSignIn, NoticeToken, NoticeUpgraded, NoticeRestarted, NoticeRebooted,
}

// Severity is how urgent a notice is, the greater the more.
type Severity int

// The severities.
const (
	Info Severity = iota
	Warning
	Failure
)

// Severities are their names, the least first.
var Severities = []string{"info", "warning", "failure"}

// String is its name.
func (s Severity) String() string { return Severities[s] }

// ParseSeverity reports whether a severity has that name.
func ParseSeverity(name string) (Severity, bool) {
	at := slices.Index(Severities, name)
	return Severity(max(at, 0)), at >= 0
}

// Notice is something that happened and that an account may want to hear of. It is stored
// with what happened, in the same transaction.
type Notice struct {
	ID       int64
	Account  AccountID
	App      ID // "" for those about an account or the host
	At       time.Time
	Kind     NoticeKind
	Happened *HistoryEvent // of those about a program or a deploy
	Args     []string      // of the others: what their sentence names, such as an address
}

// Trouble is what an account was told of one topic of an application, or of the account when
// App is "".
type Trouble struct {
	Account AccountID
	App     ID
	Topic   string
	Since   time.Time // of the first notice
	Told    time.Time // when the last message about it was made
	Level   int       // messages so far, up to the longest distance
	Held    int       // notices since Told, which no message tells of
	Lasts   bool      // nobody was told yet that it is over
	Last    Notice    // the last one
}

// ChannelService is where the messages of a Channel go.
type ChannelService string

// The services.
const (
	Discord  ChannelService = "discord"  // Target is the URL of a webhook
	Slack    ChannelService = "slack"    // Target is the URL of an incoming webhook
	Telegram ChannelService = "telegram" // Target is a bot's token, Recipient the chat
	Ntfy     ChannelService = "ntfy"     // Target is the URL of a topic, Secrets[0] an access token or nothing
	Email    ChannelService = "email"    // Target is the address
	Webhook  ChannelService = "webhook"  // Target is a URL, Secrets those of Standard Webhooks 1.0.0
)

// ChannelServices are all of them, in the order in which they are offered.
var ChannelServices = []ChannelService{Discord, Slack, Telegram, Ntfy, Email, Webhook}

// Where the links of mail lead, below the address of the panel; a token follows. To open them
// changes nothing, to POST them does, without a session (LeavePath as RFC 8058 has it, too).
const (
	ConfirmPath = "/notify/confirm/"
	LeavePath   = "/notify/leave/"
)

// Channel is a way to an account's owner.
type Channel struct {
	ID        int64
	Account   AccountID
	Owner     bool // its account is of the host's owner: what notify.allow names is for it
	Name      string
	Service   ChannelService
	Target    string // a secret, like Secrets: whoever has it can write there
	Recipient string
	Secrets   []string     // the newest first; two while one changes; of Email what its links are made from
	Apps      []ID         // whose notices are meant; empty for those of all, of the account and the host
	Kinds     []NoticeKind // those that are meant; empty for all but those that must be chosen
	Least     Severity     // notices below it are left out
	Lang      string       // of the messages, one of Locales
	On        bool
	Confirmed bool   // of Email: its owner followed the link
	Stopped   string // why berth has stopped sending, in words, "" while it does
	CreatedAt time.Time
}

// Message is what a channel gets, in one language.
type Message struct {
	ID       string // the same at each try, and of no other message: letters, digits, _ and -
	At       time.Time
	Kind     NoticeKind
	Severity Severity
	App      ID
	AppName  string
	Title    string   // a line
	Lines    []string // facts and what to do, a line each
	Excerpt  string   // the program's last lines, without secrets and control characters; may be empty
	Link     string   // to the panel; may be empty
	Leave    string   // of Email: where the reader switches the channel off (RFC 8058)
	Count    int      // of the notices in it
}

// DeliveryState is what became of a Delivery.
type DeliveryState string

// The states of a delivery. The last two end it.
const (
	DeliveryWaiting DeliveryState = "waiting"
	DeliverySent    DeliveryState = "sent"
	DeliveryFailed  DeliveryState = "failed"
)

// Delivery is one message on its way to one channel.
type Delivery struct {
	ID        int64
	Channel   int64
	Account   AccountID
	Message   Message
	State     DeliveryState
	Tries     int
	NextAt    time.Time // of the next try, while it waits
	Status    int       // that the last try was answered; 0 for no answer
	Why       string    // the last try failed, in words that hold nothing of the answer's body
	UpdatedAt time.Time
}

// Receipt is how a try to send a message ended. The zero value is success.
type Receipt struct {
	Status     int           // of HTTP or SMTP, 0 if nobody answered
	Why        error         // nil: the service has the message; else an *Error for the user
	RetryAfter time.Duration // that the service asked for
	Gone       bool          // 401, 404, 410 and the like: the channel is stopped
}
