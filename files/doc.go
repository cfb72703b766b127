// Package files keeps the directories of the applications on disk: uploads in
// flight, live trees, the copies commits are built in, the journals that undo
// them, and backups; and what of them is in the archive of a whole host.
//
// A running program owns its tree and may swap a file for a link, a pipe or a
// link to somebody else's file at any moment while the daemon, as root, is at
// work in it. So nothing here uses a path below an application: directories
// are entered one by one through descriptors with openat2(2), beneath the tree
// and through no link; files are opened without blocking and looked at after
// they are open; what belongs to another user is left out. No operation reads
// or writes outside the tree it was asked about.
//
// A commit is laid over the live tree by renames. Before the first one the
// whole plan is on disk, and originals are moved aside rather than removed, so
// Settle brings the tree back from wherever Apply stopped, a power cut included,
// unless the records name the commit as good; then its journal is kept, and a
// Rollback makes of journals a commit that takes others back:
//
//	Unpack -> Prepare -> (build) -> Apply -> (record) -> Settle
//	     Rollback ------------------^
//
// What deploys brought is in a list for each of them, which the records name too:
// an exact commit removes what the list of the deploy before has and the ZIP has not
// (brought.go).
//
// Export writes what there is of an application to an archive (files/archive): in a stable
// order, and databases of SQLite that the program may be writing to as copies, which somebody
// else makes (CopyDatabases). Fingerprint tells whether there is anything new to export. What
// was exported comes back into a data directory that nothing uses (Importer), or as a stage, in
// the place of what Unpack makes of a ZIP (UnpackSnapshot):
//
//	UnpackSnapshot -> PrepareRestore -> Apply -> (record) -> Settle, or Publish
//
// A Store is one open data directory (disk) and what is done in it, by topic: stages,
// commits, backups (zips), single files (browser) and temporary directories (temps).
//
// It does not decide what to build, when to commit or what is a good start. It
// works on Linux alone, as root. The host's policy uses it through interfaces
// of its own; the daemon opens the Store.
package files
