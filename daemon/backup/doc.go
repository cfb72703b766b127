// Package backup backs the host up into a repository, rehearses that, and brings back what is
// there: the whole host, or one application.
//
// It connects the database, the trees of applications (files), their archives (files/archive)
// and the place where they go (files/repository).
//
// # One backup
//
//  1. Runner.Backup opens the repository and reads what is there.
//  2. For each application it takes a fingerprint of the tree. If an earlier run has a copy
//     with that fingerprint, this run gets that copy too; otherwise files.Store.Export streams
//     the application's archive into a snapshot of its own. An application that fails is
//     missing in this run, and in no other.
//  3. The last snapshot, head, has the settings, the keys of the secrets under the backup key, and a copy
//     of the database that tells of the same deploys as the files.
//  4. Repository.Commit makes all of them a run, head last.
//  5. Retention (app.BackupPolicy.Keep) drops what is too old.
package backup
