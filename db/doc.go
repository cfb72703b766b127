// Package db is what berth remembers: accounts, the hashes of their tokens,
// applications, their teams, how their runs ended and how their code came to
// be, and who asked for what, in one SQLite file.
//
// DB has the connections, and a field for each topic, which is what one consumer of the
// package asks for: Accounts for host/account, Apps and History for host, Names for
// host/domain, Certificates for web/certs. Each topic is one file. query.go is how all of
// them read and write: tx, one, all, get, getAll, put.
//
// Every exported method is one transaction and is safe for concurrent use, by
// any number of goroutines and by several processes with the same file open
// (the daemon and the command line). A method blocks until its transaction is
// on the disk; a writer waits up to five seconds for a writer of another
// process. Times are kept to the millisecond and returned in UTC.
//
// It decides nothing: a rule (a quota, what an account may change) comes in as
// a function that runs inside the transaction and MUST NOT call the DB again,
// because the one connection that writes is taken by then.
//
// Errors a user can cause are app errors (app.NotFound, app.Conflict,
// app.NoSpace), everything else is internal.
package db
