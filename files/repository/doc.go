// Package repository keeps copies of streams at a place apart from the host: in a repository
// of restic, which encrypts and deduplicates and can be far away, or in a directory, as a file
// for each of them.
//
// A stream that was saved counts for nothing until Commit makes it part of a backup: a run. So
// a writer that was killed, a full disk and a lost connection leave nothing that somebody could
// take for a backup; Prune removes it. What is in a stream is not this package's business, and
// it never sees a path of an application: it gets a function that writes.
//
// It decides nothing. Package daemon/backup says what is saved, when, and what is kept.
package repository
