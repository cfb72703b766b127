// Package logs keeps one application's output: every line stamped on arrival,
// bounded on disk and in memory, rotated, and readable from its end or whole.
//
//	program --stdout+stderr--> FIFO --pump--> lines --gate--> tail (64 KiB, memory)
//	                                                     \--> name.log -> .log.1 -> .log.2
//
// Both streams share one FIFO, so what the program printed stays in order. The
// pump waits for nothing but the disk: a full disk or a flood costs lines,
// which are counted and admitted in a line of their own, and the program's time
// only when the flood has no end. Whoever follows a log reads from its tail, at
// its own pace.
//
// It refuses to decide: what is worth a note, how long a log is kept after its
// application, and who may read it are for others to say. It does not parse
// what it keeps, and it cannot tell a "[berth] " that the program printed
// itself from its own. A line that was read but not yet written when the
// daemon is killed is lost.
//
// Package proc hands the FIFO to programs, host writes notes and resets build
// logs, httpapi shows tails and serves the text.
package logs
