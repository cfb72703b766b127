// Package systemd tells the service manager how the daemon is: ready, or
// stopping (sd_notify(3)).
//
// Without a manager that listens, every call does nothing and returns nil, so
// the daemon behaves the same when started by hand.
package systemd
