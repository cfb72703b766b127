// Package logs keeps one application's output: every line stamped, on arrival or where it was printed,
// bounded on disk and in memory, rotated, and readable from its end or whole.
//
//	program --stdout+stderr--> FIFO --pump--> lines --gate--> tail (64 KiB, memory)
//	               lines printed elsewhere --Take--^     \--> name.log -> .log.1 -> .log.2
//
//	name.state: what is about to be written, for the next daemon
//	name.pos: where in the log the current file begins, for positions
//	name.from-RUN: how far a run was read that prints elsewhere; name.taken: there was one
//
// Both streams share one FIFO, so what the program printed stays in order. The
// pump waits for nothing but the disk: a full disk or a flood costs lines,
// which are counted and admitted in a line of their own, and the program's time
// only when the flood has no end. A Follower of a log reads from its tail, at
// its own pace, and is told what it missed. A Cursor reads the files and misses
// nothing that they keep, also from one daemon to the next (docs/adr/0045).
//
// A daemon may be killed at any instant: what a program has written into the
// FIFO stays there until it is in the file, and the next Open goes on exactly
// there, in the middle of a line if need be. What cannot be known to be new is
// repeated after a line that says so, never lost (docs/adr/0018). That holds as
// long as somebody keeps the FIFO open, the program or a keeper; a power cut
// empties it, and may lose what was not yet on the disk.
//
// Lines that a program printed on another machine were stamped there. Whoever reads them hands
// them over in batches, each with the place up to which it has read (Take). The place is noted
// before the batch is written, with the position that the log has then: whenever the daemon is
// killed, the next one knows whether the batch is in the log (Taken), and takes back half of one.
//
// A program that reads lines has a pipe for them, which a Book makes and writes to (Input, Type). The end
// that is written to is held like the FIFO, so the program sees no end of its input between daemons
// (docs/adr/0068).
//
// It refuses to decide: what is worth a note, how long a log is kept after its
// application, and who may read it are for others to say. It does not parse
// what it keeps, but for one thing: before a "[berth] " with which the program
// begins a line, also behind or among escape sequences, it puts a backslash, so that only
// berth's own lines begin so.
//
// Package proc hands the FIFO to programs, host writes notes and resets build
// logs, httpapi shows tails and serves the text.
package logs
