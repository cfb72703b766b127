// Package mover moves everything of this host to another one over one connection, such as
// that of ssh: the files of every application, the database, the settings and the keys of
// the secrets.
//
// Sender is on the old host (berth move), Receiver on the new one (berth move-receive).
// Sender writes frames, Receiver answers each request with a line of JSON (wire.go). The
// new host decides nothing but whether it may be overwritten.
//
// # One move
//
//  1. hello: what is there, and whether it is empty.
//  2. begin, and app for each application, while the programs run here. Everything goes
//     into a place below the data directory that no daemon serves from (Unfinished).
//  3. The hold "moved" is stored here, and nothing runs any more. From here on the command
//     can be run again until it is done.
//  4. app for what changed meanwhile, and rest: the database, with the hold "restored" in
//     it, and the settings.
//  5. install: the keys are added, the place becomes Ready in one rename, and the daemon
//     there begins anew. Settle puts everything into place, before the daemon opens its
//     database.
//  6. resume: the hold is dropped there, and what is wanted online starts.
//
// # Never both
//
// Programs start on the new host by resume alone: the database that arrives there holds
// them. resume is sent only after the hold here is stored and nothing runs here. So a kill,
// a power cut or a lost connection at any moment leaves the programs here, or nowhere until
// the command is run again. See docs/adr/0066-moving-over-ssh.md.
package mover
