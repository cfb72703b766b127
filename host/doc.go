// Package host keeps applications as their owners want them: it deploys,
// starts, restarts, backs off and refuses.
//
// It is policy: it makes no system call. Programs, trees, logs and records
// are reached through the small interfaces in ports.go; main wires them.
// One goroutine owns one application (unit); everybody else sends it
// commands and reads an atomic snapshot, so each event meets the application
// in exactly one named state. A second run beside an application's own, for a
// commit of a site without a pause, is a twin.
package host
