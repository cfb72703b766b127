// Package systemd speaks with the service manager: it says how the daemon is,
// ready or stopping (sd_notify(3)), gives it descriptors to keep, and takes
// what it hands over, kept descriptors and listening sockets (sd_listen_fds(3)).
//
// Without a manager that listens, every call does nothing and returns nil, so
// the daemon behaves the same when started by hand. Package fdstore keeps
// descriptors there.
package systemd
