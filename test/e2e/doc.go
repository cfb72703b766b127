// Package e2e drives the built berth binary as its users do: over HTTP and
// the command line, with real Node.js and Python programs in real control
// groups, killed for real when they need more than their RAM.
//
// It holds tests only. Each starts a daemon with a data directory of its own
// and ends by proving that nothing is left: no process, no group, no file.
// They need root and control groups, and skip with the reason elsewhere.
package e2e
