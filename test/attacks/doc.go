// Package attacks uploads hostile programs to the built daemon and compares what
// each of their attacks comes to with a table; beside them, programs that must
// still work. It runs in a network of its own, with the internet's part played
// by a second one, so that nothing of this machine's is reached or changed.
package attacks
