// Package fdstore keeps descriptors by name while no daemon lives, for daemons
// without a service manager that does (package systemd).
//
//	daemon --name, descriptor--> keeper.sock --> store, a process of its own
//	next daemon <--name, descriptor-- keeper.sock <--'
//
// The store is the daemon's own binary, started again with the first
// descriptor to keep. It lives on however the daemon ends, and ends by itself
// when it keeps nothing and nobody is connected. It knows no more than names and
// descriptors, reads none of them, and obeys its own user alone.
//
// It refuses to guess: what is to be kept, for how long, and what a name means
// are for the daemon to say. While no daemon is there it looks now and then for
// its socket, and ends when that is gone, with the data directory or without.
package fdstore
