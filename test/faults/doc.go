// Package faults kills the built daemon, takes its disk, its database, its control
// groups and its runtimes away, cuts the power and replaces it in place, all under
// load, and looks whether programs, their output and every acknowledged change are
// still there.
package faults
