// Package metrics keeps what applications and the host used: a point for each minute
// of the last day, one for each ten minutes of the last thirty, at most 552,960 bytes
// on the disk for an application, whatever it does.
//
//	Append, once a minute --> recent (one file for all) --hour--> <id> (a ring for each)
//
// A ring is an array of slots; where a point belongs follows from its time, and
// the time in the slot tells whether it is of this round. So nothing is ever
// moved or rewritten, and a slot that is torn or of a round before is no point.
// The first half of a ring is the ring of berth 1.0; the second half has what that one
// did not know, in slots of the same order (docs/adr/0070).
//
// Rings are written once an hour, all slots of it together: a page of the disk
// for each application and minute would be twenty times as much as the points.
// Until then they stand in the file recent, one append a minute, and in memory.
//
// Nothing is ever synced. A daemon that is killed has lost nothing it had
// appended; a power cut loses what the kernel had not written, some 30 seconds,
// and tears at most the end of recent, which checksums find. The recent of the
// hour before stays until the next one is full, so that rings which a power cut
// left unwritten are written again.
//
// It decides nothing: when to measure, and who may see it, is for others to say.
// The daemon and package watch are its only users.
package metrics
