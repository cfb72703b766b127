package notify

import (
	"slices"

	"berth/app"
)

// Kind is what is fixed of a kind of notices.
type Kind struct {
	Kind     app.NoticeKind
	Severity app.Severity
	Chosen   bool // a channel gets it only if it names it
	Host     bool // it is about the host, and for those who administer it
	What     string
	topic    string // notices of one topic are told at growing distances; "" for those that are always told
	ends     bool   // of a topic that ends when the program is well again
	log      bool   // the end of the program's log belongs to it
}

// Kinds are all kinds, in the order of app.NoticeKinds.
var Kinds = []Kind{
	{Kind: app.NoticeCrashed, Severity: app.Failure, topic: "program", ends: true, log: true, What: "its program ended by itself: the code or signal, after how long, what comes next, the last lines of its log"},
	{Kind: app.NoticeOutOfMemory, Severity: app.Failure, topic: "program", ends: true, log: true, What: "its program was killed for its RAM, or its heap was full: the peak, the limit, how fast it grew, which RAM fits"},
	{Kind: app.NoticeMemoryHigh, Severity: app.Warning, topic: "memory", What: "its program needs 80, 90 or 95 % of its RAM, and when it will need all of it"},
	{Kind: app.NoticeStartFailed, Severity: app.Failure, topic: "program", ends: true, log: true, What: "it could not be started, and why"},
	{Kind: app.NoticeStartsSpent, Severity: app.Failure, topic: "spent", What: "berth has started it as often by itself as it does in 24 hours, and until when it waits"},
	{Kind: app.NoticeBackOnline, Severity: app.Info, What: "it has run for ten minutes after one of the above, or answers again"},
	{Kind: app.NoticeDeployed, Severity: app.Info, Chosen: true, What: "new code was deployed"},
	{Kind: app.NoticeDeployFailed, Severity: app.Failure, What: "a deployment or its build failed: why, and the last lines of the build"},
	{Kind: app.NoticeNotListening, Severity: app.Failure, topic: "site", ends: true, log: true, What: "the program of a site takes no connections"},
	{Kind: app.NoticeNotAnswering, Severity: app.Failure, topic: "site", ends: true, log: true, What: "the program of a site does not answer its `HEALTH` path"},
	{Kind: app.NoticeDisk, Severity: app.Failure, topic: "disk", What: "it was stopped because its disk space is used up"},
	{Kind: app.NoticeHostDisk, Severity: app.Failure, topic: "host_disk", Host: true, What: "the disk of the host is nearly full"},
	{Kind: app.NoticeHostMemory, Severity: app.Failure, topic: "host_memory", Host: true, What: "the host ran short of memory"},
	{Kind: app.NoticeCertificate, Severity: app.Failure, topic: "certificate", Host: true, What: "a certificate was not renewed, and why"},
	{Kind: app.NoticeBackupFailed, Severity: app.Failure, topic: "backup", Host: true, What: "a backup of the host, or a rehearsal of one, failed, and why"},
	{Kind: app.NoticeBackupIncomplete, Severity: app.Warning, topic: "backup_incomplete", Host: true, What: "a backup of the host lacks the files of some applications"},
	{Kind: app.NoticeBackupMissing, Severity: app.Failure, topic: "backup_missing", Host: true, What: "the host has had no good backup for 36 hours"},
	{Kind: app.NoticeBackupUnrehearsed, Severity: app.Warning, topic: "backup_unrehearsed", Host: true, What: "no backup was rehearsed for twice as long as it should be"},
	{Kind: app.NoticeBackupKey, Severity: app.Warning, topic: "backup_key", Host: true, What: "berth has not shown yet the key that opens the backups"},
	{Kind: app.NoticeSignIn, Severity: app.Warning, topic: "sign_in", What: "somebody signed in with a browser that was not known: which, and from where"},
	{Kind: app.NoticeToken, Severity: app.Warning, topic: "token", What: "an API token was made"},
	{Kind: app.NoticeUpgraded, Severity: app.Info, Host: true, What: "another version of berth runs on the host"},
	{Kind: app.NoticeRestarted, Severity: app.Failure, topic: "berth", Host: true, What: "berth did not end as it should, and runs again"},
	{Kind: app.NoticeRebooted, Severity: app.Warning, Host: true, What: "the host was restarted"},
}

// about returns what is fixed of a kind; of one that is not in the table, its name alone.
func about(kind app.NoticeKind) Kind {
	for _, k := range Kinds {
		if k.Kind == kind {
			return k
		}
	}
	return Kind{Kind: kind}
}

// topicOf returns the topic of a notice: certificates have one each.
func topicOf(n app.Notice) string {
	topic := about(n.Kind).topic
	if n.Kind == app.NoticeCertificate && len(n.Args) > 0 {
		topic += " " + n.Args[0]
	}
	return topic
}

// wants reports whether a channel is to get a notice.
func wants(c app.Channel, n app.Notice) bool {
	k := about(n.Kind)
	switch {
	case !c.On, !c.Confirmed, c.Stopped != "", k.Severity < c.Least:
		return false
	case len(c.Apps) > 0 && !slices.Contains(c.Apps, n.App):
		return false
	case len(c.Kinds) > 0:
		return slices.Contains(c.Kinds, n.Kind)
	}
	return !k.Chosen
}
